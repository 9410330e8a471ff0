//! The guard of a session: what its account may execute, and what it gets of the server's answers.

use super::answer::{Answer, Kind, Of};
use super::columns::{Column, Seen};
use super::flow::{Flow, Head};
use super::sealing::Sealing;
use super::{Tally, rows};
use crate::messages::{ErrPacket, append_bare_eof, append_bare_ok, append_bare_prepared};
use crate::rules::{Role, Rules};
use crate::server_errors::append_server_error;
use crate::statements::{Kind as ValueKind, Outputs, Reading, Statement, Verdict};
use base::error::{Failure, Result};
use encryption::SessionSalt;
use mysql::RowFormat;
use mysql::bytes::Reader;
use mysql::packet::{self, PreparedPacket};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A statement that was prepared.
#[derive(Debug)]
pub struct Prepared {
    statement: Arc<Statement>,
    /// By parameter: the kind that it must have.
    parameters: Box<[Option<ValueKind>]>,
    /// The number of the rules that have approved it.
    rules: u64,
    /// The last types that an execution named were right.
    has_types: bool,
    /// By parameter: its last value had another type than a text.
    was_no_text: Box<[bool]>,
}

/// Parameters of one execution that came by SEND_LONG_DATA.
#[derive(Debug, Clone, Copy, Default)]
pub struct LongData {
    /// The bytes of all of them.
    pub bytes: usize,
    /// One of them had another type than a text before. MariaDB 10.11 keeps that type, and takes the text's address
    /// for the value.
    pub was_no_text: bool,
}

/// The guard of one session.
#[derive(Debug)]
pub struct Guard {
    role: Role,
    sealing: Sealing,
    seen: Seen,
    /// The last text that was read.
    pub reading: Reading,
    /// The present command's statement.
    statement: Option<Arc<Statement>>,
    /// The kinds of the parameters of the statement that is being prepared.
    preparing: Box<[Option<ValueKind>]>,
    format: RowFormat,
    /// The columns of the present result set.
    columns: Vec<Rc<Column>>,
    is_sealed: bool,
    /// How many columns of a prepared statement have been described.
    described: usize,
    statements: HashMap<u32, Prepared>,
    /// The statement that was prepared last, which has a second number.
    last_prepared: Option<u32>,
    /// Long data since the last execution, by statement.
    long_data: HashMap<u32, LongData>,
}

/// What is done with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Went {
    /// Pass it on unchanged.
    AsItIs,
    /// Something was written in its place.
    Rewritten,
}

impl Guard {
    /// Create a guard for an account of this role, with a new data key. A client with a salt gets envelopes.
    ///
    /// # Errors
    /// `internal`.
    pub fn new(role: Role, salt: Option<SessionSalt>) -> Result<Self> {
        Ok(Guard {
            sealing: Sealing::new(&role, salt)?,
            role,
            seen: Seen::default(),
            reading: Reading::default(),
            statement: None,
            preparing: Box::default(),
            format: RowFormat::Text,
            columns: Vec::new(),
            is_sealed: false,
            described: 0,
            statements: HashMap::new(),
            last_prepared: None,
            long_data: HashMap::new(),
        })
    }

    /// Take another data key before this one is used up. Called between two commands.
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

    /// Begin a command with this statement.
    pub fn begin(&mut self, statement: Option<Arc<Statement>>, format: RowFormat) {
        self.statement = statement;
        self.format = format;
    }

    /// Begin the preparation of the statement that was read last.
    pub fn begin_preparing(&mut self, statement: Arc<Statement>) {
        self.preparing = statement.parameters(&self.reading);
        self.begin(Some(statement), RowFormat::Binary);
    }

    /// Return whether a statement of this number was prepared.
    pub fn knows(&self, statement: u32) -> bool {
        self.statements.contains_key(&statement)
    }

    /// Return a prepared statement; an error if it is unknown, or the present rules do not approve it for the same outputs.
    pub fn prepared(&mut self, statement: u32, rules: &Rules) -> std::result::Result<Arc<Statement>, ErrPacket> {
        let prepared = self.statements.get_mut(&statement).ok_or_else(ErrPacket::unknown_statement)?;
        if prepared.rules != rules.number {
            if !rules.statements.approve(&prepared.statement) {
                return Err(ErrPacket::prepare_again());
            }
            prepared.rules = rules.number;
        }
        Ok(prepared.statement.clone())
    }

