//! The client's commands (MySQL Internals, "Command Phase"): which go on, and what their answers are.

use super::answer::Expected;
use super::flow::{CONTINUED, Flow, Head};
use super::{Phase, Session};
use crate::encryption::RowFormat;
use crate::error::{Failure, Result};
use crate::gateway::fence::{self, Columns, Reading, Surroundings};
use crate::gateway::messages::{Complaint, too_long};
use crate::wire::mysql::bytes::Reader;

const QUIT: u8 = 0x01;
const INIT_DB: u8 = 0x02;
const QUERY: u8 = 0x03;
const FIELD_LIST: u8 = 0x04;
const STATISTICS: u8 = 0x09;
const PROCESS_INFO: u8 = 0x0A;
const PROCESS_KILL: u8 = 0x0C;
const DEBUG: u8 = 0x0D;
const PING: u8 = 0x0E;
const CHANGE_USER: u8 = 0x11;
const STMT_PREPARE: u8 = 0x16;
const STMT_EXECUTE: u8 = 0x17;
const STMT_SEND_LONG_DATA: u8 = 0x18;
const STMT_CLOSE: u8 = 0x19;
const STMT_RESET: u8 = 0x1A;
const SET_OPTION: u8 = 0x1B;
const STMT_FETCH: u8 = 0x1C;
const RESET_CONNECTION: u8 = 0x1F;

/// The only option that there is: several statements in one command.
const MULTI_STATEMENTS_ON: u16 = 0;
/// Of what has no statement, or one that gives no rows.
const SILENT: Reading = Reading { columns: Columns::Anything, tells_id: false };

/// The present command.
#[derive(Debug, Default)]
pub struct Commands {
    /// Of its present packet, still to come and to go on.
    rest: usize,
    /// Its next packet belongs to the one before it.
    continued: bool,
    /// Its answer is under way.
    is_asked: bool,
}

impl Commands {
    /// There is more of it to come.
    pub fn is_unfinished(&self) -> bool {
        self.rest > 0 || self.continued
    }

    /// No answer is due.
    pub fn is_idle(&self) -> bool {
        !self.is_asked
    }

    /// All of the answer has come.
    pub fn answered(&mut self) {
        self.is_asked = false;
    }
}

/// What a command is answered with, and in which format rows come; None for one that the gateway does not know.
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

/// Whether a command goes on under a guard.
enum Verdict {
    Goes(Reading),
    Refused(Complaint),
    /// Not all of it is there.
    Wait,
}

impl Session {
    /// A packet of the client's, in turn; whether there may be more.
    pub(super) fn command(&mut self, flow: &mut Flow<'_>, to_client: &mut Vec<u8>) -> Result<bool> {
        if self.commands.rest > 0 {
            return Ok(self.send_on(0, flow));
        }
        let Some(head) = flow.head() else { return Ok(false) };
        if self.commands.continued {
            self.check_command_sequence(&head, self.answer.sequence)?;
            return Ok(self.send_on(head.size(), flow));
        }
        self.check_command_sequence(&head, 0)?;
        if let Some(complaint) = self.renew_rules()? {
            flow.drop(flow.left());
            self.fail(&complaint, to_client);
            return Ok(false);
        }
        let Some(&command) = head.payload.first() else { return Err(Failure::protocol("a command without a name")) };
        let Some((expected, format)) = answer_to(command) else {
            return self.refuse(&head, &unknown(command), flow, to_client);
        };
        match self.verdict(command, &head)? {
            Verdict::Wait => return Ok(false),
            Verdict::Refused(complaint) => return self.refuse(&head, &complaint, flow, to_client),
            Verdict::Goes(reading) => {
                if let Some(guard) = &mut self.guard {
                    guard.begin(reading, format);
                }
            }
        }
        self.answer.expect(expected);
        self.commands.is_asked = expected != Expected::Nothing;
        self.tally.commands += 1;
        if command == QUIT {
            self.phase = Phase::Quitting;
        }
        Ok(self.send_on(head.size(), flow))
    }

    /// A packet goes on to the server, or what was left of it, as far as it is there; whether there may be more.
    fn send_on(&mut self, size: usize, flow: &mut Flow<'_>) -> bool {
        self.commands.rest += size;
        let here = self.commands.rest.min(flow.left());
        flow.pass(here);
        self.commands.rest -= here;
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

    /// The session goes on without this command.
    fn refuse(
        &mut self,
        head: &Head<'_>,
        why: &Complaint,
        flow: &mut Flow<'_>,
        to_client: &mut Vec<u8>,
    ) -> Result<bool> {
        if head.length == CONTINUED {
            return Err(too_long("a command"));
        }
        if !head.is_whole() {
            return Ok(false);
        }
        flow.drop(head.size());
        why.append(self.answer.sequence, true, to_client);
        self.tally.refused += 1;
        Ok(true)
    }

    fn verdict(&mut self, command: u8, head: &Head<'_>) -> Result<Verdict> {
        let Some(guard) = &mut self.guard else { return Ok(Verdict::Goes(SILENT)) };
        let mut reader = Reader::new(head.payload);
        reader.u8()?;
        Ok(match command {
            QUERY | STMT_PREPARE if head.length == CONTINUED => return Err(too_long("a statement")),
            QUERY | STMT_PREPARE if !head.is_whole() => Verdict::Wait,
            QUERY | STMT_PREPARE => {
                let backslash_escapes = self.answer.backslash_escapes();
                let surroundings = Surroundings { rules: &self.rules, backslash_escapes };
                match fence::read(reader.rest(), &surroundings) {
                    Ok(reading) => Verdict::Goes(reading),
                    Err(refusal) => Verdict::Refused(Complaint::fence(&refusal)),
                }
            }
            STMT_EXECUTE => match (guard.prepared(reader.u32()?), reader.u8()?) {
                (None, _) => Verdict::Refused(Complaint::unknown_statement()),
                (Some(reading), NO_CURSOR) => Verdict::Goes(reading),
                (Some(_), _) => Verdict::Refused(Complaint::fence(&"cursor")),
            },
            STMT_CLOSE => {
                guard.forget(reader.u32()?);
                Verdict::Goes(SILENT)
            }
            RESET_CONNECTION => {
                guard.forget_all();
                Verdict::Goes(SILENT)
            }
            SET_OPTION if reader.u16()? == MULTI_STATEMENTS_ON => {
                Verdict::Refused(Complaint::fence(&"second statement behind the first"))
            }
            FIELD_LIST | PROCESS_INFO | DEBUG | STMT_FETCH => {
                Verdict::Refused(Complaint::fence(&"command of this kind"))
            }
            _ => Verdict::Goes(SILENT),
        })
    }
}

const NO_CURSOR: u8 = 0;

fn unknown(command: u8) -> Complaint {
    Complaint::command(match command {
        CHANGE_USER => "the gateway cannot change the account of a session: connect again",
        _ => "the gateway does not know this command",
    })
}
