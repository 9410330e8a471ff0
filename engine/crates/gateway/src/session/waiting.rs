//! What a session waits for, so that its conversation can set a deadline.

use super::{Phase, Session};
use crate::limits::{Limits, nanoseconds};
use crate::messages::ErrPacket;

/// What a session waits for. The number is the command's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// For the server, without a limit.
    Server,
    /// For a command's first byte.
    Idle(u64),
    /// For its last one.
    Command(u64),
}

impl Waiting {
    /// Return the limit in nanoseconds; None for no limit.
    pub fn timeout_ns(self, limits: &Limits) -> Option<u64> {
        match self {
            Waiting::Server => None,
            Waiting::Idle(_) => Some(nanoseconds(limits.idle_seconds)),
            Waiting::Command(_) => Some(nanoseconds(limits.command_seconds)),
        }
    }
}

impl Session {
    /// Return whether the account is guarded.
    pub fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// Return what the session waits for. `has_bytes`: some of the client's bytes are not processed yet.
    pub fn waiting(&self, has_bytes: bool) -> Waiting {
        match self.phase {
            // The command was counted when it began.
            Phase::Commands if self.commands.is_unfinished() => Waiting::Command(self.commands.number() - 1),
            Phase::Commands if has_bytes && self.listens_to_client() => Waiting::Command(self.commands.number()),
            Phase::Commands if self.listens_to_client() => Waiting::Idle(self.commands.number()),
            _ => Waiting::Server,
        }
    }

    /// End the session since the wait took too long.
    pub fn late(&mut self, waiting: Waiting, to_client: &mut Vec<u8>) {
        let why = match waiting {
            Waiting::Command(_) => ErrPacket::unfinished(),
            Waiting::Idle(_) | Waiting::Server => ErrPacket::idle(),
        };
        // Without a command's first packet the error is not an answer in sequence.
        if !self.commands.is_unfinished() {
            self.answer.sequence = u8::from(matches!(waiting, Waiting::Command(_)));
        }
        self.fail(&why, to_client);
    }
}
