//! Tests of subcommand `relay` in front of a server that echoes.

use crate::support::engine::Engine;
use crate::support::server::serve_each;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

const BASE_NS: u64 = 10_000;
const ADDED_NS: u64 = 50_000;

fn start(server: &str, costs: &[Value]) -> (Engine, Vec<String>) {
    let mut relay = Engine::start_subcommand("relay");
    let entrances: Vec<_> = costs.iter().map(|cost| json!({"address": "127.0.0.1:0", "cost": cost})).collect();
    let ready = relay.ask(&json!({"server": server, "seed": 1, "entrances": entrances}));
    (relay, serde_json::from_value(ready["ready"]["entrances"].clone()).unwrap())
}

fn totals(relay: &mut Engine) -> Value {
    relay.ask(&json!({"counters": {}}))["counters"].take()
}

/// Start a server that sends back what it receives, until the test ends. Return its address.
fn echo() -> String {
    serve_each(|mut stream| _ = std::io::copy(&mut stream.try_clone().unwrap(), &mut stream))
}

fn ask(entrance: &str, requests: usize, request: &[u8]) -> u64 {
    let mut stream = TcpStream::connect(entrance).unwrap();
    let mut answer = vec![0; request.len()];
    let start = Instant::now();
    for _ in 0..requests {
        stream.write_all(request).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, request);
    }
    start.elapsed().as_nanos() as u64
}

#[test]
fn each_listening_address_of_the_relay_adds_its_own_delay() {
    let all = json!({"base_ns": BASE_NS, "added_ns": ADDED_NS, "payers": {"all": {}}});
    let some = json!({"added_ns": ADDED_NS, "payers": {"some": {"share": 0.5}}});
    let free = json!({"added_ns": 0, "payers": {"all": {}}});
    let (mut relay, entrances) = start(&echo(), &[all, some, free]);
    let took: Vec<_> = entrances.iter().map(|entrance| ask(entrance, 200, b"question")).collect();
    let totals = totals(&mut relay);
    assert!(took[0] >= 200 * (BASE_NS + ADDED_NS));
    for (entrance, paying) in [(0, 200..=200), (1, 70..=130), (2, 0..=0)] {
        let delayed: u64 = totals[entrance]["paying"].as_u64().unwrap();
        assert_eq!(totals[entrance]["requests"], 200);
        assert!(paying.contains(&delayed), "{totals}");
        assert!(
            (delayed * ADDED_NS..=took[entrance]).contains(&totals[entrance]["added_ns"].as_u64().unwrap()),
            "{totals}"
        );
    }
}

#[test]
fn request_that_arrives_in_several_pieces_is_delayed_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut relay, entrances) =
        start(&listener.local_addr().unwrap().to_string(), &[json!({"added_ns": 1, "payers": {"all": {}}})]);
    let mut client = TcpStream::connect(&entrances[0]).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for _ in 0..2 {
        for piece in b"abc" {
            client.write_all(&[*piece]).unwrap();
            server.read_exact(&mut [0]).unwrap();
        }
        server.write_all(b"!").unwrap();
        client.read_exact(&mut [0]).unwrap();
    }
    assert_eq!(totals(&mut relay)[0]["requests"], 2);
}
