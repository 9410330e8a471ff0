//! Encryption ("sealing") and decryption ("opening") of single values.

use super::Algorithm;
use super::locked::Locked;
use crate::algorithm::{Position, Scheme};
use base::error::{Class, Failure, Result};
use std::cell::Cell;
use std::fmt;

/// The maximum number of values encrypted with one key (SP 800-38D, 8.3).
pub const MOST_VALUES: u64 = 1 << 32;

/// An encryptor of a session's values with one algorithm. It counts the values so that no nonce is used twice.
pub struct Sealer {
    algorithm: Algorithm,
    scheme: Locked<dyn Scheme>,
    count: u64,
}

impl Sealer {
    pub(super) fn new(algorithm: Algorithm, scheme: Locked<dyn Scheme>) -> Self {
        Sealer { algorithm, scheme, count: 0 }
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Return how many more values this key may encrypt.
    pub fn left(&self) -> u64 {
        MOST_VALUES - self.count
    }

    /// Encrypt a value, and append the ciphertext, whose length is [`Algorithm::sealed_length`]. Errors: `encryption`
    /// if the key has reached its limit or the value is too long. After an error nothing is appended.
    pub fn seal(&mut self, associated: &[u8], plaintext: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if self.left() == 0 {
            return Err(Failure::new(Class::Encryption, "a data key has reached its limit of 2^32 values"));
        }
        let count = self.count;
        self.count += 1;
        let start = out.len();
        out.reserve(self.algorithm.sealed_length(plaintext.len()));
        out.push(self.algorithm.number());
        self.scheme.seal(count, associated, plaintext, start, out).ok_or_else(|| {
            out.truncate(start);
            Failure::new(Class::Encryption, "a value is too long for encryption")
        })
    }

    #[cfg(test)]
    pub(super) fn skip_to(&mut self, count: u64) {
        self.count = count;
    }
}

/// A decryptor of a session's values with one algorithm. It refuses values that are repeated or out of order, and
/// detects values that are left out within a result set. With ECB it can detect none of this.
pub struct Opener {
    algorithm: Algorithm,
    scheme: Locked<dyn Scheme>,
    last: Cell<Option<u128>>,
    is_within_result_set: Cell<bool>,
}

impl Opener {
    pub(super) fn new(algorithm: Algorithm, scheme: Locked<dyn Scheme>) -> Self {
        Opener { algorithm, scheme, last: Cell::new(None), is_within_result_set: Cell::new(false) }
    }

    /// Begin a result set. The positions of values (their numbers in the order of encryption) may have a gap here,
    /// because the client may have skipped the rest of the previous result set.
    pub fn begin(&self) {
        self.is_within_result_set.set(false);
    }

    /// Decrypt a value, and append the plaintext. Errors: `encryption` if the value was changed, was encrypted with
    /// another key or for another column, or is out of order. After an error nothing is appended.
    pub fn open(&self, associated: &[u8], sealed: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let opened = match sealed.first() {
            Some(&number) if number == self.algorithm.number() => self.scheme.open(associated, sealed, out),
            _ => None,
        };
        let error = match (opened, self.last.get()) {
            (None, _) => "a value was changed, or encrypted for another column or session",
            (Some(Position::Counted(count)), Some(last))
                if count <= last || self.is_within_result_set.get() && count > last + 1 =>
            {
                "encrypted values of the result were repeated, reordered or left out after the gateway sent them"
            }
            (Some(Position::Counted(count)), _) => {
                self.last.set(Some(count));
                self.is_within_result_set.set(true);
                return Ok(());
            }
            (Some(Position::Unknown), _) => return Ok(()),
        };
        out.truncate(start);
        Err(Failure::new(Class::Encryption, error))
    }
}

// The debug output of `Sealer` and `Opener` contains no key.
impl fmt::Debug for Sealer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sealer({})", self.algorithm)
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Opener({})", self.algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataKey;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const KEY: [u8; 16] = [0x42; 16];

    fn sealed(algorithm: Algorithm, associated: &[u8], plaintext: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        DataKey::known(KEY).sealer(algorithm).unwrap().seal(associated, plaintext, &mut out).unwrap();
        out
    }

    fn opened(algorithm: Algorithm, associated: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        DataKey::known(KEY).opener(algorithm).open(associated, sealed, &mut out).map(|()| out)
    }