    /// Check the types that an execution names, in the bytes behind its NULLs. Return whether they are right; None if not all
    /// of them have come.
    pub fn takes_types(&mut self, statement: u32, parameters: &[u8]) -> Option<bool> {
        const TYPE: usize = 2;
        const NULL: u8 = 0x06;
        let Some(prepared) = self.statements.get_mut(&statement) else { return Some(false) };
        let Prepared { parameters: expected, has_types, was_no_text, .. } = prepared;
        let count = expected.len();
        if count == 0 {
            return Some(true);
        }
        let (is_new, types) = parameters.get(count.div_ceil(8)..)?.split_first()?;
        // MySQL takes any other byte for new ones.
        if *is_new == 0 {
            return Some(*has_types);
        }
        let types = types.get(..TYPE * count)?.chunks_exact(TYPE);
        let is_right = |(expected, kind): (&Option<ValueKind>, &[u8])| {
            let known = ValueKind::of_type(kind[0]);
            kind[0] == NULL || known.is_some() && (expected.is_none() || *expected == known)
        };
        let are_right = expected.iter().zip(types.clone()).all(is_right);
        *has_types = are_right;
        // The server does not see a refused execution.
        if are_right {
            for (was_no_text, kind) in was_no_text.iter_mut().zip(types).filter(|(_, kind)| kind[0] != NULL) {
                *was_no_text = !matches!(kind[0], 0x0F | 0xF9..=0xFE);
            }
        }
        Some(are_right)
    }

    /// Return how many statements are prepared.
    pub fn count(&self) -> usize {
        self.statements.len()
    }

    /// Return the statement that was prepared last, if that succeeded.
    pub fn last_prepared(&self) -> Option<u32> {
        self.last_prepared
    }

    /// Forget which statement was prepared last.
    pub fn forget_last(&mut self) {
        self.last_prepared = None;
    }

    /// Forget a prepared statement.
    pub fn forget(&mut self, statement: u32) {
        self.statements.remove(&statement);
        self.long_data.remove(&statement);
        self.last_prepared.take_if(|last| *last == statement);
    }

    /// Forget all prepared statements.
    pub fn forget_all(&mut self) {
        self.statements.clear();
        self.long_data.clear();
        self.last_prepared = None;
    }

    /// Count long data for a parameter; return the sums.
    pub fn takes_long_data(&mut self, statement: u32, parameter: u16, bytes: usize) -> LongData {
        let known = self.statements.get(&statement).and_then(|known| known.was_no_text.get(usize::from(parameter)));
        let come = self.long_data.entry(statement).or_default();
        come.bytes = come.bytes.saturating_add(bytes);
        come.was_no_text |= known.is_some_and(|was| *was);
        *come
    }

    /// Return the long data of a statement.
    pub fn long_data(&self, statement: u32) -> LongData {
        self.long_data.get(&statement).copied().unwrap_or_default()
    }

    /// Forget the long data of a statement.
    pub fn forget_long_data(&mut self, statement: u32) {
        self.long_data.remove(&statement);
    }

    /// Take over another guard's prepared statements and the numbering of its keys.
    ///
    /// # Errors
    /// `internal`.
    pub fn inherit(&mut self, before: Guard) -> Result<()> {
        self.sealing = before.sealing.renewed(&self.role)?;
        self.statements = before.statements;
        (self.last_prepared, self.long_data) = (before.last_prepared, before.long_data);
        Ok(())
    }

    /// Return whether the next packet must be complete before it is processed.
    pub fn looks_at(&self, answer: &Answer) -> bool {
        self.is_sealed || !answer.is_in_rows()
    }

