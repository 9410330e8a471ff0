//! YCSB's operations, with the same statements as YCSB's JDBC binding (`site.ycsb.db.JdbcDBClient`): prepared
//! statements on a table `YCSB_KEY VARCHAR(255) PRIMARY KEY, FIELD0 TEXT, FIELD1 TEXT, …`.

use super::channel::{Channel, Layout};
use super::query::{BIGINT, Prepared, Width, prepare, quoted};
use crate::query_checks::{check_one_row, check_order, check_scan};
use base::error::{Class, Failure, Result};
use mysql::bytes::{Reader, append_length, append_text};
use mysql::row::begin_binary;
use mysql::{command, packet};
use std::ops::Range;
use workload::ycsb::{Fields, Key, Shape, Values};

/// The parameter type `MYSQL_TYPE_VAR_STRING`.
const STRING: [u8; 2] = [0xFD, 0x00];

/// The statements prepared on a connection for a workload. If operations read or write only one field of a record,
/// there is one statement for each field.
pub struct Statements {
    insert: Option<Prepared>,
    reads: Vec<Prepared>,
    updates: Vec<Prepared>,
    scans: Vec<Prepared>,
    without_eof: bool,
}

impl Statements {
    pub async fn prepare(channel: &mut Channel, table: &str, shape: &Shape, without_eof: bool) -> Result<Self> {
        let mut statements = Statements { insert: None, reads: vec![], updates: vec![], scans: vec![], without_eof };
        let table = quoted(table);
        let fields = shape.fields;
        let mut prepare_statement = async |text: String, columns: u32, parameters: u32| {
            let width = Width { columns: short(columns)?, parameters: short(parameters)? };
            prepare(channel, text.as_bytes(), width, without_eof).await
        };
        if shape.inserts {
            let placeholders = ",?".repeat(fields as usize);
            let text = format!("INSERT INTO {table} (YCSB_KEY,{}) VALUES(?{placeholders})", names(&(0..fields), ""));
            statements.insert = Some(prepare_statement(text, 0, fields + 1).await?);
        }
        for range in field_ranges(shape.reads_all, fields) {
            let (list, columns) = (names(&range, ""), range.len() as u32 + 1);
            if shape.reads {
                let text = format!("SELECT YCSB_KEY,{list} FROM {table} WHERE YCSB_KEY = ?");
                statements.reads.push(prepare_statement(text, columns, 1).await?);
            }
            if shape.scans {
                let text = format!("SELECT YCSB_KEY,{list} FROM {table} WHERE YCSB_KEY >= ? ORDER BY YCSB_KEY LIMIT ?");
                statements.scans.push(prepare_statement(text, columns, 2).await?);
            }
        }
        if shape.updates {
            for range in field_ranges(shape.writes_all, fields) {
                let text = format!("UPDATE {table} SET {} WHERE YCSB_KEY = ?", names(&range, "=?"));
                statements.updates.push(prepare_statement(text, 0, range.len() as u32 + 1).await?);
            }
        }
        Ok(statements)
    }

    pub async fn insert(&self, channel: &mut Channel, key: &Key, values: Values<'_>) -> Result<()> {
        let prepared = self.insert.ok_or_else(unprepared)?;
        let request = channel.command(command::STMT_EXECUTE);
        append_head(request, prepared, values.fields().len() + 1, STRING);
        append_text(request, key.as_bytes());
        append_values(request, values);
        self.execute_change(channel, "inserted").await
    }

    pub async fn update(&self, channel: &mut Channel, key: &Key, values: Values<'_>) -> Result<()> {
        let fields = values.fields();
        let prepared = *self.updates.get(index(&self.updates, fields.start)).ok_or_else(unprepared)?;
        let request = channel.command(command::STMT_EXECUTE);
        append_head(request, prepared, fields.len() + 1, STRING);
        append_values(request, values);
        append_text(request, key.as_bytes());
        self.execute_change(channel, "updated").await
    }

    pub async fn read(&self, channel: &mut Channel, key: &Key, fields: Fields) -> Result<()> {
        let prepared = statement_for(&self.reads, fields)?;
        let request = channel.command(command::STMT_EXECUTE);
        append_head(request, prepared, 1, STRING);
        append_text(request, key.as_bytes());
        channel.send().await?;
        check_one_row(read_rows(channel, self.without_eof, |_| Ok(())).await?)
    }

