//! What TPC-C's transactions came to, beside how long they took.

use super::Phase;
use serde::Serialize;
use std::collections::BTreeMap;

/// In the order of the mix (clause 5.2.3).
const PHASES: [Phase; 5] = [Phase::NewOrder, Phase::Payment, Phase::OrderStatus, Phase::Delivery, Phase::StockLevel];

/// Counts of a slice's transactions.
#[derive(Debug, Default)]
pub struct Transactions {
    committed: [u64; PHASES.len()],
    /// New-Orders that end so by intent.
    pub rolled_back: u64,
    /// Round trips with a statement.
    pub statements: u64,
    /// Met and retried.
    pub deadlocks: u64,
    /// Met and retried.
    pub lock_timeouts: u64,
}

/// What TPC-C's transactions of a slice were.
#[derive(Debug, Serialize)]
pub struct TpccAnswer {
    /// By name; those that did not happen too.
    pub committed: BTreeMap<&'static str, u64>,
    /// New-Orders that end so by intent (clause 2.4.1.4).
    pub rolled_back: u64,
    /// Round trips with a statement, those of failed and retried transactions too.
    pub statements: u64,
    /// Met, rolled back and retried.
    pub deadlocks: u64,
    /// Met, rolled back and retried.
    pub lock_timeouts: u64,
}

impl Transactions {
    /// One more of this phase.
    pub fn committed(&mut self, phase: Phase) {
        let place = PHASES.iter().position(|known| *known == phase);
        self.committed[place.expect("it is a transaction's phase")] += 1;
    }

    /// Add another worker's.
    pub fn merge(&mut self, other: &Transactions) {
        self.committed.iter_mut().zip(other.committed).for_each(|(ours, theirs)| *ours += theirs);
        self.rolled_back += other.rolled_back;
        self.statements += other.statements;
        self.deadlocks += other.deadlocks;
        self.lock_timeouts += other.lock_timeouts;
    }

    /// As the answer has it.
    pub fn answer(&self) -> TpccAnswer {
        TpccAnswer {
            committed: PHASES.iter().map(|phase| phase.name()).zip(self.committed).collect(),
            rolled_back: self.rolled_back,
            statements: self.statements,
            deadlocks: self.deadlocks,
            lock_timeouts: self.lock_timeouts,
        }
    }
}
