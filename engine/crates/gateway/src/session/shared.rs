//! What sessions have in common with those who start and watch them.

use crate::learn::Learner;
use crate::limits::Limits;
use crate::rules::Rules;
use serde::Serialize;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A listener's rules, which may be replaced while sessions last.
#[derive(Debug)]
pub struct Shared {
    rules: Mutex<Arc<Rules>>,
    /// How often they were replaced: a session looks at this number with each command, and takes the lock only where it is
    /// another.
    generation: AtomicU64,
    /// Of each session.
    pub limits: Limits,
    /// Where statements of some accounts are written.
    pub learner: Option<Learner>,
}

impl Shared {
    /// With these rules.
    pub fn new(rules: Rules, limits: Limits, learner: Option<Learner>) -> Self {
        Shared { rules: Mutex::new(numbered(rules)), generation: AtomicU64::new(0), limits, learner }
    }

    /// From each session's next command on.
    pub fn replace(&self, rules: Rules) {
        let mut held = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        *held = numbered(rules);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The present rules, and which they are.
    pub fn rules(&self) -> (Arc<Rules>, u64) {
        let held = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        (held.clone(), self.generation())
    }

    /// Which rules are the present ones.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

/// What was found out about statements under other rules is known by another number.
fn numbered(mut rules: Rules) -> Arc<Rules> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    rules.number = 1 + LAST.fetch_add(1, Ordering::Relaxed);
    Arc::new(rules)
}

/// What a session has done.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Passed on to the server.
    pub commands: u64,
    /// Of answers, read under rules.
    pub rows: u64,
    /// NULLs are none.
    pub values_encrypted: u64,
    /// Of those values.
    pub plaintext_bytes: u64,
    /// Of those values.
    pub ciphertext_bytes: u64,
    /// Commands that did not pass.
    pub refused: u64,
    /// Sessions that could not go on.
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
