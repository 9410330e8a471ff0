//! Tests of HTTP requests through subcommand `drive`, and of paces (fixed rates of operations) and think times.

use crate::support::authority::{Authority, VALID};
use crate::support::engine::{Engine, HANG_SECONDS};
use crate::support::http::{Http, OK, OK_CLOSE, Response};
use crate::support::server::{self, Behaviour};
use openssl::ssl::SslVersion;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub fn plan(address: &str, transport: &Value, workloads: &Value) -> Value {
    let service = json!({"protocol": "http", "addresses": [address], "path": "/?wait=0"});
    json!({"plan": {
        "seed": 1, "threads": 2, "operation_timeout_ms": 300000, "data": {"records": 0},
        "arms": [{"name": "arm", "service": service, "transport": transport}], "workloads": workloads}})
}

pub fn plain() -> Value {
    json!({"kind": "plain"})
}

pub fn tls(ca_file: &Path, resumption: bool) -> Value {
    json!({"kind": "tls", "ca_file": ca_file, "verify": "full", "resumption": resumption})
}

pub fn requests(workers: u64) -> Value {
    json!([{"name": "request", "kind": "request", "workers": workers}])
}

/// Start an engine with this plan, and check that the plan's only service can be measured.
fn engine(plan: &Value) -> Engine {
    let mut engine = Engine::start();
    assert_eq!(arm_error(&mut engine, plan), Value::Null);
    engine
}

fn arm_error(engine: &mut Engine, plan: &Value) -> Value {
    engine.ask(plan)["ready"]["arms"][0]["error"].take()
}

fn sum(slice: &Value, phase: &str) -> u64 {
    slice["phases"][phase]["sum_ns"].as_u64().unwrap_or_else(|| panic!("{phase} in {slice}"))
}

fn request_error(response: Response) -> (String, String) {
    error_within(response, 300_000)
}

/// Return the class and the detail of the error that a request fails with. The engine's first request only checks the
/// server. If a slow machine makes the check time out, try again with twice the timeout.
fn error_within(response: Response, operation_timeout_ms: u64) -> (String, String) {
    let server = Http::start(Response::OneByOne(vec![Response::Bytes(OK), response.clone()]));
    let mut plan = plan(&server.address, &plain(), &requests(1));
    plan["plan"]["operation_timeout_ms"] = json!(operation_timeout_ms);
    let mut engine = Engine::start();
    let error = arm_error(&mut engine, &plan);
    if error["class"] == "timeout" && operation_timeout_ms < 60_000 {
        return error_within(response, 2 * operation_timeout_ms);
    }
    assert_eq!(error, Value::Null);
    let slice = engine.slice("arm", "request", 1, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["phases"]), (&json!(0), &json!({})), "{slice}");
    assert_eq!(slice["errors"].as_array().unwrap().len(), 1, "{slice}");
    let error = &slice["errors"][0];
    let text = |name: &str| error[name].as_str().unwrap().to_owned();
    assert!(!text("detail").contains('\n'), "{error}");
    (text("class"), text("detail"))
}

#[test]
fn persistent_connections_carry_all_requests_of_a_measurement() {
    let server = Http::start(Response::Bytes(OK));
    let mut plan = plan(&server.address, &plain(), &requests(2));
    // With one thread, both workers begin a request before either response arrives. So both open a connection.
    plan["plan"]["threads"] = json!(1);
    let mut engine = engine(&plan);
    let first = engine.slice("arm", "request", 300, HANG_SECONDS);
    assert_eq!((&first["operations"], &first["errors"]), (&json!(300), &json!([])));
    assert_eq!((&first["evidence"]["connections"], &first["evidence"]["server"]), (&json!(2), &json!(server.address)));
    let bytes = 300 * OK.len();
    let counts = json!({"http.status.200": 300, "http.reused": 298, "http.response_bytes": bytes, "http.body_bytes": 600,
        "http.other_length": 0});
    assert_eq!(first["counts"], counts);
    assert_eq!((&first["evidence"]["body_length"], &first["evidence"]["software"]), (&json!(2), &json!("test")));
    assert_eq!(first["phases"]["tcp"]["count"], 2);
    assert_eq!(first["phases"]["request"]["round_trips"], 302, "one for each request and one for each connection");
    assert_eq!(sum(&first, "connect") + sum(&first, "processing"), sum(&first, "request"));
    assert_eq!(sum(&first, "waiting") + sum(&first, "receiving"), sum(&first, "processing"));

    let second = engine.slice("arm", "request", 300, HANG_SECONDS);
    assert_eq!((&second["evidence"]["connections"], &second["counts"]["http.reused"]), (&json!(0), &json!(300)));
    assert_eq!(second["evidence"]["server"], server.address.as_str(), "evidence includes persistent connections");
    assert_eq!((&second["phases"]["connect"], sum(&second, "request")), (&Value::Null, sum(&second, "processing")));
    // Before the slices (measured windows), the engine has opened one more connection to check the server.
    assert_eq!(server.connections.load(Ordering::SeqCst), 3);
}

