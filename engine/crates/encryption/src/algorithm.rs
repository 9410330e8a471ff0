//! How a column is encrypted.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a block of AES and of SM4, of their keys as they are used here, and of a tag or MAC.
pub(super) const BLOCK: usize = 16;
/// Bytes of GCM's nonce (SP 800-38D, 5.2.1.1).
pub(super) const NONCE: usize = 12;
/// Bytes of what proves that a value was not changed: GCM's tag, or the MAC.
pub(super) const TAG: usize = 16;

/// A block cipher and its mode of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// SP 800-38D.
    #[serde(rename = "aes-128-gcm")]
    Aes128Gcm,
    /// SP 800-38A, 6.5.
    #[serde(rename = "aes-128-ctr")]
    Aes128Ctr,
    /// SP 800-38A, 6.2.
    #[serde(rename = "aes-128-cbc")]
    Aes128Cbc,
    /// SP 800-38A, 6.1: equal values have equal ciphertexts.
    #[serde(rename = "aes-128-ecb")]
    Aes128Ecb,
    /// GB/T 32907 in GCM (RFC 8998).
    #[serde(rename = "sm4-gcm")]
    Sm4Gcm,
    /// GB/T 32907 in CBC.
    #[serde(rename = "sm4-cbc")]
    Sm4Cbc,
}

impl Algorithm {
    /// By their numbers.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::Aes128Gcm,
        Algorithm::Aes128Ctr,
        Algorithm::Aes128Cbc,
        Algorithm::Aes128Ecb,
        Algorithm::Sm4Gcm,
        Algorithm::Sm4Cbc,
    ];

    /// In an envelope, and first in each value.
    pub fn number(self) -> u8 {
        match self {
            Algorithm::Aes128Gcm => 1,
            Algorithm::Aes128Ctr => 2,
            Algorithm::Aes128Cbc => 3,
            Algorithm::Aes128Ecb => 4,
            Algorithm::Sm4Gcm => 5,
            Algorithm::Sm4Cbc => 6,
        }
    }

    /// None, where it is none of ours.
    pub fn numbered(number: u8) -> Option<Self> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.number() == number)
    }

    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Aes128Gcm => "aes-128-gcm",
            Algorithm::Aes128Ctr => "aes-128-ctr",
            Algorithm::Aes128Cbc => "aes-128-cbc",
            Algorithm::Aes128Ecb => "aes-128-ecb",
            Algorithm::Sm4Gcm => "sm4-gcm",
            Algorithm::Sm4Cbc => "sm4-cbc",
        }
    }

    /// How long the ciphertext of a plaintext of so many bytes is, with all that belongs to it.
    pub fn sealed_length(self, plaintext: usize) -> usize {
        let padded = plaintext / BLOCK * BLOCK + BLOCK;
        1 + TAG
            + match self {
                Algorithm::Aes128Gcm | Algorithm::Sm4Gcm => NONCE + plaintext,
                Algorithm::Aes128Ctr => BLOCK + plaintext,
                Algorithm::Aes128Cbc | Algorithm::Sm4Cbc => BLOCK + padded,
                Algorithm::Aes128Ecb => padded,
            }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::numbered(algorithm.number()), Some(algorithm));
            let written = serde_json::to_string(&algorithm).unwrap();
            assert_eq!(written, format!("\"{algorithm}\""));
            assert_eq!(serde_json::from_str::<Algorithm>(&written).unwrap(), algorithm);
        }
        assert_eq!((Algorithm::numbered(0), Algorithm::numbered(7)), (None, None));
    }
}
