//! Operations on sysbench's table. One row is read by its key, as in `oltp_point_select`, with a statement that is sent
//! as text or prepared. One row is written by its key, as in `oltp_update_non_index`, with a statement that is sent as
//! text. Rows are loaded in batches, as in `prepare`: one INSERT writes many rows.

use super::channel::{Channel, Layout};
use super::{Settings, Statements};
use base::Random;
use base::error::{Class, Failure, Result};
use mysql::bytes::{NULL, Reader};
use mysql::command;
use mysql::packet::{self, PreparedPacket};
use mysql::row::begin_binary;
use std::io::Write;
use std::ops::Range;
use workload::sysbench::{Table, append_c};

/// The parameter type `MYSQL_TYPE_LONGLONG`, signed.
pub const BIGINT: [u8; 2] = [0x08, 0x00];
/// The query of one row by its key.
pub struct PointSelect {
    statements: Statements,
    text: Vec<u8>,
}

/// The number that the server has given to a prepared statement. It is valid on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared(pub u32);

impl PointSelect {
    pub fn new(settings: &Settings) -> Self {
        let text = format!("SELECT c FROM {} WHERE id=", quoted(&settings.table));
        PointSelect { statements: settings.statements, text: text.into_bytes() }
    }

    pub fn is_prepared(&self) -> bool {
        self.statements == Statements::Prepared
    }

    pub async fn prepare(&self, channel: &mut Channel, without_eof: bool) -> Result<Prepared> {
        let statement = [&self.text, &b"?"[..]].concat();
        prepare(channel, &statement, Width { columns: 1, parameters: 1 }, without_eof).await
    }

    pub async fn read(
        &self,
        channel: &mut Channel,
        id: u64,
        prepared: Option<Prepared>,
        without_eof: bool,
    ) -> Result<()> {
        match prepared {
            Some(prepared) => append_execute(prepared, id, channel.command(command::STMT_EXECUTE)),
            None => self.append_text(id, channel.command(command::QUERY)),
        }
        channel.send().await?;
        read_one_row(channel, Layout { binary: prepared.is_some(), without_eof }).await
    }

