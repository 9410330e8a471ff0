//! A column, as its definition has it (MySQL Internals, "Protocol::ColumnDefinition41").

use super::Algorithm;

/// `MYSQL_TYPE_BLOB`, and the charset `binary`.
const BLOB_TYPE: u8 = 0xFC;
const BINARY_CHARSET: u16 = 63;
/// Column flags.
const NOT_NULL: u16 = 1;
const BLOB: u16 = 16;
const BINARY: u16 = 128;

/// What a definition says of a column's values: the part that the gateway replaces and the driver puts back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OriginalType {
    /// The collation's number.
    pub charset: u16,
    /// The longest value, in the charset's bytes.
    pub length: u32,
    /// `MYSQL_TYPE_…`.
    pub kind: u8,
    /// `NOT_NULL_FLAG` and others.
    pub flags: u16,
    /// Digits behind the point.
    pub decimals: u8,
}

impl OriginalType {
    /// Of its bytes in a definition and in an envelope.
    pub const LENGTH: usize = 10;

    /// In the protocol's order, as they lie in a definition.
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

    /// The same, back.
    pub fn bytes(self) -> [u8; Self::LENGTH] {
        let ([c0, c1], [l0, l1, l2, l3]) = (self.charset.to_le_bytes(), self.length.to_le_bytes());
        let [f0, f1] = self.flags.to_le_bytes();
        [c0, c1, l0, l1, l2, l3, self.kind, f0, f1, self.decimals]
    }

    /// What stands in its place where the column is encrypted: a BLOB that is as long as the longest ciphertext.
    pub fn encrypted(self, algorithm: Algorithm) -> Self {
        let longest = algorithm.sealed_length(self.length as usize);
        OriginalType {
            charset: BINARY_CHARSET,
            length: u32::try_from(longest).unwrap_or(u32::MAX),
            kind: BLOB_TYPE,
            flags: self.flags & NOT_NULL | BLOB | BINARY,
            decimals: 0,
        }
    }
}

/// How a binary row has a value that is not NULL (MySQL Internals, "Binary Protocol Value").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryForm {
    /// So many bytes.
    Fixed(usize),
    /// A length in one byte, and so many bytes: dates and times.
    Short,
    /// A length-encoded string: all else.
    Text,
}

impl BinaryForm {
    /// Of a type's number.
    pub fn of(kind: u8) -> Self {
        match kind {
            // TINY.
            1 => BinaryForm::Fixed(1),
            // SHORT, YEAR.
            2 | 13 => BinaryForm::Fixed(2),
            // LONG, FLOAT, INT24.
            3 | 4 | 9 => BinaryForm::Fixed(4),
            // DOUBLE, LONGLONG.
            5 | 8 => BinaryForm::Fixed(8),
            // NULL, which has no values.
            6 => BinaryForm::Fixed(0),
            // TIMESTAMP, DATE, TIME, DATETIME.
            7 | 10..=12 => BinaryForm::Short,
            _ => BinaryForm::Text,
        }
    }
}

/// How the rows are laid out that a value stands in: what its bytes mean differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowFormat {
    /// Of a query.
    Text,
    /// Of a prepared statement.
    Binary,
}

/// What a value is bound to: it cannot stand in another column, under another type, or in rows of the other format.
/// Names are the original ones, empty where the column is computed. Made once for a column.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `c_balance DECIMAL(12,2) NOT NULL` as MariaDB defines it.
    const BALANCE: OriginalType =
        OriginalType { charset: 63, length: 14, kind: 0xF6, flags: NOT_NULL | BINARY, decimals: 2 };

    #[test]
    fn an_encrypted_column_is_a_blob() {
        let encrypted = BALANCE.encrypted(Algorithm::Aes128Gcm);
        assert_eq!(encrypted.bytes(), [63, 0, 43, 0, 0, 0, 0xFC, 0x91, 0, 0]);
        let longest = OriginalType { length: u32::MAX, flags: 0, ..BALANCE }.encrypted(Algorithm::Sm4Cbc);
        assert_eq!((longest.length, longest.flags), (u32::MAX, BLOB | BINARY));
    }

    #[test]
    fn associated_data_tell_columns_types_and_formats_apart() {
        let data = |format, names| associated_data(Algorithm::Aes128Ctr, BALANCE, format, names);
        let text = data(RowFormat::Text, [b"tpcc", b"customer", b"c_balance"]);
        assert_eq!(text, b"\x02\x3f\0\x0e\0\0\0\xf6\x81\0\x02\0tpcc\0customer\0c_balance\0");
        assert_ne!(text, data(RowFormat::Binary, [b"tpcc", b"customer", b"c_balance"]));
        assert_ne!(data(RowFormat::Text, [b"a", b"bc", b""]), data(RowFormat::Text, [b"ab", b"c", b""]));
    }

    proptest! {
        #[test]
        fn a_type_leads_back_to_its_bytes(bytes in any::<[u8; OriginalType::LENGTH]>()) {
            prop_assert_eq!(OriginalType::from_bytes(bytes).bytes(), bytes);
        }
    }
}
