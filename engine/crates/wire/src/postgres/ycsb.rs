//! YCSB's operations, with the prepared statements of YCSB's JDBC binding (`site.ycsb.db.JdbcDBClient`) on a table
//! `YCSB_KEY VARCHAR(255) PRIMARY KEY, FIELD0 TEXT, FIELD1 TEXT, …`. The server converts the names to lower case.

use super::Results;
use super::channel::{Channel, end, row};
use super::message::append_value;
use super::pgbench::{append_execution, append_parse, append_sync, no_row, quoted, schema_prefix};
use crate::query_checks::{check_one_row, check_order, check_scan};
use base::error::{Class, Failure, Result};
use std::io::Write;
use std::ops::Range;
use workload::ycsb::{Fields, Key, Shape, Values};

/// The names of the statements that a session has prepared. If operations read or write only one field of a record,
/// there is one statement for each field.
pub struct Statements {
    shape: Shape,
    reads: Vec<String>,
    updates: Vec<String>,
    scans: Vec<String>,
}

const INSERT: &str = "insert";

impl Statements {
    /// Prepare the statements on a table in `schema`, or in the session's search path if `schema` is None.
    pub async fn prepare(channel: &mut Channel, schema: Option<&str>, table: &str, shape: &Shape) -> Result<Self> {
        let mut statements = Statements { shape: *shape, reads: vec![], updates: vec![], scans: vec![] };
        let table = format!("{}{}", schema_prefix(schema), quoted(table));
        let request = channel.request();
        if shape.inserts {
            let list = names(&(0..shape.fields));
            let placeholders: Vec<_> = (1..=shape.fields + 1).map(|number| format!("${number}")).collect();
            let text = format!("INSERT INTO {table} (YCSB_KEY,{list}) VALUES({})", placeholders.join(","));
            append_parse(INSERT, &text, request);
        }
        for range in field_ranges(shape.reads_all, shape.fields) {
            let list = names(&range);
            if shape.reads {
                let text = format!("SELECT YCSB_KEY,{list} FROM {table} WHERE YCSB_KEY = $1");
                statements.reads.push(append_named_parse("read", &range, &text, request));
            }
            if shape.scans {
                let text =
                    format!("SELECT YCSB_KEY,{list} FROM {table} WHERE YCSB_KEY >= $1 ORDER BY YCSB_KEY LIMIT $2");
                statements.scans.push(append_named_parse("scan", &range, &text, request));
            }
        }
        for range in field_ranges(shape.writes_all, shape.fields).into_iter().filter(|_| shape.updates) {
            let changes: Vec<_> =
                range.clone().zip(1..).map(|(field, number)| format!("FIELD{field}=${number}")).collect();
            let text = format!("UPDATE {table} SET {} WHERE YCSB_KEY = ${}", changes.join(","), range.len() + 1);
            statements.updates.push(append_named_parse("update", &range, &text, request));
        }
        append_sync(request);
        channel.ask(no_row).await?;
        Ok(statements)
    }

    pub async fn insert(&self, channel: &mut Channel, key: &Key, values: Values<'_>) -> Result<()> {
        let parameters = values.fields().len() + 1;
        append_request(channel, INSERT, parameters, |out| {
            append_key(key, out);
            append_values(values, out);
        });
        execute_change(channel, "inserted").await
    }

    pub async fn update(&self, channel: &mut Channel, key: &Key, values: Values<'_>) -> Result<()> {
        let fields = values.fields();
        let index = if self.shape.writes_all { 0 } else { fields.start as usize };
        append_request(channel, statement_name(&self.updates, index)?, fields.len() + 1, |out| {
            append_values(values, out);
            append_key(key, out);
        });
        execute_change(channel, "updated").await
    }

    pub async fn read(&self, channel: &mut Channel, key: &Key, fields: Fields) -> Result<()> {
        append_request(channel, statement_name(&self.reads, field_index(fields))?, 1, |out| append_key(key, out));
        let columns = self.columns(fields);
        check_one_row(channel.ask(|body| read_key(body, columns).map(|_| ())).await?.rows)
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
        last.clear();
        last.extend_from_slice(from.as_bytes());
        append_request(channel, statement_name(&self.scans, field_index(fields))?, 2, |out| {
            append_key(from, out);
            append_value(out, |out| write!(out, "{count}").expect("writing to memory"));
        });
        let columns = self.columns(fields);
        let outcome = channel.ask(|body| check_order(read_key(body, columns)?, last));
        check_scan(outcome.await?.rows, count, "row")
    }