    /// Process a packet of the server's.
    ///
    /// # Errors
    /// `protocol`, `encryption`.
    pub fn pass(
        &mut self,
        head: &Head<'_>,
        kind: Kind,
        rules: &Rules,
        tally: &mut Tally,
        flow: &mut Flow<'_>,
    ) -> Result<Went> {
        match kind {
            Kind::Error => append_server_error(head.payload, head.sequence, flow.replace(head.size()))?,
            Kind::Ok => {
                let is_told = self.statement.as_ref().is_some_and(|statement| statement.tells_id);
                let tells_id = is_told && !rules.catalogue.hides_ids;
                append_bare_ok(head.payload, tells_id, head.sequence, flow.replace(head.size()))?;
            }
            Kind::EndOfRows => append_bare_ok(head.payload, false, head.sequence, flow.replace(head.size()))?,
            Kind::Definition(Of::Rows) => return self.define(head, rules, flow),
            Kind::Definition(Of::Columns) => return self.describe(head, rules, flow),
            Kind::Row => {
                tally.rows += 1;
                if !self.is_sealed {
                    // A row that does not fit its definitions may be another result set's.
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
                self.check_count(Reader::new(head.payload).length()?)?;
                return Ok(Went::AsItIs);
            }
            Kind::Prepared(statement) => {
                self.prepare(statement, head, rules)?;
                append_bare_prepared(head.payload, head.sequence, flow.replace(head.size()))?;
            }
            Kind::Eof => append_bare_eof(head.payload, head.sequence, flow.replace(head.size()))?,
            Kind::Definition(Of::Parameters { .. }) | Kind::Words => return Ok(Went::AsItIs),
        }
        Ok(Went::Rewritten)
    }

    /// Record a prepared statement, and compare its columns and parameters with the approval.
    fn prepare(&mut self, number: u32, head: &Head<'_>, rules: &Rules) -> Result<()> {
        let prepared = PreparedPacket::parse(head.payload)?;
        let Some(PreparedPacket { columns, parameters, .. }) = prepared else {
            return Err(Failure::protocol("an answer to a preparation that is none"));
        };
        let Some(statement) = self.statement.clone() else {
            return Err(Failure::protocol("nothing was to be prepared"));
        };
        self.described = 0;
        // MariaDB tells none of what RETURNING gives before it is executed; then they are counted again.
        if columns > 0 {
            self.check_count(columns.into())?;
        }
        let expected = std::mem::take(&mut self.preparing);
        if usize::from(parameters) != expected.len() {
            return Err(Failure::protocol("the server counts other parameters than the gateway"));
        }
        let was_no_text = vec![false; expected.len()].into();
        let prepared = Prepared { statement, parameters: expected, rules: rules.number, has_types: false, was_no_text };
        self.statements.insert(number, prepared);
        self.last_prepared = Some(number);
        Ok(())
    }

    /// Check the number of columns of an answer.
    fn check_count(&self, columns: u64) -> Result<()> {
        match self.statement.as_ref().map(|statement| &statement.outputs) {
            Some(Outputs::All(_)) => Ok(()),
            Some(Outputs::Each(verdicts)) if verdicts.len() as u64 == columns => Ok(()),
            Some(Outputs::Each(_)) => {
                Err(Failure::protocol("the answer has another number of columns than was approved"))
            }
            None => Err(Failure::protocol("the server sends rows where none were asked for")),
        }
    }

    fn verdict(&self, at: usize) -> Result<Option<Verdict>> {
        match self.statement.as_ref().map(|statement| &statement.outputs) {
            Some(Outputs::All(verdict)) => Ok(*verdict),
            Some(Outputs::Each(verdicts)) => {
                let verdict = verdicts.get(at).copied();
                verdict.map(Some).ok_or_else(|| Failure::protocol("a column more than there are"))
            }
            None => Err(Failure::protocol("a column where there is none")),
        }
    }

    /// Process a column of a result set.
    fn define(&mut self, head: &Head<'_>, rules: &Rules, flow: &mut Flow<'_>) -> Result<Went> {
        let verdict = self.verdict(self.columns.len())?;
        let column = self.seen.column(head.payload, verdict, self.format, rules, &mut self.sealing)?;
        let went = changed(&column, head, flow)?;
        self.is_sealed |= went == Went::Rewritten;
        self.columns.push(column);
        Ok(went)
    }

    /// Process a column of a statement that is being prepared.
    fn describe(&mut self, head: &Head<'_>, rules: &Rules, flow: &mut Flow<'_>) -> Result<Went> {
        let verdict = self.verdict(self.described)?;
        self.described += 1;
        let column = self.seen.column(head.payload, verdict, RowFormat::Binary, rules, &mut self.sealing)?;
        changed(&column, head, flow)
    }
}

fn changed(column: &Column, head: &Head<'_>, flow: &mut Flow<'_>) -> Result<Went> {
    match column {
        Column::Plain { .. } => Ok(Went::AsItIs),
        Column::Sealed { definition, .. } => {
            packet::append(head.sequence, flow.replace(head.size()), |out| out.extend_from_slice(definition))?;
            Ok(Went::Rewritten)
        }
    }
}
