//! The client's commands (MySQL Internals, "Command Phase"): which are passed on, and what answers they have.

use super::answer::Expected;
use super::flow::{CONTINUED, Flow, Head};
use super::{Phase, Session};
use crate::messages::{ErrPacket, append_short};
use crate::statements::Statement;
use base::error::{Failure, Result};
use mysql::RowFormat;
use mysql::bytes::Reader;
use mysql::command::*;
use mysql::packet;
use std::sync::Arc;

/// The value of the only option: several statements in one command are off.
const MULTI_STATEMENTS_OFF: u16 = 1;
/// The longest name, in characters.
const LONGEST_NAME: usize = 64;
/// A prefix for folders of MySQL 5.0, behind which servers find the same database.
const OLD_NAME: &[u8] = b"#mysql50#";
/// MariaDB's number for the statement that was prepared last.
const LAST_PREPARED: u32 = u32::MAX;
/// The bytes before the data of a SEND_LONG_DATA packet: command, statement and parameter.
const BEFORE_LONG_DATA: usize = 1 + 4 + 2;
const NO_STATISTICS: &[u8] = b"The gateway tells this account no statistics";

/// The present command.
#[derive(Debug, Default)]
pub struct Commands {
    /// Bytes of its present packet that are still to come.
    rest: usize,
    /// Its next packet continues the one before it.
    continued: bool,
    /// Its answer is under way.
    is_asked: bool,
    /// The command's number in the protocol.
    command: u8,
    /// How many commands have begun.
    number: u64,
    /// The gateway's answer if the command is not passed on.
    instead: Option<Reply>,
}

/// An answer of the gateway's own.
#[derive(Debug)]
enum Reply {
    Error(ErrPacket),
    Words(&'static [u8]),
    /// No answer, or a later command's.
    Nothing,
}

impl Reply {
    fn append(&self, sequence: u8, out: &mut Vec<u8>) {
        match self {
            Reply::Error(error) => error.append(sequence, true, out),
            Reply::Words(words) => append_short(words, sequence, out),
            Reply::Nothing => {}
        }
    }
}

impl Commands {
    /// Return whether more of the command is to come.
    pub fn is_unfinished(&self) -> bool {
        self.rest > 0 || self.continued
    }

    /// Return whether no answer is due.
    pub fn is_idle(&self) -> bool {
        !self.is_asked
    }

    /// Record that the whole answer has come.
    pub fn answered(&mut self) {
        self.is_asked = false;
    }

    /// Return whether the answer under way is to RESET_CONNECTION.
    pub fn resets(&self) -> bool {
        self.is_asked && self.command == RESET_CONNECTION
    }

