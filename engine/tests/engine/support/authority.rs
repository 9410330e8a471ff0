//! Certificates for the test servers.

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509Name, X509NameBuilder};
use std::path::PathBuf;

/// A value of `days` for [`Authority::identity`]: the certificate is valid for 30 days.
pub const VALID: i64 = 30;
/// A value of `days` for [`Authority::identity`]: the certificate expired yesterday.
pub const EXPIRED: i64 = -1;

pub struct Authority {
    key: PKey<Private>,
    certificate: X509,
}

pub struct Identity {
    pub key: PKey<Private>,
    pub certificate: X509,
}

impl Authority {
    pub fn new() -> Self {
        let key = new_key();
        let mut builder = builder("costof test authority", &key, VALID);
        builder.set_issuer_name(&name("costof test authority")).unwrap();
        builder.append_extension(BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        Authority { certificate: builder.build(), key }
    }

    /// Issue a certificate for a host name or an IP address. It expires in `days` days.
    pub fn identity(&self, host: &str, days: i64) -> Identity {
        let key = new_key();
        let mut builder = builder("server", &key, days);
        builder.set_issuer_name(self.certificate.subject_name()).unwrap();
        let mut names = SubjectAlternativeName::new();
        if host.parse::<std::net::IpAddr>().is_ok() {
            names.ip(host)
        } else {
            names.dns(host)
        };
        let names = names.build(&builder.x509v3_context(Some(&self.certificate), None)).unwrap();
        builder.append_extension(names).unwrap();
        builder.sign(&self.key, MessageDigest::sha256()).unwrap();
        Identity { certificate: builder.build(), key }
    }

    pub fn file(&self, test: &str) -> PathBuf {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.pem"));
        std::fs::write(&path, self.certificate.to_pem().unwrap()).unwrap();
        path
    }
}

impl Identity {
    /// Write the key and the certificate to one PEM file, and return its path.
    pub fn file(&self, test: &str) -> PathBuf {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-server.pem"));
        let key = self.key.private_key_to_pem_pkcs8().unwrap();
        std::fs::write(&path, [key, self.certificate.to_pem().unwrap()].concat()).unwrap();
        path
    }
}

fn new_key() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

fn name(common: &str) -> X509Name {
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_nid(Nid::COMMONNAME, common).unwrap();
    name.build()
}

fn builder(common: &str, key: &PKey<Private>, days: i64) -> X509Builder {
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    let serial = BigNum::from_u32(1).unwrap().to_asn1_integer().unwrap();
    builder.set_serial_number(&serial).unwrap();
    builder.set_subject_name(&name(common)).unwrap();
    builder.set_pubkey(key).unwrap();
    let now = base::clock::unix() as i64 / 1_000_000_000;
    let day = |days: i64| Asn1Time::from_unix(now + days * 86_400).unwrap();
    builder.set_not_before(&day(-10)).unwrap();
    builder.set_not_after(&day(days)).unwrap();
    builder
}