#[test]
fn connection_ends_after_its_maximum_number_of_requests() {
    for (maximum, workers, connections) in [(1, 1, 30), (10, 1, 3), (10, 2, 4), (100, 1, 1)] {
        let server = Http::start(Response::Bytes(OK));
        let mut plan = plan(&server.address, &plain(), &requests(workers));
        plan["plan"]["arms"][0]["service"]["requests_per_connection"] = json!(maximum);
        plan["plan"]["threads"] = json!(1);
        // The second worker, if there is one, closes its first connection one request early, so that not all
        // connections end at the same time. Thirty requests of two workers therefore need three to five connections,
        // depending on how many requests each worker performs.
        let slice = engine(&plan).slice("arm", "request", 30, HANG_SECONDS);
        assert_eq!(slice["errors"], json!([]));
        let opened = slice["evidence"]["connections"].as_u64().unwrap();
        assert!(opened.abs_diff(connections) < workers, "{opened} of {connections}");
        assert_eq!(slice["counts"]["http.reused"], 30 - opened);
        assert_eq!(server.connections.load(Ordering::SeqCst) as u64, opened + 1);
    }
}

#[test]
fn first_connections_of_workers_do_not_all_end_at_the_same_time() {
    let server = Http::start(Response::Bytes(OK));
    let mut plan = plan(
        &server.address,
        &plain(),
        &json!([
        {"name": "even", "kind": "request", "workers": 1}, {"name": "four", "kind": "request", "workers": 4}]),
    );
    plan["plan"]["arms"][0]["service"]["requests_per_connection"] = json!(4);
    plan["plan"]["threads"] = json!(1);
    let mut engine = engine(&plan);
    // A connection closes after four requests. Worker n counts the first request on its first connection as number
    // n + 1, so that the connections of several workers do not all close at once. Here worker 0 is the only worker, so
    // eight requests need two connections.
    assert_eq!(engine.slice("arm", "even", 8, HANG_SECONDS)["evidence"]["connections"], 2);
    // Each of the four workers performs one of the four requests. For worker 3, this request is number 4, after which
    // its connection closes. The connections of the other workers stay open. So the next slice (measured window) opens
    // one connection.
    assert_eq!(engine.slice("arm", "four", 4, HANG_SECONDS)["evidence"]["connections"], 4);
    assert_eq!(engine.slice("arm", "four", 4, HANG_SECONDS)["evidence"]["connections"], 1);
}

#[test]
fn request_opens_a_new_connection_after_the_server_announced_a_close() {
    let server = Http::start(Response::Bytes(OK_CLOSE));
    let slice = engine(&plan(&server.address, &plain(), &requests(1))).slice("arm", "request", 20, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["errors"]), (&json!(20), &json!([])));
    assert_eq!((&slice["evidence"]["connections"], &slice["counts"]["http.reused"]), (&json!(20), &json!(0)));
    assert_eq!(slice["phases"]["request"]["round_trips"], 40, "connecting and the request take one round trip each");
}

