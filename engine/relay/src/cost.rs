//! What requests through an entrance pay, and what they have paid.

use base::{Random, clock};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// `added_ns` is what each request pays that pays at all.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    pub added_ns: u64,
    pub payers: Payers,
}

/// Which requests pay.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Payers {
    All {},
    /// Each with this chance, whatever the others do.
    Some {
        share: f64,
    },
    /// Those that come within the first `lasting_ns` of each `period_ns` of the monotonic clock.
    Spells {
        period_ns: u64,
        lasting_ns: u64,
    },
}

impl Payers {
    fn pays(self, now: u64, random: &mut Random) -> bool {
        match self {
            Payers::All {} => true,
            Payers::Some { share } => random.fraction() < share,
            Payers::Spells { period_ns, lasting_ns } => now % period_ns < lasting_ns,
        }
    }
}

/// Sums since the start. `added_ns` is as long as it really took.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Paid {
    pub requests: u64,
    pub paying: u64,
    pub added_ns: u64,
}

/// A cost, and the sums of all its connections.
pub struct Entrance {
    cost: Cost,
    requests: AtomicU64,
    paying: AtomicU64,
    added_ns: AtomicU64,
}

impl Entrance {
    pub fn new(cost: Cost) -> Self {
        Entrance { cost, requests: AtomicU64::new(0), paying: AtomicU64::new(0), added_ns: AtomicU64::new(0) }
    }

    /// Hold a request up for as long as it pays. It spins: a sleep ends when a timer and the scheduler want (50 µs later), and
    /// leaves a core idle, which wakes at a cost of its own.
    pub fn charge(&self, random: &mut Random) {
        let start = clock::now();
        self.requests.fetch_add(1, Relaxed);
        if self.cost.added_ns == 0 || !self.cost.payers.pays(start, random) {
            return;
        }
        self.paying.fetch_add(1, Relaxed);
        let mut elapsed = 0;
        while elapsed < self.cost.added_ns {
            std::hint::spin_loop();
            elapsed = clock::now() - start;
        }
        self.added_ns.fetch_add(elapsed, Relaxed);
    }

    pub fn paid(&self) -> Paid {
        Paid {
            requests: self.requests.load(Relaxed),
            paying: self.paying.load(Relaxed),
            added_ns: self.added_ns.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paying(payers: Payers, times: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut random = Random::new(1);
        times.filter(|&now| payers.pays(now, &mut random)).collect()
    }

    #[test]
    fn all_or_some_pay_whenever_they_come() {
        assert_eq!(paying(Payers::All {}, 0..7).len(), 7);
        assert_eq!(paying(Payers::Some { share: 0.0 }, 0..1000).len(), 0);
        let tenth = paying(Payers::Some { share: 0.1 }, 0..10_000).len();
        assert!((900..1100).contains(&tenth), "{tenth}");
    }

    #[test]
    fn a_spell_begins_each_period() {
        assert_eq!(paying(Payers::Spells { period_ns: 10, lasting_ns: 3 }, 8..23), [10, 11, 12, 20, 21, 22]);
    }

    #[test]
    fn what_is_paid_is_counted_and_takes_as_long() {
        let entrance = Entrance::new(Cost { added_ns: 20_000, payers: Payers::All {} });
        let start = clock::now();
        (0..50).for_each(|_| entrance.charge(&mut Random::new(1)));
        let paid = entrance.paid();
        assert_eq!((paid.requests, paid.paying), (50, 50));
        assert!((50 * 20_000..=clock::now() - start).contains(&paid.added_ns), "{paid:?}");
    }

    #[test]
    fn who_has_nothing_to_pay_is_a_request_all_the_same() {
        let free = Entrance::new(Cost { added_ns: 0, payers: Payers::All {} });
        free.charge(&mut Random::new(1));
        assert_eq!(free.paid(), Paid { requests: 1, ..Paid::default() });
    }
}
