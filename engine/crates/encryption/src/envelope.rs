//! The envelope: the information that a driver needs to decrypt a column. It follows the column's definition.
//!
//! This module also defines the type of an encrypted column ([`encrypted`]), the data that bind a value to its column
//! ([`associated_data`]), and a column that a client requires to be encrypted ([`Demand`]).

use crate::Algorithm;
use crate::keys::WRAPPED_KEY;
use base::error::{Class, Failure, Result};
use mysql::{OriginalType, RowFormat};
use serde::Deserialize;

const MAGIC: &[u8; 8] = b"costofE2";
/// The first bytes of an envelope (decryption information) in an older format, in which values could be replayed in
/// another session. Such an envelope causes an error that tells the user to update the gateway.
const OLDER_MAGIC: &[u8; 8] = b"costofE1";
/// The size in bytes of the data key's number. In an envelope (decryption information), the number stands before the
/// wrapped (encrypted) data key.
const NUMBER: usize = 4;
/// The maximum length of a master key's name in bytes: the length field is one byte.
pub const LONGEST_NAME: usize = 255;

/// The information that a driver needs to decrypt a column. It follows the column's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub algorithm: Algorithm,
    pub original: OriginalType,
    /// The wrapped data key. None if the gateway sends no key to this client, which then cannot decrypt the column.
    pub key: Option<WrappedKey<'a>>,
}

/// The session's data key, wrapped (encrypted) with a master key, and the name of this master key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrappedKey<'a> {
    pub master_key: &'a str,
    /// The data key's number within the session. Later keys have higher numbers.
    pub number: u32,
    /// The data key, wrapped with the master key (RFC 3394).
    pub data_key: &'a [u8; WRAPPED_KEY],
}

impl<'a> Envelope<'a> {
    /// Append the envelope (decryption information) to a column's definition. Errors: `encryption` if the master key's
    /// name is empty or longer than 255 bytes.
    pub fn append(&self, definition: &mut Vec<u8>) -> Result<()> {
        let mut numbered_key = [0; NUMBER + WRAPPED_KEY];
        let (name, wrapped) = match &self.key {
            Some(WrappedKey { master_key, number, data_key }) => {
                numbered_key[..NUMBER].copy_from_slice(&number.to_be_bytes());
                numbered_key[NUMBER..].copy_from_slice(*data_key);
                (master_key.as_bytes(), &numbered_key[..])
            }
            None => (&[][..], &[][..]),
        };
        if name.len() > LONGEST_NAME || name.is_empty() && self.key.is_some() {
            return Err(Failure::new(Class::Encryption, "a master key's name has 1 to 255 bytes"));
        }
        definition.extend_from_slice(MAGIC);
        definition.push(self.algorithm.number());
        definition.extend_from_slice(&self.original.bytes());
        for part in [name, wrapped] {
            definition.push(part.len() as u8);
            definition.extend_from_slice(part);
        }
        Ok(())
    }

    /// Parse the envelope (decryption information) in `tail`, the bytes after the last field of a column's definition.
    /// Return None if there are no such bytes. Servers send nothing there, so bytes that cannot be parsed are a damaged
    /// envelope. Errors: `encryption` if the envelope is cut, too long, or malformed.
    pub fn parse(tail: &'a [u8]) -> Result<Option<Self>> {
        if tail.is_empty() {
            return Ok(None);
        }
        if tail.starts_with(OLDER_MAGIC) {
            return Err(Failure::new(
                Class::Encryption,
                "the gateway sends its encryption data in an older format: update the gateway",
            ));
        }
        Envelope::read(tail).map(Some).ok_or_else(|| {
            Failure::new(
                Class::Encryption,
                "the encryption data that the gateway appends to the column's definition in a result are missing or \
                 damaged",
            )
        })
    }

