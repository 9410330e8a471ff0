//! Tests of the limits that the gateway sets for clients: the number of connections, and timeouts.

use crate::support::TIMEOUT_NS;
use crate::support::gateway::{END, Gateway, OK, QUERY, ServerScript, beginning, packet, receive, response, scripted};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn limited(test: &str, server: &str, limits: Value) -> Gateway {
    Gateway::start_with(test, json!({"address": "127.0.0.1:0", "server": server, "limits": limits}))
}

fn connect(gateway: &Gateway) -> TcpStream {
    let stream = TcpStream::connect(&gateway.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_nanos(TIMEOUT_NS))).unwrap();
    stream
}

fn read_final_error(mut stream: TcpStream, sequence: u8) -> (u16, String) {
    let (received_sequence, payload) = receive(&mut stream).unwrap();
    assert_eq!(received_sequence, sequence);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    error(&payload)
}

fn error(payload: &[u8]) -> (u16, String) {
    assert_eq!(payload[0], 0xFF);
    (u16::from_le_bytes([payload[1], payload[2]]), String::from_utf8_lossy(&payload[3..]).into_owned())
}

/// Connect repeatedly until the gateway sends a greeting, and return that connection. If the gateway sends an error
/// instead of a greeting, call `refused` with the error.
fn eventually_greeted(gateway: &Gateway, refused: impl Fn(&str)) -> TcpStream {
    let until = Instant::now() + Duration::from_nanos(TIMEOUT_NS);
    loop {
        let mut stream = connect(gateway);
        let (_, payload) = receive(&mut stream).unwrap();
        if payload[0] == 10 {
            return stream;
        }
        refused(&error(&payload).1);
        assert!(Instant::now() < until, "no greeting arrived");
    }
}

#[test]
fn connections_above_the_limit_are_refused() {
    let (server, _) = scripted(ServerScript::Sends(Vec::new()));
    for (limits, words) in [
        (json!({"connections": 2}), "2 connections"),
        (json!({"connections_an_address": 2}), "2 connections from one address"),
    ] {
        let mut gateway = limited("connections", &server, limits);
        let held = [gateway.client("u"), gateway.client("shop")];
        let (code, error) = read_final_error(connect(&gateway), 0);
        assert_eq!((code, error), (1040, format!("Too many connections: the gateway accepts {words}")));
        assert_eq!((gateway.counter("connections"), gateway.counter("errors")), (3, 1));
        drop(held);
        // The gateway releases a connection shortly after the client has closed it.
        drop(eventually_greeted(&gateway, |error| assert!(error.contains(words), "{error}")));
    }
}

#[test]
fn clients_that_are_logging_in_have_a_separate_limit() {
    let (server, _) = scripted(ServerScript::Sends(Vec::new()));
    let gateway = limited("logins", &server, json!({"logins": 1}));
    let _logged_in = [gateway.client("u"), gateway.client("shop")];
    let mut first = connect(&gateway);
    receive(&mut first).unwrap();
    let (code, error) = read_final_error(connect(&gateway), 0);
    assert!(code == 1040 && error.contains("1 connections that are not logged in"), "{error}");
    first.write_all(&response("u")).unwrap();
    assert_eq!(receive(&mut first).unwrap().1, OK);
    drop(gateway.client("u"));
}

#[test]
fn login_that_takes_too_long_is_ended() {
    let (server, ends) = scripted(ServerScript::Sends(Vec::new()));
    let gateway = limited("login", &server, json!({"login_seconds": 1}));
    let ended_in_time = |error: &str| {
        assert!(error.contains("no answer in time"), "{error}");
        ends.recv_timeout(Duration::from_nanos(TIMEOUT_NS)).expect("the connection to the server ends too");
    };
    // On a slow machine, the login may time out before the server's greeting, which must cause the same error.
    let stream = eventually_greeted(&gateway, ended_in_time);
    ended_in_time(&read_final_error(stream, 1).1);
}

#[test]
fn only_sessions_of_accounts_that_get_ciphertext_have_idle_and_command_timeouts() {
    let (server, _) = scripted(ServerScript::Sends([beginning(), packet(4, END)].concat()));
    let command = packet(0, QUERY);
    // Each gateway has only one of the two limits. With both, a slow test could reach the idle limit before it sends
    // the command, although the test expects the command limit.
    for (limit, begun, sequence, code, words) in
        [("idle_seconds", 0, 0, 4031, "idle for too long"), ("command_seconds", 5, 1, 1159, "too long to arrive")]
    {
        let gateway = limited("time", &server, json!({limit: 1}));
        let (mut plain, mut guarded) = (gateway.client("u"), gateway.client("shop"));
        for stream in [&mut plain, &mut guarded] {
            stream.write_all(&command[..begun]).unwrap();
        }
        let (received_code, error) = read_final_error(guarded, sequence);
        assert!(received_code == code && error.contains(words), "{error}");
        // The session of `u`, an account that is not guarded, has waited even longer, and is still open.
        plain.write_all(&command[begun..]).unwrap();
        let answer: Vec<_> = (0..4).map(|_| receive(&mut plain).unwrap()).collect();
        assert_eq!(answer[3], (4, END.to_vec()));
    }
}

#[test]
fn client_that_gets_ciphertext_but_never_reads_it_is_disconnected() {
    let (server, ends) = scripted(ServerScript::SendsWithoutEnd);
    let mut gateway = limited("stall", &server, json!({"write_seconds": 1}));
    let mut stream = gateway.client("shop");
    stream.write_all(&packet(0, QUERY)).unwrap();
    ends.recv_timeout(Duration::from_nanos(TIMEOUT_NS)).expect("the connection to the server ends");
    drop(stream);
    // Other clients are still served.
    drop(gateway.client("shop"));
    assert!(gateway.counter("values_encrypted") > 0);
}
