//! Servers that are not there, or are something else.

use crate::support::authority::Authority;
use crate::support::server::{self, Manner};
use crate::support::{open, tls};
use base::error::Class;
use net::settings::{Transport, Verify};

fn plain(manner: Manner) -> Class {
    open(&server::start(manner), Transport::Plain {}).unwrap_err().class
}

fn under_tls(test: &str, manner: Manner) -> Class {
    open(&server::start(manner), tls(&Authority::new().file(test), None, Verify::Full)).unwrap_err().class
}

#[test]
fn nobody_listens() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let failure = open(&free, Transport::Plain {}).unwrap_err();
    assert_eq!(failure.class, Class::Refused);
    assert!(failure.detail.starts_with(&free), "{failure}");
}

#[test]
fn a_name_without_an_address() {
    assert_eq!(open("no-such-host.invalid:1", Transport::Plain {}).unwrap_err().class, Class::Resolve);
}

#[test]
fn a_server_that_closes_on_plain() {
    assert_eq!(plain(Manner::Closes), Class::PlainRefused);
}

#[test]
fn a_server_without_tls() {
    assert_eq!(under_tls("closes", Manner::Closes), Class::TlsRefused);
    assert_eq!(under_tls("http", Manner::Says(b"HTTP/1.1 400 Bad Request\r\n\r\n")), Class::TlsRefused);
}

#[test]
fn bytes_that_are_not_the_protocol() {
    assert_eq!(plain(Manner::Says(b"HTTP/1.1 400 Bad Request\r\n\r\n")), Class::Protocol);
    assert_eq!(plain(Manner::Says(b"\xff\xff\xff\x7f")), Class::Protocol);
    assert_eq!(plain(Manner::Says(&[0; 64])), Class::Protocol);
}