    #[test]
    fn changed_or_truncated_ciphertexts_are_refused() {
        for algorithm in Algorithm::ALL {
            let value = sealed(algorithm, b"column", b"a value of more than a block");
            let opener = DataKey::known(KEY).opener(algorithm);
            let open = |sealed: &[u8]| opener.open(b"column", sealed, &mut Vec::new()).map_err(|failure| failure.class);
            for bit in 0..8 * value.len() {
                let mut changed = value.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(open(&changed), Err(Class::Encryption), "{algorithm} {bit}");
            }
            for cut in 0..value.len() {
                assert!(open(&value[..cut]).is_err(), "{algorithm} {cut}");
            }
            assert!(open(&[&value[..], b"\0"].concat()).is_err());
            open(&value).expect("refused values change nothing");
        }
    }

    #[test]
    fn ciphertext_is_refused_in_another_column_and_with_another_key_or_algorithm() {
        for algorithm in Algorithm::ALL {
            let value = sealed(algorithm, b"column", b"plain");
            assert!(opened(algorithm, b"colum", &value).is_err());
            let mut out = b"before".to_vec();
            assert!(DataKey::known([1; 16]).opener(algorithm).open(b"column", &value, &mut out).is_err());
            assert_eq!(out, b"before", "nothing was appended");
            for other in Algorithm::ALL.into_iter().filter(|other| *other != algorithm) {
                let mut renamed = value.clone();
                renamed[0] = other.number();
                assert!(opened(other, b"column", &value).is_err() && opened(other, b"column", &renamed).is_err());
            }
        }
    }

    #[test]
    fn repeated_or_reordered_ciphertexts_are_refused_except_with_ecb() {
        for algorithm in Algorithm::ALL {
            let mut sealer = DataKey::known(KEY).sealer(algorithm).unwrap();
            let mut seal = |text: &[u8]| {
                let mut out = Vec::new();
                sealer.seal(b"column", text, &mut out).unwrap();
                out
            };
            let values = [&b"first"[..], b"", b"third", b"fourth"].map(&mut seal);
            let opener = DataKey::known(KEY).opener(algorithm);
            let open = |at: usize| {
                let mut out = b"before".to_vec();
                opener.open(b"column", &values[at], &mut out).map_err(|failure| {
                    assert_eq!((failure.class, &out[..]), (Class::Encryption, &b"before"[..]));
                    failure.detail
                })
            };
            open(0).unwrap();
            let out_of_order = if algorithm == Algorithm::Aes128Ecb { Ok(()) } else { Err(OUT_OF_ORDER.to_owned()) };
            assert_eq!(open(2), out_of_order, "a value is missing");
            opener.begin();
            open(2).expect("values before the result set may have been skipped");
            for begins in [false, true] {
                for late in [0, 1, 2] {
                    if begins {
                        opener.begin();
                    }
                    assert_eq!(open(late), out_of_order, "{algorithm}");
                }
            }
            open(3).expect("refused values change nothing");
        }
    }

    const OUT_OF_ORDER: &str =
        "encrypted values of the result were repeated, reordered or left out after the gateway sent them";

    #[test]
    fn equal_values_have_equal_ciphertexts_only_with_ecb() {
        for algorithm in Algorithm::ALL {
            let mut sealer = DataKey::known(KEY).sealer(algorithm).unwrap();
            let values: HashSet<_> = (0..50)
                .map(|_| {
                    let mut out = Vec::new();
                    sealer.seal(b"column", b"the same", &mut out).unwrap();
                    out
                })
                .collect();
            assert_eq!(values.len(), if algorithm == Algorithm::Aes128Ecb { 1 } else { 50 }, "{algorithm}");
        }
    }

    #[test]
    fn encryption_stops_before_a_nonce_would_repeat() {
        let mut sealer = DataKey::known(KEY).sealer(Algorithm::Aes128Gcm).unwrap();
        sealer.skip_to(MOST_VALUES - 1);
        let mut out = Vec::new();
        sealer.seal(b"", b"last", &mut out).unwrap();
        assert_eq!(out[1..13], *b"\0\0\0\0\0\0\0\0\xff\xff\xff\xff");
        let length = out.len();
        assert_eq!((sealer.left(), sealer.seal(b"", b"more", &mut out).unwrap_err().class), (0, Class::Encryption));
        assert_eq!(out.len(), length);
    }

    proptest! {
        #[test]
        fn encrypted_values_can_be_decrypted(
            algorithm in prop::sample::select(&Algorithm::ALL),
            associated in prop::collection::vec(any::<u8>(), 0..80),
            plaintext in prop::collection::vec(any::<u8>(), 0..400),
            before in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let value = sealed(algorithm, &associated, &plaintext);
            prop_assert_eq!(value.len(), algorithm.sealed_length(plaintext.len()));
            let mut out = before.clone();
            DataKey::known(KEY).opener(algorithm).open(&associated, &value, &mut out).unwrap();
            prop_assert_eq!(out, [before, plaintext].concat());
        }
    }
}
