//! Tests of subcommand `origin` through its sockets and its standard streams.

use crate::support::TIMEOUT_NS;
use crate::support::authority::{Authority, VALID};
use crate::support::counting::allocations;
use crate::support::engine::Engine;
use costof_engine::origin::Site;
use net::runtime::Executor;
use net::serve::{Listener, listening_sockets, local_address};
use openssl::ssl::{SslConnector, SslMethod, SslSession, SslSessionCacheMode, SslStream, SslVerifyMode, SslVersion};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nOK";

fn start(test: &str, threads: usize) -> (Engine, String, String) {
    let identity = Authority::new().identity("127.0.0.1", VALID).file(&format!("origin-{test}"));
    let tls = json!({"address": "127.0.0.1:0", "tls": {"certificate_file": identity, "key_file": identity}});
    let mut origin = Engine::start_subcommand("origin");
    let ready = origin.ask(&json!({"threads": threads, "listeners": [{"address": "127.0.0.1:0"}, tls]}));
    let address = |place: usize| ready["ready"]["listeners"][place].as_str().unwrap().to_owned();
    (origin, address(0), address(1))
}

fn counters(origin: &mut Engine, listener: &str) -> Value {
    origin.ask(&json!({"counters": {}}))["counters"]["listeners"][listener].take()
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_nanos(TIMEOUT_NS))).unwrap();
    stream
}

fn expect(stream: &mut (impl Read + Write), request: &str, response: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut received = vec![0; response.len()];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(String::from_utf8_lossy(&received), response);
}

fn until_end(stream: &mut TcpStream, request: &[u8]) -> String {
    stream.write_all(request).unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    received
}

fn with(field: &str) -> String {
    OK.replace("\r\n\r\n", &format!("\r\n{field}\r\n\r\n"))
}

