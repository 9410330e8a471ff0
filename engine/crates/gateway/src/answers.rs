//! The state of a server's answer to one command (MySQL Internals, "Text Protocol" and "Prepared Statements").

use base::error::{Failure, Result};
use mysql::bytes::Reader;
use mysql::packet::{EOF, ERR, LONGEST_EOF, MORE_RESULTS, OK, OkPacket, PreparedPacket, eof_status};

/// The maximum number of columns in an answer. It is higher than the limit of any server.
const MOST_COLUMNS: u64 = 1 << 16;

/// The part of an answer that the server sends next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// No packet: the server waits for the next command.
    Nothing,
    /// A single packet: an OK, an EOF or an error.
    Short,
    /// The first packet of the answer to a query: an OK, an error, or the number of columns of a result set.
    Result,
    /// The first packet of the answer to PREPARE. It is an error, or contains the number that identifies the statement,
    /// and how many parameters and columns the statement has.
    Prepared,
    /// Column definitions. The first field is the number of definitions that are still to come.
    Definitions(u64, DefinitionsOf),
    EndOfDefinitions(DefinitionsOf),
    Rows,
}

/// The kind of a list of column definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionsOf {
    /// The columns of the rows that follow.
    Rows,
    /// The parameters of a prepared statement. After them the server sends the definitions of the statement's result
    /// columns, whose number is `columns`.
    Parameters { columns: u16 },
    /// The result columns of a prepared statement.
    Columns,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ok,
    Error,
    /// The number of columns of a result set.
    Count(u64),
    Definition(DefinitionsOf),
    Eof,
    Row,
    /// The OK packet that ends the rows if the client announced DEPRECATE_EOF. Otherwise [`Kind::Eof`] ends them.
    EndOfRows,
    Prepared(PreparedPacket),
}

impl Expected {
    /// Return the kind of this packet, and advance to the state after it. `without_eof` means that the client announced
    /// DEPRECATE_EOF: no EOF packet follows the column definitions, and an OK packet ends the rows. Errors: `protocol`
    /// for a packet that cannot occur in this state.
    pub fn advance(&mut self, payload: &[u8], without_eof: bool) -> Result<Kind> {
        let first = *payload.first().ok_or_else(|| Failure::protocol("the server sent an empty packet"))?;
        let is_eof = first == EOF && payload.len() <= LONGEST_EOF;
        if first == ERR {
            // An error ends the whole answer, regardless of what was expected.
            *self = Expected::Nothing;
            return Ok(Kind::Error);
        }
        let (kind, next) = match *self {
            Expected::Nothing => return Err(Failure::protocol("the server sent a packet that no command asked for")),
            Expected::Short if is_eof => (Kind::Eof, Expected::Nothing),
            Expected::Short if first == OK || first == EOF => (Kind::Ok, Expected::Nothing),
            Expected::Short => {
                return Err(Failure::protocol("the server answered with something other than an OK packet"));
            }
            Expected::Result if first == OK => (Kind::Ok, after_result(ok_status(payload)?)),
            Expected::Result => {
                let mut reader = Reader::new(payload);
                match reader.length()? {
                    columns @ 1..MOST_COLUMNS if reader.is_empty() => {
                        (Kind::Count(columns), Expected::Definitions(columns, DefinitionsOf::Rows))
                    }
                    _ => return Err(Failure::protocol("the server answered with something other than a result set")),
                }
            }
            Expected::Prepared => {
                let malformed = || Failure::protocol("the server's answer to PREPARE is malformed");
                let prepared = PreparedPacket::parse(payload)?.ok_or_else(malformed)?;
                let of = DefinitionsOf::Parameters { columns: prepared.columns };
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
            Expected::EndOfDefinitions(_) => {
                return Err(Failure::protocol("the column definitions do not end with an EOF packet"));
            }
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

fn after_definitions(of: DefinitionsOf) -> Expected {
    match of {
        DefinitionsOf::Rows => Expected::Rows,
        DefinitionsOf::Columns | DefinitionsOf::Parameters { columns: 0 } => Expected::Nothing,
        DefinitionsOf::Parameters { columns } => Expected::Definitions(columns.into(), DefinitionsOf::Columns),
    }
}
