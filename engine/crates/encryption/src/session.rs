//! What binds a session's keys to the session: both of its ends put something new into them.

use base::error::{Class, Failure, Result};
use mysql::handshake::SCRAMBLE;
use sha2::{Digest, Sha256};
use std::fmt;

/// The connection attribute by which a client says to a gateway that it decrypts, `1`, …
pub const DECRYPTS_ATTRIBUTE: &[u8] = b"costof_encrypted";
/// … and the one by which it says its part of what binds keys to the session.
pub const NONCE_ATTRIBUTE: &[u8] = b"costof_nonce";
/// Bytes of the client's part.
const NONCE: usize = 32;
const SALT: usize = 32;

/// The client's part, new with each connection. No secret: it goes as a connection attribute.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClientNonce([u8; NONCE]);

impl ClientNonce {
    /// Digits of its written form.
    pub const DIGITS: usize = 2 * NONCE;

    /// Errors: `internal`, where the system has no random bytes.
    pub fn random() -> Result<Self> {
        let mut made = ClientNonce([0; NONCE]);
        openssl::rand::rand_bytes(&mut made.0)
            .map_err(|_| Failure::new(Class::Internal, "OpenSSL has no random bytes for a nonce"))?;
        Ok(made)
    }

    /// From its written form; None, where these are not 64 hexadecimal digits.
    pub fn from_hex(digits: &[u8]) -> Option<Self> {
        let mut made = ClientNonce([0; NONCE]);
        if digits.len() != Self::DIGITS {
            return None;
        }
        for (byte, pair) in made.0.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
            *byte = (high? << 4 | low?) as u8;
        }
        Some(made)
    }

    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// HKDF's salt for all keys of a session (RFC 5869, 3.1): what was recorded in another session does not decrypt in this one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionSalt([u8; SALT]);

impl SessionSalt {
    /// Where the client has told no nonce, and so is told no key.
    pub const OF_NOBODY: SessionSalt = SessionSalt([0; SALT]);

    /// SHA-256 of both parts.
    pub fn of(scramble: &[u8; SCRAMBLE], nonce: &ClientNonce) -> Self {
        SessionSalt(Sha256::new().chain_update(scramble).chain_update(nonce.0).finalize().into())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

// Neither is a secret, and both are noise.
impl fmt::Debug for ClientNonce {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ClientNonce")
    }
}

impl fmt::Debug for SessionSalt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SessionSalt")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest is that of coreutils: `printf '%s' 01234567abcdefghijkl` and 32 bytes of 0x07, by `sha256sum`.
    #[test]
    fn a_salt_is_the_hash_of_both_parts() {
        let nonce = ClientNonce::from_hex("07".repeat(32).as_bytes()).unwrap();
        let salt = SessionSalt::of(b"01234567abcdefghijkl", &nonce);
        let written: String = salt.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, "565dba2faa40c8b76d1f47bc2dc9b2a2d5d56aa5c6c8dc700aaedc308c7fc552");
        assert_ne!(salt, SessionSalt::of(b"01234567abcdefghijkm", &nonce));
        assert_ne!(salt, SessionSalt::of(b"01234567abcdefghijkl", &ClientNonce([8; 32])));
    }

    #[test]
    fn a_nonce_is_64_digits_and_new_each_time() {
        let nonce = ClientNonce::random().unwrap();
        assert_ne!(nonce, ClientNonce::random().unwrap());
        assert_eq!(ClientNonce::from_hex(nonce.hex().as_bytes()), Some(nonce));
        assert_eq!(ClientNonce::from_hex(nonce.hex().to_uppercase().as_bytes()), Some(nonce));
        for wrong in [&b""[..], &[b'0'; 63], &[b'0'; 65], &[b'g'; 64], &[0; 32]] {
            assert_eq!(ClientNonce::from_hex(wrong), None);
        }
    }
}