    /// Read up to `count` rows, from this key on. `last` is a reusable buffer for the key that was read last.
    pub async fn scan(
        &self,
        channel: &mut Channel,
        from: &Key,
        count: u64,
        fields: Fields,
        last: &mut Vec<u8>,
    ) -> Result<()> {
        let prepared = statement_for(&self.scans, fields)?;
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

    async fn execute_change(&self, channel: &mut Channel, verb: &str) -> Result<()> {
        channel.send().await?;
        let rows = packet::changed_rows(channel.receive().await?)?;
        channel.io.check_idle()?;
        if rows == 1 {
            return Ok(());
        }
        Err(Failure::new(Class::Server, format!("{rows} rows were {verb} instead of one: is the data loaded?")))
    }
}

fn field_ranges(all: bool, fields: u32) -> Vec<Range<u32>> {
    let width = if all { fields } else { 1 };
    (0..fields).step_by(width as usize).map(|first| first..first + width).collect()
}

fn names(range: &Range<u32>, suffix: &str) -> String {
    range.clone().map(|field| format!("FIELD{field}{suffix}")).collect::<Vec<_>>().join(",")
}

fn short(number: u32) -> Result<u16> {
    number.try_into().map_err(|_| Failure::new(Class::Plan, "a table cannot have more than 65,535 columns"))
}

fn unprepared() -> Failure {
    Failure::new(Class::Internal, "an operation was started before its statement was prepared")
}

fn index(statements: &[Prepared], field: u32) -> usize {
    if statements.len() == 1 { 0 } else { field as usize }
}

fn statement_for(statements: &[Prepared], fields: Fields) -> Result<Prepared> {
    let index = match fields {
        Fields::All => 0,
        Fields::One(field) => field as usize,
    };
    statements.get(index).copied().ok_or_else(unprepared)
}

/// Append the beginning of an execution (MySQL Internals, "COM_STMT_EXECUTE"), up to and including the types of the
/// parameters. The last parameter has the type `last`, and the others are strings. No parameter is NULL.
fn append_head(request: &mut Vec<u8>, Prepared(statement): Prepared, parameters: usize, last: [u8; 2]) {
    request.extend_from_slice(&statement.to_le_bytes());
    // The flags (no cursor) and the number of iterations (one).
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

/// Read all rows, and pass the key of each row to `key`. Return the number of rows.
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
        return Err(Failure::new(Class::Server, "a row contains NULL: is it YCSB's table?"));
    }
    let key = reader.text()?;
    for _ in 1..columns {
        reader.text()?;
    }
    if reader.is_empty() { Ok(key) } else { Err(Failure::protocol("a row has bytes after its last column")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Random;
    use proptest::prelude::*;
    use workload::ycsb::Lengths;

    #[test]
    fn insert_sends_key_and_values_as_strings() {
        let mut request = Vec::new();
        append_head(&mut request, Prepared(7), 2, STRING);
        append_text(&mut request, b"user1");
        assert_eq!(request, b"\x07\0\0\0\x00\x01\0\0\0\x00\x01\xfd\x00\xfd\x00\x05user1");
    }

    #[test]
    fn scan_sends_its_count_as_a_number_in_the_last_parameter() {
        let mut request = Vec::new();
        append_head(&mut request, Prepared(7), 9, BIGINT);
        assert_eq!(request[..12], *b"\x07\0\0\0\x00\x01\0\0\0\x00\x00\x01", "nine parameters need two bytes");
        assert_eq!(request[12 + 8 * 2..], BIGINT);
    }

    #[test]
    fn row_must_have_a_key_and_the_requested_fields() {
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
        #![proptest_config(ProptestConfig::with_cases(20))]

        #[test]
        fn encoded_parameter_values_can_be_parsed(count in 1..20_u32, longest in 1..70_000_u64, seed in any::<u64>()) {
            let (mut request, mut random) = (Vec::new(), Random::new(seed));
            let lengths = Lengths::uniform(1, longest);
            append_values(&mut request, Values::new(Fields::All, count, &lengths, &mut random));
            let mut reader = Reader::new(&request);
            for _ in 0..count {
                prop_assert!((1..=longest as usize).contains(&reader.text().unwrap().len()));
            }
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn parsing_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60), columns in any::<u64>()) {
            let _ = read_key(&bytes, columns);
            let _ = read_key(&bytes, columns % 20);
        }
    }
}
