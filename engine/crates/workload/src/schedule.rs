//! The start times of the operations in a slice (a measured window). With a pace (a fixed rate), an operation's start
//! time depends only on its number, so a slow server cannot reduce the load under which it is measured. With think
//! times, the start time depends on the end of the worker's last operation.

use crate::{Arrivals, Pace, Share};
use base::Random;
use base::error::Result;
use base::lines::invalid_command;

const NANOS_PER_SECOND: f64 = 1e9;
/// The maximum number of random start times in a slice (measured window). Each takes eight bytes.
const MAX_DRAWN: f64 = 10_000_000.0;
/// A number to combine with the seed, so that start times and keys get different random numbers.
const DOMAIN: u64 = 0x7061_6365;

/// The start times of this host's operations in one slice (a measured window). If several hosts share the slice's
/// operations, each host numbers its own operations 0, 1, 2 and so on.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// Operations begin at equal intervals. The first one begins when the slice (measured window) begins.
    Constant {
        /// The interval in nanoseconds between an operation and the next one, whichever host performs them.
        gap_ns: f64,
        share: Share,
    },
    Drawn(Vec<u64>),
}

impl Schedule {
    /// Return this host's schedule of a slice (measured window). All hosts together perform at most `operations`
    /// operations in `lasts_ns` nanoseconds. Random start times depend only on the pace, the seed and the slice's
    /// number: they are equal on all hosts and in all variants of the experiment. Errors: class `plan` (invalid
    /// configuration) if more than [`MAX_DRAWN`] random start times are expected.
    pub fn new(pace: Pace, share: Share, operations: u64, lasts_ns: u64, (seed, slice): (u64, u64)) -> Result<Self> {
        let gap_ns = NANOS_PER_SECOND / pace.per_second;
        match pace.arrivals {
            Arrivals::Constant => Ok(Schedule::Constant { gap_ns, share }),
            Arrivals::Poisson if (lasts_ns as f64 / gap_ns).min(operations as f64) > MAX_DRAWN => {
                Err(invalid_command("a slice can have at most 10 million operations with arrivals 'poisson'"))
            }
            Arrivals::Poisson => {
                let random = Random::for_stream(seed ^ DOMAIN, slice);
                let all = draw(random, gap_ns, operations, lasts_ns);
                Ok(Schedule::Drawn(share.part(all).collect()))
            }
        }
    }

    /// Return the number of operations that this host performs in a slice (measured window) that lasts `lasts_ns`
    /// nanoseconds. `operations` is the maximum for all hosts together.
    pub fn count(&self, operations: u64, lasts_ns: u64) -> u64 {
        match self {
            Schedule::Constant { gap_ns, share } => {
                share.count(operations.min((lasts_ns as f64 / gap_ns).ceil() as u64))
            }
            Schedule::Drawn(offsets) => offsets.len() as u64,
        }
    }

    /// Return when this operation begins, in nanoseconds from the start of the slice (measured window). Return None if
    /// the schedule does not contain the operation.
    pub fn offset(&self, operation: u64) -> Option<u64> {
        match self {
            Schedule::Constant { gap_ns, share } => Some((share.number(operation) as f64 * gap_ns) as u64),
            Schedule::Drawn(offsets) => offsets.get(usize::try_from(operation).ok()?).copied(),
        }
    }
}

/// Draw the events of a Poisson process: the intervals between them are independent and exponentially distributed.
fn draw(mut random: Random, gap_ns: f64, operations: u64, lasts_ns: u64) -> impl Iterator<Item = u64> {
    let mut at = 0.0;
    let next = move || {
        at += random.exponential() * gap_ns;
        Some(at as u64)
    };
    let most = usize::try_from(operations).unwrap_or(usize::MAX);
    std::iter::from_fn(next).take(most).take_while(move |&offset| offset < lasts_ns)
}

const NANOS_PER_MILLISECOND: f64 = 1e6;
/// A number to combine with the seed, so that think times and keys get different random numbers.
const THINK_DOMAIN: u64 = 0x7468_696e;

/// The think times of the user that one worker simulates, which are equal in every variant of the experiment.
#[derive(Debug)]
pub struct Think {
    mean_ns: f64,
    random: Random,
}

impl Think {
    /// Create think times with a mean of `mean_ms` milliseconds. If it is None, all think times are 0.
    pub fn new(mean_ms: Option<f64>, seed: u64, worker: usize) -> Self {
        let mean_ns = mean_ms.unwrap_or(0.0) * NANOS_PER_MILLISECOND;
        Think { mean_ns, random: Random::for_stream(seed ^ THINK_DOMAIN, worker as u64) }
    }

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
    use crate::share::tests::shares;
    use base::error::Class;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn schedule(arrivals: Arrivals, slice: u64) -> Schedule {
        Schedule::new(Pace { per_second: 500.0, arrivals }, Share::ALL, u64::MAX, 100 * SECOND, (42, slice)).unwrap()
    }