    /// How many commands have begun.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// Return a command's kind of answer and its rows' format; None for an unknown command.
fn answer_to(command: u8) -> Option<(Expected, RowFormat)> {
    let (text, binary) = (RowFormat::Text, RowFormat::Binary);
    Some(match command {
        QUIT | STMT_SEND_LONG_DATA | STMT_CLOSE => (Expected::Nothing, text),
        INIT_DB | PROCESS_KILL | DEBUG | PING | STMT_RESET | SET_OPTION | RESET_CONNECTION => (Expected::Short, text),
        QUERY | PROCESS_INFO => (Expected::Result, text),
        // Its definitions come like rows, up to an EOF.
        FIELD_LIST => (Expected::Rows, text),
        STATISTICS => (Expected::Words, text),
        STMT_PREPARE => (Expected::Prepared, text),
        STMT_EXECUTE => (Expected::Result, binary),
        STMT_FETCH => (Expected::Rows, binary),
        _ => return None,
    })
}

/// What is done with a command.
enum Verdict {
    /// Pass it on unchanged.
    Goes,
    /// Pass on an execution of this prepared statement.
    Executed(Arc<Statement>),
    /// Send the approved text with the values that were read.
    Approved(Arc<Statement>),
    Refused(ErrPacket),
    /// Answer it in the server's place.
    Answered(Reply),
    /// Wait for the rest of it.
    Wait,
}

impl Session {
    /// Process a packet of the client's; return whether there may be more.
    pub(super) fn command(&mut self, flow: &mut Flow<'_>, to_client: &mut Vec<u8>) -> Result<bool> {
        if self.commands.rest > 0 {
            return Ok(self.send_on(0, flow, to_client));
        }
        let Some(head) = flow.head() else { return Ok(false) };
        if self.commands.continued {
            self.check_command_sequence(&head, self.answer.sequence)?;
            return Ok(self.send_on(head.size(), flow, to_client));
        }
        self.check_command_sequence(&head, 0)?;
        if let Some(error) = self.renew_rules()? {
            flow.drop(flow.left());
            self.fail(&error, to_client);
            return Ok(false);
        }
        let Some(&command) = head.payload.first() else { return Err(Failure::protocol("a command without a name")) };
        let Some((expected, format)) = answer_to(command) else {
            return Ok(self.answer_instead(&head, Reply::Error(unknown(command)), flow, to_client));
        };
        match self.verdict(command, &head)? {
            Verdict::Wait => return Ok(false),
            Verdict::Refused(error) => {
                return Ok(self.answer_instead(&head, Reply::Error(error), flow, to_client));
            }
            Verdict::Answered(reply) => return Ok(self.answer_instead(&head, reply, flow, to_client)),
            Verdict::Goes => self.begin_statement(None, format),
            Verdict::Executed(statement) => {
                self.next_database = used_by(&statement);
                self.begin_statement(Some(statement), format);
            }
            Verdict::Approved(statement) => {
                self.begin(command, expected);
                let Some(guard) = &mut self.guard else { return Err(Failure::protocol("a statement without a guard")) };
                packet::append(0, flow.replace(head.size()), |out| {
                    out.push(command);
                    statement.append(&guard.reading, out);
                })?;
                if command == STMT_PREPARE {
                    guard.begin_preparing(statement);
                } else {
                    self.next_database = used_by(&statement);
                    guard.begin(Some(statement), format);
                }
                return Ok(true);
            }
        }
        self.begin(command, expected);
        Ok(self.send_on(head.size(), flow, to_client))
    }

    fn begin_statement(&mut self, statement: Option<Arc<Statement>>, format: RowFormat) {
        if let Some(guard) = &mut self.guard {
            guard.begin(statement, format);
        }
    }

    fn begin(&mut self, command: u8, expected: Expected) {
        self.answer.expect(expected);
        self.commands.is_asked = expected != Expected::Nothing;
        self.commands.command = command;
        self.commands.number += 1;
        self.tally.commands += 1;
        if command == QUIT {
            self.phase = Phase::Quitting;
        }
    }

    /// Pass on a packet, or the rest of one, as far as it is there; return whether there may be more.
    fn send_on(&mut self, size: usize, flow: &mut Flow<'_>, to_client: &mut Vec<u8>) -> bool {
        self.commands.rest += size;
        let here = self.commands.rest.min(flow.left());
        self.commands.rest -= here;
        match &self.commands.instead {
            None => flow.pass(here),
            Some(reply) => {
                flow.drop(here);
                if !self.commands.is_unfinished() {
                    reply.append(self.answer.sequence, to_client);
                    self.commands.instead = None;
                }
            }
        }
        self.commands.rest == 0
    }

    fn check_command_sequence(&mut self, head: &Head<'_>, expected: u8) -> Result<()> {
        self.answer.sequence = head.sequence.wrapping_add(1);
        if head.sequence != expected {
            return Err(Failure::protocol("the client's command is out of sequence"));
        }
        self.commands.continued = head.length == CONTINUED;
        Ok(())
    }

    /// Answer a command in the server's place once all of it has come.
    fn answer_instead(&mut self, head: &Head<'_>, reply: Reply, flow: &mut Flow<'_>, to_client: &mut Vec<u8>) -> bool {
        self.tally.refused += u64::from(matches!(reply, Reply::Error(_)));
        self.commands.number += 1;
        self.commands.instead = Some(reply);
        self.send_on(head.size(), flow, to_client)
    }

