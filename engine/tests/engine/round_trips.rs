//! Round trips are counted where the bytes go, so a handshake's are the protocol's own.

use crate::support::authority::{Authority, VALID};
use crate::support::server::{self, Manner};
use crate::support::{open, tls};
use net::settings::{TlsVersion, Transport, Verify};
use openssl::ssl::SslVersion;
use record::{Phase, Timeline};

fn round_trips(timeline: &Timeline) -> Vec<(Phase, u64)> {
    timeline.spans().map(|span| (span.phase, span.traffic.round_trips)).collect()
}

#[test]
fn plain_takes_one_for_tcp_and_one_for_hello() {
    let (timeline, connection) = open(&server::start(Manner::Plain), Transport::Plain {}).unwrap();
    assert_eq!(round_trips(&timeline), [(Phase::Tcp, 1), (Phase::Hello, 1)]);
    assert_eq!(connection.security, None);
}

#[test]
fn tls_1_2_takes_two_more() {
    let authority = Authority::new();
    let address = server::start(server::tls(&authority.identity("127.0.0.1", VALID), Some(SslVersion::TLS1_2)));
    let (timeline, connection) = open(&address, tls(&authority.file("tls12"), None, Verify::Full)).unwrap();
    assert_eq!(round_trips(&timeline), [(Phase::Tcp, 1), (Phase::Tls, 2), (Phase::Hello, 1)]);
    assert_eq!(connection.security.unwrap().protocol, "TLSv1.2");
}

#[test]
fn tls_1_3_takes_one_more_although_its_tickets_come_late() {
    let authority = Authority::new();
    let address = server::start(server::tls(&authority.identity("127.0.0.1", VALID), None));
    let transport = tls(&authority.file("tls13"), Some(TlsVersion::V1_3), Verify::Full);
    let (timeline, connection) = open(&address, transport).unwrap();
    assert_eq!(round_trips(&timeline), [(Phase::Tcp, 1), (Phase::Tls, 1), (Phase::Hello, 1)]);
    let security = connection.security.unwrap();
    assert_eq!((security.protocol, security.key.as_str()), ("TLSv1.3", "ecdsa-p256"));
    assert!(security.verified && !security.resumed);
}

#[test]
fn a_session_is_resumed_where_it_is_asked_for_alone() {
    let authority = Authority::new();
    let ca_file = authority.file("resumption");
    let address = server::start(server::tls(&authority.identity("127.0.0.1", VALID), None));
    for (resumption, version) in [(true, TlsVersion::V1_3), (true, TlsVersion::V1_2), (false, TlsVersion::V1_3)] {
        let Transport::Tls(settings) = tls(&ca_file, Some(version), Verify::Full) else { panic!("TLS") };
        let transport = Transport::Tls(net::settings::Tls { resumption, ..settings });
        // Discovery's connections come first: the one measured here is never the first.
        let (_, connection) = open(&address, transport).unwrap();
        assert_eq!(connection.security.unwrap().resumed, resumption, "{version:?}");
    }
}

#[test]
fn a_name_is_resolved_first_and_every_address_of_it_is_tried() {
    // localhost may well be ::1 first, where nobody listens.
    let address = server::start(Manner::Plain).replace("127.0.0.1", "localhost");
    let (timeline, connection) = open(&address, Transport::Plain {}).unwrap();
    assert_eq!(round_trips(&timeline), [(Phase::Resolve, 0), (Phase::Tcp, 1), (Phase::Hello, 1)]);
    assert_eq!(connection.server, address);
}
