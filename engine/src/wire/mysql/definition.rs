//! A column's definition (MySQL Internals, "Protocol::ColumnDefinition41").

use super::bytes::{NULL, Reader};
use crate::encryption::OriginalType;
use crate::error::{Failure, Result};

/// What a definition says, where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition<'a> {
    /// As the statement calls the column.
    pub name: &'a [u8],
    /// As the statement calls its table.
    pub table: &'a [u8],
    /// The names of its database, its table and itself in the table; empty, where it is computed.
    pub original: [&'a [u8]; 3],
    /// What its values are.
    pub stated: OriginalType,
    /// What follows; a server sends nothing there.
    pub tail: &'a [u8],
}

/// Two bytes before what follows.
const FILLER: usize = 2;
/// Strings before what is said of the values, and where among that the type is.
const NAMES: usize = 6;
const KIND: usize = 6;

impl<'a> Definition<'a> {
    /// # Errors
    /// `protocol`.
    pub fn parse(packet: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(packet);
        let _catalog = reader.text()?;
        let (database, table, original_table) = (reader.text()?, reader.text()?, reader.text()?);
        let (name, original_name) = (reader.text()?, reader.text()?);
        if usize::from(reader.u8()?) != OriginalType::LENGTH + FILLER {
            return Err(Failure::protocol("a column's definition is not MySQL's"));
        }
        let stated = reader.bytes(OriginalType::LENGTH)?.try_into().expect("so many bytes");
        reader.bytes(FILLER)?;
        let original = [database, original_table, original_name];
        Ok(Definition { name, table, original, stated: OriginalType::from_bytes(stated), tail: reader.rest() })
    }

    /// A glance at a definition that nothing follows: its type's number. None, where it must be parsed.
    pub fn plain_kind(packet: &[u8]) -> Option<u8> {
        let mut at = 0;
        for _ in 0..NAMES {
            let length = *packet.get(at)?;
            if length >= NULL {
                return None;
            }
            at += 1 + usize::from(length);
        }
        (packet.len() == at + 1 + OriginalType::LENGTH + FILLER).then(|| packet[at + 1 + KIND])
    }

    /// The names by which the statement calls it.
    pub fn shown(&self) -> [&'a [u8]; 3] {
        [self.original[0], self.table, self.name]
    }

    /// For an error, on one line: where the column is, or what the statement calls it.
    pub fn label(&self) -> String {
        let [.., original_name] = self.original;
        let names = if original_name.is_empty() { &[self.name][..] } else { &self.original[..] };
        let names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
        format!("column {}", names.join(".").escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::io::ParseBuf;
    use mysql_common::packets::Column;
    use mysql_common::proto::MyDeserialize;
    use proptest::prelude::*;

    /// `SELECT c_last AS l FROM tpcc.customer AS c`, as MariaDB defines its column.
    const LAST: &[u8] = b"\x03def\x04tpcc\x01c\x08customer\x01l\x06c_last\x0c\x2d\0\x40\0\0\0\xfd\x01\x10\0\0\0";

    #[test]
    fn reads_what_another_implementation_reads() {
        let ours = Definition::parse(LAST).unwrap();
        let theirs = Column::deserialize((), &mut ParseBuf(LAST)).unwrap();
        assert_eq!(ours.original, [theirs.schema_ref(), theirs.org_table_ref(), theirs.org_name_ref()]);
        assert_eq!(ours.shown(), [theirs.schema_ref(), theirs.table_ref(), theirs.name_ref()]);
        assert_eq!(ours.tail, b"");
        let OriginalType { charset, length, kind, flags, decimals } = ours.stated;
        assert_eq!(
            (charset, length, kind),
            (theirs.character_set(), theirs.column_length(), theirs.column_type() as u8)
        );
        assert_eq!((flags, decimals), (theirs.flags().bits(), theirs.decimals()));
        let followed = [LAST, b"tail"].concat();
        assert_eq!(Definition::parse(&followed).unwrap().tail, b"tail");
        assert_eq!((Definition::plain_kind(LAST), Definition::plain_kind(&followed)), (Some(kind), None));
    }

    #[test]
    fn a_label_says_where_a_column_is_on_one_line() {
        let definition = Definition::parse(LAST).unwrap();
        assert_eq!(definition.label(), "column tpcc.customer.c_last");
        let computed = Definition { name: b"count(\n*)", original: [b""; 3], ..definition };
        assert_eq!(computed.label(), "column count(\\n*)");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let parsed = Definition::parse(&bytes).inspect(|definition| drop(definition.label()));
            if let Some(kind) = Definition::plain_kind(&bytes) {
                prop_assert!(parsed.is_err() || parsed.is_ok_and(|definition| definition.stated.kind == kind));
            }
        }
    }
}
