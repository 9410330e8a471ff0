//! Operations on pgbench's tables: its built-in scripts "select only" and "TPC-B (sort of)" (pgbench.c,
//! `builtin_script`), and loading by COPY.
//!
//! In the simple query protocol, statements are sent as text. In the extended query protocol, statements are parsed,
//! bound, described and executed (PostgreSQL's documentation, "Message Flow"). As with libpq and pgbench, parameters
//! are sent as text and the server infers their types.

use super::channel::{Answer, Channel, Outcome, end, row};
use super::message::{self, append, append_string, append_value, backend, frontend};
use super::{Results, Statements};
use base::error::{Class, Failure, Result};
use std::io::Write;
use std::ops::Range;
use workload::pgbench::{Bank, Transfer};

/// The indexes of the statements in `Scripts::all`.
const SELECT: usize = 0;
const BEGIN: usize = 1;
const ACCOUNT: usize = 2;
const TELLER: usize = 3;
const BRANCH: usize = 4;
const HISTORY: usize = 5;
const END: usize = 6;

/// The statements of pgbench's scripts, for one query protocol and one result format.
pub struct Scripts {
    statements: Statements,
    results: Results,
    all: [IntegerStatement; 7],
    copy: String,
}

/// The set of statements that a session has prepared, one bit for each.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prepared(u8);

impl Scripts {
    /// Create the statements for this query protocol and this format of results. The tables are in `schema`, or in the
    /// session's search path if `schema` is None.
    pub fn new(statements: Statements, results: Results, schema: Option<&str>) -> Self {
        let prefix = schema_prefix(schema);
        let values = "(tid, bid, aid, delta, mtime) VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP)";
        let texts = [
            ("select", format!("SELECT abalance FROM {prefix}pgbench_accounts WHERE aid = ?")),
            ("begin", "BEGIN".into()),
            ("account", format!("UPDATE {prefix}pgbench_accounts SET abalance = abalance + ? WHERE aid = ?")),
            ("teller", format!("UPDATE {prefix}pgbench_tellers SET tbalance = tbalance + ? WHERE tid = ?")),
            ("branch", format!("UPDATE {prefix}pgbench_branches SET bbalance = bbalance + ? WHERE bid = ?")),
            ("history", format!("INSERT INTO {prefix}pgbench_history {values}")),
            ("end", "END".into()),
        ];
        let copy = format!("COPY {prefix}pgbench_accounts (aid, bid, abalance, filler) FROM STDIN");
        Scripts { statements, results, all: texts.map(|(name, text)| IntegerStatement::new(name, &text)), copy }
    }

    /// Load these records by COPY.
    pub async fn copy(&self, channel: &mut Channel, bank: &Bank, records: Range<u64>) -> Result<()> {
        let expected = records.end - records.start;
        append_query(&self.copy, channel.request());
        channel.send().await?;
        match channel.receive().await? {
            (backend::COPY_IN_RESPONSE, _) => {}
            (backend::ERROR_RESPONSE, body) => {
                let failure = message::failure(body);
                return Err(channel.take_answer(Answer::new(no_row)).await.err().unwrap_or(failure));
            }
            _ => return Err(Failure::protocol("the answer to COPY is unexpected")),
        }
        let request = channel.request();
        append(request, frontend::COPY_DATA, |out| records.for_each(|record| bank.append_row(record, out)));
        append(request, frontend::COPY_DONE, |_| ());
        let written = channel.ask(no_row).await?.changed;
        if written == expected {
            return Ok(());
        }
        Err(Failure::new(Class::Server, format!("only {written} of {expected} rows were written")))
    }

    pub async fn prepare_all(&self, channel: &mut Channel, prepared: &mut Prepared) -> Result<()> {
        self.prepare(channel, prepared, 0..self.all.len()).await
    }

