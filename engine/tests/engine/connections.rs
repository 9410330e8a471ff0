//! Tests of connections: the round trips of each phase, servers that are unreachable or speak another protocol, and the
//! class and text of certificate errors.

use crate::support::authority::{Authority, EXPIRED, VALID};
use crate::support::server::{self, Behaviour};
use crate::support::{open, tls};
use base::error::{Class, Failure};
use net::settings::{TlsVersion, Transport, Verify};
use openssl::ssl::SslVersion;
use record::{Phase, Timeline};

fn round_trips(timeline: &Timeline) -> Vec<(Phase, u64)> {
    timeline.spans().map(|span| (span.phase, span.traffic.round_trips)).collect()
}

#[test]
fn plain_connection_takes_one_round_trip_for_tcp_and_one_for_the_hello_command() {
    let (timeline, connection) = open(&server::start(Behaviour::Plain), Transport::Plain {}).unwrap();
    assert_eq!(round_trips(&timeline), [(Phase::Tcp, 1), (Phase::Hello, 1)]);
    assert_eq!(connection.security, None);
}

#[test]
fn tls_1_2_takes_two_round_trips_more_than_a_plain_connection() {
    let authority = Authority::new();
    let address = server::start(server::tls(&authority.identity("127.0.0.1", VALID), Some(SslVersion::TLS1_2)));
    let (timeline, connection) = open(&address, tls(&authority.file("tls12"), None, Verify::Full)).unwrap();
    assert_eq!(round_trips(&timeline), [(Phase::Tcp, 1), (Phase::Tls, 2), (Phase::Hello, 1)]);
    assert_eq!(connection.security.unwrap().protocol, "TLSv1.2");
}

#[test]
fn tls_1_3_takes_one_round_trip_more_than_plain_even_if_session_tickets_arrive_late() {
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
fn all_addresses_of_a_host_name_are_tried() {
    // The first address of localhost may be ::1, where no server listens. The client must then try the next address.
    let address = server::start(Behaviour::Plain).replace("127.0.0.1", "localhost");
    let (timeline, connection) = open(&address, Transport::Plain {}).unwrap();
    assert_eq!(round_trips(&timeline), [(Phase::Resolve, 0), (Phase::Tcp, 1), (Phase::Hello, 1)]);
    assert_eq!(connection.server, address);
}

fn plain_error(behaviour: Behaviour) -> Class {
    open(&server::start(behaviour), Transport::Plain {}).unwrap_err().class
}

fn tls_error(test: &str, behaviour: Behaviour) -> Class {
    open(&server::start(behaviour), tls(&Authority::new().file(test), None, Verify::Full)).unwrap_err().class
}

#[test]
fn refused_connection_is_reported_with_its_address() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let failure = open(&free, Transport::Plain {}).unwrap_err();
    assert_eq!(failure.class, Class::Refused);
    assert!(failure.detail.starts_with(&free), "{failure}");
}

#[test]
fn plain_connection_that_the_server_closes_is_reported_as_plain_refused() {
    assert_eq!(plain_error(Behaviour::Closes), Class::PlainRefused);
}

#[test]
fn server_without_tls_is_reported_as_tls_refused() {
    assert_eq!(tls_error("closes", Behaviour::Closes), Class::TlsRefused);
    assert_eq!(tls_error("http", Behaviour::Response(b"HTTP/1.1 400 Bad Request\r\n\r\n")), Class::TlsRefused);
}

#[test]
fn invalid_server_response_is_a_protocol_error() {
    assert_eq!(plain_error(Behaviour::Response(b"HTTP/1.1 400 Bad Request\r\n\r\n")), Class::Protocol);
    assert_eq!(plain_error(Behaviour::Response(b"\xff\xff\xff\x7f")), Class::Protocol);
    assert_eq!(plain_error(Behaviour::Response(&[0; 64])), Class::Protocol);
}

fn verify_certificate(test: &str, host: &str, days: i64, verify: Verify) -> Result<bool, Failure> {
    let authority = Authority::new();
    let address = server::start(server::tls(&authority.identity(host, days), None));
    let (_, connection) = open(&address, tls(&authority.file(test), None, verify))?;
    Ok(connection.security.unwrap().verified)
}

#[test]
fn wrong_certificate_name_is_reported_with_both_names() {
    let failure = verify_certificate("name", "db.example.org", VALID, Verify::Full).unwrap_err();
    assert_eq!(failure.class, Class::TlsCertificateName);
    assert!(failure.detail.contains("the host is 127.0.0.1, but the certificate is for db.example.org"), "{failure}");
}

#[test]
fn certificate_for_another_address_is_refused() {
    let failure = verify_certificate("address", "127.0.0.9", VALID, Verify::Full).unwrap_err();
    assert_eq!(failure.class, Class::TlsCertificateName);
    assert!(failure.detail.ends_with("127.0.0.9"), "{failure}");
}

#[test]
fn wrong_certificate_name_is_accepted_if_only_the_chain_is_verified() {
    assert_eq!(verify_certificate("ca-only", "db.example.org", VALID, Verify::CaOnly), Ok(true));
}

#[test]
fn expired_certificate_is_reported_with_its_dates() {
    let failure = verify_certificate("expired", "127.0.0.1", EXPIRED, Verify::Full).unwrap_err();
    assert_eq!(failure.class, Class::TlsCertificateExpired);
    assert!(failure.detail.contains("notAfter"), "{failure}");
}

#[test]
fn certificate_of_another_authority_is_untrusted() {
    let server = server::start(server::tls(&Authority::new().identity("127.0.0.1", VALID), None));
    let other_authority = Authority::new().file("untrusted");
    let failure = open(&server, tls(&other_authority, None, Verify::Full)).unwrap_err();
    assert_eq!(failure.class, Class::TlsCertificateUntrusted);
    let (_, connection) = open(&server, tls(&other_authority, None, Verify::None)).unwrap();
    assert!(!connection.security.unwrap().verified, "verified without verification");
}

#[test]
fn error_for_an_invalid_ca_file_contains_the_file_name() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let failure = open("127.0.0.1:1", tls(&path, None, Verify::Full)).unwrap_err();
    assert_eq!(failure.class, Class::TlsConfiguration);
    assert!(failure.detail.contains("Cargo.toml"), "{failure}");
}
