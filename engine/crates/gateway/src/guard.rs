//! The guard of a session. It checks that a guarded account sends only approved statements, and encrypts the columns of
//! the server's answers.

use crate::answers::{DefinitionsOf, Kind};
use crate::counters::Tally;
use crate::errors::*;
use crate::rules::{Role, Rules};
use crate::sealing::{Column, Sealing};
use crate::session::Packet;
use crate::statements::{self, Outputs, Reading, Statement, Verdict};
use base::error::{Failure, Result};
use encryption::SessionSalt;
use mysql::RowFormat;
use mysql::packet::{self, PreparedPacket};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

const NULL: u8 = 0x06;
/// The number of bytes of a parameter's type in COM_STMT_EXECUTE.
const TYPE: usize = 2;

#[derive(Debug)]
pub struct Prepared {
    statement: Arc<Statement>,
    is_approved: bool,
    parameters: Vec<Parameter>,
    /// True if the client's last parameter types were allowed. A later execution without types uses them again.
    has_types: bool,
    /// The number of bytes that the client has sent by SEND_LONG_DATA for the next execution.
    pub long_data: usize,
}

/// A parameter of a prepared statement. `kind` is the approved kind, or None if the approval allows any kind.
#[derive(Debug)]
struct Parameter {
    kind: Option<statements::Kind>,
    /// True if the most recent value of this parameter was not text (but a number, for example). SEND_LONG_DATA is then
    /// refused: MariaDB 10.11 would keep the old type, and use the memory address of the text as the value.
    was_not_text: bool,
}

/// The state of a guarded session, in which the client may send only approved statements: the account's role, the
/// encryption, and the current and prepared statements.
#[derive(Debug)]
pub struct Guard {
    role: Role,
    sealing: Sealing,
    pub reading: Reading,
    statement: Option<Arc<Statement>>,
    format: RowFormat,
    /// The columns of the current result set or prepared statement.
    columns: Vec<Rc<Column>>,
    pub prepared: HashMap<u32, Prepared>,
}

impl Guard {
    /// Create the guard of a session with a new data key. `salt` is None for a client that does not decrypt. Such a
    /// client gets no envelopes (decryption information after column definitions).
    pub fn new(role: Role, salt: Option<SessionSalt>) -> Result<Self> {
        Ok(Guard {
            sealing: Sealing::new(&role, salt, 0)?,
            role,
            reading: Reading::default(),
            statement: None,
            format: RowFormat::Text,
            columns: Vec::new(),
            prepared: HashMap::new(),
        })
    }

    /// Replace the data key if it has almost reached its limit of encrypted values. Call this only between commands.
    pub fn renew_key_in_time(&mut self) -> Result<()> {
        if self.sealing.is_spent() {
            self.sealing = self.sealing.renewed(&self.role)?;
        }
        Ok(())
    }

    /// Apply new rules, under which some prepared statements may no longer be approved. `role` is the role that the new
    /// rules give to the session's account.
    pub fn renew_rules(&mut self, role: Role, rules: &Rules) -> Result<()> {
        self.sealing = self.sealing.renewed(&role)?;
        self.role = role;
        for prepared in self.prepared.values_mut() {
            prepared.is_approved = rules.statements.still_approves(&prepared.statement);
        }
        Ok(())
    }

    /// Begin a command. `format` is the format of the answer's rows. `statement` is None if the answer has no rows.
    pub fn begin(&mut self, statement: Option<Arc<Statement>>, format: RowFormat) {
        self.statement = statement;
        self.format = format;
    }

    /// Return the prepared statement to execute. Return an error if no prepared statement has this number, the rules no
    /// longer approve the statement, or the types of the parameters are not allowed.
    pub fn execute(&mut self, number: u32, parameters: &[u8]) -> std::result::Result<Arc<Statement>, ErrPacket> {
        let Some(prepared) = self.prepared.get_mut(&number) else {
            return Err(ErrPacket::unknown_statement());
        };
        if !prepared.is_approved {
            let message = "the gateway's rules have changed: prepare the statement again";
            return Err(ErrPacket::new(NEEDS_PREPARING, message));
        }
        if !prepared.accept_types(parameters) {
            return Err(ErrPacket::not_allowed("a parameter of another kind than approved"));
        }
        prepared.long_data = 0;
        Ok(prepared.statement.clone())
    }

    /// Process a packet of the server, and append the packet that the client gets instead. Errors: `protocol` if the
    /// packet does not fit the approved statement; `encryption` if a value cannot be encrypted. After an error, a part
    /// of the packet may have been appended.
    pub fn answer(
        &mut self,
        kind: Kind,
        Packet { sequence, payload }: Packet<'_>,
        rules: &Rules,
        tally: &mut Tally,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match kind {
            Kind::Error => append_server_error(payload, sequence, out),
            Kind::Ok => {
                let may_show = self.statement.as_ref().is_some_and(|statement| statement.shows_id);
                append_bare_ok(payload, may_show && !rules.catalogue.hides_ids, sequence, out)
            }
            Kind::EndOfRows => append_bare_ok(payload, false, sequence, out),
            Kind::Eof => append_bare_eof(payload, sequence, out),
            Kind::Count(columns) => {
                self.columns.clear();
                self.check_count(columns)?;
                packet::append(sequence, out, |out| out.extend_from_slice(payload))
            }
            Kind::Definition(DefinitionsOf::Parameters { .. }) => {
                packet::append(sequence, out, |out| out.extend_from_slice(payload))
            }
            Kind::Definition(DefinitionsOf::Rows | DefinitionsOf::Columns) => {
                let verdict = self.verdict(self.columns.len())?;
                let column = self.sealing.column(payload, verdict, self.format, rules)?;
                packet::append(sequence, out, |out| out.extend_from_slice(column.definition().unwrap_or(payload)))?;
                self.columns.push(column);
                Ok(())
            }
            Kind::Row => {
                tally.rows += 1;
                self.sealing.append_row(payload, sequence, self.format, &self.columns, tally, out)
            }
            Kind::Prepared(prepared) => {
                self.columns.clear();
                self.prepare(prepared)?;
                append_bare_prepared(payload, sequence, out)
            }
        }
    }

