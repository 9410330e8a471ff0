//! YCSB's operations as its JDBC binding asks for them (`site.ycsb.db.JdbcDBClient`): prepared statements on a table
//! `YCSB_KEY VARCHAR(255) PRIMARY KEY, FIELD0 TEXT, FIELD1 TEXT, …`.

use super::channel::{Channel, Layout};
use super::query::{BIGINT, Prepared, Width, prepare, quoted};
use crate::found::{check_one_row, check_order, check_scan};
use base::error::{Class, Failure, Result};
use mysql::bytes::{Reader, append_length, append_text};
use mysql::row::begin_binary;
use mysql::{command, packet};
use std::ops::Range;
use workload::ycsb::{Fields, Key, Shape, Values};

/// `MYSQL_TYPE_VAR_STRING`.
const STRING: [u8; 2] = [0xFD, 0x00];

/// What a connection has prepared for a workload. Statements about one field are one for each field.
pub struct Statements {
    insert: Option<Prepared>,
    reads: Vec<Prepared>,
    updates: Vec<Prepared>,
    scans: Vec<Prepared>,
    without_eof: bool,
}

impl Statements {
    pub async fn prepare(channel: &mut Channel, table: &str, shape: &Shape, without_eof: bool) -> Result<Self> {
        let mut made = Statements { insert: None, reads: vec![], updates: vec![], scans: vec![], without_eof };
        let table = quoted(table);
        let fields = shape.fields;
        let mut ask = async |text: String, columns: u32, parameters: u32| {
            let width = Width { columns: short(columns)?, parameters: short(parameters)? };
            prepare(channel, text.as_bytes(), width, without_eof).await
        };
        if shape.inserts {
            let marks = ",?".repeat(fields as usize);
            let text = format!("INSERT INTO {table} (YCSB_KEY,{}) VALUES(?{marks})", names(&(0..fields), ""));
            made.insert = Some(ask(text, 0, fields + 1).await?);
        }
        for set in sets(shape.reads_all, fields) {
            let (list, columns) = (names(&set, ""), set.len() as u32 + 1);
            if shape.reads {
                let text = format!("SELECT YCSB_KEY,{list} FROM {table} WHERE YCSB_KEY = ?");
                made.reads.push(ask(text, columns, 1).await?);
            }
            if shape.scans {
                let text = format!("SELECT YCSB_KEY,{list} FROM {table} WHERE YCSB_KEY >= ? ORDER BY YCSB_KEY LIMIT ?");
                made.scans.push(ask(text, columns, 2).await?);
            }
        }
        if shape.updates {
            for set in sets(shape.writes_all, fields) {
                let text = format!("UPDATE {table} SET {} WHERE YCSB_KEY = ?", names(&set, "=?"));
                made.updates.push(ask(text, 0, set.len() as u32 + 1).await?);
            }
        }
        Ok(made)
    }

    pub async fn insert(&self, channel: &mut Channel, key: &Key, values: Values<'_>) -> Result<()> {
        let prepared = self.insert.ok_or_else(unprepared)?;
        let request = channel.command(command::STMT_EXECUTE);
        append_head(request, prepared, values.fields().len() + 1, STRING);
        append_text(request, key.as_bytes());
        append_values(request, values);
        self.change(channel, "inserted").await
    }

    pub async fn update(&self, channel: &mut Channel, key: &Key, values: Values<'_>) -> Result<()> {
        let fields = values.fields();
        let prepared = *self.updates.get(place(&self.updates, fields.start)).ok_or_else(unprepared)?;
        let request = channel.command(command::STMT_EXECUTE);
        append_head(request, prepared, fields.len() + 1, STRING);
        append_values(request, values);
        append_text(request, key.as_bytes());
        self.change(channel, "updated").await
    }

    pub async fn read(&self, channel: &mut Channel, key: &Key, fields: Fields) -> Result<()> {
        let prepared = chosen(&self.reads, fields)?;
        let request = channel.command(command::STMT_EXECUTE);
        append_head(request, prepared, 1, STRING);
        append_text(request, key.as_bytes());
        channel.send().await?;
        check_one_row(read_rows(channel, self.without_eof, |_| Ok(())).await?)
    }

    /// Read so many rows from this key on. `last` is where the last key is kept.
    pub async fn scan(
        &self,
        channel: &mut Channel,
        from: &Key,
        count: u64,
        fields: Fields,
        last: &mut Vec<u8>,
    ) -> Result<()> {
        let prepared = chosen(&self.scans, fields)?;
        last.clear();
        last.extend_from_slice(from.as_bytes());
        let request = channel.command(command::STMT_EXECUTE);
        append_head(request, prepared, 2, BIGINT);
        append_text(request, from.as_bytes());
        request.extend_from_slice(&count.to_le_bytes());
        channel.send().await?;
        let rows = read_rows(channel, self.without_eof, |key| check_order(key, last));
        check_scan(rows.await?, count, "row")
    }

    async fn change(&self, channel: &mut Channel, how: &str) -> Result<()> {
        channel.send().await?;
        let rows = packet::changed_rows(channel.receive().await?)?;
        channel.io.check_idle()?;
        if rows == 1 {
            return Ok(());
        }
        Err(Failure::new(Class::Server, format!("{rows} rows were {how}, where one is: is the data loaded?")))
    }
}

