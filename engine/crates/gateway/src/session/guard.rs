//! What stands between the server's answers and an account that does not get plaintext.

use super::answer::{Answer, Kind, Of};
use super::columns::{Column, Seen};
use super::flow::{Flow, Head};
use super::sealing::Sealing;
use super::{Tally, rows};
use crate::messages::{ErrPacket, append_bare_eof, append_bare_ok, append_bare_prepared};
use crate::rules::{Role, Rules};
use crate::server_errors::append_server_error;
use crate::sql::{self, Answer as Rows, Class, Output, Plan, Surroundings};
use base::error::{Failure, Result};
use encryption::SessionSalt;
use mysql::RowFormat;
use mysql::bytes::Reader;
use mysql::packet::{self, PreparedPacket};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

/// A prepared statement's text that is kept, to be read again under other rules.
const LONGEST_KEPT: usize = 64 * 1024;

/// A statement as it came, and the database that it was of.
type Asked = (Box<[u8]>, Option<Box<str>>);

/// A statement that was prepared.
#[derive(Debug)]
pub struct Prepared {
    /// What it is, without its text, which may be long.
    pub plan: Rc<Plan>,
    /// Of that text, a hash.
    text: u64,
    /// As it came, with the database that it was of. Long ones are not kept.
    asked: Option<Asked>,
    /// That it was read under.
    rules: u64,
    /// An execution has told its parameters' types, and they were right.
    has_types: bool,
    /// By parameter: the last execution that gave it a value told another type than a text.
    was_no_text: Box<[bool]>,
}

/// Parameters of one execution that came by themselves.
#[derive(Debug, Clone, Copy, Default)]
pub struct LongData {
    /// Of all of them.
    pub bytes: usize,
    /// One of them had another type than a text before. `MariaDB` 10.11 keeps that type: it takes what it holds of the text,
    /// an address, for the value.
    pub was_no_text: bool,
}

