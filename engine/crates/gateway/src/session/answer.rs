//! The state of an answer: which packets are still to come (MySQL Internals, "Text Protocol" and
//! "Prepared Statements").

use super::flow::{CONTINUED, Head};
use base::error::{Failure, Result};
use mysql::bytes::Reader;
use mysql::packet::{EOF, ERR, LONGEST_EOF, MORE_RESULTS, OK, OkPacket, PreparedPacket, eof_status};

/// The first byte of a request for a client's file.
const FILE_WANTED: u8 = 0xFB;
/// More than any server has in a result set.
const MOST_COLUMNS: u64 = 1 << 16;
/// The status flag `SERVER_STATUS_CURSOR_EXISTS`.
const CURSOR_EXISTS: u16 = 1 << 6;

/// What may come next of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Nothing; it is the client's turn.
    Nothing,
    /// One packet: an OK, an EOF or an error.
    Short,
    /// One packet of words, or an error.
    Words,
    /// An OK, an error, or how many columns a result set has.
    Result,
    /// Definitions.
    Definitions {
        /// How many are left.
        left: u64,
        /// What they describe.
        of: Of,
    },
    /// The EOF behind them.
    EndOfDefinitions(Of),
    /// Rows up to their end.
    Rows,
    /// An error, or a prepared statement's number and counts.
    Prepared,
}

/// What definitions describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// A result set, whose rows follow.
    Rows,
    /// A prepared statement's parameters, before so many of its columns.
    Parameters { columns: u16 },
    /// A prepared statement's columns.
    Columns,
}

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ok,
    Error,
    /// The number of columns.
    Count,
    Definition(Of),
    /// An EOF packet.
    Eof,
    Row,
    /// The OK that ends rows in place of an EOF.
    EndOfRows,
    Words,
    /// A statement was prepared under this number.
    Prepared(u32),
}

/// The answer to the present command, and the last status of the session.
#[derive(Debug)]
pub struct Answer {
    expected: Expected,
    /// The sequence number of the next packet, from either side.
    pub sequence: u8,
    /// Lists end without an EOF packet.
    pub without_eof: bool,
    status: u16,
}

impl Answer {
    /// Create it without an expected answer.
    pub fn none() -> Self {
        Answer { expected: Expected::Nothing, sequence: 0, without_eof: false, status: 0 }
    }

    /// Expect this answer to a command.
    pub fn expect(&mut self, expected: Expected) {
        self.expected = expected;
    }

    /// Expect the result of one of the gateway's own queries.
    pub fn expect_result(&mut self) {
        (self.expected, self.sequence) = (Expected::Result, 1);
    }

    /// Return whether the whole answer has come.
    pub fn is_over(&self) -> bool {
        self.expected == Expected::Nothing
    }

    /// Return whether rows come next.
    pub fn is_in_rows(&self) -> bool {
        self.expected == Expected::Rows
    }

    /// Return what the next packet is.
    ///
    /// # Errors
    /// `protocol`, where it is not what must come.
    pub fn take(&mut self, head: &Head<'_>) -> Result<Kind> {
        let kind = self.kind(head)?;
        // A server that ends a session by itself says so out of turn.
        if head.sequence != self.sequence && kind != Kind::Error {
            return Err(Failure::protocol("the server's answer is out of sequence"));
        }
        self.sequence = head.sequence.wrapping_add(1);
        Ok(kind)
    }

    /// Read the OK packet that ends a login.
    ///
    /// # Errors
    /// `protocol`.
    pub fn accepted(&mut self, payload: &[u8]) -> Result<()> {
        self.read_ok_status(payload).map(drop)
    }

