//! What stands between the server's answers and an account that does not get plaintext.

use super::answer::{Answer, Kind, Of};
use super::columns::{Column, Seen};
use super::flow::{Flow, Head};
use super::sealing::Sealing;
use super::{Tally, rows};
use crate::encryption::{RowFormat, SessionSalt};
use crate::error::Result;
use crate::gateway::fence::{Columns, Reading};
use crate::gateway::messages::{Complaint, append_bare_ok, append_blanked};
use crate::gateway::rules::{Expressions, Role, Rules};
use crate::wire::mysql::packet::{self, HEADER};
use std::collections::HashMap;
use std::rc::Rc;

/// Before anything is read: nothing is worth anything.
const UNREAD: Reading = Reading { columns: Columns::Anything, tells_id: false };

/// The guard of one session.
#[derive(Debug)]
pub struct Guard {
    role: Role,
    sealing: Sealing,
    seen: Seen,
    /// Of the present command's statement.
    reading: Reading,
    format: RowFormat,
    /// Of the present result set.
    columns: Vec<Rc<Column>>,
    is_sealed: bool,
    /// Where the rules may yet refuse a column: the result set's beginning, from this packet on. Drivers take no error in the
    /// midst of definitions.
    held: Option<u8>,
    beginning: Vec<u8>,
    statements: HashMap<u32, Reading>,
    /// The one that was prepared last has a second number.
    last_prepared: Option<Reading>,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Went {
    /// It is to go on as it is.
    AsItIs,
    /// Something else goes in its place.
    Rewritten,
    /// It waits for more of its kind.
    Held,
    /// An error goes in its place, and nothing of the rest.
    Refused,
}

impl Guard {
    /// Of an account of this role, with a new data key; a client whose keys have a salt gets an envelope with each column.
    ///
    /// # Errors
    /// `internal`.
    pub fn new(role: Role, salt: Option<SessionSalt>) -> Result<Self> {
        Ok(Guard {
            sealing: Sealing::new(&role, salt)?,
            role,
            seen: Seen::default(),
            reading: UNREAD,
            format: RowFormat::Text,
            columns: Vec::new(),
            is_sealed: false,
            held: None,
            beginning: Vec::new(),
            statements: HashMap::new(),
            last_prepared: None,
        })
    }

    /// Between two commands.
    ///
    /// # Errors
    /// `internal`.
    pub fn renew_key_in_time(&mut self) -> Result<()> {
        if self.sealing.is_spent() {
            self.sealing = self.sealing.renewed(&self.role)?;
            self.seen = Seen::default();
        }
        Ok(())
    }

    /// A command begins, whose statement is worth this much.
    pub fn begin(&mut self, reading: Reading, format: RowFormat) {
        self.held = None;
        self.reading = reading;
        self.format = format;
    }

    /// What a prepared statement is worth; None, where the gateway knows none of this number.
    pub fn prepared(&self, statement: u32) -> Option<Reading> {
        /// MariaDB's number for the one that was prepared last.
        const LAST: u32 = u32::MAX;
        if statement == LAST { self.last_prepared } else { self.statements.get(&statement).copied() }
    }

    /// A prepared statement's number is free again.
    pub fn forget(&mut self, statement: u32) {
        self.statements.remove(&statement);
    }

    /// The session begins anew.
    pub fn forget_all(&mut self) {
        self.statements.clear();
        self.last_prepared = None;
    }

    /// The statements that another guard has let pass are as safe under new rules. Those may guard other tables though, so no
    /// id is told any more; and where views were not known, any name could have been one's. Its keys' numbers go on.
    ///
    /// # Errors
    /// `internal`.
    pub fn inherit(&mut self, before: Guard, knew_views: bool) -> Result<()> {
        self.sealing = before.sealing.renewed(&self.role)?;
        let doubtful = |columns| !knew_views && columns == Columns::Tables;
        let silent = |Reading { columns, .. }| Reading {
            columns: if doubtful(columns) { Columns::Anything } else { columns },
            tells_id: false,
        };
        self.statements = before.statements.into_iter().map(|(number, reading)| (number, silent(reading))).collect();
        self.last_prepared = before.last_prepared.map(silent);
        Ok(())
    }

    /// The next packet must be whole before it goes anywhere.
    pub fn looks_at(&self, answer: &Answer) -> bool {
        self.is_sealed || !answer.is_in_rows()
    }

