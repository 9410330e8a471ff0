//! The delay that the relay adds to the requests of each entrance (listening address), and the sum of the delays.

use base::{Random, clock};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The delay of requests to an entrance (listening address). Every request is delayed by `base_ns`. A request that
/// `payers` selects is delayed by `added_ns` more. `warming` adds a further delay that simulates cold caches.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    #[serde(default)]
    pub base_ns: u64,
    pub added_ns: u64,
    pub payers: Payers,
    #[serde(default)]
    pub warming: Warming,
}

/// The delay that simulates cold caches. Caches become cold when a request has another `state`
/// ([`super::EntrancePlan`]) than the request before it. The first `requests` requests with the new state are then
/// delayed by `added_ns` more.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warming {
    pub requests: u64,
    pub added_ns: u64,
}

/// The state of the simulated caches, which all entrances (listening addresses) of the relay share. `state` is the
/// state of the last request ([`super::EntrancePlan`]), and `requests` is the number of consecutive requests with this
/// state. Only the relay's thread changes these numbers.
pub struct Warmth {
    state: AtomicU64,
    requests: AtomicU64,
}

impl Warmth {
    pub fn new() -> Self {
        Warmth { state: AtomicU64::new(u64::MAX), requests: AtomicU64::new(0) }
    }

    /// Count a request with this state. Return how many requests directly before it had the same state.
    fn request(&self, state: u64) -> u64 {
        if self.state.swap(state, Relaxed) != state {
            self.requests.store(0, Relaxed);
        }
        self.requests.fetch_add(1, Relaxed)
    }
}

/// The selection of the requests that are delayed by `added_ns` of [`Cost`].
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Payers {
    All {},
    /// Each request with the probability `share`, independently of other requests.
    Some {
        share: f64,
    },
    /// The requests in the first `lasting_ns` nanoseconds of each period of `period_ns` on the monotonic clock.
    Spells {
        period_ns: u64,
        lasting_ns: u64,
    },
}

impl Payers {
    fn selects(self, now: u64, random: &mut Random) -> bool {
        match self {
            Payers::All {} => true,
            Payers::Some { share } => random.fraction() < share,
            Payers::Spells { period_ns, lasting_ns } => now % period_ns < lasting_ns,
        }
    }
}

/// The totals of the requests to an entrance (listening address) since the start.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct DelayTotals {
    pub requests: u64,
    /// The number of requests that were delayed by `added_ns` of [`Cost`].
    pub paying: u64,
    /// The number of requests that were delayed because of simulated cold caches.
    pub cold: u64,
    /// The measured sum of all delays in nanoseconds.
    pub added_ns: u64,
}

/// An address on which the relay accepts connections, with its delay and the totals of its requests.
pub struct Entrance {
    cost: Cost,
    state: u64,
    warmth: Arc<Warmth>,
    requests: AtomicU64,
    paying: AtomicU64,
    cold: AtomicU64,
    added_ns: AtomicU64,
}

impl Entrance {
    pub fn new(cost: Cost, state: u64, warmth: Arc<Warmth>) -> Self {
        let [requests, paying, cold, added_ns] = Default::default();
        Entrance { cost, state, warmth, requests, paying, cold, added_ns }
    }

    /// Delay a request as the entrance's [`Cost`] requires, and count the request. The delay is a busy loop: a sleep
    /// would end about 50 µs late because of timer and scheduler. During a sleep, the core would also become idle, and
    /// its wake-up costs additional time.
    pub fn delay(&self, random: &mut Random) {
        let start = clock::now();
        self.requests.fetch_add(1, Relaxed);
        let is_selected = self.cost.added_ns > 0 && self.cost.payers.selects(start, random);
        self.paying.fetch_add(is_selected.into(), Relaxed);
        let cold = self.warmth.request(self.state) < self.cost.warming.requests;
        self.cold.fetch_add(cold.into(), Relaxed);
        let added = if is_selected { self.cost.added_ns } else { 0 };
        let warming = if cold { self.cost.warming.added_ns } else { 0 };
        let delay = self.cost.base_ns + added + warming;
        let mut elapsed = 0;
        while elapsed < delay {
            std::hint::spin_loop();
            elapsed = clock::now() - start;
        }
        self.added_ns.fetch_add(elapsed, Relaxed);
    }

    pub fn totals(&self) -> DelayTotals {
        DelayTotals {
            requests: self.requests.load(Relaxed),
            paying: self.paying.load(Relaxed),
            cold: self.cold.load(Relaxed),
            added_ns: self.added_ns.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paying(payers: Payers, times: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut random = Random::new(1);
        times.filter(|&now| payers.selects(now, &mut random)).collect()
    }

    #[test]
    fn configured_share_of_requests_is_delayed() {
        assert_eq!(paying(Payers::All {}, 0..7).len(), 7);
        assert_eq!(paying(Payers::Some { share: 0.0 }, 0..1000).len(), 0);
        let tenth = paying(Payers::Some { share: 0.1 }, 0..10_000).len();
        assert!((900..1100).contains(&tenth), "{tenth}");
    }

    #[test]
    fn only_requests_at_the_start_of_each_period_are_delayed() {
        assert_eq!(paying(Payers::Spells { period_ns: 10, lasting_ns: 3 }, 8..23), [10, 11, 12, 20, 21, 22]);
    }

    #[test]
    fn first_requests_after_a_change_of_the_simulated_cache_state_are_delayed() {
        let (warming, warmth) = (Warming { requests: 3, added_ns: 10_000 }, Arc::new(Warmth::new()));
        let cost = Cost { base_ns: 0, added_ns: 0, payers: Payers::All {}, warming };
        let [one, same, other] = [0, 0, 1].map(|state| Entrance::new(cost, state, Arc::clone(&warmth)));
        for (entrance, requests) in [(&one, 2), (&same, 5), (&other, 2), (&one, 4)] {
            (0..requests).for_each(|_| entrance.delay(&mut Random::new(1)));
        }
        assert_eq!([&one, &same, &other].map(|each| each.totals().cold), [5, 1, 2]);
        assert!(one.totals().added_ns >= 5 * 10_000);
    }
}
