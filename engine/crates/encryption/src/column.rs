//! What stands in an encrypted column's definition, and what its values are bound to.

use super::Algorithm;
use mysql::{OriginalType, RowFormat};

/// The type of a column that is encrypted: a BLOB that is as long as the longest ciphertext.
pub fn encrypted(original: OriginalType, algorithm: Algorithm) -> OriginalType {
    original.as_blob(algorithm.sealed_length(original.length as usize))
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

    /// `c_balance DECIMAL(12,2) NOT NULL` as MariaDB defines it.
    const BALANCE: OriginalType = OriginalType { charset: 63, length: 14, kind: 0xF6, flags: 1 | 128, decimals: 2 };

    #[test]
    fn an_encrypted_column_is_a_blob() {
        let short = encrypted(BALANCE, Algorithm::Aes128Gcm);
        assert_eq!(short.bytes(), [63, 0, 43, 0, 0, 0, 0xFC, 0x91, 0, 0]);
        let longest = encrypted(OriginalType { length: u32::MAX, flags: 0, ..BALANCE }, Algorithm::Sm4Cbc);
        assert_eq!((longest.length, longest.flags), (u32::MAX, 16 | 128));
    }

    #[test]
    fn associated_data_tell_columns_types_and_formats_apart() {
        let data = |format, names| associated_data(Algorithm::Aes128Ctr, BALANCE, format, names);
        let text = data(RowFormat::Text, [b"tpcc", b"customer", b"c_balance"]);
        assert_eq!(text, b"\x02\x3f\0\x0e\0\0\0\xf6\x81\0\x02\0tpcc\0customer\0c_balance\0");
        assert_ne!(text, data(RowFormat::Binary, [b"tpcc", b"customer", b"c_balance"]));
        assert_ne!(data(RowFormat::Text, [b"a", b"bc", b""]), data(RowFormat::Text, [b"ab", b"c", b""]));
    }
}
