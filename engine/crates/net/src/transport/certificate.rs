//! Certificates in words: what a server's certificate says, and what was wrong with it.

use super::Address;
use base::error::{Class, Failure, Result};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::Id;
use openssl::ssl::SslContextBuilder;
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::{X509, X509Ref, X509StoreContextRef};
use std::cell::Cell;
use std::net::IpAddr;
use std::path::Path;

/// What OpenSSL objected to, while it still had the certificate at hand.
pub(super) struct Objection {
    class: Class,
    words: String,
    names: Option<String>,
}

thread_local! {
    /// OpenSSL forgets the certificate when it fails a handshake, but tells the callback, on this thread, just before.
    static OBJECTION: Cell<Option<Objection>> = const { Cell::new(None) };
}

pub(super) fn forget_objection() {
    OBJECTION.set(None);
}

pub(super) fn take_objection() -> Option<Objection> {
    OBJECTION.take()
}

/// OpenSSL's verify callback: changes no verdict, remembers the reason.
pub(super) fn remember_objection(accepted: bool, store: &mut X509StoreContextRef) -> bool {
    if !accepted {
        OBJECTION.set(Some(Objection::new(store)));
    }
    accepted
}

impl Objection {
    fn new(store: &X509StoreContextRef) -> Self {
        let error = store.error();
        let certificate = store.current_cert();
        let reason = error.error_string();
        // The numbers are OpenSSL's X509_V_ERR_* (x509_vfy.h), stable since 1.0.2.
        let (class, words) = match error.as_raw() {
            62 | 64 => (Class::TlsCertificateName, String::new()),
            10 => (Class::TlsCertificateExpired, format!("the certificate expired: {}", dates(certificate))),
            9 => (Class::TlsCertificateExpired, format!("the certificate is not valid yet: {}", dates(certificate))),
            _ => (Class::TlsCertificateUntrusted, format!("the certificate is not trusted: {reason}")),
        };
        let names = certificate.filter(|_| class == Class::TlsCertificateName).map(names);
        Objection { class, words, names }
    }

    pub(super) fn into_failure(self, server: &Address) -> Failure {
        let Some(names) = self.names else { return Failure::new(self.class, self.words) };
        let asked = server.host();
        Failure::new(self.class, format!("asked for {asked}, but the certificate is for {names}"))
    }
}

fn dates(certificate: Option<&X509Ref>) -> String {
    match certificate {
        Some(it) => format!("notBefore {}, notAfter {}", it.not_before(), it.not_after()),
        None => "its dates are not known".into(),
    }
}

/// The names and addresses a certificate is for: its subjectAltName, or the common name without one.
fn names(certificate: &X509Ref) -> String {
    let mut found = Vec::new();
    for name in certificate.subject_alt_names().iter().flatten() {
        match (name.dnsname(), name.ipaddress().and_then(ip)) {
            (Some(dns), _) => found.push(dns.to_owned()),
            (None, Some(ip)) => found.push(ip.to_string()),
            (None, None) => {}
        }
    }
    if found.is_empty() {
        let common = certificate.subject_name().entries_by_nid(Nid::COMMONNAME);
        found.extend(common.filter_map(|entry| entry.data().to_string().ok()));
    }
    if found.is_empty() { "no name at all".into() } else { found.join(", ") }
}

fn ip(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

/// A key in the words of a study: `rsa-2048`, `ecdsa-p256`, `ed25519`.
pub(super) fn key_name(certificate: &X509Ref) -> String {
    let Ok(key) = certificate.public_key() else { return "unreadable".into() };
    match key.id() {
        Id::RSA => format!("rsa-{}", key.bits()),
        Id::EC => match key.ec_key().ok().and_then(|ec| ec.group().curve_name()) {
            Some(Nid::X9_62_PRIME256V1) => "ecdsa-p256".into(),
            Some(Nid::SECP384R1) => "ecdsa-p384".into(),
            Some(Nid::SECP521R1) => "ecdsa-p521".into(),
            _ => format!("ecdsa-{}", key.bits()),
        },
        Id::ED25519 => "ed25519".into(),
        // AWS-LC has no such keys.
        #[cfg(not(feature = "aws-lc"))]
        Id::ED448 => "ed448".into(),
        _ => format!("other-{}", key.bits()),
    }
}

/// What channel binding `tls-server-end-point` binds to (RFC 5929, 4.1): the certificate, hashed as its signature does, but by
/// SHA-256 at least. None, where its signature names no hash, as Ed25519's.
pub(super) fn end_point(certificate: &X509Ref) -> Option<Vec<u8>> {
    let signature = certificate.signature_algorithm().object().nid().signature_algorithms()?;
    let hash = match signature.digest {
        Nid::UNDEF => return None,
        Nid::MD5 | Nid::SHA1 => MessageDigest::sha256(),
        digest => MessageDigest::from_nid(digest)?,
    };
    certificate.digest(hash).ok().map(|hashed| hashed.to_vec())
}

/// Trust the authorities of this PEM file, and no others.
/// Errors: `tls_configuration`, where it cannot be read or holds no certificate.
pub(super) fn trust_file(builder: &mut SslContextBuilder, path: &Path) -> Result<()> {
    let shown = path.display();
    let wrong = |why: String| Failure::new(Class::TlsConfiguration, format!("CA file {shown}: {why}"));
    let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let authorities = X509::stack_from_pem(&pem).map_err(|_| wrong("not a PEM certificate".into()))?;
    if authorities.is_empty() {
        return Err(wrong("holds no PEM certificate".into()));
    }
    let mut store = X509StoreBuilder::new().map_err(|error| wrong(error.to_string()))?;
    for authority in authorities {
        store.add_cert(authority).map_err(|error| wrong(error.to_string()))?;
    }
    builder.set_cert_store(store.build());
    Ok(())
}
