//! Tests of how MySQL connections are opened: authentication, TLS, and servers that speak other protocols.

use crate::support::authority::{Authority, VALID};
use crate::support::mysql::{Mysql, PASSWORD};
use crate::support::server::{self, Behaviour};
use crate::support::{mysql_service, open_mysql, tls};
use base::error::{Class, Failure, Result};
use net::settings::{Transport, Verify};
use openssl::ssl::{SslAcceptor, SslVersion};
use record::{Connection, Phase, Timeline};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::mysql::Statements;

const PLAIN: Transport = Transport::Plain {};

fn open(server: &Mysql, transport: Transport) -> Result<(Timeline, Connection)> {
    open_mysql(&mysql_service(&server.start(), PASSWORD, Statements::Text), transport)
}

fn round_trips(server: &Mysql, transport: Transport) -> Vec<(Phase, u64)> {
    let (timeline, _) = open(server, transport).unwrap();
    timeline.spans().map(|span| (span.phase, span.traffic.round_trips)).collect()
}

fn secure(test: &str, version: Option<SslVersion>) -> (Option<Arc<SslAcceptor>>, PathBuf) {
    let authority = Authority::new();
    (Some(server::acceptor(&authority.identity("127.0.0.1", VALID), version)), authority.file(test))
}

#[test]
fn plain_connection_takes_one_round_trip_for_each_phase() {
    let expected = [(Phase::Tcp, 1), (Phase::Greeting, 1), (Phase::Auth, 1)];
    assert_eq!(round_trips(&Mysql::default(), PLAIN), expected);
}

#[test]
fn tls_adds_only_the_round_trips_of_its_handshake() {
    for (name, version, expected) in
        [("mysql-tls12", Some(SslVersion::TLS1_2), 2), ("mysql-tls13", Some(SslVersion::TLS1_3), 1)]
    {
        let (acceptor, ca_file) = secure(name, version);
        let server = Mysql { tls: acceptor, ..Mysql::default() };
        let expected = [(Phase::Tcp, 1), (Phase::Greeting, 1), (Phase::Tls, expected), (Phase::Auth, 1)];
        assert_eq!(round_trips(&server, tls(&ca_file, None, Verify::Full)), expected);
    }
}

#[test]
fn every_authentication_method_takes_the_expected_number_of_round_trips() {
    let sha2 = "caching_sha2_password";
    for (proposes, plugin, cached, expected) in [
        ("mysql_native_password", "mysql_native_password", false, 1),
        (sha2, "mysql_native_password", false, 2),
        ("mysql_native_password", "client_ed25519", false, 2),
        ("auth_gssapi_client", "client_ed25519", false, 2),
        (sha2, sha2, true, 1),
        // Over plain connections, `caching_sha2_password` takes three round trips: the scrambled password, the request
        // for the public key, and the encrypted password.
        (sha2, sha2, false, 3),
        ("mysql_native_password", sha2, false, 4),
    ] {
        let server = Mysql { proposes, plugin, cached, ..Mysql::default() };
        assert_eq!(round_trips(&server, PLAIN)[2], (Phase::Auth, expected), "{proposes}, {plugin}, {cached}");
    }
}

#[test]
fn caching_sha2_sends_the_password_itself_over_tls() {
    let (tls_of_server, ca_file) = secure("mysql-sha2", None);
    let plugin = "caching_sha2_password";
    let server = Mysql { proposes: plugin, plugin, tls: tls_of_server, ..Mysql::default() };
    let rounds = round_trips(&server, tls(&ca_file, None, Verify::Full));
    assert_eq!(rounds.last(), Some(&(Phase::Auth, 2)));
}

#[test]
fn wrong_password_is_an_authentication_error_with_every_method() {
    for plugin in ["mysql_native_password", "caching_sha2_password", "client_ed25519"] {
        for cached in [true, false] {
            let address = Mysql { plugin, cached, ..Mysql::default() }.start();
            let failure = open_mysql(&mysql_service(&address, "wrong", Statements::Text), PLAIN).unwrap_err();
            assert_eq!(failure.class, Class::Authentication, "{plugin}");
            assert_eq!(failure.detail, format!("{address}: 1045 (28000): Access denied"));
        }
    }
}

#[test]
fn error_names_an_unknown_authentication_method() {
    let failure = open(&Mysql { plugin: "dialog", ..Mysql::default() }, PLAIN).unwrap_err();
    assert_eq!(failure.class, Class::Authentication);
    assert!(failure.detail.contains("'dialog'"), "{failure}");
}

#[test]
fn server_without_tls_is_reported_as_tls_refused() {
    let failure = open(&Mysql::default(), tls(&Authority::new().file("mysql-no-tls"), None, Verify::Full)).unwrap_err();
    assert_eq!(failure.class, Class::TlsRefused);
}

/// After the TLS handshake, the client would take an attacker's earlier plaintext for data from the server.
#[test]
fn plaintext_that_the_server_sends_before_tls_is_refused() {
    let (acceptor, ca_file) = secure("mysql-injection", None);
    let server = Mysql { tls: acceptor, extra_bytes: b"\x07\0\0\x02\0\0\0\x02\0\0\0", ..Mysql::default() };
    let failure = open(&server, tls(&ca_file, None, Verify::Full)).unwrap_err();
    assert_eq!(failure.class, Class::Protocol);
}

fn greeting_error(greets_with: &'static [u8]) -> Failure {
    let address = server::start(Behaviour::Greets(greets_with));
    open_mysql(&mysql_service(&address, PASSWORD, Statements::Text), PLAIN).unwrap_err()
}

#[test]
fn server_of_another_protocol_is_recognised_by_its_first_bytes() {
    assert_eq!(greeting_error(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n").class, Class::Protocol);
    assert_eq!(greeting_error(b"220 mail.example.org ESMTP\r\n").class, Class::Protocol);
    assert_eq!(greeting_error(b"\x01\0\0\0\x09").class, Class::Protocol);
    assert_eq!(greeting_error(b"").class, Class::Closed);
}

#[test]
fn first_reachable_address_is_measured() {
    let address = Mysql::default().start();
    let mut settings = mysql_service(&address, PASSWORD, Statements::Text);
    settings.addresses.insert(0, "127.0.0.1:1".into());
    let (_, connection) = open_mysql(&settings, PLAIN).unwrap();
    assert_eq!(connection.server, address);
    settings.addresses.truncate(1);
    assert_eq!(open_mysql(&settings, PLAIN).unwrap_err().class, Class::Refused);
}

#[test]
fn closing_a_connection_sends_quit() {
    let server = Mysql::default();
    open(&server, PLAIN).unwrap();
    // The client opens a second connection to check the server. The server may count the end of a connection late.
    while server.quits.load(Ordering::Relaxed) < 2 {
        std::thread::yield_now();
    }
}
