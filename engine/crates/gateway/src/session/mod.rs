//! One session between a client and the server: bytes in, bytes out, and nothing of the world. What becomes of a packet is
//! decided here; how bytes come and go is the conversation's.
//!
//! Commands and answers take turns. While an answer is under way the client is not listened to, so a command that it sent
//! ahead waits, and each command meets the rules and the state that it finds.

mod answer;
mod columns;
mod commands;
mod entry;
mod flow;
mod guard;
mod login;
mod pinning;
mod rows;
mod sealing;
mod shared;
mod waiting;

pub use flow::Progress;
pub use shared::{Shared, Tally};
pub use waiting::Waiting;

use super::learn::Lesson;
use super::messages::ErrPacket;
use super::rules::Rules;
use answer::{Answer, Kind, Of};
use base::error::{Failure, Result};
use commands::Commands;
use encryption::SessionSalt;
use flow::{CONTINUED, Flow, Head};
use guard::Guard;
use login::Greeting;
use mysql::packet::HEADER;
use pinning::Pinning;
use std::sync::Arc;

/// As much of any packet is seen before anything is done with it.
const LOOK: usize = 32;
/// One client's connection and the server's behind it.
pub struct Session {
    shared: Arc<Shared>,
    rules: Arc<Rules>,
    generation: u64,
    /// The client comes under TLS, and the server is gone to under TLS.
    tls: bool,
    phase: Phase,
    greeting: Option<Greeting>,
    account: Vec<u8>,
    /// Of its keys; None, where the client does not say that it decrypts.
    salt: Option<SessionSalt>,
    answer: Answer,
    commands: Commands,
    /// None for those who get plaintext.
    guard: Option<Box<Guard>>,
    /// Where the account's statements are learned.
    lesson: Option<Box<Lesson>>,
    /// The gateway's own commands are under way.
    pinning: Option<Pinning>,
    /// Own commands that are still to be sent.
    to_server: Vec<u8>,
    /// The present one, as the server has it; for pinned sessions alone.
    database: Option<Vec<u8>>,
    /// What it will be if the present command succeeds.
    next_database: Option<Vec<u8>>,
    /// Of the present packet of the server's, still to come and to go on, or to be dropped.
    rest: usize,
    /// The next packet of the server's belongs to the one before it.
    continued: bool,
    tally: Tally,
}

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The server speaks first.
    Greeting,
    /// The client says who it is, or that it wants TLS first.
    Response {
        secured: bool,
    },
    /// TLS on both sides is under way.
    Securing,
    /// Server and client settle who it is, step by step.
    Authentication {
        steps: u8,
        asked: bool,
    },
    /// The server answers the gateway's own commands.
    Pinning,
    Commands,
    /// The client said goodbye.
    Quitting,
    Over,
}

impl Session {
    /// Of a client that has just come.
    pub fn new(shared: Arc<Shared>, tls: bool) -> Self {
        let (rules, generation) = shared.rules();
        Session {
            shared,
            rules,
            generation,
            tls,
            phase: Phase::Greeting,
            greeting: None,
            account: Vec::new(),
            salt: None,
            answer: Answer::none(),
            commands: Commands::default(),
            guard: None,
            lesson: None,
            pinning: None,
            to_server: Vec::new(),
            database: None,
            next_database: None,
            rest: 0,
            continued: false,
            tally: Tally::default(),
        }
    }

    /// The client's bytes are wanted. Those that it sent ahead wait.
    pub fn listens_to_client(&self) -> bool {
        match self.phase {
            Phase::Response { .. } => true,
            Phase::Authentication { asked, .. } => asked,
            Phase::Commands => {
                self.commands.is_unfinished() || self.answer.is_over() && self.rest == 0 && !self.continued
            }
            Phase::Greeting | Phase::Securing | Phase::Pinning | Phase::Quitting | Phase::Over => false,
        }
    }

    /// At most so many bytes may be taken from the network beside these that have come from the client: what follows a wish
    /// for TLS is TLS's.
    pub fn wants_of_client(&self, come: &[u8]) -> usize {
        const REQUEST: usize = HEADER + login::TLS_REQUEST;
        let is_longer = come
            .first_chunk()
            .is_some_and(|[low, middle, high]| (*low as usize, *middle, *high) != (login::TLS_REQUEST, 0, 0));
        if !self.tls || self.phase != (Phase::Response { secured: false }) || is_longer {
            return usize::MAX;
        }
        REQUEST.saturating_sub(come.len())
    }