    #[test]
    fn start_times_at_constant_intervals_do_not_drift() {
        let constant = schedule(Arrivals::Constant, 0);
        assert_eq!([0, 1, 500].map(|n| constant.offset(n)), [Some(0), Some(2_000_000), Some(SECOND)]);
        let thirds = Schedule::Constant { gap_ns: 1e9 / 3.0, share: Share::ALL };
        assert_eq!(thirds.offset(3_000_000), Some(1_000_000 * SECOND));
    }

    #[test]
    fn poisson_start_times_have_the_configured_rate_and_are_memoryless() {
        let Schedule::Drawn(offsets) = schedule(Arrivals::Poisson, 0) else { panic!("drawn") };
        // 50,000 start times are expected. Four standard deviations of a Poisson count are 900.
        assert!((49_100..50_900).contains(&offsets.len()), "{}", offsets.len());
        assert!(offsets.is_sorted() && *offsets.last().unwrap() < 100 * SECOND);
        let mean = 2_000_000.0;
        let gaps: Vec<f64> = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / mean).collect();
        let longer_than = |limit: f64| gaps.iter().filter(|gap| **gap > limit).count() as f64 / gaps.len() as f64;
        for limit in [0.5_f64, 1.0, 2.0] {
            assert!((longer_than(limit) - (-limit).exp()).abs() < 0.01, "{limit}");
        }
    }

    #[test]
    fn function_count_returns_the_number_of_start_times_in_a_measurement() {
        for (paced, operations) in [(Arrivals::Constant, u64::MAX), (Arrivals::Constant, 7), (Arrivals::Poisson, 7)] {
            let pace = Pace { per_second: 500.0, arrivals: paced };
            let schedule = Schedule::new(pace, Share::ALL, operations, SECOND, (42, 0)).unwrap();
            let counted = schedule.count(operations, SECOND);
            let begin = |n: u64| n < operations && schedule.offset(n).is_some_and(|offset| offset < SECOND);
            assert!(begin(counted - 1) && !begin(counted), "{paced:?} {operations} {counted}");
        }
    }

    #[test]
    fn start_times_of_operations_depend_on_the_seed_and_the_measurement() {
        assert_eq!(schedule(Arrivals::Poisson, 3), schedule(Arrivals::Poisson, 3));
        assert_ne!(schedule(Arrivals::Poisson, 3), schedule(Arrivals::Poisson, 4));
    }

    #[test]
    fn schedule_draws_at_most_one_random_start_time_per_operation() {
        let pace = Pace { per_second: 1e6, arrivals: Arrivals::Poisson };
        let drawn = Schedule::new(pace, Share::ALL, 10, 1000 * SECOND, (1, 0)).unwrap();
        assert!(drawn.offset(9).is_some() && drawn.offset(10).is_none());
        let too_many = Schedule::new(pace, Share::ALL, u64::MAX, 1000 * SECOND, (1, 0));
        assert_eq!(too_many.unwrap_err().class, Class::Plan);
    }

    proptest! {
        #[test]
        fn several_hosts_together_schedule_the_same_start_times_as_a_single_host(hosts in 1..=8_u64, operations in 0..600_u64, seed in any::<u64>()) {
            for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
                let pace = Pace { per_second: 500.0, arrivals };
                let instants = |share: Share| {
                    let schedule = Schedule::new(pace, share, operations, SECOND, (seed, 3)).unwrap();
                    let count = schedule.count(operations, SECOND);
                    (0..count).map(move |operation| schedule.offset(operation).unwrap()).collect::<Vec<_>>()
                };
                let mut together: Vec<_> = shares(hosts).into_iter().flat_map(instants).collect();
                together.sort_unstable();
                prop_assert_eq!(together, instants(Share::ALL));
            }
        }
    }

    fn times(mean_ms: Option<f64>, worker: usize) -> Vec<u64> {
        let mut think = Think::new(mean_ms, 42, worker);
        (0..50_000).map(|_| think.next_ns()).collect()
    }

    #[test]
    fn think_times_have_the_configured_mean_and_are_memoryless() {
        let times = times(Some(2.0), 0);
        let share = |limit: u64| times.iter().filter(|time| **time > limit * 1_000_000).count() as f64 / 50_000.0;
        let mean = times.iter().sum::<u64>() as f64 / 50_000.0;
        // Four standard deviations of the mean of this many exponentially distributed times are 1.8 %.
        assert!((mean / 2e6 - 1.0).abs() < 0.018, "{mean}");
        for limit in [1, 2, 4] {
            assert!((share(limit) - (-(limit as f64) / 2.0).exp()).abs() < 0.01, "{limit}");
        }
    }

    #[test]
    fn think_times_depend_on_seed_and_worker() {
        assert_eq!(times(Some(2.0), 3), times(Some(2.0), 3));
        assert_ne!(times(Some(2.0), 3), times(Some(2.0), 4));
        assert!(times(None, 0).iter().all(|time| *time == 0), "no mean is configured");
    }
}