    /// A packet of the server's on its way to the client; `is_last` of its list, if it is in one.
    ///
    /// # Errors
    /// `protocol`, `encryption`.
    pub fn pass(
        &mut self,
        head: &Head<'_>,
        kind: Kind,
        is_last: bool,
        rules: &Rules,
        tally: &mut Tally,
        flow: &mut Flow<'_>,
    ) -> Result<Went> {
        match kind {
            Kind::Error => {
                let sequence = self.held.take().unwrap_or(head.sequence);
                append_blanked(head.payload, sequence, flow.replace(head.size()))?;
            }
            Kind::Ok => {
                append_bare_ok(head.payload, self.reading.tells_id, head.sequence, flow.replace(head.size()))?;
            }
            Kind::EndOfRows => append_bare_ok(head.payload, false, head.sequence, flow.replace(head.size()))?,
            Kind::Definition(Of::Rows) => return self.define(head, is_last, rules, tally, flow),
            Kind::Definition(Of::Columns) => return self.describe(head, rules, flow),
            Kind::Row => {
                tally.rows += 1;
                if !self.is_sealed {
                    // A row that is not what its definitions say may be another's.
                    if head.is_whole() {
                        rows::check(head.payload, self.format, &self.columns)?;
                    }
                    return Ok(Went::AsItIs);
                }
                let out = flow.replace(head.size());
                let (format, columns, sealing) = (self.format, &self.columns, &mut self.sealing);
                rows::append_sealed(head.payload, head.sequence, format, columns, sealing, tally, out)?;
            }
            Kind::Count => {
                self.columns.clear();
                self.is_sealed = false;
                if rules.expressions != Expressions::Refuse {
                    return Ok(Went::AsItIs);
                }
                self.held = Some(head.sequence);
                self.beginning.clear();
                append(head.payload, head.sequence, &mut self.beginning)?;
                flow.drop(head.size());
                return Ok(Went::Held);
            }
            Kind::Prepared(statement) => {
                self.statements.insert(statement, self.reading);
                self.last_prepared = Some(self.reading);
                return Ok(Went::AsItIs);
            }
            Kind::Definition(Of::Parameters { .. }) | Kind::Eof | Kind::Words => return Ok(Went::AsItIs),
        }
        Ok(Went::Rewritten)
    }

    /// A column of a result set.
    fn define(
        &mut self,
        head: &Head<'_>,
        is_last: bool,
        rules: &Rules,
        tally: &mut Tally,
        flow: &mut Flow<'_>,
    ) -> Result<Went> {
        let column = self.seen.column(head.payload, self.reading.columns, self.format, rules, &mut self.sealing)?;
        let changed = match &*column {
            Column::Refused => {
                tally.refused += 1;
                let sequence = self.held.take().unwrap_or(head.sequence);
                Complaint::denied(COMPUTED).append(sequence, true, flow.replace(head.size()));
                return Ok(Went::Refused);
            }
            Column::Plain { .. } => None,
            Column::Sealed { definition, .. } => Some(&**definition),
        };
        self.is_sealed |= changed.is_some();
        let went = match (changed, self.held) {
            (changed, Some(_)) => {
                append(changed.unwrap_or(head.payload), head.sequence, &mut self.beginning)?;
                if is_last {
                    self.held = None;
                    flow.replace(head.size()).extend_from_slice(&self.beginning);
                    Went::Rewritten
                } else {
                    flow.drop(head.size());
                    Went::Held
                }
            }
            (None, None) => Went::AsItIs,
            (Some(changed), None) => {
                append(changed, head.sequence, flow.replace(head.size()))?;
                Went::Rewritten
            }
        };
        self.columns.push(column);
        Ok(went)
    }

    /// The number of the first packet that the client was not sent yet, though it has come.
    pub fn held(&self) -> Option<u8> {
        self.held
    }

    /// A column of a statement that is prepared: its rows may never come, so nothing is refused yet.
    fn describe(&mut self, head: &Head<'_>, rules: &Rules, flow: &mut Flow<'_>) -> Result<Went> {
        let (columns, format) = (self.reading.columns, RowFormat::Binary);
        let column = self.seen.column(head.payload, columns, format, rules, &mut self.sealing)?;
        let Column::Sealed { definition, .. } = &*column else { return Ok(Went::AsItIs) };
        append(definition, head.sequence, flow.replace(head.size()))?;
        Ok(Went::Rewritten)
    }
}

fn append(payload: &[u8], sequence: u8, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    out.extend_from_slice(payload);
    packet::finish(&mut out[start..], sequence)
}

const COMPUTED: &str = "the gateway's rules refuse columns that are computed, or that it cannot trace to a table";