    /// Read `count` accounts in a pipeline. This takes one round trip, and on first use one more for the preparation.
    pub async fn select(
        &self,
        channel: &mut Channel,
        prepared: &mut Prepared,
        count: usize,
        mut account: impl FnMut() -> i64,
    ) -> Result<()> {
        self.prepare(channel, prepared, SELECT..SELECT + 1).await?;
        append_all(self.statements, channel.request(), |out| {
            for _ in 0..count {
                self.all[SELECT].append(self.statements, self.results, &[account()], out);
            }
        });
        let binary = self.statements != Statements::Simple && self.results == Results::Binary;
        let outcome = channel.ask(|body| check_balance(body, binary)).await?;
        if outcome.rows == count as u64 && outcome.commands == count {
            return Ok(());
        }
        Err(Failure::new(
            Class::Server,
            format!("the server returned {} rows for {count} keys: is the data loaded?", outcome.rows),
        ))
    }

    /// Execute one transaction, and roll it back after an error of class `server`. A transaction takes seven round
    /// trips. On first use, preparing the statements takes further round trips.
    pub async fn transact(&self, channel: &mut Channel, prepared: &mut Prepared, about: Transfer) -> Result<()> {
        let outcome = self.transaction(channel, prepared, about).await;
        if outcome.as_ref().is_err_and(|failure| failure.class == Class::Server) {
            append_query("ROLLBACK", channel.request());
            channel.ask(no_row).await?;
        }
        outcome
    }

    async fn transaction(&self, channel: &mut Channel, prepared: &mut Prepared, about: Transfer) -> Result<()> {
        let Transfer { account, teller, branch, delta } = about;
        self.change(channel, prepared, BEGIN, &[]).await?;
        self.change(channel, prepared, ACCOUNT, &[delta, account]).await?;
        self.select(channel, prepared, 1, || account).await?;
        self.change(channel, prepared, TELLER, &[delta, teller]).await?;
        self.change(channel, prepared, BRANCH, &[delta, branch]).await?;
        self.change(channel, prepared, HISTORY, &[teller, branch, account, delta]).await?;
        let outcome = self.change(channel, prepared, END, &[]).await?;
        if outcome.in_transaction {
            return Err(Failure::protocol("a transaction did not end"));
        }
        Ok(())
    }

    /// Execute a statement, and check the number of changed rows. A statement with parameters changes one row, and one
    /// without parameters (such as BEGIN) changes none.
    async fn change(
        &self,
        channel: &mut Channel,
        prepared: &mut Prepared,
        index: usize,
        values: &[i64],
    ) -> Result<Outcome> {
        self.prepare(channel, prepared, index..index + 1).await?;
        append_all(self.statements, channel.request(), |out| {
            self.all[index].append(self.statements, self.results, values, out);
        });
        let outcome = channel.ask(no_row).await?;
        if outcome.changed == u64::from(!values.is_empty()) {
            return Ok(outcome);
        }
        let changed = outcome.changed;
        Err(Failure::new(
            Class::Server,
            format!("{changed} rows were changed instead of one: are these pgbench's tables?"),
        ))
    }

    /// Prepare those of the statements with these indexes that the session has not prepared yet. As in pgbench, this
    /// takes a separate round trip.
    async fn prepare(&self, channel: &mut Channel, prepared: &mut Prepared, indexes: Range<usize>) -> Result<()> {
        if self.statements != Statements::Prepared || indexes.clone().all(|index| prepared.has(index)) {
            return Ok(());
        }
        let request = channel.request();
        for statement in indexes.clone().filter(|index| !prepared.has(*index)).map(|index| &self.all[index]) {
            statement.append_parse(statement.name, request);
        }
        append_sync(request);
        channel.ask(no_row).await?;
        indexes.for_each(|index| prepared.0 |= 1 << index);
        Ok(())
    }
}

impl Prepared {
    fn has(self, index: usize) -> bool {
        self.0 & 1 << index != 0
    }
}

pub fn no_row(_body: &[u8]) -> Result<()> {
    Err(Failure::protocol("the server sent a row that was not requested"))
}

