//! The state of an answer: which packets are still to come (MySQL Internals, "Text Protocol" and "Prepared Statements").

use base::error::{Failure, Result};
use mysql::bytes::Reader;
use mysql::packet::{EOF, ERR, LONGEST_EOF, MORE_RESULTS, OK, OkPacket, PreparedPacket, eof_status};

/// More than any server has in a result set.
const MOST_COLUMNS: u64 = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Nothing; it is the client's turn.
    Nothing,
    /// One packet: an OK, an EOF or an error.
    Short,
    /// An OK, an error, or how many columns a result set has.
    Result,
    /// An error, or a prepared statement's number and counts.
    Prepared,
    Definitions(u64, Of),
    EndOfDefinitions(Of),
    Rows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    Rows,
    /// A prepared statement's parameters, before so many of its columns.
    Parameters {
        columns: u16,
    },
    Columns,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ok,
    Error,
    Count(u64),
    Definition(Of),
    Eof,
    Row,
    /// The OK that ends rows in place of an EOF.
    EndOfRows,
    Prepared(PreparedPacket),
}

impl Expected {
    /// Return what the next packet is. `without_eof`: lists end without an EOF packet.
    pub fn take(&mut self, payload: &[u8], without_eof: bool) -> Result<Kind> {
        let first = *payload.first().ok_or_else(|| Failure::protocol("the server sent an empty packet"))?;
        let is_eof = first == EOF && payload.len() <= LONGEST_EOF;
        if first == ERR {
            // An error ends the whole answer.
            *self = Expected::Nothing;
            return Ok(Kind::Error);
        }
        let (kind, next) = match *self {
            Expected::Nothing => return Err(Failure::protocol("the server said more than it was asked for")),
            Expected::Short if is_eof => (Kind::Eof, Expected::Nothing),
            Expected::Short if first == OK || first == EOF => (Kind::Ok, Expected::Nothing),
            Expected::Short => return Err(Failure::protocol("the server's answer is no OK")),
            Expected::Result if first == OK => (Kind::Ok, after_result(ok_status(payload)?)),
            Expected::Result => {
                let mut reader = Reader::new(payload);
                match reader.length()? {
                    columns @ 1..MOST_COLUMNS if reader.is_empty() => {
                        (Kind::Count(columns), Expected::Definitions(columns, Of::Rows))
                    }
                    _ => return Err(Failure::protocol("the server's answer is no result set")),
                }
            }
            Expected::Prepared => {
                let none = || Failure::protocol("the server's answer to a preparation is none");
                let prepared = PreparedPacket::parse(payload)?.ok_or_else(none)?;
                let of = Of::Parameters { columns: prepared.columns };
                let next = match prepared.parameters {
                    0 => after_definitions(of),
                    parameters => Expected::Definitions(parameters.into(), of),
                };
                (Kind::Prepared(prepared), next)
            }
            Expected::Definitions(left, of) => {
                let next = match left {
                    1 if without_eof => after_definitions(of),
                    1 => Expected::EndOfDefinitions(of),
                    _ => Expected::Definitions(left - 1, of),
                };
                (Kind::Definition(of), next)
            }
            Expected::EndOfDefinitions(of) if is_eof => (Kind::Eof, after_definitions(of)),
            Expected::EndOfDefinitions(_) => return Err(Failure::protocol("definitions do not end where they should")),
            Expected::Rows if first == EOF && without_eof => (Kind::EndOfRows, after_result(ok_status(payload)?)),
            Expected::Rows if is_eof => (Kind::Eof, after_result(eof_status(payload)?)),
            Expected::Rows => (Kind::Row, Expected::Rows),
        };
        *self = next;
        Ok(kind)
    }
}

fn ok_status(payload: &[u8]) -> Result<u16> {
    Ok(OkPacket::read(&mut Reader::new(payload))?.status)
}

fn after_result(status: u16) -> Expected {
    if status & MORE_RESULTS != 0 { Expected::Result } else { Expected::Nothing }
}

fn after_definitions(of: Of) -> Expected {
    match of {
        Of::Rows => Expected::Rows,
        Of::Columns | Of::Parameters { columns: 0 } => Expected::Nothing,
        Of::Parameters { columns } => Expected::Definitions(columns.into(), Of::Columns),
    }
}
