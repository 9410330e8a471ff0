//! What a session waits for, so that whoever holds its connections can tell when that takes too long.

use super::{Phase, Session};
use crate::limits::{Limits, nanoseconds};
use crate::messages::ErrPacket;

/// Numbers tell one command from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// For the server, whose statements take as long as they take.
    Server,
    /// For a command's first byte.
    Idle(u64),
    /// For its last one.
    Command(u64),
}

impl Waiting {
    /// For how long, in nanoseconds; None for ever.
    pub fn timeout_ns(self, limits: &Limits) -> Option<u64> {
        match self {
            Waiting::Server => None,
            Waiting::Idle(_) => Some(nanoseconds(limits.idle_seconds)),
            Waiting::Command(_) => Some(nanoseconds(limits.command_seconds)),
        }
    }
}

impl Session {
    /// Limits of time and size hold for it.
    pub fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// What it waits for. `has_bytes`: of what the client has sent, something is not taken yet.
    pub fn waiting(&self, has_bytes: bool) -> Waiting {
        match self.phase {
            // It is counted once its first bytes are understood.
            Phase::Commands if self.commands.is_unfinished() => Waiting::Command(self.commands.number() - 1),
            Phase::Commands if has_bytes && self.listens_to_client() => Waiting::Command(self.commands.number()),
            Phase::Commands if self.listens_to_client() => Waiting::Idle(self.commands.number()),
            _ => Waiting::Server,
        }
    }

    /// That took too long.
    pub fn late(&mut self, waiting: Waiting, to_client: &mut Vec<u8>) {
        let why = match waiting {
            Waiting::Command(_) => ErrPacket::unfinished(),
            Waiting::Idle(_) | Waiting::Server => ErrPacket::idle(),
        };
        // Unless the command's first packet has come, what is said is not an answer of this sequence.
        if !self.commands.is_unfinished() {
            self.answer.sequence = u8::from(matches!(waiting, Waiting::Command(_)));
        }
        self.fail(&why, to_client);
    }
}
