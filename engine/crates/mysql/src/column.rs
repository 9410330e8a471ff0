//! The definition of a column (MySQL Internals, "Protocol::ColumnDefinition41"), and the encoding of values in a row.

use crate::bytes::{NULL, Reader, append_text};
use base::error::{Failure, Result};

/// `MYSQL_TYPE_BLOB` and the character set `binary`: the type with which the gateway sends an encrypted column.
const BLOB_TYPE: u8 = 0xFC;
const BINARY_CHARSET: u16 = 63;
/// Bits of a column's flags.
const NOT_NULL: u16 = 1;
const BLOB: u16 = 16;
const BINARY: u16 = 128;

/// The type of a column's values, as it appears in the column's definition. A gateway that encrypts the column replaces
/// this type by BLOB. The client's driver decrypts the values and restores the original type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OriginalType {
    pub charset: u16,
    /// The maximum length of a value in bytes, in the column's character set.
    pub length: u32,
    pub kind: u8,
    pub flags: u16,
    pub decimals: u8,
}

impl OriginalType {
    /// The number of bytes of a type in a column's definition.
    pub const LENGTH: usize = 10;

    pub fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        let [c0, c1, l0, l1, l2, l3, kind, f0, f1, decimals] = bytes;
        OriginalType {
            charset: u16::from_le_bytes([c0, c1]),
            length: u32::from_le_bytes([l0, l1, l2, l3]),
            kind,
            flags: u16::from_le_bytes([f0, f1]),
            decimals,
        }
    }

    pub fn bytes(self) -> [u8; Self::LENGTH] {
        let ([c0, c1], [l0, l1, l2, l3]) = (self.charset.to_le_bytes(), self.length.to_le_bytes());
        let [f0, f1] = self.flags.to_le_bytes();
        [c0, c1, l0, l1, l2, l3, self.kind, f0, f1, self.decimals]
    }

    /// Return the BLOB type that replaces this type after encryption. `longest` is the longest ciphertext in bytes.
    pub fn as_blob(self, longest: usize) -> Self {
        OriginalType {
            charset: BINARY_CHARSET,
            length: u32::try_from(longest).unwrap_or(u32::MAX),
            kind: BLOB_TYPE,
            flags: self.flags & NOT_NULL | BLOB | BINARY,
            decimals: 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition<'a> {
    pub name: &'a [u8],
    pub table: &'a [u8],
    /// The original names of database, table and column. All three are empty for a computed column.
    pub original: [&'a [u8]; 3],
    pub stated: OriginalType,
    /// The bytes after the last field. Servers send none. For an encrypted column, the gateway sends the information
    /// that the client needs for decryption (the envelope) here.
    pub tail: &'a [u8],
}

const FILLER: usize = 2;
/// The number of strings before the type in a definition (`NAMES`), and the number of bytes before `MYSQL_TYPE_…` in
/// the type (`KIND`).
const NAMES: usize = 6;
const KIND: usize = 6;

impl<'a> Definition<'a> {
    pub fn parse(packet: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(packet);
        let _catalog = reader.text()?;
        let (database, table, original_table) = (reader.text()?, reader.text()?, reader.text()?);
        let (name, original_name) = (reader.text()?, reader.text()?);
        if usize::from(reader.u8()?) != Self::FROM_TYPE {
            return Err(Failure::protocol("a column's definition is malformed"));
        }
        let stated = reader.bytes(OriginalType::LENGTH)?.try_into().expect("the type's length");
        reader.bytes(FILLER)?;
        let original = [database, original_table, original_name];
        Ok(Definition { name, table, original, stated: OriginalType::from_bytes(stated), tail: reader.rest() })
    }

    /// The number of bytes of the type and the filler after it. A definition without a tail ends with these bytes.
    pub const FROM_TYPE: usize = OriginalType::LENGTH + FILLER;

    /// Return the number `MYSQL_TYPE_…` of a definition. This function skips the names, so it is faster than
    /// [`Definition::parse`]. Return None if the definition is malformed, has a tail, or has a name of more than
    /// 250 bytes: only [`Definition::parse`] can process these cases.
    pub fn plain_kind(packet: &[u8]) -> Option<u8> {
        let mut position = 0;
        for _ in 0..NAMES {
            let length = *packet.get(position)?;
            if length >= NULL {
                return None;
            }
            position += 1 + usize::from(length);
        }
        (packet.len() == position + 1 + Self::FROM_TYPE).then(|| packet[position + 1 + KIND])
    }

    /// Return the names of database, table and column that the client sees. For `SELECT c_last AS l FROM tpcc.customer
    /// AS c` they are `tpcc`, `c` and `l`.
    pub fn visible_names(&self) -> [&'a [u8]; 3] {
        [self.original[0], self.table, self.name]
    }

    /// Return the column's name for messages, such as `column tpcc.customer.c_last`. For a computed column, return its
    /// alias.
    pub fn label(&self) -> String {
        let [.., original_name] = self.original;
        let names = if original_name.is_empty() { &[self.name][..] } else { &self.original[..] };
        let names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
        format!("column {}", names.join(".").escape_debug())
    }
}

/// The encoding of a value that is not NULL in a binary row (MySQL Internals, "Binary Protocol Value").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryForm {
    Fixed(usize),
    /// A one-byte length and that many bytes. Dates and times have this form.
    Short,
    /// A length-encoded string. All other types have this form.
    Text,
}

impl BinaryForm {
    /// Return the encoding of a type `MYSQL_TYPE_…`. Return None if values of this type cannot occur in a row.
    pub fn from_kind(kind: u8) -> Option<Self> {
        Some(match kind {
            // TINY
            0x01 => BinaryForm::Fixed(1),
            // SHORT, YEAR
            0x02 | 0x0D => BinaryForm::Fixed(2),
            // LONG, FLOAT, INT24
            0x03 | 0x04 | 0x09 => BinaryForm::Fixed(4),
            // DOUBLE, LONGLONG
            0x05 | 0x08 => BinaryForm::Fixed(8),
            // TIMESTAMP, DATE, TIME, DATETIME
            0x07 | 0x0A..=0x0C => BinaryForm::Short,
            // DECIMAL, VARCHAR, BIT; VECTOR, JSON, NEWDECIMAL, ENUM, SET, the BLOBs, VAR_STRING, STRING, GEOMETRY
            0x00 | 0x0F | 0x10 | 0xF2 | 0xF5..=0xFF => BinaryForm::Text,
            _ => return None,
        })
    }

    /// Return the encoding of a type's values. For a type that cannot occur in a row, return an encoding of zero bytes
    /// if it is `MYSQL_TYPE_NULL`, and the encoding of strings otherwise.
    pub fn from_any_kind(kind: u8) -> Self {
        const NULL_TYPE: u8 = 0x06;
        Self::from_kind(kind).unwrap_or(if kind == NULL_TYPE { BinaryForm::Fixed(0) } else { BinaryForm::Text })
    }

    pub fn read<'a>(self, reader: &mut Reader<'a>) -> Result<&'a [u8]> {
        match self {
            BinaryForm::Fixed(length) => reader.bytes(length),
            BinaryForm::Short => reader.short_text(),
            BinaryForm::Text => reader.text(),
        }
    }

    pub fn append(self, row: &mut Vec<u8>, content: &[u8]) {
        match self {
            BinaryForm::Fixed(_) => row.extend_from_slice(content),
            BinaryForm::Short => {
                row.push(content.len() as u8);
                row.extend_from_slice(content);
            }
            BinaryForm::Text => append_text(row, content),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::io::ParseBuf;
    use mysql_common::packets::Column;
    use mysql_common::proto::MyDeserialize;
    use proptest::prelude::*;

    /// The definition of the column in `SELECT c_last AS l FROM tpcc.customer AS c`, as MariaDB sends it.
    const LAST: &[u8] = b"\x03def\x04tpcc\x01c\x08customer\x01l\x06c_last\x0c\x2d\0\x40\0\0\0\xfd\x01\x10\0\0\0";

    #[test]
    fn column_definition_is_parsed_in_the_same_way_as_by_crate_mysql_common() {
        let ours = Definition::parse(LAST).unwrap();
        let theirs = Column::deserialize((), &mut ParseBuf(LAST)).unwrap();
        assert_eq!(ours.original, [theirs.schema_ref(), theirs.org_table_ref(), theirs.org_name_ref()]);
        assert_eq!(ours.visible_names(), [theirs.schema_ref(), theirs.table_ref(), theirs.name_ref()]);
        assert_eq!(ours.tail, b"");
        let OriginalType { charset, length, kind, flags, decimals } = ours.stated;
        assert_eq!(
            (charset, length, kind),
            (theirs.character_set(), theirs.column_length(), theirs.column_type() as u8)
        );
        assert_eq!((flags, decimals), (theirs.flags().bits(), theirs.decimals()));
        let with_tail = [LAST, b"tail"].concat();
        assert_eq!(Definition::parse(&with_tail).unwrap().tail, b"tail");
        assert_eq!((Definition::plain_kind(LAST), Definition::plain_kind(&with_tail)), (Some(kind), None));
    }

    #[test]
    fn column_label_escapes_line_breaks_in_the_column_name() {
        let definition = Definition::parse(LAST).unwrap();
        assert_eq!(definition.label(), "column tpcc.customer.c_last");
        let computed = Definition { name: b"count(\n*)", original: [b""; 3], ..definition };
        assert_eq!(computed.label(), "column count(\\n*)");
    }

    proptest! {
        #[test]
        fn writing_a_parsed_column_type_returns_the_original_bytes(bytes in any::<[u8; OriginalType::LENGTH]>()) {
            prop_assert_eq!(OriginalType::from_bytes(bytes).bytes(), bytes);
        }

        #[test]
        fn parsing_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let parsed = Definition::parse(&bytes).inspect(|definition| drop(definition.label()));
            if let Some(kind) = Definition::plain_kind(&bytes) {
                prop_assert!(parsed.is_err() || parsed.is_ok_and(|definition| definition.stated.kind == kind));
            }
        }
    }
}
