//! The keys of column encryption: a client's master key, the data key of a session, and the keys of each algorithm.
//!
//! The client gets the data key wrapped (encrypted) with its master key. All algorithms' keys derive from the data key.

use crate::Algorithm;
use crate::algorithm::{self, BLOCK, Scheme};
use crate::locked::Locked;
use crate::values::{Opener, Sealer};
use aes_kw::{KeyInit, KwAes128};
use base::error::{Class, Failure, Result};
use hkdf::Hkdf;
use mysql::handshake::SCRAMBLE;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

/// The number of bytes of a master key and of a data key.
const KEY: usize = 16;
/// The number of bytes of a wrapped data key (RFC 3394).
pub const WRAPPED_KEY: usize = KEY + 8;
/// The first part of the HKDF parameter `info`. The algorithm's name and the data key's number follow it.
const INFO: &[u8] = b"costof column encryption 2 ";
const MAC_KEY: usize = 32;

/// A master key. Its holder can decrypt the values that a gateway encrypted for this key. The key is erased when
/// dropped, and debug output does not show it.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct MasterKey(Locked<Zeroizing<[u8; KEY]>>);

impl MasterKey {
    pub fn from_hex(digits: &str) -> Result<Self> {
        let mut key = MasterKey(Locked::new(Box::default()));
        let wrong = || Failure::new(Class::Encryption, "a master key must be 16 bytes in hexadecimal (32 digits)");
        if digits.len() != 2 * KEY {
            return Err(wrong());
        }
        for (byte, pair) in key.0.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
            *byte = (high.ok_or_else(wrong)? << 4 | low.ok_or_else(wrong)?) as u8;
        }
        Ok(key)
    }
}

impl TryFrom<String> for MasterKey {
    type Error = Failure;

