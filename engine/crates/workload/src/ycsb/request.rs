//! Which records are asked for (`CoreWorkload.nextKeynum` and the generators it asks).

use super::{ScrambledZipfian, Zipfian};
use crate::Share;
use base::Random;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// How the number of a record is drawn.
#[derive(Debug, Clone)]
pub enum Requests {
    Uniform(Range<u64>),
    Zipfian(ScrambledZipfian),
    /// The newer, the more often: `SkewedLatestGenerator`.
    Latest(Zipfian),
    /// One after the other, and again from the first.
    Sequential(Range<u64>),
    /// The newer, the more often: `ExponentialGenerator`.
    Exponential {
        gamma: f64,
    },
    /// A few records, the first ones, get most: `HotspotIntegerGenerator`.
    Hotspot {
        /// The first ones.
        hot: Range<u64>,
        cold: Range<u64>,
        operations: f64,
    },
}

impl Requests {
    /// `percentile` percent of what is asked for is among the newest `records`.
    pub fn exponential(percentile: f64, records: f64) -> Self {
        Requests::Exponential { gamma: -(1.0 - percentile / 100.0).ln() / records }
    }

    /// The number of the next record, of those below `readable`, which is at least 1. `turn` is whose turn it is in
    /// sequence.
    pub fn next(&mut self, readable: u64, turn: &Turn, random: &mut Random) -> u64 {
        loop {
            let number = self.draw(readable, turn, random);
            if let Some(number) = number.filter(|number| *number < readable) {
                return number;
            }
        }
    }

    fn draw(&mut self, readable: u64, turn: &Turn, random: &mut Random) -> Option<u64> {
        let last = readable - 1;
        let within = |range: &Range<u64>, random: &mut Random| range.start + random.below(range.end - range.start);
        match self {
            Requests::Uniform(range) => Some(within(range, random)),
            Requests::Zipfian(scrambled) => Some(scrambled.next(random)),
            Requests::Latest(_) if last == 0 => Some(0),
            Requests::Latest(zipfian) => Some(last - zipfian.next_of(last, random)),
            Requests::Sequential(range) => Some(range.start + turn.take() % (range.end - range.start)),
            Requests::Exponential { gamma } => last.checked_sub((-random.fraction().ln() / *gamma) as u64),
            Requests::Hotspot { hot, cold, operations } => {
                let chosen = if random.fraction() < *operations { hot } else { cold };
                Some(within(chosen, random))
            }
        }
    }
}

/// How many records were asked for in sequence: of all hosts' turns, this one's.
#[derive(Debug, Default)]
pub struct Turn {
    taken: AtomicU64,
    share: Share,
}

impl Turn {
    pub fn new(share: Share) -> Self {
        Turn { taken: AtomicU64::new(0), share }
    }

    fn take(&self) -> u64 {
        self.share.number(self.taken.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::tests::shares;
    use proptest::prelude::*;

    const DRAWS: usize = 100_000;

    fn counts(mut requests: Requests, readable: u64) -> Vec<u32> {
        let (turn, mut random) = (Turn::default(), Random::new(8));
        let mut counts = vec![0; readable as usize];
        (0..DRAWS).for_each(|_| counts[requests.next(readable, &turn, &mut random) as usize] += 1);
        counts
    }

    fn share(counts: &[u32]) -> f64 {
        f64::from(counts.iter().sum::<u32>()) / DRAWS as f64
    }

    #[test]
    fn uniform_asks_for_each_alike() {
        let counts = counts(Requests::Uniform(20..120), 150);
        assert_eq!((share(&counts[..20]), share(&counts[120..])), (0.0, 0.0));
        // 1000 each, with a deviation of 32.
        assert!(counts[20..120].iter().all(|count| (840..1160).contains(count)), "{counts:?}");
    }

    #[test]
    fn sequential_goes_round() {
        let (turn, mut random) = (Turn::default(), Random::new(8));
        let mut requests = Requests::Sequential(5..8);
        let drawn: Vec<_> = (0..7).map(|_| requests.next(100, &turn, &mut random)).collect();
        assert_eq!(drawn, [5, 6, 7, 5, 6, 7, 5]);
        for share in shares(2) {
            let turn = Turn::new(share);
            let part: Vec<_> = (0..3).map(|_| requests.next(100, &turn, &mut random)).collect();
            assert_eq!(part, share.part(drawn.iter().copied()).take(3).collect::<Vec<_>>());
        }
    }

    #[test]
    fn hotspot_gives_the_hot_ones_their_share() {
        let counts = counts(Requests::Hotspot { hot: 0..200, cold: 200..1000, operations: 0.8 }, 1000);
        assert!((share(&counts[..200]) - 0.8).abs() < 0.007, "five deviations of 0.0013");
    }

    #[test]
    fn exponential_keeps_its_percentile_among_the_newest() {
        let counts = counts(Requests::exponential(95.0, 1000.0 * 0.5), 1000);
        // What falls below 0 is drawn again: 0.05^2 of all.
        let expected = 0.95 / (1.0 - 0.05_f64.powi(2));
        assert!((share(&counts[500..]) - expected).abs() < 0.004, "{}", share(&counts[500..]));
    }

    #[test]
    fn latest_prefers_the_newest_as_zipf_says() {
        let counts = counts(Requests::Latest(Zipfian::new(999)), 1000);
        let zeta: f64 = (1..1000).map(|item| f64::from(item).powf(-0.99)).sum();
        for (back, count) in [(0, counts[999]), (1, counts[998])] {
            let expected = DRAWS as f64 * f64::from(back + 1).powf(-0.99) / zeta;
            assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt(), "{count}, not {expected}");
        }
        assert_eq!(counts[0], 0, "as in YCSB, the oldest is never asked for");
    }

    #[test]
    fn what_is_not_there_yet_is_not_asked_for() {
        let counts = counts(Requests::Zipfian(ScrambledZipfian::new(0, 200)), 100);
        let popular = (0..100).max_by_key(|at| counts[*at]).unwrap() as u64;
        // The key space has 200 numbers, so the most popular is the first whose hash's remainder is there.
        let expected = (0..).map(|rank| super::super::fnv_hash(rank) % 200).find(|number| *number < 100).unwrap();
        assert_eq!(popular, expected);
    }

    proptest! {
        #[test]
        fn only_readable_records_are_asked_for(readable in 2..500_u64, more in 0..500_u64, seed in any::<u64>()) {
            let (turn, mut random) = (Turn::default(), Random::new(seed));
            for mut requests in [
                Requests::Uniform(0..readable),
                Requests::Zipfian(ScrambledZipfian::new(0, readable + more)),
                Requests::Latest(Zipfian::new(readable - 1)),
                Requests::Sequential(1..readable),
                Requests::exponential(95.0, readable as f64),
                Requests::Hotspot { hot: 0..1, cold: 1..readable, operations: 0.5 },
            ] {
                for grown in [readable, readable + more] {
                    prop_assert!((0..20).all(|_| requests.next(grown, &turn, &mut random) < grown));
                }
            }
        }
    }
}
