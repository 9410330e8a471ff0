//! How the bytes of an arm go, as a plan has it.

use serde::Deserialize;
use std::path::PathBuf;

/// How the bytes of an arm go.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Transport {
    Plain {},
    Tls(Tls),
}

/// The settings of a TLS arm.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM; the system's authorities where absent.
    pub ca_file: Option<PathBuf>,
    /// What both ends agree on where absent.
    pub version: Option<TlsVersion>,
    pub verify: Verify,
    pub resumption: bool,
    /// The one suite that is offered, by OpenSSL's name, with TLS 1.2 at most; OpenSSL's own choice where absent.
    pub cipher: Option<String>,
    /// OpenSSL's: what it refuses as too weak. Where absent 0 with a `cipher`, else the library's.
    pub security_level: Option<SecurityLevel>,
    /// The one group for the key exchange that is offered; the library's list where absent.
    pub group: Option<Group>,
}

/// A group of TLS's key exchange (RFC 8446, 4.2.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// NIST's P-256.
    Prime256v1,
    /// Curve25519 (RFC 7748).
    X25519,
    /// Curve25519 and ML-KEM-768, so that it holds as long as one of the two does (draft-ietf-tls-ecdhe-mlkem). Not every
    /// library has it.
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

/// OpenSSL's security levels that still meet servers of today (SSL_CTX_set_security_level(3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u32")]
pub struct SecurityLevel(u32);

impl SecurityLevel {
    /// Nothing is refused.
    pub const ANYTHING: SecurityLevel = SecurityLevel(0);

    pub fn number(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for SecurityLevel {
    type Error = &'static str;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        if number <= 2 { Ok(SecurityLevel(number)) } else { Err("security_level is 0, 1 or 2") }
    }
}

/// A version that is pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum TlsVersion {
    /// RFC 5246.
    #[serde(rename = "1.2")]
    V1_2,
    /// RFC 8446.
    #[serde(rename = "1.3")]
    V1_3,
}

/// What of the server's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    Full,
    CaOnly,
    None,
}