    /// Both sides go on under TLS, once what was written is sent; then [`Session::secured`].
    pub fn wants_tls(&self) -> bool {
        self.phase == Phase::Securing
    }

    /// They do.
    pub fn secured(&mut self) {
        self.phase = Phase::Response { secured: true };
    }

    /// The login has ended: from now on it may be idle.
    pub fn is_logged_in(&self) -> bool {
        matches!(self.phase, Phase::Commands | Phase::Quitting)
    }

    /// Once what was written is sent, both connections end.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// What was done since it was last asked.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Bytes have come from the client. What goes to the server is told by the progress, what goes back to the client is
    /// written; both buffers come empty.
    pub fn from_client(&mut self, input: &[u8], to_server: &mut Vec<u8>, to_client: &mut Vec<u8>) -> Progress {
        let mut flow = Flow::new(input, to_server);
        while self.listens_to_client() {
            match self.client_packet(&mut flow, to_client) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => {
                    self.fail(&ErrPacket::broken(&failure), to_client);
                    flow.drop(flow.left());
                }
            }
        }
        flow.progress()
    }

    /// Bytes have come from the server. What goes to the client is told by the progress, what goes back to the server is
    /// written; both buffers come empty.
    pub fn from_server(&mut self, input: &[u8], to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) -> Progress {
        let mut flow = Flow::new(input, to_client);
        while self.phase != Phase::Over {
            let sequence = self.answer.sequence;
            match self.server_packet(&mut flow) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => {
                    // In place of the packet that was wrong.
                    self.answer.sequence = sequence;
                    let left = flow.left();
                    self.fail(&ErrPacket::broken(&failure), flow.replace(left));
                }
            }
        }
        if self.phase == Phase::Over {
            flow.drop(flow.left());
        }
        to_server.append(&mut self.to_server);
        flow.progress()
    }

    /// The server's connection has ended. The client is told, unless it was idle, had said goodbye, or has half a packet.
    pub fn server_lost(&mut self, to_client: &mut Vec<u8>) {
        let is_idle = self.phase == Phase::Commands && self.answer.is_over();
        if !is_idle && self.phase != Phase::Quitting {
            self.fail(&ErrPacket::server_lost(), to_client);
        }
        self.phase = Phase::Over;
    }

    /// It cannot go on: tell the client, where it can still be told.
    pub fn fail(&mut self, why: &ErrPacket, to_client: &mut Vec<u8>) {
        let within_a_packet = self.rest > 0 || self.continued;
        if self.phase != Phase::Over && !within_a_packet {
            let pinned = self.pinning.as_ref().map(Pinning::sequence);
            // Before a client has said what it can do, it is spoken to in the old form.
            why.append(pinned.unwrap_or(self.answer.sequence), !matches!(self.phase, Phase::Greeting), to_client);
            self.tally.errors += 1;
        }
        self.phase = Phase::Over;
    }

    /// Whether there may be more.
    fn client_packet(&mut self, flow: &mut Flow<'_>, to_client: &mut Vec<u8>) -> Result<bool> {
        match self.phase {
            Phase::Commands => return self.command(flow, to_client),
            Phase::Quitting => return Ok(false),
            _ => {}
        }
        let Some(head) = whole(flow)? else { return Ok(false) };
        if head.sequence != self.answer.sequence {
            return Err(Failure::protocol("the client's answer is out of sequence"));
        }
        self.answer.sequence = head.sequence.wrapping_add(1);
        match self.phase {
            Phase::Response { secured } => self.response(&head, secured, flow, to_client)?,
            Phase::Authentication { steps, .. } => {
                flow.pass(head.size());
                self.phase = Phase::Authentication { steps, asked: false };
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Rules that were read since the last command; why it cannot go on under them.
    fn renew_rules(&mut self) -> Result<Option<ErrPacket>> {
        if self.generation != self.shared.generation() {
            let guard = self.guard.take();
            (self.rules, self.generation) = self.shared.rules();
            self.take_role()?;
            match (&mut self.guard, guard) {
                (Some(guard), Some(before)) => guard.inherit(*before)?,
                // Its statements were prepared, and its variables set, where nothing was guarded.
                (Some(_), None) => return Ok(Some(ErrPacket::denied(CONNECT_AGAIN))),
                (None, _) => {}
            }
            if self.is_unwelcome() {
                return Ok(Some(ErrPacket::no_entry(entry::DOES_NOT_DECRYPT)));
            }
        }
        if let Some(guard) = &mut self.guard {
            guard.renew_key_in_time()?;
        }
        Ok(None)
    }

    /// Whether there may be more.
    fn server_packet(&mut self, flow: &mut Flow<'_>) -> Result<bool> {
        match self.phase {
            Phase::Commands | Phase::Quitting => self.answer_packet(flow),
            _ => self.entry_packet(flow),
        }
    }

    fn answer_packet(&mut self, flow: &mut Flow<'_>) -> Result<bool> {
        if self.rest > 0 {
            self.stream(0, flow);
            return Ok(self.rest == 0);
        }
        let Some(head) = flow.head() else { return Ok(false) };
        if self.continued {
            self.check_continuation(&head)?;
            self.stream(head.size(), flow);
            return Ok(self.rest == 0);
        }
        let is_guarded = self.guard.as_ref().is_some_and(|guard| guard.looks_at(&self.answer));
        if is_guarded && head.length == CONTINUED {
            return Err(super::messages::too_long("a row"));
        }
        if is_guarded && !head.is_whole() {
            return Ok(false);
        }
        let kind = self.answer.take(&head)?;
        if kind == Kind::Ok && self.is_pinned() && self.commands.resets() {
            self.pin(&head, flow)?;
            return Ok(true);
        }
        // Of what is not looked at as a whole, rows alone are long.
        if kind != Kind::Row && self.guard.is_some() && !head.is_whole() {
            return Err(Failure::protocol("the end of the server's answer is too long"));
        }
        self.learn_from_answer(kind, &head);
        let was_unasked = kind == Kind::Error && self.commands.is_idle();
        self.continued = head.length == CONTINUED;
        match &mut self.guard {
            Some(guard) if !self.continued => {
                let went = guard.pass(&head, kind, &self.rules, &mut self.tally, flow)?;
                if went == guard::Went::AsItIs {
                    self.stream(head.size(), flow);
                }
            }
            _ => self.stream(head.size(), flow),
        }
        if self.answer.is_over() && self.rest == 0 && !self.continued {
            self.commands.answered();
            self.settle_database(kind == Kind::Ok);
            if let (Some(lesson), Some(learner)) = (&mut self.lesson, &self.shared.learner) {
                lesson.answered(kind != Kind::Error, &self.rules, learner);
            }
        }
        if was_unasked {
            self.phase = Phase::Over;
        }
        Ok(self.rest == 0)
    }

    fn learn_from_answer(&mut self, kind: Kind, head: &Head<'_>) {
        let Some(lesson) = &mut self.lesson else { return };
        match kind {
            Kind::Prepared(number) => lesson.prepared(number),
            Kind::Definition(Of::Rows | Of::Columns) if head.is_whole() => lesson.column(head.payload),
            _ => {}
        }
    }

    /// The command that would change it has succeeded, or not.
    fn settle_database(&mut self, has_succeeded: bool) {
        if let Some(next) = self.next_database.take()
            && has_succeeded
        {
            self.database = Some(next);
        }
    }

    fn check_continuation(&mut self, head: &Head<'_>) -> Result<()> {
        if head.sequence != self.answer.sequence {
            return Err(Failure::protocol("the server's answer is out of sequence"));
        }
        self.answer.sequence = head.sequence.wrapping_add(1);
        self.continued = head.length == CONTINUED;
        Ok(())
    }

    /// A packet goes on, or what was left of it, as far as it is there.
    fn stream(&mut self, size: usize, flow: &mut Flow<'_>) {
        self.rest += size;
        let here = self.rest.min(flow.left());
        flow.pass(here);
        self.rest -= here;
    }
}

const CONNECT_AGAIN: &str = "the gateway's rules have changed and now guard this account: connect again";

/// The next packet, once all of it is there: of a login, none is long.
fn whole<'a>(flow: &Flow<'a>) -> Result<Option<Head<'a>>> {
    match flow.head() {
        Some(head) if head.length > login::LONGEST => Err(Failure::protocol("a packet of a login is too long")),
        Some(head) if head.is_whole() => Ok(Some(head)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests;
