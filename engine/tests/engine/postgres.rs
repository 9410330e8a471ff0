//! Tests of how PostgreSQL connections are opened. Logins and their errors are tested with real servers
//! (tests/integration/test_postgres.py).

use crate::support::authority::{Authority, VALID};
use crate::support::postgres::Postgres;
use crate::support::server;
use crate::support::{open_postgres, postgres_service, query_postgres, tls};
use base::error::Class;
use net::settings::{Transport, Verify};
use openssl::ssl::SslVersion;
use record::Phase;
use wire::postgres::{Negotiation, Settings};

const PLAIN: Transport = Transport::Plain {};

fn secure(test: &str, version: Option<SslVersion>, extra_bytes: &'static [u8]) -> (Postgres, Transport) {
    let authority = Authority::new();
    let acceptor = server::acceptor(&authority.identity("127.0.0.1", VALID), version);
    let transport = tls(&authority.file(test), None, Verify::Full);
    (Postgres { tls: Some(acceptor), extra_bytes, ..Postgres::default() }, transport)
}

fn round_trips(server: &Postgres, transport: Transport) -> Vec<(Phase, u64)> {
    let (timeline, _) = open_postgres(&postgres_service(&server.start()), transport).unwrap();
    timeline.spans().map(|span| (span.phase, span.traffic.round_trips)).collect()
}

/// A server without authentication sends its whole answer to the start-up message at once.
#[test]
fn plain_connection_takes_one_round_trip_for_tcp_and_one_for_the_startup_message() {
    assert_eq!(round_trips(&Postgres::default(), PLAIN), [(Phase::Tcp, 1), (Phase::Hello, 1), (Phase::Auth, 0)]);
}

#[test]
fn tls_request_takes_one_round_trip() {
    for (name, version, handshake) in
        [("postgres-tls12", Some(SslVersion::TLS1_2), 2), ("postgres-tls13", Some(SslVersion::TLS1_3), 1)]
    {
        let (server, transport) = secure(name, version, b"");
        let expected =
            [(Phase::Tcp, 1), (Phase::TlsRequest, 1), (Phase::Tls, handshake), (Phase::Hello, 1), (Phase::Auth, 0)];
        assert_eq!(round_trips(&server, transport), expected);
    }
}

#[test]
fn server_without_tls_is_reported_as_tls_refused() {
    let transport = tls(&Authority::new().file("postgres-no-tls"), None, Verify::Full);
    let failure = open_postgres(&postgres_service(&Postgres::default().start()), transport).unwrap_err();
    assert_eq!(failure.class, Class::TlsRefused);
    assert!(failure.detail.ends_with("the server does not offer TLS"), "{failure}");
}

/// After TLS begins, the client would take an attacker's earlier plaintext for the server's data (CVE-2021-23222).
#[test]
fn plaintext_that_the_server_sends_before_tls_is_refused() {
    let (server, transport) = secure("postgres-injection", None, b"R\0\0\0\x08\0\0\0\0");
    let failure = open_postgres(&postgres_service(&server.start()), transport).unwrap_err();
    assert!(matches!(failure.class, Class::TlsRefused | Class::TlsHandshake), "{failure:?}");
}

#[test]
fn direct_tls_to_a_server_without_alpn_is_refused() {
    let authority = Authority::new();
    let address = server::start(server::tls(&authority.identity("127.0.0.1", VALID), None));
    let settings = Settings { negotiation: Negotiation::Direct, ..postgres_service(&address) };
    let failure = open_postgres(&settings, tls(&authority.file("postgres-alpn"), None, Verify::Full)).unwrap_err();
    assert_eq!(failure.class, Class::TlsRefused);
}

#[test]
fn channel_binding_fails_if_the_server_requests_no_authentication() {
    let settings = Settings { channel_binding: true, ..postgres_service(&Postgres::default().start()) };
    assert_eq!(open_postgres(&settings, PLAIN).unwrap_err().class, Class::Authentication);
}

#[test]
fn truncated_or_invalid_answer_is_reported_with_its_error_class() {
    for (broken, class) in [
        (&b""[..], Class::Closed),
        (b"D\0\0\0\x0b\0\x01\0\0\0", Class::Closed),
        (b"D\0\0\0\x03", Class::Protocol),
        (b"!", Class::Protocol),
    ] {
        let server = Postgres { breaks_with: Some(broken), ..Postgres::default() };
        assert_eq!(query_postgres(&postgres_service(&server.start())).unwrap_err().class, class, "{broken:?}");
    }
}