    fn try_from(mut digits: String) -> Result<Self> {
        let key = MasterKey::from_hex(&digits);
        digits.zeroize();
        key
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

/// A session's data key. It has at most one sealer (encryptor of values) for each algorithm, because two sealers would
/// use the same nonces. The key is erased when dropped, and debug output does not show it.
pub struct DataKey {
    key: Locked<Zeroizing<[u8; KEY]>>,
    session: SessionSalt,
    number: u32,
    sealing: u8,
}

impl DataKey {
    /// Create a random key. Each key of a session must have a higher `number` than the keys before it: clients refuse
    /// any other number, which could come from a replayed answer. Errors: `internal` if the system has no random bytes.
    pub fn random(session: SessionSalt, number: u32) -> Result<Self> {
        let mut created = DataKey { key: Locked::new(Box::default()), session, number, sealing: 0 };
        openssl::rand::rand_bytes(&mut **created.key)
            .map_err(|_| Failure::new(Class::Internal, "OpenSSL has no random bytes for a data key"))?;
        Ok(created)
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    pub fn wrapped(&self, master: &MasterKey) -> [u8; WRAPPED_KEY] {
        let mut wrapped = [0; WRAPPED_KEY];
        let result = KwAes128::new((&**master.0).into()).wrap_key(&**self.key, &mut wrapped);
        result.expect("a key of two blocks and room for its wrapping");
        wrapped
    }

    /// Unwrap a data key, which can only decrypt values. Errors: `encryption` if the wrapped key was changed or belongs
    /// to another master key. A wrong session or number causes an error only when a value is decrypted.
    pub fn unwrap(wrapped: &[u8], master: &MasterKey, session: SessionSalt, number: u32) -> Result<Self> {
        let mut created = DataKey { key: Locked::new(Box::default()), session, number, sealing: u8::MAX };
        let result = KwAes128::new((&**master.0).into()).unwrap_key(wrapped, &mut **created.key);
        match result {
            Ok(key) if key.len() == KEY => Ok(created),
            _ => Err(Failure::new(Class::Encryption, "the data key was changed, or wrapped with another master key")),
        }
    }

    /// Return the sealer (encryptor of values) for this algorithm. Errors: `internal` if the sealer was already
    /// requested, or if this data key was unwrapped and so can only decrypt.
    pub fn sealer(&mut self, algorithm: Algorithm) -> Result<Sealer> {
        let bit = 1 << algorithm.number();
        if self.sealing & bit != 0 {
            return Err(Failure::new(
                Class::Internal,
                "a data key can have only one sealer per algorithm, because a second one would repeat nonces",
            ));
        }
        self.sealing |= bit;
        Ok(Sealer::new(algorithm, self.scheme(algorithm)))
    }

    pub fn opener(&self, algorithm: Algorithm) -> Opener {
        Opener::new(algorithm, self.scheme(algorithm))
    }

    fn scheme(&self, algorithm: Algorithm) -> Locked<dyn Scheme> {
        let keys = AlgorithmKeys::derive(self, algorithm);
        algorithm::scheme(algorithm, &keys)
    }

    #[cfg(test)]
    pub(crate) fn known(key: [u8; KEY]) -> Self {
        Self::for_session(key, SessionSalt::WITHOUT_NONCE, 0)
    }

    /// Create a data key from known bytes, for tests that compare implementations.
    #[cfg(any(test, feature = "known-keys"))]
    pub fn for_session(key: [u8; KEY], session: SessionSalt, number: u32) -> Self {
        DataKey { key: Locked::new(Box::new(Zeroizing::new(key))), session, number, sealing: 0 }
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

/// The keys of one algorithm, derived from a data key. No two algorithms share a key.
pub(super) struct AlgorithmKeys {
    pub encryption: Zeroizing<[u8; BLOCK]>,
    pub mac: Zeroizing<[u8; MAC_KEY]>,
}

impl AlgorithmKeys {
    fn derive(from: &DataKey, algorithm: Algorithm) -> Self {
        let mut created = Zeroizing::new([0; BLOCK + MAC_KEY]);
        let info = [INFO, algorithm.name().as_bytes(), &from.number.to_be_bytes()];
        let derived =
            Hkdf::<Sha256>::new(Some(from.session.bytes()), &**from.key).expand_multi_info(&info, &mut created[..]);
        derived.expect("48 bytes, of 8160 at most");
        let (encryption, mac) = created.split_at(BLOCK);
        AlgorithmKeys {
            encryption: Zeroizing::new(encryption.try_into().expect("16 bytes")),
            mac: Zeroizing::new(mac.try_into().expect("32 bytes")),
        }
    }
}

/// The connection attribute with which a client announces that it decrypts encrypted columns. Its value is `1`.
pub const DECRYPTS_ATTRIBUTE: &[u8] = b"costof_encrypted";
/// The connection attribute that contains the client's nonce in hexadecimal.
pub const NONCE_ATTRIBUTE: &[u8] = b"costof_nonce";
const NONCE: usize = 32;
const SALT: usize = 32;

/// The client's contribution to the [`SessionSalt`]: random bytes, new for each connection. They are not secret,
/// because the client sends them as a connection attribute.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClientNonce([u8; NONCE]);

impl ClientNonce {
    pub const DIGITS: usize = 2 * NONCE;

    pub fn random() -> Result<Self> {
        let mut created = ClientNonce([0; NONCE]);
        openssl::rand::rand_bytes(&mut created.0)
            .map_err(|_| Failure::new(Class::Internal, "OpenSSL has no random bytes for a nonce"))?;
        Ok(created)
    }

    /// Parse 64 hexadecimal digits. Return None for any other text.
    pub fn from_hex(digits: &[u8]) -> Option<Self> {
        let mut created = ClientNonce([0; NONCE]);
        if digits.len() != Self::DIGITS {
            return None;
        }
        for (byte, pair) in created.0.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
            *byte = (high? << 4 | low?) as u8;
        }
        Some(created)
    }

    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The HKDF salt for all keys of a session (RFC 5869, 3.1). Each session has a different salt, so answers recorded in
/// one session cannot be decrypted in another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionSalt([u8; SALT]);

impl SessionSalt {
    /// The salt for a client that sent no nonce. No keys are sent to such a client.
    pub const WITHOUT_NONCE: SessionSalt = SessionSalt([0; SALT]);

    /// Create the salt from the nonce of the server's greeting (the *scramble*) and the client's nonce.
    pub fn new(scramble: &[u8; SCRAMBLE], nonce: &ClientNonce) -> Self {
        SessionSalt(Sha256::new().chain_update(scramble).chain_update(nonce.0).finalize().into())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

// A nonce and a salt are not secret, but their bytes are not useful in debug output.
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
    use crate::ClientNonce;

    const MASTER: &str = "000102030405060708090A0B0C0D0E0F";

    fn random() -> DataKey {
        DataKey::random(SessionSalt::WITHOUT_NONCE, 0).unwrap()
    }

    fn unwrap(wrapped: &[u8], master: &MasterKey) -> Result<DataKey> {
        DataKey::unwrap(wrapped, master, SessionSalt::WITHOUT_NONCE, 0)
    }

    /// The example of RFC 3394, 4.1.
    #[test]
    fn key_wrapping_matches_rfc_3394() {
        let data_key = DataKey::known(*b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff");
        let master = MasterKey::from_hex(MASTER).unwrap();
        let wrapped =
            *b"\x1f\xa6\x8b\x0a\x81\x12\xb4\x47\xae\xf3\x4b\xd8\xfb\x5a\x7b\x82\x9d\x3e\x86\x23\x71\xd2\xcf\xe5";
        assert_eq!(data_key.wrapped(&master), wrapped);
        assert_eq!(**unwrap(&wrapped, &master).unwrap().key, **data_key.key);
    }

    /// The examples of RFC 5869: A.3 has neither salt nor info, A.1 has both.
    #[test]
    fn key_derivation_matches_rfc_5869() {
        let salt: Vec<u8> = (0..=0x0c).collect();
        let info: Vec<u8> = (0xf0..=0xf9).collect();
        let mut created = [0; 42];
        Hkdf::<Sha256>::new(Some(&salt), &[0x0b; 22])
            .expand_multi_info(&[&info[..3], &info[3..]], &mut created)
            .unwrap();
        assert_eq!(
            created,
            *b"\x3c\xb2\x5f\x25\xfa\xac\xd5\x7a\x90\x43\x4f\x64\xd0\x36\x2f\x2a\x2d\x2d\x0a\x90\xcf\x1a\x5a\x4c\x5d\
               \xb0\x2d\x56\xec\xc4\xc5\xbf\x34\x00\x72\x08\xd5\xb8\x87\x18\x58\x65"
        );
        let mut created = [0; 42];
        Hkdf::<Sha256>::new(None, &[0x0b; 22]).expand_multi_info(&[b"", b""], &mut created).unwrap();
        assert_eq!(
            created,
            *b"\x8d\xa4\xe7\x75\xa5\x63\xc1\x8f\x71\x5f\x80\x2a\x06\x3c\x5a\x31\xb8\xa1\x1f\x5c\x5e\xe1\x87\x9e\xc3\
               \x45\x4e\x5f\x3c\x73\x8d\x2d\x9d\x20\x13\x95\xfa\xa4\xb6\x1a\x96\xc8"
        );
    }

    #[test]
    fn wrapped_data_key_is_refused_if_it_was_changed_or_the_master_key_is_wrong() {
        let [master, other] = [MASTER, &MASTER.replace('F', "e")].map(|key| MasterKey::from_hex(key).unwrap());
        let wrapped = random().wrapped(&master);
        let refused = |wrapped: &[u8], master| {
            let failure = unwrap(wrapped, master).unwrap_err();
            assert_eq!(failure.class, Class::Encryption);
        };
        refused(&wrapped, &other);
        for length in (0..WRAPPED_KEY).chain([WRAPPED_KEY + 8, 1000]) {
            refused(&wrapped.iter().copied().cycle().take(length).collect::<Vec<_>>(), &master);
        }
        for bit in 0..8 * WRAPPED_KEY {
            let mut changed = wrapped;
            changed[bit / 8] ^= 1 << (bit % 8);
            refused(&changed, &master);
        }
        unwrap(&wrapped, &master).unwrap();
    }

    #[test]
    fn master_key_needs_32_hexadecimal_digits_and_is_never_shown() {
        for wrong in
            ["", "00", "000102030405060708090a0b0c0d0e0g", "000102030405060708090a0b0c0d0e0f00", "ééééééééééééééé0"]
        {
            let failure = MasterKey::from_hex(wrong).unwrap_err();
            assert_eq!(failure.detail, "a master key must be 16 bytes in hexadecimal (32 digits)");
        }
        let key: MasterKey = serde_json::from_str(&format!("\"{MASTER}\"")).unwrap();
        assert_eq!(**key.0, **MasterKey::from_hex(&MASTER.to_lowercase()).unwrap().0);
        assert_eq!((format!("{key:?}"), format!("{:?}", random())), ("***".into(), "***".into()));
    }

    #[test]
    fn derived_keys_differ_by_session_and_key_number() {
        let [one, other] = [[1; 32], [2; 32]].map(|nonce| {
            let written: String = nonce.iter().map(|byte| format!("{byte:02x}")).collect();
            SessionSalt::new(&[7; SCRAMBLE], &ClientNonce::from_hex(written.as_bytes()).unwrap())
        });
        for algorithm in Algorithm::ALL {
            let mut sealed = Vec::new();
            let mut sealer = DataKey::for_session([9; KEY], one, 3).sealer(algorithm).unwrap();
            sealer.seal(b"column", b"plain", &mut sealed).unwrap();
            let opens = |session, number| {
                let opener = DataKey::for_session([9; KEY], session, number).opener(algorithm);
                opener.open(b"column", &sealed, &mut Vec::new()).is_ok()
            };
            assert_eq!([opens(one, 3), opens(other, 3), opens(one, 2), opens(one, 4)], [true, false, false, false]);
        }
    }

    #[test]
    fn data_key_creates_at_most_one_encryptor_per_algorithm() {
        let mut key = random();
        for algorithm in Algorithm::ALL {
            key.sealer(algorithm).unwrap();
            assert_eq!(key.sealer(algorithm).unwrap_err().class, Class::Internal);
        }
        let master = MasterKey::from_hex(MASTER).unwrap();
        let mut unwrapped = unwrap(&key.wrapped(&master), &master).unwrap();
        assert!(unwrapped.sealer(Algorithm::Aes128Gcm).is_err(), "an unwrapped key only decrypts");
    }

    /// The expected digest is coreutils' `sha256sum` of the 20 bytes `01234567abcdefghijkl` and 32 bytes of 0x07.
    #[test]
    fn session_salt_is_the_sha256_of_server_nonce_and_client_nonce() {
        let nonce = ClientNonce::from_hex("07".repeat(32).as_bytes()).unwrap();
        let salt = SessionSalt::new(b"01234567abcdefghijkl", &nonce);
        let written: String = salt.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, "565dba2faa40c8b76d1f47bc2dc9b2a2d5d56aa5c6c8dc700aaedc308c7fc552");
        assert_ne!(salt, SessionSalt::new(b"01234567abcdefghijkm", &nonce));
        assert_ne!(salt, SessionSalt::new(b"01234567abcdefghijkl", &ClientNonce([8; 32])));
    }

    #[test]
    fn client_nonces_have_64_hexadecimal_digits_and_are_random() {
        let nonce = ClientNonce::random().unwrap();
        assert_ne!(nonce, ClientNonce::random().unwrap());
        assert_eq!(ClientNonce::from_hex(nonce.hex().as_bytes()), Some(nonce));
        assert_eq!(ClientNonce::from_hex(nonce.hex().to_uppercase().as_bytes()), Some(nonce));
        for wrong in [&b""[..], &[b'0'; 63], &[b'0'; 65], &[b'g'; 64], &[0; 32]] {
            assert_eq!(ClientNonce::from_hex(wrong), None);
        }
    }
}
