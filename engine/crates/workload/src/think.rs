//! Think times: a user looks at an answer before the next operation. They are negatively exponential, as TPC-C has them
//! (clause 5.2.5.4): how long somebody has thought already tells nothing of what is left, so a slice may begin anywhere.

use base::Random;

const NANOS_PER_MILLISECOND: f64 = 1e6;
/// Keeps the random numbers of think times apart from those of keys, which follow from the same seed.
const DOMAIN: u64 = 0x7468_696e;

/// One worker's user: the same on every arm.
#[derive(Debug)]
pub struct Think {
    mean_ns: f64,
    random: Random,
}

impl Think {
    /// Of so many milliseconds on average; of none where absent.
    pub fn new(mean_ms: Option<f64>, seed: u64, worker: usize) -> Self {
        let mean_ns = mean_ms.unwrap_or(0.0) * NANOS_PER_MILLISECOND;
        Think { mean_ns, random: Random::for_stream(seed ^ DOMAIN, worker as u64) }
    }

    /// So long until the next operation.
    pub fn next_ns(&mut self) -> u64 {
        if self.mean_ns == 0.0 {
            return 0;
        }
        (self.random.exponential() * self.mean_ns) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(mean_ms: Option<f64>, worker: usize) -> Vec<u64> {
        let mut think = Think::new(mean_ms, 42, worker);
        (0..50_000).map(|_| think.next_ns()).collect()
    }

    #[test]
    fn think_times_have_their_mean_and_are_memoryless() {
        let found = times(Some(2.0), 0);
        let share = |limit: u64| found.iter().filter(|each| **each > limit * 1_000_000).count() as f64 / 50_000.0;
        let mean = found.iter().sum::<u64>() as f64 / 50_000.0;
        // Four standard deviations of such a mean are 1.8 %.
        assert!((mean / 2e6 - 1.0).abs() < 0.018, "{mean}");
        for limit in [1, 2, 4] {
            assert!((share(limit) - (-(limit as f64) / 2.0).exp()).abs() < 0.01, "{limit}");
        }
    }

    #[test]
    fn a_user_follows_from_seed_and_worker() {
        assert_eq!(times(Some(2.0), 3), times(Some(2.0), 3));
        assert_ne!(times(Some(2.0), 3), times(Some(2.0), 4));
    }

    #[test]
    fn without_a_mean_nobody_thinks() {
        assert!(times(None, 0).iter().all(|each| *each == 0));
    }
}