fn check_balance(body: &[u8], binary: bool) -> Result<()> {
    let mut reader = row(body, 1)?;
    let value = reader.value()?.ok_or_else(|| Failure::new(Class::Protocol, "a balance is NULL"))?;
    let is_integer = match binary {
        true => value.len() == size_of::<i32>(),
        false => std::str::from_utf8(value).is_ok_and(|text| text.parse::<i32>().is_ok()),
    };
    if is_integer { end(reader) } else { Err(Failure::protocol("a balance is not an integer")) }
}

/// The kind of object that the message Describe asks about: a portal, which the message Bind has created.
const PORTAL: u8 = b'P';
/// The name of the unnamed statement and portal. The next unnamed statement or portal replaces the previous one.
const UNNAMED: &str = "";
/// The maximum number of rows in the message Execute: 0, which means no limit.
const ALL_ROWS: i32 = 0;

/// Return the text to put before the name of a table in this schema, such as `"sales".`. If the schema is None, the
/// text is empty.
pub fn schema_prefix(schema: Option<&str>) -> String {
    schema.map(|name| format!("{}.", quoted(name))).unwrap_or_default()
}

pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Return a string constant of SQL, such as `'O''Neil'` for `O'Neil`.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A statement whose parameters are integers.
pub struct IntegerStatement {
    pub name: &'static str,
    parts: Vec<String>,
}

impl IntegerStatement {
    pub fn new(name: &'static str, text: &str) -> Self {
        IntegerStatement { name, parts: text.split('?').map(Into::into).collect() }
    }

    pub fn append(&self, statements: Statements, results: Results, values: &[i64], out: &mut Vec<u8>) {
        assert_eq!(values.len() + 1, self.parts.len(), "parameters of '{}'", self.name);
        let name = match statements {
            Statements::Simple => return self.append_text(values, out),
            Statements::Extended => {
                self.append_parse(UNNAMED, out);
                UNNAMED
            }
            Statements::Prepared => self.name,
        };
        append_execution(name, values.len(), results, out, |out| {
            for value in values {
                append_value(out, |out| write!(out, "{value}").expect("writing to memory"));
            }
        });
    }

    pub fn append_parse(&self, name: &str, out: &mut Vec<u8>) {
        append(out, frontend::PARSE, |out| {
            append_string(out, name);
            for (position, part) in self.parts.iter().enumerate() {
                if position > 0 {
                    write!(out, "${position}").expect("writing to memory");
                }
                out.extend_from_slice(part.as_bytes());
            }
            // The zero byte that ends the text, and the number of parameter types (none).
            out.extend_from_slice(&[0, 0, 0]);
        });
    }

    fn append_text(&self, values: &[i64], out: &mut Vec<u8>) {
        for (position, part) in self.parts.iter().enumerate() {
            if let Some(value) = position.checked_sub(1).map(|before| values[before]) {
                write!(out, "{value}").expect("writing to memory");
            }
            out.extend_from_slice(part.as_bytes());
        }
        out.push(b';');
    }
}

/// Append the statements that `append_requests` appends, and complete them to a request. In the simple query protocol,
/// one message contains all statements. In the extended query protocol, the message Sync follows the statements.
pub fn append_all(statements: Statements, out: &mut Vec<u8>, append_requests: impl FnOnce(&mut Vec<u8>)) {
    if statements == Statements::Simple {
        return append(out, frontend::QUERY, |out| {
            append_requests(out);
            out.push(0);
        });
    }
    append_requests(out);
    append_sync(out);
}

pub fn append_query(text: &str, out: &mut Vec<u8>) {
    append(out, frontend::QUERY, |out| append_string(out, text));
}

pub fn append_parse(name: &str, text: &str, out: &mut Vec<u8>) {
    append(out, frontend::PARSE, |out| {
        append_string(out, name);
        append_string(out, text);
        out.extend_from_slice(&[0, 0]);
    });
}

