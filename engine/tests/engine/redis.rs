//! Tests of how Redis connections are opened, and of answers that end too early. Other answers are tested with
//! real servers.

use crate::support::authority::{Authority, VALID};
use crate::support::redis::Redis;
use crate::support::server::{self, Behaviour};
use crate::support::{open_redis, query_redis, redis_service, tls};
use base::error::Class;
use net::settings::{Transport, Verify};
use openssl::ssl::SslVersion;
use record::Phase;
use wire::redis::Settings;

const PLAIN: Transport = Transport::Plain {};

fn secure(test: &str, version: Option<SslVersion>) -> (Redis, Transport) {
    let authority = Authority::new();
    let acceptor = server::acceptor(&authority.identity("127.0.0.1", VALID), version);
    let transport = tls(&authority.file(test), None, Verify::Full);
    (Redis { tls: Some(acceptor), ..Redis::default() }, transport)
}

fn round_trips(settings: &Settings, transport: Transport) -> Vec<(Phase, u64)> {
    let (timeline, _) = open_redis(settings, transport).unwrap();
    timeline.spans().map(|span| (span.phase, span.traffic.round_trips)).collect()
}

#[test]
fn login_takes_one_round_trip_with_resp2_and_resp3() {
    for resp in [2, 3] {
        let settings = Settings { resp, ..redis_service(&Redis::default().start()) };
        assert_eq!(round_trips(&settings, PLAIN), [(Phase::Tcp, 1), (Phase::Auth, 1)]);
    }
}

#[test]
fn resp2_session_without_password_sends_nothing() {
    let settings = Settings { password: None, ..redis_service(&Redis::default().start()) };
    assert_eq!(round_trips(&settings, PLAIN), [(Phase::Tcp, 1)]);
    assert_eq!(round_trips(&Settings { resp: 3, ..settings }, PLAIN), [(Phase::Tcp, 1), (Phase::Hello, 1)]);
}

#[test]
fn tls_handshake_follows_directly_after_the_tcp_handshake() {
    for (name, version, handshake) in [("redis-tls12", SslVersion::TLS1_2, 2), ("redis-tls13", SslVersion::TLS1_3, 1)] {
        let (server, transport) = secure(name, Some(version));
        let expected = [(Phase::Tcp, 1), (Phase::Tls, handshake), (Phase::Auth, 1)];
        assert_eq!(round_trips(&redis_service(&server.start()), transport), expected);
    }
}

/// The settings contain an address for TLS, where a server listens, and one for plain connections, where no server
/// listens. So the test fails if the client uses the wrong address.
#[test]
fn tls_connection_uses_the_separate_tls_port() {
    let (server, transport) = secure("redis-port", None);
    let tls_addresses = Some(vec![server.start()]);
    let settings = Settings { tls_addresses, ..redis_service("127.0.0.1:1") };
    assert_eq!(round_trips(&settings, transport).len(), 3);
    assert_eq!(open_redis(&settings, PLAIN).unwrap_err().class, Class::Refused);
}

#[test]
fn refused_login_is_reported_with_its_error_class() {
    for (refusal, class) in
        [(&b"-WRONGPASS invalid username-password pair\r\n"[..], Class::Authentication), (b":1\r\n", Class::Protocol)]
    {
        for resp in [2, 3] {
            let server = Redis { refuses_with: Some(refusal), ..Redis::default() };
            let settings = Settings { resp, ..redis_service(&server.start()) };
            assert_eq!(open_redis(&settings, PLAIN).unwrap_err().class, class, "{}", refusal.escape_ascii());
        }
    }
}

#[test]
fn plain_connection_that_the_server_closes_is_reported_as_plain_refused() {
    let settings = redis_service(&server::start(Behaviour::Greets(b"")));
    assert_eq!(open_redis(&settings, PLAIN).unwrap_err().class, Class::PlainRefused);
}

#[test]
fn truncated_or_invalid_answer_is_reported_with_its_error_class() {
    for (broken, class) in [
        (&b""[..], Class::Closed),
        (b"$100\r\nabc", Class::Closed),
        (b"$3\r\nabc\r\n", Class::Server),
        (b"$-1\r\n+OK\r\n", Class::Protocol),
        (b"?", Class::Protocol),
    ] {
        let server = Redis { breaks_with: Some(broken), ..Redis::default() };
        let failure = query_redis(&redis_service(&server.start())).unwrap_err();
        assert_eq!(failure.class, class, "{}: {failure}", broken.escape_ascii());
    }
}
