//! pgbench's tables and what its built-in scripts ask of them (pgbench.c, `builtin_script`): "select only" and "TPC-B (sort
//! of)"; and the load by COPY.
//!
//! Statements go by the simple protocol, or are parsed, bound, described and executed by the extended one (PostgreSQL's
//! documentation, "Message Flow"). Parameters are text of a type that the server finds out, as libpq's and pgbench's are.

use super::channel::{Answer, Channel, Outcome, end, row};
use super::message::{self, append, append_string, append_value, backend, frontend};
use super::{Results, Statements};
use base::error::{Class, Failure, Result};
use std::io::Write;
use std::ops::Range;
use workload::pgbench::{Bank, Transfer};

/// Places of the statements below.
const SELECT: usize = 0;
const BEGIN: usize = 1;
const ACCOUNT: usize = 2;
const TELLER: usize = 3;
const BRANCH: usize = 4;
const HISTORY: usize = 5;
const END: usize = 6;

/// How they are asked.
pub struct Scripts {
    statements: Statements,
    results: Results,
    all: [Numbered; 7],
    copy: String,
}

/// Which of them a session has prepared, a bit each.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prepared(u8);

impl Scripts {
    /// By this protocol, for results of this kind; of tables in this schema, or in those that the session looks in.
    pub fn new(statements: Statements, results: Results, schema: Option<&str>) -> Self {
        let of = schema.map(|name| format!("{}.", quoted(name))).unwrap_or_default();
        let values = "(tid, bid, aid, delta, mtime) VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP)";
        let texts = [
            ("select", format!("SELECT abalance FROM {of}pgbench_accounts WHERE aid = ?")),
            ("begin", "BEGIN".into()),
            ("account", format!("UPDATE {of}pgbench_accounts SET abalance = abalance + ? WHERE aid = ?")),
            ("teller", format!("UPDATE {of}pgbench_tellers SET tbalance = tbalance + ? WHERE tid = ?")),
            ("branch", format!("UPDATE {of}pgbench_branches SET bbalance = bbalance + ? WHERE bid = ?")),
            ("history", format!("INSERT INTO {of}pgbench_history {values}")),
            ("end", "END".into()),
        ];
        let copy = format!("COPY {of}pgbench_accounts (aid, bid, abalance, filler) FROM STDIN");
        Scripts { statements, results, all: texts.map(|(name, text)| Numbered::new(name, &text)), copy }
    }

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
            _ => return Err(Failure::protocol("the answer to COPY is none")),
        }
        let request = channel.request();
        append(request, frontend::COPY_DATA, |out| records.for_each(|record| bank.append_row(record, out)));
        append(request, frontend::COPY_DONE, |_| ());
        let written = channel.ask(no_row).await?.changed;
        if written == expected {
            return Ok(());
        }
        Err(Failure::new(Class::Server, format!("{written} rows of {expected} were written")))
    }

    pub async fn prepare_all(&self, channel: &mut Channel, prepared: &mut Prepared) -> Result<()> {
        self.prepare(channel, prepared, 0..self.all.len()).await
    }

    /// Read so many accounts without waiting in between: one round trip, besides the preparation that the first needs.
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
        Err(Failure::new(Class::Server, format!("{} rows for {count} keys: is the data loaded?", outcome.rows)))
    }

    /// Carry out one transaction: seven round trips, besides the preparation that the first needs.
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
            return Err(Failure::protocol("a transaction does not end"));
        }
        Ok(())
    }

    /// Execute a statement that changes one row, or none where it has no parameters.
    async fn change(
        &self,
        channel: &mut Channel,
        prepared: &mut Prepared,
        place: usize,
        values: &[i64],
    ) -> Result<Outcome> {
        self.prepare(channel, prepared, place..place + 1).await?;
        append_all(self.statements, channel.request(), |out| {
            self.all[place].append(self.statements, self.results, values, out);
        });
        let outcome = channel.ask(no_row).await?;
        if outcome.changed == u64::from(!values.is_empty()) {
            return Ok(outcome);
        }
        let found = outcome.changed;
        Err(Failure::new(Class::Server, format!("{found} rows were changed, where one is: are the tables pgbench's?")))
    }

    /// Once a session, as pgbench does it: a round trip of its own, the first time that a statement is wanted.
    async fn prepare(&self, channel: &mut Channel, prepared: &mut Prepared, places: Range<usize>) -> Result<()> {
        if self.statements != Statements::Prepared || places.clone().all(|place| prepared.has(place)) {
            return Ok(());
        }
        let request = channel.request();
        for statement in places.clone().filter(|place| !prepared.has(*place)).map(|place| &self.all[place]) {
            statement.append_parse(statement.name, request);
        }
        append_sync(request);
        channel.ask(no_row).await?;
        places.for_each(|place| prepared.0 |= 1 << place);
        Ok(())
    }
}

impl Prepared {
    fn has(self, place: usize) -> bool {
        self.0 & 1 << place != 0
    }
}

pub fn no_row(_body: &[u8]) -> Result<()> {
    Err(Failure::protocol("a row, where none was asked for"))
}