    fn columns(&self, fields: Fields) -> usize {
        match fields {
            Fields::All => self.shape.fields as usize + 1,
            Fields::One(_) => 2,
        }
    }
}

fn append_request(channel: &mut Channel, name: &str, parameters: usize, values: impl FnOnce(&mut Vec<u8>)) {
    let request = channel.request();
    append_execution(name, parameters, Results::Text, request, values);
    append_sync(request);
}

async fn execute_change(channel: &mut Channel, verb: &str) -> Result<()> {
    match channel.ask(no_row).await?.changed {
        1 => Ok(()),
        rows => {
            Err(Failure::new(Class::Server, format!("{rows} rows were {verb} instead of one: is the data loaded?")))
        }
    }
}

fn field_ranges(all: bool, fields: u32) -> Vec<Range<u32>> {
    let width = if all { fields } else { 1 };
    (0..fields).step_by(width as usize).map(|first| first..first + width).collect()
}

fn names(range: &Range<u32>) -> String {
    range.clone().map(|field| format!("FIELD{field}")).collect::<Vec<_>>().join(",")
}

fn append_named_parse(kind: &str, range: &Range<u32>, text: &str, request: &mut Vec<u8>) -> String {
    let name = format!("{kind}{}", range.start);
    append_parse(&name, text, request);
    name
}

fn field_index(fields: Fields) -> usize {
    match fields {
        Fields::All => 0,
        Fields::One(field) => field as usize,
    }
}

fn statement_name(statements: &[String], index: usize) -> Result<&str> {
    let unprepared = || Failure::new(Class::Internal, "an operation was started before its statement was prepared");
    statements.get(index).map(String::as_str).ok_or_else(unprepared)
}

fn append_key(key: &Key, out: &mut Vec<u8>) {
    append_value(out, |out| out.extend_from_slice(key.as_bytes()));
}

fn append_values(values: Values<'_>, out: &mut Vec<u8>) {
    values.append(out, |out, _, length| out.extend_from_slice(&(length as u32).to_be_bytes()));
}

fn read_key(body: &[u8], columns: usize) -> Result<&[u8]> {
    let null = || Failure::new(Class::Protocol, "a row contains NULL: is it YCSB's table?");
    let mut reader = row(body, columns)?;
    let key = reader.value()?.ok_or_else(null)?;
    for _ in 1..columns {
        reader.value()?.ok_or_else(null)?;
    }
    end(reader)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::message::Reader;
    use base::Random;
    use proptest::prelude::*;
    use workload::ycsb::Lengths;

    #[test]
    fn table_names_are_quoted() {
        assert_eq!(quoted("a\"; DROP TABLE b"), "\"a\"\"; DROP TABLE b\"");
    }

    #[test]
    fn row_must_have_a_key_and_the_requested_fields() {
        assert_eq!(read_key(b"\0\x02\0\0\0\x05user1\0\0\0\0", 2).unwrap(), b"user1");
        for body in [&b"\0\x02\0\0\0\x05user1\xff\xff\xff\xff"[..], b"\0\x02\0\0\0\x05user1", b"\0\x01\0\0\0\0", b""] {
            assert_eq!(read_key(body, 2).unwrap_err().class, Class::Protocol, "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn encoded_parameter_values_can_be_parsed(count in 1..20_u32, longest in 1..300_u64, seed in any::<u64>()) {
            let (mut request, mut random) = (Vec::new(), Random::new(seed));
            append_values(Values::new(Fields::All, count, &Lengths::uniform(1, longest), &mut random), &mut request);
            let mut reader = Reader::new(&request);
            for _ in 0..count {
                prop_assert!((1..=longest as usize).contains(&reader.value().unwrap().unwrap().len()));
            }
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn reading_rows_from_arbitrary_bytes_never_panics() {
        bolero::check!().with_iterations(2000).with_type().for_each(|(body, columns): &(Vec<u8>, u16)| {
            let _ = (read_key(body, usize::from(*columns)), read_key(body, usize::from(columns % 8)));
        });
    }
}
