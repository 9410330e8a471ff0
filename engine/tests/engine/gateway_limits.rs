//! What one client may take of the gateway: connections, and time.

use crate::support::TIMEOUT_NS;
use crate::support::gateway::{END, Gateway, OK, QUERY, Then, beginning, packet, receive, response, scripted};
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

fn farewell(mut stream: TcpStream, sequence: u8) -> (u16, String) {
    let (told_sequence, payload) = receive(&mut stream).unwrap();
    assert_eq!(told_sequence, sequence);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    error(&payload)
}

fn error(payload: &[u8]) -> (u16, String) {
    assert_eq!(payload[0], 0xFF);
    (u16::from_le_bytes([payload[1], payload[2]]), String::from_utf8_lossy(&payload[3..]).into_owned())
}

/// Connect until there is a greeting; what is told before it is given to `refused`.
fn eventually_greeted(gateway: &Gateway, refused: impl Fn(&str)) -> TcpStream {
    let until = Instant::now() + Duration::from_nanos(TIMEOUT_NS);
    loop {
        let mut stream = connect(gateway);
        let (_, payload) = receive(&mut stream).unwrap();
        if payload[0] == 10 {
            return stream;
        }
        refused(&error(&payload).1);
        assert!(Instant::now() < until, "there is never a greeting");
    }
}

#[test]
fn connections_are_taken_up_to_a_limit_and_the_next_is_told_so() {
    let (server, _) = scripted(Then::Stutters(Vec::new()));
    for (limits, words) in [
        (json!({"connections": 2}), "2 connections"),
        (json!({"connections_an_address": 2}), "2 connections from one address"),
    ] {
        let mut gateway = limited("connections", &server, limits);
        let held = [gateway.client("u"), gateway.client("shop")];
        let (code, told) = farewell(connect(&gateway), 0);
        assert_eq!((code, told), (1040, format!("Too many connections: the gateway accepts {words}")));
        assert_eq!((gateway.counter("connections"), gateway.counter("errors")), (3, 1));
        drop(held);
        // Places become free a moment after their connections have ended.
        drop(eventually_greeted(&gateway, |told| assert!(told.contains(words), "{told}")));
    }
}

#[test]
fn who_is_not_logged_in_leaves_room_for_others() {
    let (server, _) = scripted(Then::Stutters(Vec::new()));
    let gateway = limited("logins", &server, json!({"logins": 1}));
    let _logged_in = [gateway.client("u"), gateway.client("shop")];
    let mut first = connect(&gateway);
    receive(&mut first).unwrap();
    let (code, told) = farewell(connect(&gateway), 0);
    assert!(code == 1040 && told.contains("1 connections that are not logged in"), "{told}");
    first.write_all(&response("u")).unwrap();
    assert_eq!(receive(&mut first).unwrap().1, OK);
    drop(gateway.client("u"));
}

#[test]
fn a_login_has_its_time() {
    let (server, ends) = scripted(Then::Stutters(Vec::new()));
    let gateway = limited("login", &server, json!({"login_seconds": 1}));
    let ended_in_time = |told: &str| {
        assert!(told.contains("no answer in time"), "{told}");
        ends.recv_timeout(Duration::from_nanos(TIMEOUT_NS)).expect("the server's side ends too");
    };
    // On a machine that stalls the server's greeting may come too late.
    let stream = eventually_greeted(&gateway, ended_in_time);
    ended_in_time(&farewell(stream, 1).1);
}

#[test]
fn a_guarded_session_may_neither_idle_nor_dawdle_and_another_may() {
    let (server, _) = scripted(Then::Stutters([beginning(), packet(4, END)].concat()));
    let command = packet(0, QUERY);
    // By one limit each: a stall before the first bytes would be idleness.
    for (limit, begun, sequence, code, words) in
        [("idle_seconds", 0, 0, 4031, "idle for too long"), ("command_seconds", 5, 1, 1159, "too long to arrive")]
    {
        let gateway = limited("time", &server, json!({limit: 1}));
        let (mut plain, mut guarded) = (gateway.client("u"), gateway.client("shop"));
        for stream in [&mut plain, &mut guarded] {
            stream.write_all(&command[..begun]).unwrap();
        }
        let (told_code, told) = farewell(guarded, sequence);
        assert!(told_code == code && told.contains(words), "{told}");
        // It came before the other, and stays.
        plain.write_all(&command[begun..]).unwrap();
        let answer: Vec<_> = (0..4).map(|_| receive(&mut plain).unwrap()).collect();
        assert_eq!(answer[3], (4, END.to_vec()));
    }
}

#[test]
fn a_guarded_client_that_never_reads_is_not_waited_for() {
    let (server, ends) = scripted(Then::Floods);
    let mut gateway = limited("stall", &server, json!({"write_seconds": 1}));
    let mut stream = gateway.client("shop");
    stream.write_all(&packet(0, QUERY)).unwrap();
    ends.recv_timeout(Duration::from_nanos(TIMEOUT_NS)).expect("the server's side ends");
    drop(stream);
    // Others are served.
    drop(gateway.client("shop"));
    assert!(gateway.counter("values_encrypted") > 0);
}