    fn append_text(&self, id: u64, request: &mut Vec<u8>) {
        request.extend_from_slice(&self.text);
        write!(request, "{id}").expect("writing to memory");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width {
    /// The number of columns of the result; 0 for a statement without a result.
    pub columns: u16,
    pub parameters: u16,
}

pub async fn prepare(channel: &mut Channel, text: &[u8], width: Width, without_eof: bool) -> Result<Prepared> {
    channel.command(command::STMT_PREPARE).extend_from_slice(text);
    channel.send().await?;
    let prepared = read_prepared(channel.receive().await?, width)?;
    // The server first sends the definitions of the parameters, and then the definitions of the columns.
    for definitions in [width.parameters, width.columns] {
        channel.receive_columns(definitions.into(), without_eof).await?;
    }
    channel.io.check_idle()?;
    Ok(prepared)
}

/// Return the name as a quoted SQL identifier.
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn append_execute(Prepared(statement): Prepared, id: u64, request: &mut Vec<u8>) {
    request.extend_from_slice(&statement.to_le_bytes());
    // The flags (0 for no cursor), the number of iterations (1, in four bytes), the bitmap of NULLs (0 for none), and a
    // 1, which means that types follow.
    request.extend_from_slice(&[0, 1, 0, 0, 0, 0, 1]);
    request.extend_from_slice(&BIGINT);
    request.extend_from_slice(&id.to_le_bytes());
}

fn read_prepared(packet: &[u8], width: Width) -> Result<Prepared> {
    let Some(prepared) = PreparedPacket::parse(packet::not_an_error(packet)?)? else {
        return Err(Failure::protocol("the answer to PREPARE is malformed"));
    };
    let PreparedPacket { statement, columns, parameters } = prepared;
    if (Width { columns, parameters }) != width {
        let Width { columns: expected_columns, parameters: expected_parameters } = width;
        let actual = format!("{columns} columns and {parameters} parameters");
        return Err(Failure::protocol(format!(
            "the statement has {actual}, not {expected_columns} and {expected_parameters}: is it the right table?"
        )));
    }
    Ok(Prepared(statement))
}

async fn read_one_row(channel: &mut Channel, layout: Layout) -> Result<()> {
    let columns = channel.receive_column_count().await?;
    if columns != 1 {
        return Err(Failure::protocol(format!("the answer has {columns} columns instead of one")));
    }
    channel.receive_columns(columns, layout.without_eof).await?;
    let mut rows = 0;
    while let Some(row) = channel.receive_row(layout).await? {
        check_row(row, layout.binary)?;
        rows += 1;
        if rows > 1 {
            return Err(Failure::protocol("the server returned more than one row for one key"));
        }
    }
    channel.io.check_idle()?;
    match rows {
        0 => Err(Failure::new(Class::Server, "the query found no row: is the data loaded?")),
        _ => Ok(()),
    }
}

fn check_row(packet: &[u8], binary: bool) -> Result<()> {
    let mut reader = Reader::new(packet);
    let is_null = if binary { begin_binary(&mut reader, 1)?.has(0) } else { reader.peek() == Some(NULL) };
    if is_null {
        return Err(Failure::new(Class::Server, "the row contains NULL: is it sysbench's table?"));
    }
    reader.text()?;
    if reader.is_empty() { Ok(()) } else { Err(Failure::protocol("a row contains more than one string")) }
}

/// The update of a column without an index, in the row with a given key.
pub struct PointUpdate {
    text: Vec<u8>,
}

impl PointUpdate {
    pub fn new(settings: &Settings) -> Self {
        PointUpdate { text: format!("UPDATE {} SET c='", quoted(&settings.table)).into_bytes() }
    }

    pub async fn write(&self, channel: &mut Channel, id: u64, random: &mut Random) -> Result<()> {
        self.append(id, random, channel.command(command::QUERY));
        match finish(channel).await? {
            1 => Ok(()),
            rows => Err(Failure::new(
                Class::Server,
                format!("{rows} rows were updated instead of one: is the data loaded?"),
            )),
        }
    }

    fn append(&self, id: u64, random: &mut Random, request: &mut Vec<u8>) {
        request.extend_from_slice(&self.text);
        append_c(random, request);
        write!(request, "' WHERE id={id}").expect("writing to memory");
    }
}

/// The insertion of many rows with one INSERT statement.
pub struct BulkInsert {
    text: Vec<u8>,
}

impl BulkInsert {
    pub fn new(settings: &Settings) -> Self {
        let text = format!("INSERT INTO {} (id, k, c, pad) VALUES ", quoted(&settings.table));
        BulkInsert { text: text.into_bytes() }
    }

    pub async fn write(&self, channel: &mut Channel, table: &Table, records: Range<u64>) -> Result<()> {
        let expected = records.end - records.start;
        self.append(table, records, channel.command(command::QUERY));
        let written = finish(channel).await?;
        if written == expected {
            return Ok(());
        }
        Err(Failure::new(Class::Server, format!("only {written} of {expected} rows were written")))
    }

    fn append(&self, table: &Table, records: Range<u64>, request: &mut Vec<u8>) {
        request.extend_from_slice(&self.text);
        let first = records.start;
        for record in records {
            if record > first {
                request.push(b',');
            }
            table.append_row(record, request);
        }
    }
}

/// Send an INSERT (`into` and `rows`), and return the number of written rows.
pub async fn write_rows(channel: &mut Channel, into: &[u8], rows: &[u8]) -> Result<u64> {
    let request = channel.command(command::QUERY);
    request.extend_from_slice(into);
    request.extend_from_slice(rows);
    finish(channel).await
}

async fn finish(channel: &mut Channel) -> Result<u64> {
    channel.send().await?;
    let written = packet::changed_rows(channel.receive().await?)?;
    channel.io.check_idle()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::io::ParseBuf;
    use mysql_common::packets::StmtPacket;
    use mysql_common::proto::MyDeserialize;
    use proptest::prelude::*;

    fn settings(table: &str, statements: Statements) -> Settings {
        Settings {
            addresses: Vec::new(),
            username: None,
            password: None,
            database: "sbtest".into(),
            table: table.into(),
            statements,
            decryption: None,
        }
    }

    #[test]
    fn queries_are_those_of_sysbench_but_with_quoted_names() {
        let (mut text, settings) = (Vec::new(), settings("sbtest1", Statements::Text));
        PointSelect::new(&settings).append_text(42, &mut text);
        assert_eq!(text, b"SELECT c FROM `sbtest1` WHERE id=42");
        text.clear();
        PointUpdate::new(&settings).append(42, &mut Random::new(1), &mut text);
        let text = String::from_utf8(text).unwrap();
        let value = text.strip_prefix("UPDATE `sbtest1` SET c='").unwrap().strip_suffix("' WHERE id=42").unwrap();
        assert_eq!((value.len(), value.split('-').count()), (119, 10));
        assert_eq!(quoted("a`; DROP TABLE b"), "`a``; DROP TABLE b`");
    }

    /// The request consists of the statement's number, flags, the number of iterations, the bitmap of NULLs, a 1 (types
    /// follow), the parameter's type and its value (MySQL Internals, "COM_STMT_EXECUTE").
    #[test]
    fn executing_a_prepared_query_sends_the_key_as_bigint() {
        let mut request = Vec::new();
        append_execute(Prepared(0x0102_0304), 0x1_0000_0005, &mut request);
        assert_eq!(request, b"\x04\x03\x02\x01\x00\x01\0\0\0\x00\x01\x08\x00\x05\0\0\0\x01\0\0\0");
    }

    #[test]
    fn prepared_statement_must_have_the_expected_number_of_columns() {
        let packet = b"\x00\x07\0\0\0\x01\0\x01\0\0\0\0";
        let one = Width { columns: 1, parameters: 1 };
        assert_eq!(read_prepared(packet, one).unwrap(), Prepared(7));
        assert_eq!(StmtPacket::deserialize((), &mut ParseBuf(packet)).unwrap().statement_id(), 7);
        assert!(read_prepared(b"\x00\x07\0\0\0\x02\0\x01\0\0\0\0", one).is_err(), "two columns");
        assert_eq!(read_prepared(b"\xff\x7a\x04#42S02Table 'x' doesn't exist", one).unwrap_err().class, Class::Server);
    }

    #[test]
    fn row_of_a_query_result_must_be_one_string() {
        check_row(b"\x03abc", false).unwrap();
        check_row(b"\x00\x00\x03abc", true).unwrap();
        for (row, binary, class) in [
            (&b"\xfb"[..], false, Class::Server),
            (b"\x00\x04", true, Class::Server),
            (b"\x03abcd", false, Class::Protocol),
            (b"\x03ab", false, Class::Protocol),
            (b"\x01\x00\x03abc", true, Class::Protocol),
            (b"", false, Class::Protocol),
        ] {
            assert_eq!(check_row(row, binary).unwrap_err().class, class, "{row:?}");
        }
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = read_prepared(&bytes, Width { columns: 1, parameters: 1 });
            let _ = (check_row(&bytes, true), check_row(&bytes, false));
        }
    }

    #[test]
    fn rows_of_an_insert_are_separated_by_commas() {
        let insert = BulkInsert { text: b"INSERT INTO `t` (id, k, c, pad) VALUES ".to_vec() };
        let mut request = Vec::new();
        insert.append(&Table::new(10, 1), 3..5, &mut request);
        let text = String::from_utf8(request).unwrap();
        let rows = text.strip_prefix("INSERT INTO `t` (id, k, c, pad) VALUES ").unwrap();
        assert!(rows.starts_with("(4,") && rows.contains("'),(5,") && rows.ends_with("')"), "{rows}");
    }
}