    /// Decide what is done with a command. Every command that is passed on is named here.
    fn verdict(&mut self, command: u8, head: &Head<'_>) -> Result<Verdict> {
        if self.guard.is_none() {
            return Ok(self.learn_from_command(command, head));
        }
        let is_short = head.payload.len() == 1 && head.is_whole();
        let mut reader = Reader::new(head.payload);
        reader.u8()?;
        Ok(match command {
            QUIT | PING if is_short => Verdict::Goes,
            STATISTICS if is_short => Verdict::Answered(Reply::Words(NO_STATISTICS)),
            RESET_CONNECTION if is_short => {
                self.guard.iter_mut().for_each(|guard| guard.forget_all());
                Verdict::Goes
            }
            PROCESS_KILL if head.length == 1 + 4 => Verdict::Goes,
            SET_OPTION if head.length == 1 + 2 && reader.u16()? == MULTI_STATEMENTS_OFF => Verdict::Goes,
            SET_OPTION => Verdict::Refused(ErrPacket::not_passed("second statement behind the first")),
            INIT_DB => self.verdict_on_database(head),
            QUERY | STMT_PREPARE => self.verdict_on_statement(command, head),
            STMT_EXECUTE | STMT_SEND_LONG_DATA | STMT_CLOSE | STMT_RESET => {
                let number = self.statement_number(reader.u32()?);
                self.verdict_on_prepared(command, number, head)?
            }
            _ => Verdict::Refused(ErrPacket::not_passed("command of this kind")),
        })
    }

    /// Pass everything on, since the account is not guarded, and learn its statements if it is a learning account.
    fn learn_from_command(&mut self, command: u8, head: &Head<'_>) -> Verdict {
        let (Some(lesson), Some(learner)) = (&mut self.lesson, &self.shared.learner) else { return Verdict::Goes };
        let is_of_interest = matches!(command, INIT_DB | QUERY | STMT_PREPARE | STMT_EXECUTE);
        if !is_of_interest || head.length > 1 + self.shared.limits.statement_bytes {
            return Verdict::Goes;
        }
        if !head.is_whole() {
            return Verdict::Wait;
        }
        let used = lesson.command(head.payload, self.database.as_deref(), &self.rules, learner);
        self.next_database = if command == INIT_DB { Some(head.payload[1..].to_vec()) } else { used };
        Verdict::Goes
    }

    /// Decide on INIT_DB.
    fn verdict_on_database(&mut self, head: &Head<'_>) -> Verdict {
        let name = &head.payload[1..];
        if !head.is_whole() || !is_plain_name(name) {
            return Verdict::Refused(ErrPacket::not_passed("database's name of this form"));
        }
        self.next_database = Some(name.to_vec());
        Verdict::Goes
    }

    fn verdict_on_statement(&mut self, command: u8, head: &Head<'_>) -> Verdict {
        let limits = &self.shared.limits;
        let Some(guard) = &mut self.guard else { return Verdict::Goes };
        if head.length > 1 + limits.statement_bytes || head.length == CONTINUED {
            return Verdict::Refused(ErrPacket::too_large("a statement", limits.statement_bytes));
        }
        if !head.is_whole() {
            return Verdict::Wait;
        }
        if command == STMT_PREPARE {
            guard.forget_last();
            if guard.count() >= limits.prepared_statements {
                return Verdict::Refused(ErrPacket::too_many_statements(limits.prepared_statements));
            }
        }
        let (database, is_prepared) = (self.database.as_deref(), command == STMT_PREPARE);
        match self.rules.statements.find(&head.payload[1..], is_prepared, database, &mut guard.reading) {
            Ok(statement) => Verdict::Approved(statement),
            Err(refusal) => Verdict::Refused(ErrPacket::refused(&refusal)),
        }
    }

    /// Return a prepared statement's number. MariaDB has one that means the last one.
    fn statement_number(&self, asked: u32) -> Option<u32> {
        match (&self.guard, &self.greeting) {
            (Some(guard), Some(greeting)) if asked == LAST_PREPARED && greeting.is_mariadb() => guard.last_prepared(),
            _ => Some(asked),
        }
    }

