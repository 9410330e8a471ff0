//! From a client's connection to its first command: its account, whether it may log in, and for guarded accounts the
//! session's settings.

use super::flow::{Flow, Head};
use super::guard::Guard;
use super::login::{self, First, Greeting, Reads, Response};
use super::pinning::Pinning;
use super::{Phase, Session, whole};
use crate::messages::{ErrPacket, append_bare_ok};
use crate::rules::{Role, UnknownClients};
use crate::server_errors::append_server_error;
use base::error::{Failure, Result};
use encryption::SessionSalt;

/// The most steps of an authentication.
const MOST_STEPS: u8 = 16;
/// The packet of `caching_sha2_password` that needs no answer.
const FAST_AUTH_SUCCEEDED: &[u8] = &[1, 3];
/// The first bytes of a server's answer to a proof.
const ACCEPTED: u8 = 0x00;
const REFUSED: u8 = 0xFF;

const OTHER_CHARSET: &str = "this account gets encrypted columns through the gateway, whose clients speak utf8mb4: connect \
                             with the character set utf8mb4 (utf8, latin1, ascii and binary are taken for it)";
const UNCERTAIN_NAME: &str = "the gateway cannot tell which account the server would take this name for: it is too long, or \
                              not in plain UTF-8";
const WITHOUT_A_NONCE: &str = "this client says that it decrypts (costof_encrypted), but not by a costof_nonce of 64 hexadecimal \
                               digits what its keys are bound to: update costof's driver";
/// The error for a client that would get ciphertext and does not announce that it decrypts.
pub const DOES_NOT_DECRYPT: &str = "this account gets encrypted columns, and this client does not say that it decrypts them: \
                                    connect with costof's driver, or have the rules say unknown_clients = \"ciphertext\"";

