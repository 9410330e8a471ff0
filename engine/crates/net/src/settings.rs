//! The transport settings of an arm (one variant of the experiment) in the plan (the configuration of a run).

use serde::Deserialize;
use std::path::PathBuf;

/// The transport of a client's connections: plain TCP or TLS.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Transport {
    Plain {},
    Tls(Tls),
}

/// The settings of a client's TLS connections.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// A PEM file with trusted certificates. If absent, the authorities that the system trusts are used.
    pub ca_file: Option<PathBuf>,
    /// A PEM file with the client's key, certificate and intermediate certificates. If absent, the client has none.
    pub certificate_file: Option<PathBuf>,
    /// The only TLS version that the client offers. If absent, the version is negotiated.
    pub version: Option<TlsVersion>,
    pub verify: Verify,
    pub resumption: bool,
    /// The only cipher suite that the client offers, by OpenSSL's name. TLS 1.3 is then not offered. If absent, the TLS
    /// library's list is offered.
    pub cipher: Option<String>,
    /// OpenSSL's security level, which rejects weak algorithms. If absent, it is 0 if `cipher` is set, and otherwise
    /// the TLS library's default.
    pub security_level: Option<SecurityLevel>,
    /// The only group that the client offers for the key exchange. If absent, the TLS library's list is offered.
    pub group: Option<Group>,
}

/// A group for the key exchange of TLS (RFC 8446, 4.2.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// NIST's curve P-256.
    Prime256v1,
    /// Curve25519 (RFC 7748).
    X25519,
    /// A hybrid of Curve25519 and ML-KEM-768 (draft-ietf-tls-ecdhe-mlkem). The hybrid is secure as long as one of the
    /// two is secure. Not every TLS library supports it.
    #[serde(rename = "X25519MLKEM768")]
    X25519Mlkem768,
}

impl Group {
    pub fn name(self) -> &'static str {
        match self {
            Group::Prime256v1 => "prime256v1",
            Group::X25519 => "x25519",
            Group::X25519Mlkem768 => "X25519MLKEM768",
        }
    }
}

/// An OpenSSL security level from 0 to 2 (SSL_CTX_set_security_level(3)). Higher levels reject most of today's servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u32")]
pub struct SecurityLevel(u32);

impl SecurityLevel {
    /// The level that accepts every algorithm.
    pub const ANYTHING: SecurityLevel = SecurityLevel(0);

    pub fn number(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for SecurityLevel {
    type Error = &'static str;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        if number <= 2 { Ok(SecurityLevel(number)) } else { Err("security_level must be 0, 1 or 2") }
    }
}

/// The only TLS version that a client offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum TlsVersion {
    #[serde(rename = "1.2")]
    V1_2,
    #[serde(rename = "1.3")]
    V1_3,
}

/// The verification of the server's certificate: chain and name (`full`), only the chain (`ca-only`), or nothing
/// (`none`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    Full,
    CaOnly,
    None,
}