fn check_balance(body: &[u8], binary: bool) -> Result<()> {
    let mut reader = row(body, 1)?;
    let value = reader.value()?.ok_or_else(|| Failure::new(Class::Protocol, "a balance is NULL"))?;
    let is_integer = match binary {
        true => value.len() == size_of::<i32>(),
        false => std::str::from_utf8(value).is_ok_and(|text| text.parse::<i32>().is_ok()),
    };
    if is_integer { end(reader) } else { Err(Failure::protocol("a balance is no integer")) }
}

/// Describe's and Close's, of what Bind has made.
const PORTAL: u8 = b'P';
/// The statement and the portal that have no name last until there is another.
const UNNAMED: &str = "";
/// Execute's: all rows.
const ALL_ROWS: i32 = 0;

pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A statement whose parameters are whole numbers.
pub struct Numbered {
    pub name: &'static str,
    pieces: Vec<String>,
}

impl Numbered {
    pub fn new(name: &'static str, text: &str) -> Self {
        Numbered { name, pieces: text.split('?').map(Into::into).collect() }
    }

    pub fn append(&self, statements: Statements, results: Results, values: &[i64], out: &mut Vec<u8>) {
        assert_eq!(values.len() + 1, self.pieces.len(), "parameters of '{}'", self.name);
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
                append_value(out, |out| write!(out, "{value}").expect("memory takes what is written"));
            }
        });
    }

    pub fn append_parse(&self, name: &str, out: &mut Vec<u8>) {
        append(out, frontend::PARSE, |out| {
            append_string(out, name);
            for (at, piece) in self.pieces.iter().enumerate() {
                if at > 0 {
                    write!(out, "${at}").expect("memory takes what is written");
                }
                out.extend_from_slice(piece.as_bytes());
            }
            // The end of the text, and no types of parameters.
            out.extend_from_slice(&[0, 0, 0]);
        });
    }

    fn append_text(&self, values: &[i64], out: &mut Vec<u8>) {
        for (at, piece) in self.pieces.iter().enumerate() {
            if let Some(value) = at.checked_sub(1).map(|before| values[before]) {
                write!(out, "{value}").expect("memory takes what is written");
            }
            out.extend_from_slice(piece.as_bytes());
        }
        out.push(b';');
    }
}

/// Append the requests that `ask` appends, and what ends them: a simple protocol's are one message, all statements in it; an
/// extended one's end with Sync.
pub fn append_all(statements: Statements, out: &mut Vec<u8>, ask: impl FnOnce(&mut Vec<u8>)) {
    if statements == Statements::Simple {
        return append(out, frontend::QUERY, |out| {
            ask(out);
            out.push(0);
        });
    }
    ask(out);
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
        // All parameters are text.
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&(parameters as u16).to_be_bytes());
        values(out);
        let format = u8::from(results == Results::Binary);
        // One format for all columns.
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

/// Append the end of requests of the extended protocol: the server answers when it has seen it.
pub fn append_sync(out: &mut Vec<u8>) {
    append(out, frontend::SYNC, |_| ());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balance_is_one_integer_in_its_format() {
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
    fn fuzz_rows_of_arbitrary_bytes() {
        bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
            let _ = (check_balance(bytes, true), check_balance(bytes, false));
        });
    }

    fn asked(statements: Statements, results: Results, values: &[&[i64]]) -> Vec<u8> {
        let statement = Numbered::new("s", "SELECT ? + ?");
        let mut out = Vec::new();
        append_all(statements, &mut out, |out| {
            values.iter().for_each(|values| statement.append(statements, results, values, out));
        });
        out
    }

    #[test]
    fn a_simple_query_holds_its_parameters() {
        let out = asked(Statements::Simple, Results::Text, &[&[1, -5]]);
        assert_eq!(out, b"Q\0\0\0\x13SELECT 1 + -5;\0");
    }

    #[test]
    fn several_simple_queries_are_one_message() {
        let out = asked(Statements::Simple, Results::Text, &[&[1, 2], &[3, 4]]);
        assert_eq!(out, b"Q\0\0\0\x1fSELECT 1 + 2;SELECT 3 + 4;\0");
    }

    #[test]
    fn a_prepared_statement_is_bound_described_and_executed() {
        let out = asked(Statements::Prepared, Results::Binary, &[&[1, -5]]);
        let bind = b"B\0\0\0\x1a\0s\0\0\0\0\x02\0\0\0\x011\0\0\0\x02-5\0\x01\0\x01";
        let rest = b"D\0\0\0\x06P\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
        assert_eq!(out, [&bind[..], &rest[..]].concat());
    }

    #[test]
    fn an_extended_query_is_parsed_each_time() {
        let out = asked(Statements::Extended, Results::Text, &[&[1, 2], &[3, 4]]);
        let parse = b"P\0\0\0\x16\0SELECT $1 + $2\0\0\0";
        assert!(out.starts_with(parse));
        assert_eq!(out.windows(parse.len()).filter(|window| window == parse).count(), 2);
        assert_eq!(out.windows(5).filter(|window| window == b"S\0\0\0\x04").count(), 1, "one Sync");
    }
}