impl Session {
    /// Process the client's response to the greeting.
    pub(super) fn response(
        &mut self,
        head: &Head<'_>,
        secured: bool,
        flow: &mut Flow<'_>,
        to_client: &mut Vec<u8>,
    ) -> Result<()> {
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
                self.fail(&ErrPacket::tls_required(), to_client);
                return Ok(());
            }
            _ => return Err(Failure::protocol("the client wants TLS where it was not offered")),
        };
        self.answer.without_eof = response.without_eof(&greeting);
        self.account = response.account.to_vec();
        self.salt = match response.reads {
            Reads::Plaintext => None,
            Reads::Ciphertext(nonce) => Some(SessionSalt::of(&greeting.scramble, &nonce)),
            // Anybody gets this error, so it shows nothing of an account.
            Reads::Unbound => {
                flow.drop(head.size());
                self.fail(&ErrPacket::no_entry(WITHOUT_A_NONCE), to_client);
                return Ok(());
            }
        };
        self.take_role()?;
        if let Some(why) = self.objection(&response, &greeting) {
            flow.drop(head.size());
            self.fail(&ErrPacket::no_entry(why), to_client);
            return Ok(());
        }
        response.append(head.payload, head.sequence, self.is_pinned(), flow.replace(head.size()))?;
        self.phase = Phase::Authentication { steps: 0, asked: false };
        Ok(())
    }

    /// Return why a client may not log in; None if it may.
    fn objection(&self, response: &Response<'_>, greeting: &Greeting) -> Option<&'static str> {
        if self.is_pinned() && !response.has_plain_charset(greeting) {
            return Some(OTHER_CHARSET);
        }
        (self.rules.guard() && !response.has_certain_name(greeting)).then_some(UNCERTAIN_NAME)
    }

    /// Process a packet of the server's before the first command; return whether there may be more.
    pub(super) fn entry_packet(&mut self, flow: &mut Flow<'_>) -> Result<bool> {
        if self.phase == Phase::Pinning {
            return self.pinning_packet(flow);
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
                match self.guard {
                    Some(_) => append_server_error(head.payload, head.sequence, flow.replace(head.size()))?,
                    None => flow.pass(head.size()),
                }
                self.phase = Phase::Over;
            }
            Phase::Greeting => {
                let out = flow.replace(head.size());
                self.greeting = Some(Greeting::cut(head.payload, head.sequence, self.tls, out)?);
                self.phase = Phase::Response { secured: false };
            }
            Phase::Authentication { steps, asked: false } => self.authentication_step(&head, steps, flow)?,
            _ => return Err(Failure::protocol("the server said more than it was asked for")),
        }
        Ok(true)
    }

    fn authentication_step(&mut self, head: &Head<'_>, steps: u8, flow: &mut Flow<'_>) -> Result<()> {
        if head.payload.first() == Some(&ACCEPTED) {
            return self.accepted(head, flow);
        }
        if steps == MOST_STEPS {
            return Err(Failure::protocol("the server does not end the authentication"));
        }
        flow.pass(head.size());
        self.phase = Phase::Authentication { steps: steps + 1, asked: head.payload != FAST_AUTH_SUCCEEDED };
        Ok(())
    }

    fn accepted(&mut self, head: &Head<'_>, flow: &mut Flow<'_>) -> Result<()> {
        self.answer.accepted(head.payload)?;
        if self.is_unwelcome() {
            // The error takes the place of the server's OK.
            self.answer.sequence = head.sequence;
            let out = flow.replace(head.size());
            self.fail(&ErrPacket::no_entry(DOES_NOT_DECRYPT), out);
            return Ok(());
        }
        if self.is_pinned() {
            return self.pin(head, flow);
        }
        flow.pass(head.size());
        self.phase = Phase::Commands;
        Ok(())
    }

    /// Return whether the client would get ciphertext without announcing that it decrypts.
    pub(super) fn is_unwelcome(&self) -> bool {
        self.guard.is_some() && self.salt.is_none() && self.rules.unknown_clients == UnknownClients::Refuse
    }

    /// Return whether the session gets the settings of guarded sessions.
    pub(super) fn is_pinned(&self) -> bool {
        self.guard.is_some() || self.lesson.is_some()
    }

    /// Take the role that the rules give the account.
    pub(super) fn take_role(&mut self) -> Result<()> {
        if self.shared.learner.as_ref().is_some_and(|learner| learner.learns_from(&self.account)) {
            self.lesson.get_or_insert_default();
            return Ok(());
        }
        self.guard = match self.rules.role(&self.account) {
            Role::Plaintext => None,
            role => Some(Box::new(Guard::new(role, self.salt)?)),
        };
        Ok(())
    }

    /// Begin to pin the session's settings. The client gets this OK when that has succeeded.
    pub(super) fn pin(&mut self, head: &Head<'_>, flow: &mut Flow<'_>) -> Result<()> {
        let mut held = Vec::new();
        append_bare_ok(head.payload, false, head.sequence, &mut held)?;
        flow.drop(head.size());
        self.pinning = Some(Pinning::begin(held, &mut self.to_server));
        self.answer.expect_result();
        self.phase = Phase::Pinning;
        Ok(())
    }

    fn pinning_packet(&mut self, flow: &mut Flow<'_>) -> Result<bool> {
        let Some(head) = whole(flow)? else { return Ok(false) };
        let kind = self.answer.take(&head)?;
        let Some(pinning) = &mut self.pinning else { return Err(Failure::protocol("an answer to nothing")) };
        pinning.take(kind, head.payload)?;
        flow.drop(head.size());
        if !self.answer.is_over() {
            return Ok(true);
        }
        if pinning.next() {
            self.answer.expect_result();
            return Ok(true);
        }
        self.pinned(flow)?;
        Ok(true)
    }

    fn pinned(&mut self, flow: &mut Flow<'_>) -> Result<()> {
        // If this fails, the error takes the place of the held packet.
        let Some(pinning) = &self.pinning else { return Ok(()) };
        let (held, database) = pinning.end()?;
        flow.replace(0).extend_from_slice(held);
        self.database = database;
        self.pinning = None;
        self.commands.answered();
        self.phase = Phase::Commands;
        Ok(())
    }
}
