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

/// At least so many bytes of a longer packet are there before it is processed.
const LOOK: usize = 32;
/// The state of one client's session and of the server's behind it.
pub struct Session {
    shared: Arc<Shared>,
    rules: Arc<Rules>,
    generation: u64,
    /// Both sides speak TLS.
    tls: bool,
    phase: Phase,
    greeting: Option<Greeting>,
    account: Vec<u8>,
    /// The salt of the session's keys; None if the client does not announce that it decrypts.
    salt: Option<SessionSalt>,
    answer: Answer,
    commands: Commands,
    /// None for accounts that get plaintext.
    guard: Option<Box<Guard>>,
    /// Present if the account's statements are learned.
    lesson: Option<Box<Lesson>>,
    /// Present while the gateway's own commands are under way.
    pinning: Option<Pinning>,
    /// The gateway's own commands that are still to be sent.
    to_server: Vec<u8>,
    /// The session's database; known for pinned sessions only.
    database: Option<Vec<u8>>,
    /// The session's database if the present command succeeds.
    next_database: Option<Vec<u8>>,
    /// Bytes of the server's present packet that are still to come.
    rest: usize,
    /// The server's next packet continues the one before it.
    continued: bool,
    tally: Tally,
}

/// The phases of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The server's greeting is awaited.
    Greeting,
    /// The client's response, or its request for TLS, is awaited.
    Response {
        secured: bool,
    },
    /// TLS handshakes on both sides are under way.
    Securing,
    /// The authentication is under way.
    Authentication {
        steps: u8,
        asked: bool,
    },
    /// The server answers the gateway's own commands.
    Pinning,
    Commands,
    /// The client has sent QUIT.
    Quitting,
    Over,
}

impl Session {
    /// Create a session for a new client.
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

    /// Return whether the client's bytes are wanted now. Bytes that were sent ahead wait.
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

    /// Return how many more bytes may be received from the client: what follows a request for TLS belongs to
    /// the handshake.
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

    /// Return whether both sides must now begin TLS; afterwards call [`Session::secured`].
    pub fn wants_tls(&self) -> bool {
        self.phase == Phase::Securing
    }

    /// Continue after both TLS handshakes.
    pub fn secured(&mut self) {
        self.phase = Phase::Response { secured: true };
    }

    /// Return whether the login has succeeded.
    pub fn is_logged_in(&self) -> bool {
        matches!(self.phase, Phase::Commands | Phase::Quitting)
    }

    /// Return whether both connections end once everything written is sent.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Return the counts since the last call.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Process bytes from the client. The progress says what goes to the server; answers to the client are
    /// written. Both buffers must be empty.
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

    /// Process bytes from the server. The progress says what goes to the client; commands to the server are
    /// written. Both buffers must be empty.
    pub fn from_server(&mut self, input: &[u8], to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) -> Progress {
        let mut flow = Flow::new(input, to_client);
        while self.phase != Phase::Over {
            let sequence = self.answer.sequence;
            match self.server_packet(&mut flow) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => {
                    // The error takes the place of the wrong packet.
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

    /// End the session since the server was lost. The client gets an error unless it was idle, had quit, or has half a packet.
    pub fn server_lost(&mut self, to_client: &mut Vec<u8>) {
        let is_idle = self.phase == Phase::Commands && self.answer.is_over();
        if !is_idle && self.phase != Phase::Quitting {
            self.fail(&ErrPacket::server_lost(), to_client);
        }
        self.phase = Phase::Over;
    }

    /// End the session with an error, if the client can still be told.
    pub fn fail(&mut self, why: &ErrPacket, to_client: &mut Vec<u8>) {
        let within_a_packet = self.rest > 0 || self.continued;
        if self.phase != Phase::Over && !within_a_packet {
            let pinned = self.pinning.as_ref().map(Pinning::sequence);
            // Before its response a client gets errors in the old form.
            why.append(pinned.unwrap_or(self.answer.sequence), !matches!(self.phase, Phase::Greeting), to_client);
            self.tally.errors += 1;
        }
        self.phase = Phase::Over;
    }

    /// Process one packet; return whether there may be more.
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

    /// Take new rules; return an error if the session cannot continue under them.
    fn renew_rules(&mut self) -> Result<Option<ErrPacket>> {
        if self.generation != self.shared.generation() {
            let guard = self.guard.take();
            (self.rules, self.generation) = self.shared.rules();
            self.take_role()?;
            match (&mut self.guard, guard) {
                (Some(guard), Some(before)) => guard.inherit(*before)?,
                // Its statements were prepared while it was not guarded.
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

    /// Process one packet; return whether there may be more.
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
        // Only rows may be longer than what is processed as a whole.
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

    /// Change the session's database if the command that selects it has succeeded.
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

    /// Pass on a packet, or the rest of one, as far as it is there.
    fn stream(&mut self, size: usize, flow: &mut Flow<'_>) {
        self.rest += size;
        let here = self.rest.min(flow.left());
        flow.pass(here);
        self.rest -= here;
    }
}

const CONNECT_AGAIN: &str = "the gateway's rules have changed and now guard this account: connect again";

/// Return the next packet of a login once it is complete.
fn whole<'a>(flow: &Flow<'a>) -> Result<Option<Head<'a>>> {
    match flow.head() {
        Some(head) if head.length > login::LONGEST => Err(Failure::protocol("a packet of a login is too long")),
        Some(head) if head.is_whole() => Ok(Some(head)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests;