    fn kind(&mut self, head: &Head<'_>) -> Result<Kind> {
        let first = *head.payload.first().ok_or_else(|| Failure::protocol("the server sent an empty packet"))?;
        if first == ERR {
            // An error ends the whole answer.
            self.expected = Expected::Nothing;
            return Ok(Kind::Error);
        }
        match self.expected {
            Expected::Nothing => Err(Failure::protocol("the server said more than it was asked for")),
            Expected::Words => {
                self.expected = Expected::Nothing;
                Ok(Kind::Words)
            }
            Expected::Short => self.short(first, head),
            Expected::Result => self.result(first, head),
            Expected::Definitions { left, of } => {
                self.expected = match left {
                    1 if self.without_eof => after(of),
                    1 => Expected::EndOfDefinitions(of),
                    _ => Expected::Definitions { left: left - 1, of },
                };
                Ok(Kind::Definition(of))
            }
            Expected::EndOfDefinitions(of) => {
                if !is_eof(first, head.length) {
                    return Err(Failure::protocol("definitions do not end where they should"));
                }
                self.read_eof_status(head.payload)?;
                // A cursor's rows are fetched by another command.
                let fetched = of == Of::Rows && self.status & CURSOR_EXISTS != 0;
                self.expected = if fetched { Expected::Nothing } else { after(of) };
                Ok(Kind::Eof)
            }
            Expected::Rows => self.row(first, head),
            Expected::Prepared => self.prepared(head),
        }
    }

    fn short(&mut self, first: u8, head: &Head<'_>) -> Result<Kind> {
        self.expected = Expected::Nothing;
        match first {
            EOF if is_eof(first, head.length) => self.read_eof_status(head.payload).map(|()| Kind::Eof),
            OK | EOF => self.read_ok_status(head.payload).map(|_| Kind::Ok),
            _ => Err(Failure::protocol("the server's answer is no OK")),
        }
    }

    fn result(&mut self, first: u8, head: &Head<'_>) -> Result<Kind> {
        match first {
            OK => {
                let more = self.read_ok_status(head.payload)?;
                self.expected = if more { Expected::Result } else { Expected::Nothing };
                Ok(Kind::Ok)
            }
            FILE_WANTED => Err(Failure::protocol("the server asks for a client's file, which it was told not to do")),
            _ => {
                let mut reader = Reader::new(head.payload);
                match reader.length()? {
                    columns @ 1..MOST_COLUMNS if reader.is_empty() => {
                        self.expected = Expected::Definitions { left: columns, of: Of::Rows };
                        Ok(Kind::Count)
                    }
                    _ => Err(Failure::protocol("the server's answer is no result set")),
                }
            }
        }
    }

    fn row(&mut self, first: u8, head: &Head<'_>) -> Result<Kind> {
        let kind = match first {
            EOF if self.without_eof && head.length < CONTINUED => {
                self.read_ok_status(head.payload)?;
                Kind::EndOfRows
            }
            EOF if is_eof(first, head.length) => {
                self.read_eof_status(head.payload)?;
                Kind::Eof
            }
            _ => return Ok(Kind::Row),
        };
        self.expected = if self.status & MORE_RESULTS != 0 { Expected::Result } else { Expected::Nothing };
        Ok(kind)
    }

    fn prepared(&mut self, head: &Head<'_>) -> Result<Kind> {
        let Some(prepared) = PreparedPacket::parse(head.payload)? else {
            return Err(Failure::protocol("the server's answer to a preparation is none"));
        };
        let PreparedPacket { statement, columns, parameters } = prepared;
        self.expected = match parameters {
            0 => after(Of::Parameters { columns }),
            _ => Expected::Definitions { left: parameters.into(), of: Of::Parameters { columns } },
        };
        Ok(Kind::Prepared(statement))
    }

    /// Read a status; return whether more results follow.
    fn read_ok_status(&mut self, payload: &[u8]) -> Result<bool> {
        self.status = OkPacket::read(&mut Reader::new(payload))?.status;
        Ok(self.status & MORE_RESULTS != 0)
    }

    fn read_eof_status(&mut self, payload: &[u8]) -> Result<()> {
        self.status = eof_status(payload)?;
        Ok(())
    }
}

fn after(of: Of) -> Expected {
    match of {
        Of::Rows => Expected::Rows,
        Of::Columns | Of::Parameters { columns: 0 } => Expected::Nothing,
        Of::Parameters { columns } => Expected::Definitions { left: columns.into(), of: Of::Columns },
    }
}

fn is_eof(first: u8, length: usize) -> bool {
    first == EOF && length <= LONGEST_EOF
}
