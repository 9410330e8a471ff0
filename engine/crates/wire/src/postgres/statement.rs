//! Statements as they are asked (PostgreSQL's documentation, "Message Flow"): by the simple protocol, or parsed, bound, described
//! and executed by the extended one. Parameters are text of a type that the server finds out, as libpq's and pgbench's are.

use super::message::{append, append_string, append_value, frontend};
use super::settings::{Results, Statements};
use std::io::Write;

/// Describe's and Close's, of what Bind has made.
const PORTAL: u8 = b'P';
/// The statement and the portal that have no name last until there is another.
const UNNAMED: &str = "";
/// Execute's: all rows.
const ALL_ROWS: i32 = 0;

/// A name as SQL has it, whatever is in it.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A statement whose parameters are whole numbers.
pub struct Numbered {
    pub name: &'static str,
    /// What stands before, between and after the parameters.
    pieces: Vec<String>,
}

impl Numbered {
    pub fn new(name: &'static str, text: &str) -> Self {
        Numbered { name, pieces: text.split('?').map(Into::into).collect() }
    }

    /// Append all that asks it once, but the end of it ([`append_end`]).
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

/// Append what executes a prepared statement: `values` appends so many parameters, each by [`append_value`].
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
