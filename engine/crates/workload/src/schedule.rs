//! When the operations of a paced slice begin: a pure function of their number. Nothing that happens in a slice changes
//! it, so that a slow server cannot put off the load that it is measured under.

use crate::{Arrivals, Pace};
use base::Random;
use base::error::Result;
use base::lines::wrong;

const NANOS_PER_SECOND: f64 = 1e9;
/// Random instants are drawn beforehand, eight bytes each.
const MOST_DRAWN: f64 = 10_000_000.0;
/// Keeps the random numbers of paces apart from those of keys, which follow from the same seed.
const DOMAIN: u64 = 0x7061_6365;

/// The instants of one slice.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// At equal distances, the first at once.
    Constant {
        /// Between two of them.
        gap_ns: f64,
    },
    /// At these, counted from the slice's start.
    Drawn(Vec<u64>),
}

impl Schedule {
    /// For a slice of so many operations within so many nanoseconds. What is random in it follows from the seed and from
    /// which slice it is: the same for all arms.
    ///
    /// # Errors
    /// `plan`, where more instants would have to be drawn than memory is given for.
    pub fn new(pace: Pace, operations: u64, lasts_ns: u64, seed: u64, slice: u64) -> Result<Self> {
        let gap_ns = NANOS_PER_SECOND / pace.per_second;
        match pace.arrivals {
            Arrivals::Constant => Ok(Schedule::Constant { gap_ns }),
            Arrivals::Poisson if (lasts_ns as f64 / gap_ns).min(operations as f64) > MOST_DRAWN => {
                Err(wrong("a slice has at most 10 million operations with arrivals 'poisson'"))
            }
            Arrivals::Poisson => {
                let random = Random::for_stream(seed ^ DOMAIN, slice);
                Ok(Schedule::Drawn(draw(random, gap_ns, operations, lasts_ns)))
            }
        }
    }

    /// How many of so many operations begin within so many nanoseconds.
    pub fn count(&self, operations: u64, lasts_ns: u64) -> u64 {
        match self {
            Schedule::Constant { gap_ns } => operations.min((lasts_ns as f64 / gap_ns).ceil() as u64),
            Schedule::Drawn(offsets) => offsets.len() as u64,
        }
    }

    /// When this operation begins, in nanoseconds from the slice's start; None where it is not in the slice.
    pub fn offset(&self, operation: u64) -> Option<u64> {
        match self {
            Schedule::Constant { gap_ns } => Some((operation as f64 * gap_ns) as u64),
            Schedule::Drawn(offsets) => offsets.get(usize::try_from(operation).ok()?).copied(),
        }
    }
}

/// A Poisson process: its gaps are exponentially distributed and know nothing of each other.
fn draw(mut random: Random, gap_ns: f64, operations: u64, lasts_ns: u64) -> Vec<u64> {
    let mut at = 0.0;
    let next = || {
        at += random.exponential() * gap_ns;
        Some(at as u64)
    };
    let most = usize::try_from(operations).unwrap_or(usize::MAX);
    std::iter::from_fn(next).take(most).take_while(|&offset| offset < lasts_ns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::error::Class;

    const SECOND: u64 = 1_000_000_000;

    fn schedule(arrivals: Arrivals, slice: u64) -> Schedule {
        Schedule::new(Pace { per_second: 500.0, arrivals }, u64::MAX, 100 * SECOND, 42, slice).unwrap()
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let constant = schedule(Arrivals::Constant, 0);
        assert_eq!([0, 1, 500].map(|n| constant.offset(n)), [Some(0), Some(2_000_000), Some(SECOND)]);
        let thirds = Schedule::Constant { gap_ns: 1e9 / 3.0 };
        assert_eq!(thirds.offset(3_000_000), Some(1_000_000 * SECOND));
    }

    #[test]
    fn poisson_arrivals_keep_the_rate_and_are_memoryless() {
        let Schedule::Drawn(offsets) = schedule(Arrivals::Poisson, 0) else { panic!("drawn") };
        // 50,000 expected; four standard deviations of a Poisson count are 900.
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
    fn as_many_are_counted_as_have_an_instant() {
        for (paced, operations) in [(Arrivals::Constant, u64::MAX), (Arrivals::Constant, 7), (Arrivals::Poisson, 7)] {
            let pace = Pace { per_second: 500.0, arrivals: paced };
            let made = Schedule::new(pace, operations, SECOND, 42, 0).unwrap();
            let counted = made.count(operations, SECOND);
            let begin = |n: u64| n < operations && made.offset(n).is_some_and(|offset| offset < SECOND);
            assert!(begin(counted - 1) && !begin(counted), "{paced:?} {operations} {counted}");
        }
    }

    #[test]
    fn a_schedule_follows_from_the_seed_and_the_slice() {
        assert_eq!(schedule(Arrivals::Poisson, 3), schedule(Arrivals::Poisson, 3));
        assert_ne!(schedule(Arrivals::Poisson, 3), schedule(Arrivals::Poisson, 4));
    }

    #[test]
    fn no_more_is_drawn_than_the_slice_can_use() {
        let pace = Pace { per_second: 1e6, arrivals: Arrivals::Poisson };
        let drawn = Schedule::new(pace, 10, 1000 * SECOND, 1, 0).unwrap();
        assert!(drawn.offset(9).is_some() && drawn.offset(10).is_none());
        assert_eq!(Schedule::new(pace, u64::MAX, 1000 * SECOND, 1, 0).unwrap_err().class, Class::Plan);
    }
}
