//! Connections, whatever the protocol: round trips are counted where the bytes go, so a handshake's are the protocol's own; servers
//! that are not there, or are something else; and what is wrong with a certificate, said by its class and in words that name what
//! was asked and what was found.

use crate::support::authority::{Authority, EXPIRED, VALID};
use crate::support::server::{self, Manner};
use crate::support::{open, tls};
use base::error::{Class, Failure};
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

fn meet(test: &str, host: &str, days: i64, verify: Verify) -> Result<bool, Failure> {
    let authority = Authority::new();
    let address = server::start(server::tls(&authority.identity(host, days), None));
    let (_, connection) = open(&address, tls(&authority.file(test), None, verify))?;
    Ok(connection.security.unwrap().verified)
}

#[test]
fn another_name_is_refused_and_both_are_said() {
    let failure = meet("name", "db.example.org", VALID, Verify::Full).unwrap_err();
    assert_eq!(failure.class, Class::TlsCertificateName);
    assert!(failure.detail.contains("the host is 127.0.0.1, but the certificate is for db.example.org"), "{failure}");
}

#[test]
fn another_address_is_refused_too() {
    let failure = meet("address", "127.0.0.9", VALID, Verify::Full).unwrap_err();
    assert_eq!(failure.class, Class::TlsCertificateName);
    assert!(failure.detail.ends_with("127.0.0.9"), "{failure}");
}

#[test]
fn another_name_passes_where_the_name_is_not_asked_for() {
    assert_eq!(meet("ca-only", "db.example.org", VALID, Verify::CaOnly), Ok(true));
}

#[test]
fn an_expired_certificate_is_refused_with_its_date() {
    let failure = meet("expired", "127.0.0.1", EXPIRED, Verify::Full).unwrap_err();
    assert_eq!(failure.class, Class::TlsCertificateExpired);
    assert!(failure.detail.contains("notAfter"), "{failure}");
}

#[test]
fn another_authority_is_not_trusted() {
    let server = server::start(server::tls(&Authority::new().identity("127.0.0.1", VALID), None));
    let others = Authority::new().file("untrusted");
    let failure = open(&server, tls(&others, None, Verify::Full)).unwrap_err();
    assert_eq!(failure.class, Class::TlsCertificateUntrusted);
    let (_, connection) = open(&server, tls(&others, None, Verify::None)).unwrap();
    assert!(!connection.security.unwrap().verified, "what was not asked for is not verified");
}

#[test]
fn a_ca_file_that_is_none_is_said_to_be_so() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let failure = open("127.0.0.1:1", tls(&path, None, Verify::Full)).unwrap_err();
    assert_eq!(failure.class, Class::TlsConfiguration);
    assert!(failure.detail.contains("Cargo.toml"), "{failure}");
}
