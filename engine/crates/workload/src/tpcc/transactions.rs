//! What came of transactions, beside how long they took.

use record::{Counts, Tally};

/// In the order of [`Card`](super::deck::Card).
const COMMITTED: [&str; 5] = [
    "tpcc.committed.new_order",
    "tpcc.committed.payment",
    "tpcc.committed.order_status",
    "tpcc.committed.delivery",
    "tpcc.committed.stock_level",
];

/// Counts of one terminal's transactions.
#[derive(Debug, Default)]
pub struct Transactions {
    /// By [`Card`](super::deck::Card), from 0.
    pub committed: [u64; COMMITTED.len()],
    /// New-Orders that end so by intent (clause 2.4.1.4).
    pub rolled_back: u64,
    /// Round trips with a statement, those of failed and retried transactions too.
    pub statements: u64,
    pub deadlocks: u64,
    pub lock_timeouts: u64,
}

impl Tally for Transactions {
    fn add_to(&self, counts: &mut Counts) {
        COMMITTED.into_iter().zip(self.committed).for_each(|(name, count)| counts.add(name, count));
        counts.add("tpcc.rolled_back", self.rolled_back);
        counts.add("tpcc.statements", self.statements);
        counts.add("tpcc.deadlocks", self.deadlocks);
        counts.add("tpcc.lock_timeouts", self.lock_timeouts);
    }
}