/// The guard of one session.
#[derive(Debug)]
pub struct Guard {
    role: Role,
    sealing: Sealing,
    seen: Seen,
    /// Of the present command's statement; None, where it has none.
    plan: Option<Rc<Plan>>,
    /// It is being prepared: as it came, and the database that it is of.
    preparing: Option<Asked>,
    format: RowFormat,
    /// Of the present result set.
    columns: Vec<Rc<Column>>,
    is_sealed: bool,
    /// Definitions of a prepared statement's columns that have come.
    described: usize,
    statements: HashMap<u32, Prepared>,
    hasher: RandomState,
    /// The one that was prepared last has a second number.
    last_prepared: Option<u32>,
    /// Of parameters that have come by themselves, by statement, since it was executed.
    long_data: HashMap<u32, LongData>,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Went {
    /// It is to go on as it is.
    AsItIs,
    /// Something else goes in its place.
    Rewritten,
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
            plan: None,
            preparing: None,
            format: RowFormat::Text,
            columns: Vec::new(),
            is_sealed: false,
            described: 0,
            statements: HashMap::new(),
            hasher: RandomState::new(),
            last_prepared: None,
            long_data: HashMap::new(),
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

    /// A command begins, which this statement is of.
    pub fn begin(&mut self, plan: Option<Rc<Plan>>, format: RowFormat) {
        self.plan = plan;
        self.preparing = None;
        self.format = format;
    }

    /// A statement is about to be prepared.
    pub fn begin_preparing(&mut self, plan: Rc<Plan>, sql: &[u8], database: Option<&str>) {
        self.begin(Some(plan), RowFormat::Binary);
        self.preparing = (sql.len() <= LONGEST_KEPT).then(|| (sql.into(), database.map(Box::from)));
    }

    /// Whether the gateway knows a prepared statement of this number.
    pub fn knows(&self, statement: u32) -> bool {
        self.statements.contains_key(&statement)
    }

    /// The plan of a prepared statement, read anew where the rules or the tables are others by now; an error where it has
    /// become another one, or is not known.
    pub fn prepared(&mut self, statement: u32, rules: &Rules) -> std::result::Result<Rc<Plan>, ErrPacket> {
        let prepared = self.statements.get_mut(&statement).ok_or_else(ErrPacket::unknown_statement)?;
        if prepared.rules != rules.number {
            let (sql, database) = prepared.asked.as_ref().ok_or_else(ErrPacket::prepare_again)?;
            let surroundings = Surroundings { rules, database: database.as_deref(), is_prepared: true };
            let plan = sql::read_known(sql, &surroundings).map_err(|refusal| ErrPacket::refused(&refusal))?;
            if self.hasher.hash_one(&plan.text) != prepared.text || plan.without_text() != *prepared.plan {
                return Err(ErrPacket::prepare_again());
            }
            prepared.rules = rules.number;
        }
        Ok(prepared.plan.clone())
    }

    /// An execution that goes on if they are right tells its parameters' types, as the bytes behind its NULLs have it; whether
    /// they are. None, where not all of them have come.
    pub fn takes_types(&mut self, statement: u32, parameters: &[u8]) -> Option<bool> {
        const TYPE: usize = 2;
        const NULL: u8 = 0x06;
        let Some(prepared) = self.statements.get_mut(&statement) else { return Some(false) };
        let Prepared { plan, has_types, was_no_text, .. } = prepared;
        let count = plan.parameters.len();
        if count == 0 {
            return Some(true);
        }
        let (is_new, types) = parameters.get(count.div_ceil(8)..)?.split_first()?;
        // MySQL takes any other byte for new ones.
        if *is_new == 0 {
            return Some(*has_types || plan.parameters.iter().all(Option::is_none));
        }
        let types = types.get(..TYPE * count)?.chunks_exact(TYPE);
        let is_right =
            |(class, kind): (&Option<Class>, &[u8])| class.is_none_or(|class| class.takes_parameter(kind[0]));
        let are_right = plan.parameters.iter().zip(types.clone()).all(is_right);
        *has_types = are_right;
        // What does not go on changes nothing of what the server has.
        if are_right {
            for (was_no_text, kind) in was_no_text.iter_mut().zip(types).filter(|(_, kind)| kind[0] != NULL) {
                *was_no_text = !matches!(kind[0], 0x0F | 0xF9..=0xFE);
            }
        }
        Some(are_right)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.statements.len()
    }

    /// The one that was prepared last, if that succeeded.
    pub fn last_prepared(&self) -> Option<u32> {
        self.last_prepared
    }

    /// Another one is about to be the last.
    pub fn forget_last(&mut self) {
        self.last_prepared = None;
    }

    /// A prepared statement's number is free again.
    pub fn forget(&mut self, statement: u32) {
        self.statements.remove(&statement);
        self.long_data.remove(&statement);
        self.last_prepared.take_if(|last| *last == statement);
    }

    /// The session begins anew.
    pub fn forget_all(&mut self) {
        self.statements.clear();
        self.long_data.clear();
        self.last_prepared = None;
    }

    /// So many bytes come for a parameter of a statement; what has come so.
    pub fn takes_long_data(&mut self, statement: u32, parameter: u16, bytes: usize) -> LongData {
        let known = self.statements.get(&statement).and_then(|known| known.was_no_text.get(usize::from(parameter)));
        let come = self.long_data.entry(statement).or_default();
        come.bytes = come.bytes.saturating_add(bytes);
        come.was_no_text |= known.is_some_and(|was| *was);
        *come
    }

    /// What has come for parameters of a statement by themselves.
    pub fn long_data(&self, statement: u32) -> LongData {
        self.long_data.get(&statement).copied().unwrap_or_default()
    }

    /// The next ones are another execution's.
    pub fn forget_long_data(&mut self, statement: u32) {
        self.long_data.remove(&statement);
    }

    /// The statements that another guard has let pass, to be looked at again when they are executed. Its keys' numbers go on.
    ///
    /// # Errors
    /// `internal`.
    pub fn inherit(&mut self, before: Guard) -> Result<()> {
        self.sealing = before.sealing.renewed(&self.role)?;
        (self.statements, self.hasher) = (before.statements, before.hasher);
        (self.last_prepared, self.long_data) = (before.last_prepared, before.long_data);
        Ok(())
    }

    /// The next packet must be whole before it goes anywhere.
    pub fn looks_at(&self, answer: &Answer) -> bool {
        self.is_sealed || !answer.is_in_rows()
    }

    /// A packet of the server's on its way to the client.
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
                let tells_id = self.plan.as_ref().is_some_and(|plan| plan.tells_id);
                append_bare_ok(head.payload, tells_id, head.sequence, flow.replace(head.size()))?;
            }
            Kind::EndOfRows => append_bare_ok(head.payload, false, head.sequence, flow.replace(head.size()))?,
            Kind::Definition(Of::Rows) => return self.define(head, rules, flow),
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