pub fn append_execution(
    name: &str,
    parameters: usize,
    results: Results,
    out: &mut Vec<u8>,
    values: impl FnOnce(&mut Vec<u8>),
) {
    append(out, frontend::BIND, |out| {
        append_string(out, UNNAMED);
        append_string(out, name);
        // No format codes: all parameters are text.
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&(parameters as u16).to_be_bytes());
        values(out);
        let format = u8::from(results == Results::Binary);
        // One format code for all columns.
        out.extend_from_slice(&[0, 1, 0, format]);
    });
    append(out, frontend::DESCRIBE, |out| {
        out.push(PORTAL);
        append_string(out, UNNAMED);
    });
    append(out, frontend::EXECUTE, |out| {
        append_string(out, UNNAMED);
        out.extend_from_slice(&ALL_ROWS.to_be_bytes());
    });
}

/// Append Sync. The server then answers all requests sent before it.
pub fn append_sync(out: &mut Vec<u8>) {
    append(out, frontend::SYNC, |_| ());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_of_select_must_be_one_integer() {
        check_balance(b"\0\x01\0\0\0\x02-5", false).unwrap();
        check_balance(b"\0\x01\0\0\0\x04\xff\xff\xff\xfb", true).unwrap();
        for (body, binary) in [
            (&b"\0\x01\0\0\0\x04\xff\xff\xff\xfb"[..], false),
            (b"\0\x01\0\0\0\x02-5", true),
            (b"\0\x01\xff\xff\xff\xff", false),
            (b"\0\x01\0\0\0\x02-5x", false),
            (b"\0\x02\0\0\0\x02-5\0\0\0\x02-5", false),
            (b"\0\x01\0\0\0\x09-5", false),
        ] {
            assert_eq!(check_balance(body, binary).unwrap_err().class, Class::Protocol, "{body:?}");
        }
    }

    #[test]
    fn reading_account_balances_from_arbitrary_bytes_never_panics() {
        bolero::check!().with_iterations(2000).for_each(|bytes: &[u8]| {
            let _ = (check_balance(bytes, true), check_balance(bytes, false));
        });
    }

    fn requests(statements: Statements, results: Results, values: &[&[i64]]) -> Vec<u8> {
        let statement = IntegerStatement::new("s", "SELECT ? + ?");
        let mut out = Vec::new();
        append_all(statements, &mut out, |out| {
            values.iter().for_each(|values| statement.append(statements, results, values, out));
        });
        out
    }

    #[test]
    fn simple_query_contains_its_parameters() {
        let out = requests(Statements::Simple, Results::Text, &[&[1, -5]]);
        assert_eq!(out, b"Q\0\0\0\x13SELECT 1 + -5;\0");
    }

    #[test]
    fn simple_queries_of_a_pipeline_are_sent_as_one_message() {
        let out = requests(Statements::Simple, Results::Text, &[&[1, 2], &[3, 4]]);
        assert_eq!(out, b"Q\0\0\0\x1fSELECT 1 + 2;SELECT 3 + 4;\0");
    }

    #[test]
    fn prepared_statement_is_executed_without_being_parsed_again() {
        let out = requests(Statements::Prepared, Results::Binary, &[&[1, -5]]);
        let bind = b"B\0\0\0\x1a\0s\0\0\0\0\x02\0\0\0\x011\0\0\0\x02-5\0\x01\0\x01";
        let rest = b"D\0\0\0\x06P\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
        assert_eq!(out, [&bind[..], &rest[..]].concat());
    }

    #[test]
    fn extended_query_is_parsed_at_each_execution() {
        let out = requests(Statements::Extended, Results::Text, &[&[1, 2], &[3, 4]]);
        let parse = b"P\0\0\0\x16\0SELECT $1 + $2\0\0\0";
        assert!(out.starts_with(parse));
        assert_eq!(out.windows(parse.len()).filter(|window| window == parse).count(), 2);
        assert_eq!(out.windows(5).filter(|window| window == b"S\0\0\0\x04").count(), 1, "one Sync");
    }
}
