//! One session between a client and the server: bytes in, bytes out, and nothing of the world. What becomes of a packet is
//! decided here; how bytes come and go is the conversation's.
//!
//! Commands and answers take turns. While an answer is under way the client is not listened to, so a command that it sent
//! ahead waits, and each command meets the rules and the state that it finds.

mod answer;
mod columns;
mod commands;
mod flow;
mod guard;
mod login;
mod rows;
mod sealing;
mod shared;

pub use flow::Progress;
pub use shared::{Shared, Tally};

use super::messages::Complaint;
use super::rules::{Role, Rules, UnknownClients};
use crate::encryption::SessionSalt;
use crate::error::{Failure, Result};
use crate::wire::mysql::packet::HEADER;
use answer::{Answer, Kind};
use commands::Commands;
use flow::{CONTINUED, Flow, Head};
use guard::Guard;
use login::{First, Greeting, Reads};
use std::sync::Arc;

/// As much of any packet is seen before anything is done with it.
const LOOK: usize = 32;
/// Questions of a server before it accepts a proof: what takes longer accepts none.
const MOST_TURNS: u8 = 16;
/// What `caching_sha2_password` says when it goes on by itself.
const FAST_AUTH_SUCCEEDED: &[u8] = &[1, 3];
/// First bytes of what a server says to a proof.
const ACCEPTED: u8 = 0x00;
const REFUSED: u8 = 0xFF;

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
    /// Of the client's texts.
    has_plain_charset: bool,
    answer: Answer,
    commands: Commands,
    /// None for those who get plaintext.
    guard: Option<Box<Guard>>,
    /// Of the present packet of the server's, still to come and to go on, or to be dropped.
    rest: usize,
    /// The next packet of the server's belongs to the one before it.
    continued: bool,
    /// The client was told that its answer is refused: what is left of it goes no further.
    draining: bool,
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
    /// Server and client settle who it is, in turns.
    Authentication {
        turns: u8,
        asked: bool,
    },
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
            has_plain_charset: false,
            answer: Answer::none(),
            commands: Commands::default(),
            guard: None,
            rest: 0,
            continued: false,
            draining: false,
            tally: Tally::default(),
        }
    }

    /// Its answers may hold what the client must not see.
    pub fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// The client's bytes are wanted. Those that it sent ahead wait.
    pub fn listens_to_client(&self) -> bool {
        match self.phase {
            Phase::Response { .. } => true,
            Phase::Authentication { asked, .. } => asked,
            Phase::Commands => {
                self.commands.is_unfinished() || self.answer.is_over() && self.rest == 0 && !self.continued
            }
            Phase::Greeting | Phase::Securing | Phase::Quitting | Phase::Over => false,
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
                    self.fail(&Complaint::broken(&failure), to_client);
                    flow.drop(flow.left());
                }
            }
        }
        flow.progress()
    }

    /// Bytes have come from the server. What goes to the client is told by the progress; the buffer comes empty.
    pub fn from_server(&mut self, input: &[u8], to_client: &mut Vec<u8>) -> Progress {
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
                    self.fail(&Complaint::broken(&failure), flow.replace(left));
                }
            }
        }
        if self.phase == Phase::Over {
            flow.drop(flow.left());
        }
        flow.progress()
    }

    /// The server's connection has ended. The client is told, unless it was idle, had said goodbye, or has half a packet.
    pub fn server_lost(&mut self, to_client: &mut Vec<u8>) {
        let is_idle = self.phase == Phase::Commands && self.answer.is_over();
        if !is_idle && self.phase != Phase::Quitting && !self.draining {
            self.fail(&Complaint::server_lost(), to_client);
        }
        self.phase = Phase::Over;
    }

    /// It cannot go on: tell the client, where it can still be told.
    pub fn fail(&mut self, why: &Complaint, to_client: &mut Vec<u8>) {
        let within_a_packet = (self.rest > 0 || self.continued) && !self.draining;
        if self.phase != Phase::Over && !within_a_packet {
            let held = self.guard.as_ref().and_then(|guard| guard.held());
            // Before a client has said what it can do, it is spoken to in the old form.
            why.append(held.unwrap_or(self.answer.sequence), !matches!(self.phase, Phase::Greeting), to_client);
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
            Phase::Authentication { turns, .. } => {
                flow.pass(head.size());
                self.phase = Phase::Authentication { turns, asked: false };
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn response(&mut self, head: &Head<'_>, secured: bool, flow: &mut Flow<'_>, to_client: &mut Vec<u8>) -> Result<()> {
        let Some(greeting) = self.greeting else { return Err(Failure::protocol("an answer before a greeting")) };
        let response = match First::parse(head.payload)? {
            First::TlsRequest if self.tls && !secured => {
                login::append_tls_request(head.payload, head.sequence, flow.replace(head.size()))?;
                self.phase = Phase::Securing;
                return Ok(());
            }
            First::Response(response) if self.tls == secured && self.tls == response.claims_tls() => response,
            First::Response(_) if self.tls && !secured => {
                flow.drop(head.size());
                self.fail(&Complaint::tls_required(), to_client);
                return Ok(());
            }
            _ => return Err(Failure::protocol("the client wants TLS where it was not offered")),
        };
        self.answer.without_eof = response.without_eof(&greeting);
        self.account = response.account.to_vec();
        self.salt = match response.reads {
            Reads::Plaintext => None,
            Reads::Ciphertext(nonce) => Some(SessionSalt::of(&greeting.scramble, &nonce)),
            // Said to anybody: it tells nothing of an account.
            Reads::Unbound => {
                flow.drop(head.size());
                self.fail(&Complaint::no_entry(WITHOUT_A_NONCE), to_client);
                return Ok(());
            }
        };
        self.has_plain_charset = response.has_plain_charset(&greeting);
        self.take_role()?;
        if self.guard.is_some() && !self.has_plain_charset {
            flow.drop(head.size());
            self.fail(&Complaint::no_entry(OTHER_CHARSET), to_client);
            return Ok(());
        }
        response.append(head.payload, head.sequence, self.guard.is_some(), flow.replace(head.size()))?;
        self.phase = Phase::Authentication { turns: 0, asked: false };
        Ok(())
    }

    /// Whether there may be more.
    fn server_packet(&mut self, flow: &mut Flow<'_>) -> Result<bool> {
        if matches!(self.phase, Phase::Commands | Phase::Quitting) {
            return self.answer_packet(flow);
        }
        let Some(head) = whole(flow)? else { return Ok(false) };
        let is_error = head.payload.first() == Some(&REFUSED);
        if head.sequence != self.answer.sequence && !is_error {
            return Err(Failure::protocol("the server's packet is out of sequence"));
        }
        self.answer.sequence = head.sequence.wrapping_add(1);
        match self.phase {
            // An error ends a login whenever it comes.
            _ if is_error => {
                flow.pass(head.size());
                self.phase = Phase::Over;
            }
            Phase::Greeting => {
                let out = flow.replace(head.size());
                self.greeting = Some(Greeting::cut(head.payload, head.sequence, self.tls, out)?);
                self.phase = Phase::Response { secured: false };
            }
            Phase::Authentication { turns, asked: false } => self.turn(&head, turns, flow)?,
            _ => return Err(Failure::protocol("the server said more than it was asked for")),
        }
        Ok(true)
    }

    fn turn(&mut self, head: &Head<'_>, turns: u8, flow: &mut Flow<'_>) -> Result<()> {
        if head.payload.first() == Some(&ACCEPTED) {
            return self.accepted(head, flow);
        }
        if turns == MOST_TURNS {
            return Err(Failure::protocol("the server does not end the authentication"));
        }
        flow.pass(head.size());
        self.phase = Phase::Authentication { turns: turns + 1, asked: head.payload != FAST_AUTH_SUCCEEDED };
        Ok(())
    }

    fn accepted(&mut self, head: &Head<'_>, flow: &mut Flow<'_>) -> Result<()> {
        self.answer.accepted(head.payload)?;
        if self.is_unwelcome() {
            // In place of the server's OK.
            self.answer.sequence = head.sequence;
            let out = flow.replace(head.size());
            self.fail(&Complaint::no_entry(DOES_NOT_DECRYPT), out);
            return Ok(());
        }
        flow.pass(head.size());
        self.phase = Phase::Commands;
        Ok(())
    }

    /// Whether it would get ciphertext that it does not know.
    fn is_unwelcome(&self) -> bool {
        self.guard.is_some() && self.salt.is_none() && self.rules.unknown_clients == UnknownClients::Refuse
    }

    fn take_role(&mut self) -> Result<()> {
        self.guard = match self.rules.role(&self.account) {
            Role::Plaintext => None,
            role => Some(Box::new(Guard::new(role, self.salt)?)),
        };
        Ok(())
    }

    /// Rules that were read since the last command; why it cannot go on under them.
    fn renew_rules(&mut self) -> Result<Option<Complaint>> {
        if self.generation != self.shared.generation() {
            let (guard, knew_views) = (self.guard.take(), self.rules.catalogue.is_some());
            (self.rules, self.generation) = self.shared.rules();
            self.take_role()?;
            match (&mut self.guard, guard) {
                (Some(guard), Some(before)) => guard.inherit(*before, knew_views)?,
                // Its statements were prepared, and its variables set, where no fence was.
                (Some(_), None) => return Ok(Some(Complaint::denied(CONNECT_AGAIN))),
                (None, _) => {}
            }
            if self.is_unwelcome() {
                return Ok(Some(Complaint::no_entry(DOES_NOT_DECRYPT)));
            }
        }
        if let Some(guard) = &mut self.guard {
            guard.renew_key_in_time()?;
        }
        Ok(None)
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
        let is_guarded = !self.draining && self.guard.as_ref().is_some_and(|guard| guard.looks_at(&self.answer));
        if is_guarded && head.length == CONTINUED {
            return Err(super::messages::too_long("a row"));
        }
        if is_guarded && !head.is_whole() {
            return Ok(false);
        }
        let kind = self.answer.take(&head)?;
        // Of what is not looked at as a whole, rows alone are long.
        if kind != Kind::Row && self.guard.is_some() && !self.draining && !head.is_whole() {
            return Err(Failure::protocol("the end of the server's answer is too long"));
        }
        let was_unasked = kind == Kind::Error && !self.draining && self.commands.is_idle();
        self.continued = head.length == CONTINUED;
        let is_last = !self.answer.is_in_definitions();
        match &mut self.guard {
            Some(guard) if !self.draining && !self.continued => {
                let went = guard.pass(&head, kind, is_last, &self.rules, &mut self.tally, flow)?;
                self.draining = went == guard::Went::Refused;
                if went == guard::Went::AsItIs {
                    self.stream(head.size(), flow);
                }
            }
            _ => self.stream(head.size(), flow),
        }
        if self.answer.is_over() && self.rest == 0 && !self.continued {
            self.draining = false;
            self.commands.answered();
        }
        if was_unasked {
            self.phase = Phase::Over;
        }
        Ok(self.rest == 0)
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
        if self.draining {
            flow.drop(here);
        } else {
            flow.pass(here);
        }
        self.rest -= here;
    }
}

const OTHER_CHARSET: &str = "this account gets encrypted columns through the gateway, which takes its statements in utf8mb4, \
                             utf8, latin1, ascii or binary alone: connect with one of these character sets";
const DOES_NOT_DECRYPT: &str = "this account gets encrypted columns, and this client does not say that it decrypts them: \
                                connect with costof's driver, or have the rules say unknown_clients = \"ciphertext\"";
const WITHOUT_A_NONCE: &str = "this client says that it decrypts (costof_encrypted), but not by a costof_nonce of 64 hexadecimal \
                               digits what its keys are bound to: update costof's driver";
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
