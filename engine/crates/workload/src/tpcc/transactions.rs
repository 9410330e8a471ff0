//! What came of transactions, beside how long they took.

use super::deck::Card;
use record::{Counts, Tally};

/// Counts of one terminal's transactions.
#[derive(Debug, Default)]
pub struct Transactions {
    /// By [`Card`].
    pub committed: [u64; Card::ALL.len()],
    /// New-Orders that end so by intent (clause 2.4.1.4).
    pub rolled_back: u64,
    /// Round trips with a statement, those of failed and retried transactions too.
    pub statements: u64,
    /// Met, rolled back and retried.
    pub deadlocks: u64,
    /// Met, rolled back and retried.
    pub lock_timeouts: u64,
}

impl Tally for Transactions {
    fn add_to(&self, counts: &mut Counts) {
        for (card, count) in Card::ALL.iter().zip(self.committed) {
            counts.add(format!("tpcc.committed.{}", card.phase().name()), count);
        }
        counts.add("tpcc.rolled_back", self.rolled_back);
        counts.add("tpcc.statements", self.statements);
        counts.add("tpcc.deadlocks", self.deadlocks);
        counts.add("tpcc.lock_timeouts", self.lock_timeouts);
    }
}