#[test]
fn connection_closed_between_measurements_is_not_an_error() {
    // The server closes the connection without a `Connection: close` in its response.
    let server = Http::start(Response::ThenCloses(OK));
    let mut engine = engine(&plan(&server.address, &plain(), &requests(1)));
    for slices in 1..=5 {
        let slice = engine.slice("arm", "request", 1, HANG_SECONDS);
        assert_eq!((&slice["operations"], &slice["evidence"]["connections"]), (&json!(1), &json!(1)), "{slice}");
        // The engine opened one connection to check the server, and one for each slice (measured window). Wait until
        // all have ended.
        while server.ended.load(Ordering::SeqCst) < slices + 1 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn response_bodies_with_different_framing_are_read() {
    const NO_LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nuntil the end";
    const CHUNKED: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nHello\r\nA\r\n, chunks!!\r\n0\r\nT: x\r\n\r\n";
    const INTERIM: &[u8] =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";
    for (response, body, reused) in
        [(Response::ThenCloses(NO_LENGTH), 13, 0), (Response::Bytes(CHUNKED), 15, 2), (Response::Bytes(INTERIM), 2, 2)]
    {
        let server = Http::start(response);
        let slice = engine(&plan(&server.address, &plain(), &requests(1))).slice("arm", "request", 3, HANG_SECONDS);
        assert_eq!((&slice["operations"], &slice["errors"]), (&json!(3), &json!([])), "{slice}");
        let counts = &slice["counts"];
        let bodies = (&counts["http.body_bytes"], &counts["http.reused"]);
        assert_eq!(bodies, (&json!(3 * body), &json!(reused)), "{counts}");
        let length = (&slice["evidence"]["body_length"], &counts["http.other_length"]);
        assert_eq!(length, (&json!(body), &json!(0)));
    }
}

#[test]
fn failed_requests_are_counted_by_error_class() {
    for (response, class) in [
        (Response::ThenCloses(b"HTTP/1.1 200 O"), "closed"),
        (Response::ThenResets(b""), "reset"),
        (Response::ThenCloses(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nOK"), "short_body"),
        (Response::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOKmore"), "protocol"),
    ] {
        assert_eq!(request_error(response).0, class);
    }
}

#[test]
fn endless_response_times_out() {
    const FILLER: &[u8] = &[b'x'; 65536];
    const CHUNKS: &[u8] =
        b"4\r\nmore\r\n4\r\nmore\r\n4\r\nmore\r\n4\r\nmore\r\n4\r\nmore\r\n4\r\nmore\r\n4\r\nmore\r\n";
    for response in [
        Response::ThenForEver(b"HTTP/1.1 200 OK\r\n\r\n", FILLER),
        Response::ThenForEver(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", CHUNKS),
        Response::ThenForEver(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        Response::Bytes(b"HTTP/1.1 200 OK\r\nX: never"),
    ] {
        assert_eq!(error_within(response, 300).0, "timeout");
    }
}

#[test]
fn http_error_status_counts_as_an_error_unless_any_status_is_allowed() {
    const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";
    let server = Http::start(Response::OneByOne(vec![
        Response::Bytes(OK),
        Response::Bytes(OK),
        Response::Bytes(BUSY),
        Response::Bytes(OK),
    ]));
    let slice = engine(&plan(&server.address, &plain(), &requests(1))).slice("arm", "request", 3, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["evidence"]["connections"]), (&json!(2), &json!(1)));
    assert_eq!((&slice["errors"][0]["class"], &slice["errors"][0]["count"]), (&json!("status"), &json!(1)));
    assert!(slice["errors"][0]["detail"].as_str().unwrap().contains("503"));
    let counts = &slice["counts"];
    assert_eq!((&counts["http.status.200"], &counts["http.status.503"]), (&json!(2), &json!(1)));
    assert_eq!((&counts["http.body_bytes"], &counts["http.other_length"]), (&json!(8), &json!(1)));

    let server = Http::start(Response::Bytes(BUSY));
    let mut plan = plan(&server.address, &plain(), &requests(1));
    let ready = Engine::start().ask(&plan);
    assert_eq!(ready["ready"]["arms"][0]["error"]["class"], "status");
    plan["plan"]["arms"][0]["service"]["any_status"] = json!(true);
    assert_eq!(engine(&plan).slice("arm", "request", 3, HANG_SECONDS)["operations"], 3);
}

#[test]
fn arms_that_cannot_run_are_reported_with_an_error_class() {
    let ca_file = Authority::new().file("http-refused");
    let no_tls = server::start(Behaviour::Response(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    let arms = [
        ("127.0.0.1:1".to_owned(), plain(), "refused"),
        ("no-such-host.invalid:1".to_owned(), plain(), "resolve"),
        (server::start(Behaviour::Response(b"220 mail.example ESMTP\r\n")), plain(), "protocol"),
        (server::start(Behaviour::Closes), plain(), "plain_refused"),
        (no_tls, tls(&ca_file, false), "tls_refused"),
    ];
    let mut all = plan("", &plain(), &requests(1));
    all["plan"]["arms"] = arms
        .iter()
        .map(|(address, transport, class)| {
            let mut arm = plan(address, transport, &requests(1))["plan"]["arms"][0].take();
            arm["name"] = json!(class);
            arm
        })
        .collect();
    let mut engine = Engine::start();
    let ready = engine.ask(&all)["ready"].take();
    for (place, (.., class)) in arms.iter().enumerate() {
        assert_eq!(ready["arms"][place]["error"]["class"], *class);
    }
    let slice = engine.slice("refused", "request", 3, HANG_SECONDS);
    assert_eq!(slice["errors"][0]["class"], "refused");
    assert_eq!((&slice["counts"], &slice["evidence"]["body_length"]), (&json!({}), &Value::Null));
}

#[test]
fn host_name_is_resolved_before_measurements_and_not_during_them() {
    let server = Http::start(Response::Bytes(OK));
    let named = server.address.replace("127.0.0.1", "localhost");
    let mut engine = engine(&plan(&named, &plain(), &requests(1)));
    let slice = engine.slice("arm", "request", 3, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["evidence"]["server"]), (&json!(3), &json!(named)));
    assert_eq!(slice["phases"]["resolve"], Value::Null);
}

#[test]
fn workload_connect_opens_and_closes_a_connection_for_each_request() {
    let server = Http::start(Response::Bytes(OK));
    let workloads = json!([{"name": "connect", "kind": "connect", "workers": 2},
                           {"name": "bare", "kind": "connect", "first_operation": false}]);
    let mut engine = engine(&plan(&server.address, &plain(), &workloads));
    let connect = engine.slice("arm", "connect", 20, HANG_SECONDS);
    assert_eq!((&connect["operations"], &connect["errors"]), (&json!(20), &json!([])));
    assert_eq!(connect["phases"]["connect_and_first_operation"]["round_trips"], 40);
    assert_eq!(
        sum(&connect, "connect") + sum(&connect, "first_operation"),
        sum(&connect, "connect_and_first_operation")
    );
    assert_eq!((&connect["counts"]["http.status.200"], &connect["phases"]["waiting"]), (&json!(20), &Value::Null));
    assert_eq!(connect["phases"]["scheduled_connect"], Value::Null);
    let bare = engine.slice("arm", "bare", 5, HANG_SECONDS);
    assert_eq!((&bare["operations"], &bare["phases"]["connect"]["round_trips"]), (&json!(5), &json!(5)));
    assert_eq!((&bare["counts"]["http.status.200"], &bare["evidence"]["connections"]), (&Value::Null, &json!(5)));
    assert_eq!(bare["counts"]["http.response_bytes"], 0);
}

#[test]
fn connections_opened_at_a_fixed_rate_are_timed_from_the_scheduled_instant() {
    let server = Http::start(Response::Bytes(OK));
    let pace = json!({"per_second": 200.0, "arrivals": "constant"});
    let workloads = json!([{"name": "load", "kind": "connect", "workers": 8, "further_operations": 4, "pace": pace}]);
    let mut engine = engine(&plan(&server.address, &plain(), &workloads));
    let load = engine.slice("arm", "load", 20, HANG_SECONDS);
    assert_eq!((&load["operations"], &load["errors"]), (&json!(20), &json!([])));
    assert_eq!((&load["evidence"]["connections"], &load["counts"]["http.status.200"]), (&json!(20), &json!(100)));
    assert_eq!(
        (&load["phases"]["first_operation"]["count"], &load["phases"]["operation"]["count"]),
        (&json!(20), &json!(80))
    );
    assert_eq!((&load["phases"]["operation"]["round_trips"], &load["counts"]["http.reused"]), (&json!(80), &json!(80)));
    assert_eq!(load["phases"]["scheduled_connect"]["count"], 20);
    assert_eq!(sum(&load, "delay") + sum(&load, "connect"), sum(&load, "scheduled_connect"));
}

#[test]
fn operation_of_five_requests_is_counted_if_it_ends_at_most_5_s_after_the_measurement() {
    let server = Http::start(Response::After(Duration::from_millis(400), OK));
    let pace = json!({"per_second": 10.0, "arrivals": "constant"});
    let workloads = json!([{"name": "load", "kind": "connect", "workers": 4, "further_operations": 4, "pace": pace}]);
    // Two operations begin in the slice (measured window), which lasts 0.5 s. Each takes 2 s (five requests of 400 ms)
    // and so ends after the slice. Both still count, because an operation with five requests may end up to 5 s after
    // the slice. On a slow machine the second operation may begin too late, so try several slices.
    engine(&plan(&server.address, &plain(), &workloads))
        .undisturbed("arm", "load", 2, 0.5, |load| load["operations"] == 2);
}

#[test]
fn tls_adds_a_handshake_to_connections_and_verifies_the_certificate() {
    for (name, version, shown, round_trips) in
        [("http-13", None, "TLSv1.3", 3), ("http-12", Some(SslVersion::TLS1_2), "TLSv1.2", 4)]
    {
        let authority = Authority::new();
        let behaviour = server::tls(&authority.identity("127.0.0.1", VALID), version);
        let server = Http::start_over(behaviour, Response::Bytes(OK_CLOSE));
        let transport = tls(&authority.file(name), false);
        let slice = engine(&plan(&server.address, &transport, &requests(1))).slice("arm", "request", 10, HANG_SECONDS);
        assert_eq!((&slice["operations"], &slice["errors"]), (&json!(10), &json!([])), "{slice}");
        assert_eq!(slice["phases"]["request"]["round_trips"], 10 * round_trips);
        assert_eq!(sum(&slice, "tcp") + sum(&slice, "tls"), sum(&slice, "connect"));
        assert_eq!(sum(&slice, "connect") + sum(&slice, "processing"), sum(&slice, "request"));
        let evidence = &slice["evidence"];
        assert_eq!((&evidence["protocol"], &evidence["key"]), (&json!(shown), &json!("ecdsa-p256")));
        assert_eq!((&evidence["verified"], &evidence["resumed"]), (&json!(true), &json!(0)));
        assert_eq!((&evidence["handshakes"], &evidence["connections"]), (&json!(10), &json!(10)));
        assert_eq!(slice["counts"]["http.response_bytes"], 10 * OK_CLOSE.len());
    }
}

#[test]
fn measurement_without_new_handshakes_still_reports_the_tls_version_of_its_connections() {
    let authority = Authority::new();
    let server = Http::start_over(server::tls(&authority.identity("127.0.0.1", VALID), None), Response::Bytes(OK));
    let mut plan = plan(&server.address, &tls(&authority.file("http-standing"), false), &requests(3));
    // With one thread, all three workers begin a request, and so connect, before any response arrives.
    plan["plan"]["threads"] = json!(1);
    let mut engine = engine(&plan);
    assert_eq!(engine.slice("arm", "request", 60, HANG_SECONDS)["errors"], json!([]));
    let later = engine.slice("arm", "request", 60, HANG_SECONDS);
    let evidence = &later["evidence"];
    assert_eq!((&later["operations"], &evidence["handshakes"]), (&json!(60), &json!(0)), "{later}");
    assert_eq!((&evidence["protocol"], &evidence["verified"]), (&json!("TLSv1.3"), &json!(true)));
}

#[test]
fn tls_sessions_are_resumed_only_if_configured() {
    let authority = Authority::new();
    let ca_file = authority.file("http-resumption");
    for (resumption, version, resumed) in [(true, None, 10), (true, Some(SslVersion::TLS1_2), 10), (false, None, 0)] {
        let behaviour = server::tls(&authority.identity("127.0.0.1", VALID), version);
        let server = Http::start_over(behaviour, Response::Bytes(OK_CLOSE));
        let mut engine = engine(&plan(&server.address, &tls(&ca_file, resumption), &requests(1)));
        assert_eq!(engine.slice("arm", "request", 10, HANG_SECONDS)["evidence"]["resumed"], resumed, "{version:?}");
    }
}

#[test]
fn wrong_certificate_name_is_refused() {
    let authority = Authority::new();
    let behaviour = server::tls(&authority.identity("shop.example", VALID), None);
    let server = Http::start_over(behaviour, Response::Bytes(OK));
    let mut plan = plan(&server.address, &tls(&authority.file("http-name"), false), &requests(1));
    // The certificate is verified for the server's address, not for the name in the request's Host field.
    plan["plan"]["arms"][0]["service"]["host"] = json!("shop.example");
    let ready = Engine::start().ask(&plan);
    assert_eq!(ready["ready"]["arms"][0]["error"]["class"], "tls_certificate_name");
}

#[test]
fn configured_headers_do_not_appear_in_output() {
    let mut plan = plan("127.0.0.1:1", &plain(), &requests(1));
    for (headers, class) in
        [(json!(["Cookie: s3cret"]), None), (json!(["s3cret"]), Some("plan")), (json!([["s3cret"]]), Some("plan"))]
    {
        plan["plan"]["arms"][0]["service"]["headers"] = headers;
        let answer = Engine::start().ask(&plan);
        assert_eq!(answer["error"]["class"].as_str(), class, "{answer}");
        assert!(!answer.to_string().contains("s3cret"), "{answer}");
    }
}

#[test]
fn invalid_plan_for_http_ends_the_drive_subcommand_with_an_error_on_one_line() {
    let good = plan("127.0.0.1:1", &plain(), &requests(1));
    let with = |change: &dyn Fn(&mut Value)| {
        let mut plan = good.clone();
        change(&mut plan["plan"]);
        plan
    };
    let mongodb = json!({"protocol": "mongodb", "addresses": ["127.0.0.1:1"], "database": "d", "collection": "c"});
    let pace = json!({"per_second": 1, "arrivals": "constant"});
    let both = json!({"name": "r", "kind": "request", "think_ms": 1, "pace": pace});
    let empty = json!({"name": "t", "kind": "tpcc", "tpcc": {"warehouses": 0}});
    for (bad, named) in [
        (with(&|plan| plan["workloads"][0]["kind"] = json!("query")), "'query'"),
        (with(&|plan| plan["workloads"][0]["kind"] = json!("load")), "'load'"),
        (with(&|plan| plan["arms"][0]["service"] = mongodb.clone()), "'mongodb'"),
        (with(&|plan| plan["workloads"][0]["pace"] = json!({"per_second": 0, "arrivals": "constant"})), "per_second"),
        (with(&|plan| plan["workloads"][0]["pace"] = json!({"per_second": 1})), "arrivals"),
        (with(&|plan| plan["workloads"][0]["think_ms"] = json!(0)), "think_ms"),
        (
            with(&|plan| plan["workloads"][0] = json!({"name": "c", "kind": "connect", "keep_connections": true})),
            "keep_c",
        ),
        (with(&|plan| plan["workloads"][0] = both.clone()), "exclude each other"),
        (with(&|plan| plan["workloads"][0]["tpcc"] = json!({})), "tpcc needs kind"),
        (with(&|plan| plan["workloads"][0] = empty.clone()), "warehouses"),
        (with(&|plan| plan["arms"][0]["service"]["path"] = json!("no slash")), "slash"),
        (with(&|plan| plan["arms"][0]["service"]["requests_per_connection"] = json!(0)), "0"),
        (with(&|plan| plan["workloads"][0]["workers"] = json!(50_000_000)), "open files"),
    ] {
        let mut engine = Engine::start();
        let answer = engine.ask(&bad);
        assert_eq!(answer["error"]["class"], "plan", "{bad}");
        assert!(answer["error"]["detail"].as_str().unwrap().contains(named), "{answer}");
        assert_eq!(engine.child.wait().unwrap().code(), Some(2));
    }
}

fn paced(kind: &str, workers: u64, per_second: f64, arrivals: &str) -> Value {
    json!([{"name": kind, "kind": kind, "workers": workers, "pace": {"per_second": per_second, "arrivals": arrivals}}])
}

#[test]
fn latency_counts_from_the_scheduled_instant() {
    let server = Http::start(Response::After(Duration::from_millis(40), OK));
    let mut engine = Engine::start();
    engine.ask(&plan(&server.address, &plain(), &paced("request", 1, 100.0, "constant")));
    let slice = engine.slice("arm", "request", 6, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["errors"]), (&json!(6), &json!([])));
    // A request is due every 10 ms, but takes the worker 40 ms. So request n (from 0) is at least n times 30 ms late.
    assert_eq!(slice["phases"]["delay"]["count"], 6);
    assert!(sum(&slice, "delay") >= 30_000_000 * (1 + 2 + 3 + 4 + 5));
    assert!(slice["phases"]["delay"]["max_ns"].as_u64().unwrap() >= 150_000_000);
    let whole = sum(&slice, "delay") + sum(&slice, "connect") + sum(&slice, "processing");
    assert_eq!(sum(&slice, "request"), whole);
}

#[test]
fn threads_together_follow_one_schedule_of_operations() {
    let server = Http::start(Response::Bytes(OK));
    let mut engine = Engine::start();
    engine.ask(&plan(&server.address, &plain(), &paced("request", 8, 200.0, "constant")));
    let slice = engine.slice("arm", "request", 21, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["phases"]["delay"]["count"]), (&json!(21), &json!(21)));
    // 21 operations have 20 intervals of 5 ms, so the last operation begins 100 ms after the start.
    assert!(slice["elapsed_ns"].as_u64().unwrap() >= 100_000_000);
    engine.undisturbed("arm", "request", 1_000_000, 0.1, |closed| {
        assert!(closed["operations"].as_u64().unwrap() <= 20, "an operation began after the window's close");
        true
    });
}

#[test]
fn operations_unfinished_after_the_measurement_are_counted_as_abandoned() {
    let never = Response::After(Duration::from_secs(3600), OK);
    let server = Http::start(Response::OneByOne(vec![Response::Bytes(OK), never]));
    let mut engine = Engine::start();
    engine.ask(&plan(&server.address, &plain(), &json!([{"name": "r", "kind": "request", "workers": 3}])));
    let mut abandoned_in = |seconds| {
        let slice = engine.slice("arm", "r", 100, seconds);
        assert_eq!((&slice["operations"], &slice["phases"]), (&json!(0), &json!({})));
        match slice["errors"].as_array().unwrap().as_slice() {
            // On a busy machine, none of the workers may have begun an operation. The test then tries a longer slice
            // (measured window).
            [] => 0,
            [error] if error["class"] == "abandoned" => error["count"].as_u64().unwrap(),
            _ => panic!("{slice}"),
        }
    };
    let abandoned = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0].into_iter().map(&mut abandoned_in).find(|count| *count >= 3);
    assert_eq!(abandoned, Some(3));
}

#[test]
fn poisson_arrivals_are_accepted_unless_too_many_instants_must_be_drawn() {
    let server = Http::start(Response::Bytes(OK));
    let mut engine = Engine::start();
    engine.ask(&plan(&server.address, &plain(), &paced("request", 4, 2000.0, "poisson")));
    let slice = engine.slice("arm", "request", 50, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["phases"]["delay"]["count"]), (&json!(50), &json!(50)));
    let endless =
        json!({"slice": {"id": 1, "arm": "arm", "workload": "request", "operations": u64::MAX, "seconds": 1e9}});
    assert_eq!(engine.ask(&endless)["error"]["class"], "plan", "too many random instants");
}

fn paced_slice(engine: &mut Engine, operations: u64, seconds: f64, field: &str, value: Value) -> Value {
    let mut slice = json!({"id": 1, "arm": "arm", "workload": "request", "operations": operations, "seconds": seconds});
    slice[field] = value;
    engine.ask(&json!({ "slice": slice }))
}

#[test]
fn rate_of_a_measurement_replaces_the_rate_of_its_workload() {
    let server = Http::start(Response::Bytes(OK));
    let mut engine = Engine::start();
    engine.ask(&plan(&server.address, &plain(), &paced("request", 4, 0.001, "constant")));
    let slice = paced_slice(&mut engine, 11, HANG_SECONDS, "per_second", json!(500.0))["slice"].take();
    assert_eq!((&slice["operations"], &slice["counts"]["pace.scheduled"]), (&json!(11), &json!(11)));
    // 11 operations have 10 intervals of 2 ms, so the last operation begins 20 ms after the start. At the workload's
    // own rate, it would begin after hours.
    assert!(slice["elapsed_ns"].as_u64().unwrap() >= 20_000_000);
}

#[test]
fn measurement_ends_when_an_operation_is_delayed_too_long() {
    let server = Http::start(Response::After(Duration::from_millis(400), OK));
    let mut engine = Engine::start();
    engine.ask(&plan(&server.address, &plain(), &paced("request", 1, 1000.0, "constant")));
    let slice = paced_slice(&mut engine, 100_000, 100.0, "give_up_ms", json!(1000.0))["slice"].take();
    // A request is due every millisecond, but each takes at least 400 ms. So after at most three requests the next one
    // is more than a second late (`give_up_ms`), and the slice (measured window) ends.
    assert!((1..=3).contains(&slice["operations"].as_u64().unwrap()), "{slice}");
    assert_eq!((&slice["errors"], &slice["counts"]["pace.scheduled"]), (&json!([]), &json!(100_000)));
}

#[test]
fn rate_of_a_measurement_is_rejected_if_it_is_0_or_its_workload_has_no_rate() {
    for (field, pace) in [("per_second", true), ("give_up_ms", true), ("per_second", false), ("give_up_ms", false)] {
        let server = Http::start(Response::Bytes(OK));
        let mut engine = Engine::start();
        let unpaced = json!([{"name": "request", "kind": "request"}]);
        let workloads = if pace { paced("request", 1, 1.0, "constant") } else { unpaced };
        engine.ask(&plan(&server.address, &plain(), &workloads));
        let value = json!(if pace { 0.0 } else { 1.0 });
        let answer = paced_slice(&mut engine, 1, 1.0, field, value);
        assert_eq!(answer["error"]["class"], "plan", "{field}");
        assert!(answer["error"]["detail"].as_str().unwrap().contains(field), "{answer}");
    }
}

#[test]
fn think_time_is_not_part_of_any_measured_time() {
    let server = Http::start(Response::Bytes(OK));
    let mut engine = Engine::start();
    let thinking = json!([{"name": "request", "kind": "request", "workers": 4, "think_ms": 20.0}]);
    engine.ask(&plan(&server.address, &plain(), &thinking));
    let slice = engine.slice("arm", "request", 100, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["errors"]), (&json!(100), &json!([])));
    assert!(slice["phases"].get("delay").is_none());
    // The 100 think times have a mean of 20 ms and are spread over four workers, so the slice (measured window) takes
    // about 500 ms. The think times depend only on the seed, so this sum does not vary.
    assert!(slice["elapsed_ns"].as_u64().unwrap() >= 300_000_000);
}

#[test]
fn measurement_with_option_reconnect_ignores_rate_and_think_time() {
    let server = Http::start(Response::Bytes(OK));
    let mut engine = Engine::start();
    let pace = json!({"per_second": 0.000_1, "arrivals": "constant"});
    let workloads = json!([
        {"name": "paced", "kind": "request", "workers": 4, "pace": pace},
        {"name": "thinking", "kind": "request", "workers": 4, "think_ms": 3_600_000.0}]);
    engine.ask(&plan(&server.address, &plain(), &workloads));
    for workload in ["paced", "thinking"] {
        let command = json!({"slice": {"id": 1, "arm": "arm", "workload": workload, "operations": 4,
            "seconds": HANG_SECONDS, "reconnect": true}});
        let slice = &engine.ask(&command)["slice"];
        assert_eq!((&slice["operations"], &slice["errors"]), (&json!(4), &json!([])), "{workload}");
    }
}

#[test]
fn fixed_rate_is_supported_for_connections_and_queries_and_loading() {
    let mut engine = Engine::start();
    let service = json!({"protocol": "mongodb", "addresses": [server::start(Behaviour::Plain)], "username": null,
        "password": null, "database": "d", "collection": "c"});
    let kinds = ["connect", "query", "load"];
    let workloads: Vec<_> =
        kinds.iter().flat_map(|kind| paced(kind, 2, 1000.0, "poisson").as_array().unwrap().clone()).collect();
    let mut plan = plan("", &plain(), &json!(workloads));
    plan["plan"]["arms"][0]["service"] = service;
    plan["plan"]["data"]["records"] = json!(1000);
    assert_eq!(engine.ask(&plan)["ready"]["arms"][0]["error"], Value::Null);
    for (kind, phase) in [("connect", "connect"), ("query", "operation"), ("load", "operation")] {
        let slice = engine.slice("arm", kind, 20, HANG_SECONDS);
        assert_eq!((&slice["operations"], &slice["errors"]), (&json!(20), &json!([])), "{kind}");
        assert_eq!(slice["phases"]["delay"]["count"], slice["phases"][phase]["count"], "{kind}");
        assert_eq!(slice["counts"], json!({"pace.scheduled": 20}));
    }
}

/// Return the scheduling policies (sched(7)) that the measuring threads have during a slice (measured window) of this
/// workload.
fn policies_in(workload: &Value, workers: u64) -> Vec<i32> {
    let never = Response::After(Duration::from_secs(3600), OK);
    let server = Http::start(Response::OneByOne(vec![Response::Bytes(OK), never]));
    let mut engine = Engine::start();
    let mut plan = plan(&server.address, &plain(), workload);
    plan["plan"]["threads"] = json!(1);
    engine.ask(&plan);
    let expected_requests = 1 + workers as usize;
    engine.send(&json!({"slice": {"id": 1, "arm": "arm", "workload": "r", "operations": workers, "seconds": 3600.0}}));
    while server.requests.load(Ordering::Relaxed) < expected_requests {
        std::thread::yield_now();
    }
    let tasks =
        std::fs::read_dir(format!("/proc/{}/task", engine.child.id())).unwrap().map(|task| task.unwrap().path());
    let pools = tasks.filter(|task| std::fs::read_to_string(task.join("comm")).unwrap().starts_with("pool-"));
    let number = |task: std::path::PathBuf| task.file_name().unwrap().to_str().unwrap().parse().unwrap();
    // SAFETY: the function's argument and result are numbers.
    let policies = pools.map(|task| unsafe { libc::sched_getscheduler(number(task)) }).collect();
    engine.child.kill().unwrap();
    policies
}

#[test]
fn threads_use_batch_scheduling_only_with_several_workers_and_no_fixed_rate() {
    let many = json!([{"name": "r", "kind": "request", "workers": 3}]);
    assert_eq!(policies_in(&many, 3), [libc::SCHED_BATCH]);
    let one = json!([{"name": "r", "kind": "request", "workers": 1}]);
    assert_eq!(policies_in(&one, 1), [libc::SCHED_OTHER]);
    let pace = json!({"per_second": 1000.0, "arrivals": "constant"});
    let paced = json!([{"name": "r", "kind": "request", "workers": 3, "pace": pace}]);
    assert_eq!(policies_in(&paced, 3), [libc::SCHED_OTHER]);
}
