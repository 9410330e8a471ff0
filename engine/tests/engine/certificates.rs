//! What is wrong with a certificate is said by its class, and in words that name what was asked and what was found.

use crate::support::authority::{Authority, EXPIRED, VALID};
use crate::support::{open, server, tls};
use base::error::{Class, Failure};
use net::settings::Verify;

/// What comes of meeting a server whose certificate is for `host` and ends in `days`.
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
    assert!(failure.detail.contains("asked for 127.0.0.1, but the certificate is for db.example.org"), "{failure}");
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