fn sets(all: bool, fields: u32) -> Vec<Range<u32>> {
    let width = if all { fields } else { 1 };
    (0..fields).step_by(width as usize).map(|first| first..first + width).collect()
}

fn names(set: &Range<u32>, suffix: &str) -> String {
    set.clone().map(|field| format!("FIELD{field}{suffix}")).collect::<Vec<_>>().join(",")
}

fn short(number: u32) -> Result<u16> {
    number.try_into().map_err(|_| Failure::new(Class::Plan, "a table has no more than 65,535 columns"))
}

fn unprepared() -> Failure {
    Failure::new(Class::Internal, "an operation before its statement was prepared")
}

fn place(statements: &[Prepared], field: u32) -> usize {
    if statements.len() == 1 { 0 } else { field as usize }
}

fn chosen(statements: &[Prepared], fields: Fields) -> Result<Prepared> {
    let place = match fields {
        Fields::All => 0,
        Fields::One(field) => field as usize,
    };
    statements.get(place).copied().ok_or_else(unprepared)
}

/// MySQL Internals, "COM_STMT_EXECUTE": parameters that are strings, but the last of this type; none is NULL.
fn append_head(request: &mut Vec<u8>, Prepared(statement): Prepared, parameters: usize, last: [u8; 2]) {
    request.extend_from_slice(&statement.to_le_bytes());
    // No cursor; once.
    request.extend_from_slice(&[0, 1, 0, 0, 0]);
    request.resize(request.len() + parameters.div_ceil(8), 0);
    request.push(1);
    for _ in 1..parameters {
        request.extend_from_slice(&STRING);
    }
    request.extend_from_slice(&last);
}

fn append_values(request: &mut Vec<u8>, values: Values<'_>) {
    values.append(request, |request, _, length| append_length(request, length as u64));
}

/// How many rows came; of each its key is looked at.
async fn read_rows(channel: &mut Channel, without_eof: bool, mut key: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
    let columns = channel.receive_column_count().await?;
    channel.receive_columns(columns, without_eof).await?;
    let layout = Layout { binary: true, without_eof };
    let mut rows = 0;
    while let Some(row) = channel.receive_row(layout).await? {
        key(read_key(row, columns)?)?;
        rows += 1;
    }
    channel.io.check_idle()?;
    Ok(rows)
}

fn read_key(packet: &[u8], columns: u64) -> Result<&[u8]> {
    let mut reader = Reader::new(packet);
    let nulls = begin_binary(&mut reader, columns as usize)?;
    if nulls.bytes().iter().any(|byte| *byte != 0) {
        return Err(Failure::new(Class::Server, "a row holds NULL: is the table YCSB's?"));
    }
    let key = reader.text()?;
    for _ in 1..columns {
        reader.text()?;
    }
    if reader.is_empty() { Ok(key) } else { Err(Failure::protocol("a row holds more than its columns")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Random;
    use proptest::prelude::*;
    use workload::ycsb::Lengths;

    #[test]
    fn an_insert_is_executed_with_strings() {
        let mut request = Vec::new();
        append_head(&mut request, Prepared(7), 2, STRING);
        append_text(&mut request, b"user1");
        assert_eq!(request, b"\x07\0\0\0\x00\x01\0\0\0\x00\x01\xfd\x00\xfd\x00\x05user1");
    }

    #[test]
    fn a_scan_is_executed_with_a_number_at_its_end() {
        let mut request = Vec::new();
        append_head(&mut request, Prepared(7), 9, BIGINT);
        assert_eq!(request[..12], *b"\x07\0\0\0\x00\x01\0\0\0\x00\x00\x01", "nine parameters need two bytes");
        assert_eq!(request[12 + 8 * 2..], BIGINT);
    }

    #[test]
    fn a_row_is_its_key_and_its_fields() {
        assert_eq!(read_key(b"\x00\x00\x05user1\x01a\x00", 3).unwrap(), b"user1");
        for (row, class) in [
            (&b"\x00\x08\x05user1"[..], Class::Server),
            (b"\x00\x00\x05user1", Class::Protocol),
            (b"\x00\x00\x05user1\x01a\x01a", Class::Protocol),
            (b"\x05user1\x01a", Class::Protocol),
            (b"", Class::Protocol),
        ] {
            assert_eq!(read_key(row, 2).unwrap_err().class, class, "{row:?}");
        }
    }

    proptest! {
        #[test]
        fn the_protocols_reader_reads_every_value(count in 1..20_u32, most in 1..70_000_u64, seed in any::<u64>()) {
            let (mut request, mut random) = (Vec::new(), Random::new(seed));
            let lengths = Lengths::uniform(1, most);
            append_values(&mut request, Values::new(Fields::All, count, &lengths, &mut random));
            let mut reader = Reader::new(&request);
            for _ in 0..count {
                prop_assert!((1..=most as usize).contains(&reader.text().unwrap().len()));
            }
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), columns in any::<u64>()) {
            let _ = read_key(&bytes, columns);
            let _ = read_key(&bytes, columns % 20);
        }
    }
}