#[test]
fn origin_keeps_or_closes_a_connection_as_the_client_requests() {
    let (mut origin, plain, _) = start("lasting", 1);
    let mut stream = connect(&plain);
    for _ in 0..3 {
        expect(&mut stream, GET, OK);
    }
    assert_eq!(
        until_end(&mut connect(&plain), b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
        with("Connection: close")
    );
    assert_eq!(until_end(&mut connect(&plain), b"GET / HTTP/1.0\r\n\r\n"), with("Connection: close"));
    let mut stream = connect(&plain);
    for _ in 0..2 {
        expect(&mut stream, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &with("Connection: keep-alive"));
    }
    assert_eq!(counters(&mut origin, &plain), json!({"connections": 4, "requests": 7, "resumed": 0, "tls": {}}));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (_origin, plain, _) = start("pipelined", 1);
    let requests = "GET /?wait=30 HTTP/1.1\r\nHost: h\r\n\r\n\
                    HEAD / HTTP/1.1\r\nHost: h\r\n\r\n\
                    PUT /?wait=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nGET \
                    POST /?wait=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nGET \
                    GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let head = OK.strip_suffix("OK").unwrap();
    let not_allowed = "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nAllow: GET, HEAD, POST\r\n\r\n";
    expect(&mut connect(&plain), requests, &[OK, head, not_allowed, OK, OK].concat());
}

#[test]
fn response_is_delayed_by_the_requested_time() {
    let (_origin, plain, _) = start("waiting", 1);
    let mut stream = connect(&plain);
    for wait_ms in [1, 40] {
        let start = Instant::now();
        expect(&mut stream, &format!("GET /?wait={wait_ms} HTTP/1.1\r\nHost: h\r\n\r\n"), OK);
        assert!(start.elapsed() >= Duration::from_millis(wait_ms));
    }
}

#[test]
fn delayed_requests_do_not_delay_requests_on_other_connections() {
    let (mut origin, plain, _) = start("held-up", 1);
    let mut waiting: Vec<_> = (0..100).map(|_| connect(&plain)).collect();
    for stream in &mut waiting {
        stream.write_all(b"GET /?wait=60000 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    }
    for _ in 0..50 {
        expect(&mut connect(&plain), "GET /?wait=2 HTTP/1.1\r\nHost: h\r\n\r\n", OK);
    }
    while counters(&mut origin, &plain)["requests"] != 150 {}
    for stream in &mut waiting {
        stream.set_nonblocking(true).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    assert_eq!(origin.end(), Some(0), "the process ends without waiting for pending responses");
}

#[test]
fn invalid_request_gets_an_error_response_and_ends_the_connection() {
    let (_origin, plain, _) = start("refused", 1);
    // This request exceeds the maximum length. The client sends it with one system call, because the server could close
    // the connection before a second call.
    let endless = [b"GET / HTTP/1.1\r\nHost: h\r\nX: ", vec![b'x'; 20_000].as_slice()].concat();
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "400 Bad Request"),
        (b"GET /?wait=60001 HTTP/1.1\r\nHost: h\r\n\r\n", "400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "400 Bad Request"),
        (b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", "411 Length Required"),
        (&endless, "431 Request Header Fields Too Large"),
    ] {
        let mut refused = connect(&plain);
        let answer = until_end(&mut refused, request);
        assert_eq!(answer, format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
        // An answer on another connection shows that the origin's only thread has handled the refused client's bytes.
        expect(&mut connect(&plain), GET, OK);
        assert!(refused.take_error().unwrap().is_none(), "the connection was reset: bytes were left unread");
    }
}

#[test]
fn origin_handles_requests_in_pieces_and_early_disconnects() {
    let (mut origin, plain, tls) = start("pieces", 1);
    for address in [&plain, &tls] {
        drop(connect(address));
        connect(address).write_all(b"GET /?wait=1").unwrap();
    }
    connect(&tls).write_all(GET.as_bytes()).unwrap();
    let mut stream = connect(&plain);
    stream.set_nodelay(true).unwrap();
    for byte in GET.as_bytes() {
        stream.write_all(&[*byte]).unwrap();
    }
    expect(&mut stream, "", OK);
    connect(&plain).write_all(b"GET /?wait=5 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    while counters(&mut origin, &plain)["requests"] != 2 {}
    expect(&mut stream, GET, OK);
}

fn tls_client(
    version: SslVersion,
    suite: Option<&str>,
    session: Option<&SslSession>,
    to: &str,
) -> SslStream<TcpStream> {
    let mut builder = SslConnector::builder(SslMethod::tls_client()).unwrap();
    builder.set_verify(SslVerifyMode::NONE);
    builder.set_security_level(0);
    builder.set_cipher_list(suite.unwrap_or("ALL")).unwrap();
    builder.set_min_proto_version(Some(version)).unwrap();
    builder.set_max_proto_version(Some(version)).unwrap();
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    let mut ssl = builder.build().configure().unwrap().verify_hostname(false).into_ssl("127.0.0.1").unwrap();
    if let Some(session) = session {
        // SAFETY: a session may be used in another context that has the same settings, as here.
        unsafe { ssl.set_session(session).unwrap() };
    }
    let mut stream = SslStream::new(ssl, connect(to)).unwrap();
    stream.connect().unwrap();
    stream
}

#[test]
fn client_chooses_the_tls_version_and_can_resume_a_session() {
    let (mut origin, _, tls) = start("versions", 2);
    let versions = [SslVersion::TLS1, SslVersion::TLS1_1, SslVersion::TLS1_2, SslVersion::TLS1_3];
    for version in versions {
        let mut first = tls_client(version, None, None, &tls);
        // TLS 1.3 sends session tickets after the handshake. They arrive with the response.
        expect(&mut first, GET, OK);
        let session = first.ssl().session().unwrap().to_owned();
        assert!(!first.ssl().session_reused());
        // A session can be resumed only after its connection was shut down.
        first.shutdown().unwrap();
        let mut again = tls_client(version, None, Some(&session), &tls);
        assert!(again.ssl().session_reused(), "{}", again.ssl().version_str());
        expect(&mut again, GET, OK);
    }
    let counters = counters(&mut origin, &tls);
    let by_version = json!({"TLSv1": 2, "TLSv1.1": 2, "TLSv1.2": 2, "TLSv1.3": 2});
    assert_eq!(counters, json!({"connections": 8, "requests": 8, "resumed": 4, "tls": by_version}));
}

#[test]
fn client_chooses_the_cipher_suite() {
    let (_origin, _, tls) = start("suites", 1);
    for suite in ["ECDHE-ECDSA-AES256-SHA", "ECDHE-ECDSA-AES128-GCM-SHA256", "ADH-AES256-SHA"] {
        let mut stream = tls_client(SslVersion::TLS1_2, Some(suite), None, &tls);
        assert_eq!(stream.ssl().current_cipher().unwrap().name(), suite);
        expect(&mut stream, GET, OK);
    }
}

#[test]
fn connections_and_requests_of_all_threads_are_counted() {
    let (mut origin, plain, _) = start("threads", 3);
    let mut streams: Vec<_> = (0..30).map(|_| connect(&plain)).collect();
    for stream in &mut streams {
        expect(stream, GET, OK);
    }
    assert_eq!(counters(&mut origin, &plain), json!({"connections": 30, "requests": 30, "resumed": 0, "tls": {}}));
}

#[test]
fn invalid_plan_ends_the_origin_subcommand_with_an_error_on_one_line() {
    let occupied = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = Authority::new();
    let ours = authority.identity("127.0.0.1", VALID).file("origin-fatal");
    let other = authority.identity("127.0.0.1", VALID).file("origin-fatal-other");
    let with_tls = |certificate: &PathBuf, key: &PathBuf| {
        let tls = json!({"certificate_file": certificate, "key_file": key});
        json!({"threads": 1, "listeners": [{"address": "127.0.0.1:0", "tls": tls}]})
    };
    let text = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let at = |address: &str| json!({"threads": 1, "listeners": [{"address": address}]});
    for (bad, class, word) in [
        (json!("plan"), "plan", "plan"),
        (json!({"threads": 0, "listeners": [{"address": "127.0.0.1:0"}]}), "plan", "threads"),
        (json!({"threads": 1, "listeners": []}), "plan", "listener"),
        (json!({"threads": 1, "listeners": [], "shiny": 1}), "plan", "shiny"),
        (at("somewhere:80"), "plan", "address"),
        (at(&occupied.local_addr().unwrap().to_string()), "plan", "in use"),
        (at("192.0.2.1:80"), "plan", "192.0.2.1:80"),
        (with_tls(&"/no/such.pem".into(), &ours), "tls_configuration", "/no/such.pem"),
        (with_tls(&ours, &text), "tls_configuration", "Cargo.toml"),
        (with_tls(&text, &ours), "tls_configuration", "Cargo.toml"),
        (with_tls(&ours, &other), "tls_configuration", "fatal-other"),
    ] {
        let mut origin = Engine::start_subcommand("origin");
        let error = origin.ask(&bad)["error"].take();
        assert_eq!(error["class"], class, "{bad}");
        assert!(error["detail"].as_str().unwrap().contains(word), "{error}");
        assert_eq!(origin.child.wait().unwrap().code(), Some(2));
    }
    let (mut origin, ..) = start("fatal-later", 1);
    assert_eq!(origin.ask(&json!({"counter": {}}))["error"]["class"], "plan");
}

#[test]
fn request_on_a_persistent_connection_allocates_no_memory() {
    let socket = listening_sockets("127.0.0.1:0".parse().unwrap(), 1).unwrap().pop().unwrap();
    let address = local_address(&socket).unwrap().to_string();
    let mut executor = Executor::new().unwrap();
    let reactor = executor.reactor().clone();
    executor.spawn(Listener::new(socket, Site(None)).accept_all(reactor));
    let answered = Arc::new(AtomicUsize::new(0));
    let count = answered.clone();
    let client = std::thread::spawn(move || {
        let mut stream = connect(&address);
        for _ in 0..1100 {
            expect(&mut stream, "GET /?wait=0 HTTP/1.1\r\nHost: h\r\n\r\n", OK);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut until = |requests| {
        let before = allocations();
        executor.run_until(|| answered.load(Ordering::Relaxed) >= requests).unwrap();
        allocations() - before
    };
    until(100);
    assert_eq!(until(1100), 0);
    client.join().unwrap();
}