    /// The server has prepared what was printed, and has as many columns and parameters as that.
    fn prepare(&mut self, statement: u32, head: &Head<'_>, rules: &Rules) -> Result<()> {
        let prepared = PreparedPacket::parse(head.payload)?;
        let Some(PreparedPacket { columns, parameters, .. }) = prepared else {
            return Err(Failure::protocol("an answer to a preparation that is none"));
        };
        let Some(plan) = self.plan.clone() else { return Err(Failure::protocol("nothing was to be prepared")) };
        self.described = 0;
        // MariaDB tells none of what RETURNING gives before it is executed; then they are counted again.
        if columns > 0 {
            self.check_count(columns.into())?;
        }
        if usize::from(parameters) != plan.parameters.len() {
            return Err(Failure::protocol("the server counts other parameters than the gateway"));
        }
        let asked = self.preparing.take();
        let was_no_text = vec![false; plan.parameters.len()].into();
        let text = self.hasher.hash_one(&plan.text);
        let plan = plan.without_text().into();
        let prepared = Prepared { plan, text, asked, rules: rules.number, has_types: false, was_no_text };
        self.statements.insert(statement, prepared);
        self.last_prepared = Some(statement);
        Ok(())
    }

    /// Where the server has read another statement than was meant, nothing of its answer goes on.
    fn check_count(&self, columns: u64) -> Result<()> {
        match self.plan.as_ref().map(|plan| &plan.answer) {
            Some(Rows::Shown) => Ok(()),
            Some(Rows::Rows(outputs)) if outputs.len() as u64 == columns => Ok(()),
            Some(Rows::Rows(_) | Rows::Silent) | None => {
                Err(Failure::protocol("the server gives other columns than the gateway has read"))
            }
        }
    }

    fn output(&self, at: usize) -> Result<Output> {
        match self.plan.as_ref().map(|plan| &plan.answer) {
            Some(Rows::Shown) => Ok(Output::Plain),
            Some(Rows::Rows(outputs)) => {
                outputs.get(at).copied().ok_or_else(|| Failure::protocol("a column more than there are"))
            }
            Some(Rows::Silent) | None => Err(Failure::protocol("a column where there is none")),
        }
    }

    /// A column of a result set.
    fn define(&mut self, head: &Head<'_>, rules: &Rules, flow: &mut Flow<'_>) -> Result<Went> {
        let output = self.output(self.columns.len())?;
        let column = self.seen.column(head.payload, output, self.format, rules, &mut self.sealing)?;
        let went = changed(&column, head, flow)?;
        self.is_sealed |= went == Went::Rewritten;
        self.columns.push(column);
        Ok(went)
    }

    /// A column of a statement that is prepared.
    fn describe(&mut self, head: &Head<'_>, rules: &Rules, flow: &mut Flow<'_>) -> Result<Went> {
        let output = self.output(self.described)?;
        self.described += 1;
        let column = self.seen.column(head.payload, output, RowFormat::Binary, rules, &mut self.sealing)?;
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
