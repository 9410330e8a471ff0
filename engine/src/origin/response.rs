//! The responses, all known beforehand. They have no Date: the origin has no clock in RFC 9110's sense (5.6.7).

use super::request::{Method, Persistence, Refusal, Request};

macro_rules! ok {
    ($connection:literal) => {
        concat!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n", $connection, "\r\nOK")
            .as_bytes()
    };
}

macro_rules! error {
    ($status:literal, $fields:literal) => {
        concat!("HTTP/1.1 ", $status, "\r\nContent-Length: 0\r\n", $fields, "\r\n").as_bytes()
    };
}

const BODY: &[u8] = b"OK";

pub fn to(request: &Request) -> &'static [u8] {
    match request.method {
        Method::Get => ok(request.persistence),
        Method::Head => ok(request.persistence).strip_suffix(BODY).unwrap_or_default(),
        Method::Other => not_allowed(request.persistence),
    }
}

pub fn refusing(refusal: Refusal) -> &'static [u8] {
    match refusal {
        Refusal::Malformed => error!("400 Bad Request", "Connection: close\r\n"),
        Refusal::LengthRequired => error!("411 Length Required", "Connection: close\r\n"),
        Refusal::ExpectationFailed => error!("417 Expectation Failed", "Connection: close\r\n"),
        Refusal::HeaderTooLong => error!("431 Request Header Fields Too Large", "Connection: close\r\n"),
    }
}

fn ok(persistence: Persistence) -> &'static [u8] {
    match persistence {
        Persistence::Implied => ok!(""),
        Persistence::Stated => ok!("Connection: keep-alive\r\n"),
        Persistence::None => ok!("Connection: close\r\n"),
    }
}

fn not_allowed(persistence: Persistence) -> &'static [u8] {
    match persistence {
        Persistence::Implied => error!("405 Method Not Allowed", "Allow: GET, HEAD\r\n"),
        Persistence::Stated => error!("405 Method Not Allowed", "Allow: GET, HEAD\r\nConnection: keep-alive\r\n"),
        Persistence::None => error!("405 Method Not Allowed", "Allow: GET, HEAD\r\nConnection: close\r\n"),
    }
}