    fn read(tail: &'a [u8]) -> Option<Self> {
        let rest = tail.strip_prefix(MAGIC)?;
        let (&algorithm, rest) = rest.split_first()?;
        let (original, rest) = rest.split_first_chunk()?;
        let (name, rest) = short_text(rest)?;
        let (wrapped, rest) = short_text(rest)?;
        let key = match (name, wrapped) {
            ([], []) => None,
            ([], _) => return None,
            (name, wrapped) => {
                let (number, data_key) = wrapped.split_first_chunk()?;
                let (number, data_key) = (u32::from_be_bytes(*number), data_key.try_into().ok()?);
                Some(WrappedKey { master_key: str::from_utf8(name).ok()?, number, data_key })
            }
        };
        let algorithm = Algorithm::from_number(algorithm)?;
        rest.is_empty().then_some(Envelope { algorithm, original: OriginalType::from_bytes(*original), key })
    }
}

/// Split `from` into a text, whose length is the first byte, and the rest. Return None if `from` is too short.
fn short_text(from: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = from.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// Return the type that replaces an encrypted column's type: a BLOB with the length of the longest ciphertext.
pub fn encrypted(original: OriginalType, algorithm: Algorithm) -> OriginalType {
    original.as_blob(algorithm.sealed_length(original.length as usize))
}

/// Return the associated data with which each value of a column is authenticated. These data bind the value to its
/// algorithm, type, row format (text or binary) and column. For a computed column, the names of database, table and
/// column are empty.
pub fn associated_data(
    algorithm: Algorithm,
    original: OriginalType,
    format: RowFormat,
    [database, table, column]: [&[u8]; 3],
) -> Vec<u8> {
    let mut data = vec![algorithm.number()];
    data.extend_from_slice(&original.bytes());
    data.push(match format {
        RowFormat::Text => 0,
        RowFormat::Binary => 1,
    });
    for name in [database, table, column] {
        data.extend_from_slice(name);
        data.push(0);
    }
    data
}

/// A column `database.table.column` that a client requires to be encrypted. The case of the names is ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Demand([String; 3]);

impl Demand {
    /// Return whether `names` (database, table and column) name the column that the client requires to be encrypted.
    pub fn matches(&self, names: [&[u8]; 3]) -> bool {
        self.0.iter().zip(names).all(|(expected, name)| String::from_utf8_lossy(name).to_lowercase() == *expected)
    }
}

impl TryFrom<String> for Demand {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self> {
        let names: Vec<_> = text.split('.').map(str::to_lowercase).collect();
        match <[String; 3]>::try_from(names) {
            Ok(names) if names.iter().all(|name| !name.is_empty() && !name.contains(['*', '`'])) => Ok(Demand(names)),
            _ => Err(Failure::new(
                Class::Plan,
                format!(
                    "must_be_encrypted: '{}' is not \"database.table.column\", without patterns or quotes",
                    text.escape_debug()
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ORIGINAL: OriginalType = OriginalType { charset: 45, length: 64, kind: 0xFD, flags: 1, decimals: 0 };
    const WRAPPED: [u8; WRAPPED_KEY] = [7; WRAPPED_KEY];

    fn envelope(name: &str) -> Envelope<'_> {
        let key = (!name.is_empty()).then_some(WrappedKey { master_key: name, number: 258, data_key: &WRAPPED });
        Envelope { algorithm: Algorithm::Sm4Gcm, original: ORIGINAL, key }
    }

    #[test]
    fn envelope_bytes_match_the_documentation() {
        let mut bytes = Vec::new();
        envelope("app").append(&mut bytes).unwrap();
        assert_eq!(bytes[..28], *b"costofE2\x05\x2d\0\x40\0\0\0\xfd\x01\0\0\x03app\x1c\0\0\x01\x02");
        assert_eq!(bytes[28..], WRAPPED);
        let mut opaque = Vec::new();
        envelope("").append(&mut opaque).unwrap();
        assert_eq!(opaque, b"costofE2\x05\x2d\0\x40\0\0\0\xfd\x01\0\0\0\0");
    }

    #[test]
    fn master_key_names_have_1_to_255_bytes() {
        let name = "n".repeat(LONGEST_NAME);
        envelope(&name).append(&mut Vec::new()).unwrap();
        assert!(envelope(&(name + "n")).append(&mut Vec::new()).is_err());
        let nameless =
            Envelope { key: Some(WrappedKey { master_key: "", number: 0, data_key: &WRAPPED }), ..envelope("") };
        assert!(nameless.append(&mut Vec::new()).is_err(), "an empty name would mean an envelope without a key");
    }

    #[test]
    fn truncated_or_extended_envelopes_are_refused() {
        assert_eq!(Envelope::parse(b"").unwrap(), None);
        for name in ["", "app"] {
            let mut bytes = Vec::new();
            envelope(name).append(&mut bytes).unwrap();
            for cut in 1..bytes.len() {
                assert_eq!(Envelope::parse(&bytes[..cut]).unwrap_err().class, Class::Encryption, "{cut}");
            }
            bytes.push(0);
            assert!(Envelope::parse(&bytes).is_err());
        }
    }

    #[test]
    fn error_says_that_an_envelope_has_an_older_format() {
        let detail = |tail: &[u8]| Envelope::parse(tail).unwrap_err().detail;
        assert!(detail(b"costofE1\x05\x2d\0\x40\0\0\0\xfd\x01\0\0\0\0").contains("older format"));
        assert!(detail(b"costofE3\x05\x2d\0\x40\0\0\0\xfd\x01\0\0\0\0").contains("missing or damaged"));
    }

    proptest! {
        #[test]
        fn parsing_a_written_envelope_returns_the_original_envelope(
            algorithm in prop::sample::select(&Algorithm::ALL),
            original in any::<[u8; OriginalType::LENGTH]>(),
            name in "\\PC{0,60}",
            number: u32,
            data_key in any::<[u8; WRAPPED_KEY]>(),
        ) {
            let key = (!name.is_empty()).then_some(WrappedKey { master_key: &name, number, data_key: &data_key });
            let envelope = Envelope { algorithm, original: OriginalType::from_bytes(original), key };
            let mut bytes = Vec::new();
            envelope.append(&mut bytes).unwrap();
            prop_assert_eq!(Envelope::parse(&bytes).unwrap(), Some(envelope));
        }

        #[test]
        fn parsing_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Envelope::parse(&bytes);
            let _ = Envelope::parse(&[&MAGIC[..], &bytes].concat());
        }
    }

    /// The type of the column `c_balance DECIMAL(12,2) NOT NULL`, as MariaDB defines it.
    const BALANCE: OriginalType = OriginalType { charset: 63, length: 14, kind: 0xF6, flags: 1 | 128, decimals: 2 };

    #[test]
    fn definition_of_an_encrypted_column_has_type_blob() {
        let short = encrypted(BALANCE, Algorithm::Aes128Gcm);
        assert_eq!(short.bytes(), [63, 0, 43, 0, 0, 0, 0xFC, 0x91, 0, 0]);
        let longest = encrypted(OriginalType { length: u32::MAX, flags: 0, ..BALANCE }, Algorithm::Sm4Cbc);
        assert_eq!((longest.length, longest.flags), (u32::MAX, 16 | 128));
    }

    #[test]
    fn associated_data_identifies_the_column_and_the_row_format() {
        let data = |format, names| associated_data(Algorithm::Aes128Ctr, BALANCE, format, names);
        let text = data(RowFormat::Text, [b"tpcc", b"customer", b"c_balance"]);
        assert_eq!(text, b"\x02\x3f\0\x0e\0\0\0\xf6\x81\0\x02\0tpcc\0customer\0c_balance\0");
        assert_ne!(text, data(RowFormat::Binary, [b"tpcc", b"customer", b"c_balance"]));
        assert_ne!(data(RowFormat::Text, [b"a", b"bc", b""]), data(RowFormat::Text, [b"ab", b"c", b""]));
    }

    #[test]
    fn column_that_must_be_encrypted_is_identified_by_database_table_and_column() {
        let demand = Demand::try_from("Shop.People.ÄName".to_owned()).unwrap();
        assert!(demand.matches([b"shop", b"PEOPLE", "äname".as_bytes()]));
        assert!(
            !demand.matches([b"shop", b"people", b"name"]) && !demand.matches([b"", b"people", "äname".as_bytes()])
        );
        for wrong in ["", "people.name", "d.people.*", "a.b.c.d", "d..name", "`d`.people.name", "d.people.\nname*"] {
            let failure = serde_json::from_value::<Demand>(wrong.into()).unwrap_err().to_string();
            assert!(failure.contains("is not \"database.table.column\"") && !failure.contains('\n'), "{failure}");
        }
    }
}