    /// Store a statement that the server has prepared. Errors: `protocol` if the server reports a different number of
    /// columns or parameters than the approved statement has.
    fn prepare(&mut self, PreparedPacket { statement: number, columns, parameters }: PreparedPacket) -> Result<()> {
        // If the server reports 0 columns, do not check the number yet. MariaDB reports the columns of a RETURNING
        // clause only at the execution, and they are checked then.
        if columns > 0 {
            self.check_count(columns.into())?;
        }
        let Some(statement) = self.statement.clone() else {
            return Err(Failure::protocol("the server sent a prepared statement that no command asked for"));
        };
        let kinds = statement.parameters(&self.reading);
        if usize::from(parameters) != kinds.len() {
            return Err(Failure::protocol("the server counts a different number of parameters than the gateway"));
        }
        let parameters = kinds.into_iter().map(|kind| Parameter { kind, was_not_text: false }).collect();
        let prepared = Prepared { statement, is_approved: true, parameters, has_types: false, long_data: 0 };
        self.prepared.insert(number, prepared);
        Ok(())
    }

    fn check_count(&self, columns: u64) -> Result<()> {
        match self.statement.as_ref().map(|statement| &statement.outputs) {
            Some(Outputs::All(_)) => Ok(()),
            Some(Outputs::Each(verdicts)) if verdicts.len() as u64 == columns => Ok(()),
            Some(Outputs::Each(_)) => Err(Failure::protocol("the answer has another number of columns than approved")),
            None => Err(Failure::protocol("the server sends rows that no command asked for")),
        }
    }

    fn verdict(&self, place: usize) -> Result<Option<Verdict>> {
        match self.statement.as_ref().map(|statement| &statement.outputs) {
            Some(Outputs::All(verdict)) => Ok(*verdict),
            Some(Outputs::Each(verdicts)) if place < verdicts.len() => Ok(Some(verdicts[place])),
            _ => Err(Failure::protocol("the server describes more columns than the answer has")),
        }
    }
}

impl Prepared {
    /// Return whether SEND_LONG_DATA is allowed for this parameter. It is refused if the parameter's most recent value
    /// was not text.
    pub fn accepts_long_data(&self, parameter: u16) -> bool {
        self.parameters.get(usize::from(parameter)).is_none_or(|parameter| !parameter.was_not_text)
    }

    /// Return whether the statement allows the parameter types of an execution. Also store the result, because a
    /// later execution without types uses the same types again.
    fn accept_types(&mut self, parameters: &[u8]) -> bool {
        if self.parameters.is_empty() {
            return true;
        }
        match parameter_types(self.parameters.len(), parameters) {
            Types::AsBefore => return self.has_types,
            Types::Missing => self.has_types = false,
            Types::New(types) => {
                let types = || types.chunks_exact(TYPE).map(|kind| kind[0]);
                self.has_types = self.parameters.iter().zip(types()).all(|(parameter, number)| {
                    let kind = statements::Kind::from_type(number);
                    number == NULL || kind.is_some() && (parameter.kind.is_none() || parameter.kind == kind)
                });
                // Store the types only if the execution is allowed. The server does not receive a refused execution, so
                // it keeps the old types.
                if self.has_types {
                    for (parameter, number) in
                        self.parameters.iter_mut().zip(types()).filter(|(_, number)| *number != NULL)
                    {
                        parameter.was_not_text = !matches!(number, 0x0F | 0xF9..=0xFE);
                    }
                }
            }
        }
        self.has_types
    }
}

/// The types of the parameters in COM_STMT_EXECUTE, the packet that executes a prepared statement.
pub enum Types<'a> {
    /// The packet contains no types: those of the statement's previous execution apply.
    AsBefore,
    /// The packet contains these types, as two bytes for each parameter.
    New(&'a [u8]),
    /// The packet ends before the end of the types.
    Missing,
}

/// Return the types of `count` parameters. `parameters` is COM_STMT_EXECUTE from the bitmap of NULLs to the end.
pub fn parameter_types(count: usize, parameters: &[u8]) -> Types<'_> {
    match parameters.get(count.div_ceil(8)..).and_then(<[u8]>::split_first) {
        Some((0, _)) => Types::AsBefore,
        // MySQL accepts any byte other than 0 as the sign that new types follow.
        Some((_, types)) => types.get(..TYPE * count).map_or(Types::Missing, Types::New),
        None => Types::Missing,
    }
}
