//! What all sessions of a listener share.

use crate::learn::Learner;
use crate::limits::Limits;
use crate::rules::Rules;
use serde::Serialize;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A listener's rules, which may be replaced at any time.
#[derive(Debug)]
pub struct Shared {
    rules: Mutex<Arc<Rules>>,
    /// How often the rules were replaced. A session reads it with each command, and takes the lock only if it has
    /// changed.
    generation: AtomicU64,
    /// The limits of each session.
    pub limits: Limits,
    /// The learner, if statements of some accounts are learned.
    pub learner: Option<Learner>,
}

impl Shared {
    /// Create it with these rules.
    pub fn new(rules: Rules, limits: Limits, learner: Option<Learner>) -> Self {
        Shared { rules: Mutex::new(numbered(rules)), generation: AtomicU64::new(0), limits, learner }
    }

    /// Replace the rules, from each session's next command on.
    pub fn replace(&self, rules: Rules) {
        let mut held = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        *held = numbered(rules);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Return the present rules and their generation.
    pub fn rules(&self) -> (Arc<Rules>, u64) {
        let held = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        (held.clone(), self.generation())
    }

    /// Return the generation of the present rules.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

/// Give the rules a number of their own, by which prepared statements know them.
fn numbered(mut rules: Rules) -> Arc<Rules> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    rules.number = 1 + LAST.fetch_add(1, Ordering::Relaxed);
    Arc::new(rules)
}

/// The counts of what a session has done.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Commands that were passed on to the server.
    pub commands: u64,
    /// Rows of guarded sessions' answers.
    pub rows: u64,
    /// Encrypted values, without NULLs.
    pub values_encrypted: u64,
    /// Bytes of those values.
    pub plaintext_bytes: u64,
    /// Bytes of those values.
    pub ciphertext_bytes: u64,
    /// Refused commands.
    pub refused: u64,
    /// Sessions that ended with an error.
    pub errors: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Tally) {
        self.commands += more.commands;
        self.rows += more.rows;
        self.values_encrypted += more.values_encrypted;
        self.plaintext_bytes += more.plaintext_bytes;
        self.ciphertext_bytes += more.ciphertext_bytes;
        self.refused += more.refused;
        self.errors += more.errors;
    }
}
