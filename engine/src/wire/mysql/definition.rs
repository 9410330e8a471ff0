//! A column's definition (MySQL Internals, "Protocol::ColumnDefinition41").

use super::bytes::Reader;
use crate::encryption::OriginalType;
use crate::error::{Failure, Result};

/// What a definition says, where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition<'a> {
    /// As the statement calls the column.
    pub name: &'a [u8],
    /// The names of its database, its table and itself in the table; empty, where it is computed.
    pub original: [&'a [u8]; 3],
    /// What its values are.
    pub stated: OriginalType,
    /// What follows; a server sends nothing there.
    pub tail: &'a [u8],
}

/// Two bytes before what follows.
const FILLER: usize = 2;

impl<'a> Definition<'a> {
    /// # Errors
    /// `protocol`.
    pub fn parse(packet: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(packet);
        let _catalog = reader.text()?;
        let (database, _table, original_table) = (reader.text()?, reader.text()?, reader.text()?);
        let (name, original_name) = (reader.text()?, reader.text()?);
        if usize::from(reader.u8()?) != OriginalType::LENGTH + FILLER {
            return Err(Failure::protocol("a column's definition is not MySQL's"));
        }
        let stated = reader.bytes(OriginalType::LENGTH)?.try_into().expect("so many bytes");
        reader.bytes(FILLER)?;
        let original = [database, original_table, original_name];
        Ok(Definition { name, original, stated: OriginalType::from_bytes(stated), tail: reader.rest() })
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
    use mysql_common::constants::{ColumnFlags, ColumnType};
    use mysql_common::packets::Column;
    use mysql_common::proto::MySerialize;
    use proptest::prelude::*;

    #[test]
    fn reads_what_another_implementation_writes() {
        let mut packet = Vec::new();
        Column::new(ColumnType::MYSQL_TYPE_VAR_STRING)
            .with_schema(b"tpcc")
            .with_table(b"c")
            .with_org_table(b"customer")
            .with_name(b"last\n")
            .with_org_name(b"c_last")
            .with_character_set(45)
            .with_column_length(64)
            .with_flags(ColumnFlags::NOT_NULL_FLAG)
            .serialize(&mut packet);
        let definition = Definition::parse(&packet).unwrap();
        assert_eq!(definition.original, [&b"tpcc"[..], b"customer", b"c_last"]);
        assert_eq!(definition.stated, OriginalType { charset: 45, length: 64, kind: 0xFD, flags: 1, decimals: 0 });
        assert_eq!((definition.label().as_str(), definition.tail), ("column tpcc.customer.c_last", &b""[..]));
        let computed = Definition { original: [b""; 3], ..definition };
        assert_eq!(computed.label(), "column last\\n", "on one line");
        let longer = [&packet[..], b"tail"].concat();
        assert_eq!(Definition::parse(&longer).unwrap().tail, b"tail");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Definition::parse(&bytes).map(|definition| definition.label());
        }
    }
}