    fn verdict_on_prepared(&mut self, command: u8, number: Option<u32>, head: &Head<'_>) -> Result<Verdict> {
        let most = self.shared.limits.long_data_bytes;
        let Some(guard) = &mut self.guard else { return Ok(Verdict::Goes) };
        let Some(number) = number.filter(|number| guard.knows(*number)) else {
            return Ok(match command {
                STMT_EXECUTE | STMT_RESET => Verdict::Refused(ErrPacket::unknown_statement()),
                _ => Verdict::Answered(Reply::Nothing),
            });
        };
        Ok(match command {
            STMT_SEND_LONG_DATA => {
                let data =
                    if head.length < CONTINUED { head.length.saturating_sub(BEFORE_LONG_DATA) } else { usize::MAX };
                let parameter = match head.payload.get(1 + 4..BEFORE_LONG_DATA) {
                    Some(index) => u16::from_le_bytes([index[0], index[1]]),
                    None if head.is_whole() => return Ok(Verdict::Answered(Reply::Nothing)),
                    None => return Ok(Verdict::Wait),
                };
                // This command has no answer, so the error comes with the execution.
                let come = guard.takes_long_data(number, parameter, data);
                if come.bytes <= most && !come.was_no_text { Verdict::Goes } else { Verdict::Answered(Reply::Nothing) }
            }
            STMT_CLOSE => {
                guard.forget(number);
                Verdict::Goes
            }
            STMT_RESET => {
                guard.forget_long_data(number);
                Verdict::Goes
            }
            _ => self.verdict_on_execution(number, head)?,
        })
    }

    /// Decide on the execution of a prepared statement.
    fn verdict_on_execution(&mut self, number: u32, head: &Head<'_>) -> Result<Verdict> {
        let most = self.shared.limits.long_data_bytes;
        let Some(guard) = &mut self.guard else { return Ok(Verdict::Goes) };
        let mut reader = Reader::new(head.payload);
        reader.bytes(1 + 4)?;
        let cursor = reader.u8()?;
        let _iterations = reader.u32()?;
        let statement = match guard.prepared(number, &self.rules) {
            Ok(statement) => statement,
            Err(error) => return Ok(Verdict::Refused(error)),
        };
        let objection = match () {
            () if guard.long_data(number).bytes > most => {
                Some(ErrPacket::too_large("parameters that come by themselves", most))
            }
            () if guard.long_data(number).was_no_text => {
                Some(ErrPacket::not_passed("text that comes by itself for a parameter that was none before"))
            }
            () if head.length == CONTINUED => Some(ErrPacket::too_large("a command", CONTINUED - 1)),
            () if cursor != NO_CURSOR => Some(ErrPacket::not_passed("cursor")),
            () => None,
        };
        if let Some(objection) = objection {
            return Ok(Verdict::Refused(objection));
        }
        Ok(match guard.takes_types(number, reader.rest()) {
            None if head.is_whole() => return Err(Failure::protocol("an execution without its parameters' types")),
            None => Verdict::Wait,
            Some(false) => Verdict::Refused(ErrPacket::not_passed("parameter of another kind than was approved")),
            Some(true) => {
                guard.forget_long_data(number);
                Verdict::Executed(statement)
            }
        })
    }
}

const NO_CURSOR: u8 = 0;

fn unknown(command: u8) -> ErrPacket {
    ErrPacket::command(match command {
        CHANGE_USER => "the gateway cannot change the account of a session: connect again",
        _ => "the gateway does not know this command",
    })
}

/// Return whether every server reads the name as it is.
fn is_plain_name(name: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(name) else { return false };
    let is_old = name.get(..OLD_NAME.len()).is_some_and(|start| start.eq_ignore_ascii_case(OLD_NAME));
    let fits = !text.is_empty() && text.chars().count() <= LONGEST_NAME && !text.ends_with(' ');
    fits && !is_old && text.chars().all(|character| character != '\0' && character <= '\u{FFFF}')
}

/// Return the database that a statement selects.
fn used_by(statement: &Statement) -> Option<Vec<u8>> {
    statement.uses.as_ref().map(|name| name.to_vec())
}
