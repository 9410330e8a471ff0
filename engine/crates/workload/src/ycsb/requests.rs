//! The choice of the record that an operation reads or updates (YCSB's `CoreWorkload.nextKeynum` and its generators).
//! This module also assigns numbers to new records, and makes new records readable in order
//! (`site.ycsb.generator.AcknowledgedCounterGenerator`).

use super::{ScrambledZipfian, Zipfian};
use crate::Share;
use base::Random;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

#[derive(Debug, Clone)]
pub enum Requests {
    Uniform(Range<u64>),
    Zipfian(ScrambledZipfian),
    /// Newer records are more frequent (YCSB's `SkewedLatestGenerator`).
    Latest(Zipfian),
    Sequential(Range<u64>),
    Exponential {
        gamma: f64,
    },
    /// The fraction `operations` of all requests is for records in `hot`, which are the first records. The other
    /// requests are for records in `cold` (YCSB's `HotspotIntegerGenerator`).
    Hotspot {
        hot: Range<u64>,
        cold: Range<u64>,
        operations: f64,
    },
}

impl Requests {
    /// Create a distribution in which `percentile` percent of the requests are for the newest `records` records.
    pub fn exponential(percentile: f64, records: f64) -> Self {
        Requests::Exponential { gamma: -(1.0 - percentile / 100.0).ln() / records }
    }

    /// Draw the index (see [`Sequence`]) of the next record to request. The index is below `readable`, which must be at
    /// least 1. Sequential requests use the next index of `position`.
    pub fn next(&mut self, readable: u64, position: &SequentialPosition, random: &mut Random) -> u64 {
        loop {
            let number = self.draw(readable, position, random);
            if let Some(number) = number.filter(|number| *number < readable) {
                return number;
            }
        }
    }

    fn draw(&mut self, readable: u64, position: &SequentialPosition, random: &mut Random) -> Option<u64> {
        let last = readable - 1;
        let within = |range: &Range<u64>, random: &mut Random| range.start + random.below(range.end - range.start);
        match self {
            Requests::Uniform(range) => Some(within(range, random)),
            Requests::Zipfian(scrambled) => Some(scrambled.next(random)),
            Requests::Latest(_) if last == 0 => Some(0),
            Requests::Latest(zipfian) => Some(last - zipfian.next_below(last, random)),
            Requests::Sequential(range) => Some(range.start + position.advance() % (range.end - range.start)),
            Requests::Exponential { gamma } => last.checked_sub((-random.fraction().ln() / *gamma) as u64),
            Requests::Hotspot { hot, cold, operations } => {
                let chosen = if random.fraction() < *operations { hot } else { cold };
                Some(within(chosen, random))
            }
        }
    }
}

/// The position of sequential requests in the table. Each host requests only its share of the positions.
#[derive(Debug, Default)]
pub struct SequentialPosition {
    count: AtomicU64,
    share: Share,
}

impl SequentialPosition {
    pub fn new(share: Share) -> Self {
        SequentialPosition { count: AtomicU64::new(0), share }
    }

    fn advance(&self) -> u64 {
        self.share.number(self.count.fetch_add(1, Ordering::Relaxed))
    }
}

/// The record numbers of one table, shared by all workers that insert into the table or read from it.
///
/// A record's index is its position among the records that this host uses: first the loaded records, then the records
/// that this host inserts. If there is only one host, a record's index equals its number.
#[derive(Debug, Default)]
pub struct Sequence {
    share: Share,
    loaded: AtomicU64,
    /// The number of the first record that this host inserts.
    first_new: AtomicU64,
    next: AtomicU64,
    /// All records whose index is below this number can be read.
    readable: AtomicU64,
    /// For each index from `readable` on, whether the insert of this record has ended. A record becomes readable when
    /// its own insert and all earlier inserts have ended.
    ended: Mutex<VecDeque<bool>>,
}

impl Sequence {
    /// Create a sequence without records. This host inserts only records whose numbers belong to `share`.
    pub fn new(share: Share) -> Self {
        Sequence { share, first_new: AtomicU64::new(share.number(0)), ..Sequence::default() }
    }

    /// Treat all records with numbers below `records` as loaded. Do not call this while inserts are in flight.
    pub fn begin_at_least(&self, records: u64) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if records <= self.loaded.load(Ordering::Relaxed) {
            return;
        }
        let first_new = self.share.first_from(records);
        let next_new = self.record(self.next.load(Ordering::Relaxed));
        let next = records + next_new.saturating_sub(first_new) / self.share.step();
        ended.clear();
        self.loaded.store(records, Ordering::Relaxed);
        self.first_new.store(first_new, Ordering::Relaxed);
        self.next.store(next, Ordering::Relaxed);
        self.readable.store(next, Ordering::Release);
    }

    /// Return the number from which YCSB makes the key of the record with this index (see [`Sequence`]).
    pub fn record(&self, index: u64) -> u64 {
        match index.checked_sub(self.loaded.load(Ordering::Relaxed)) {
            None => index,
            Some(new) => self.first_new.load(Ordering::Relaxed) + new * self.share.step(),
        }
    }

    /// Claim the index of the next new record.
    pub fn claim(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Mark the insert of the record with this index as ended, whether it succeeded or not. As in YCSB, later records
    /// become readable only after all earlier inserts have ended. So failed inserts must be marked too.
    pub fn acknowledge(&self, index: u64) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let readable = self.readable.load(Ordering::Relaxed);
        let Some(index) = index.checked_sub(readable) else { return };
        let index = index as usize;
        if ended.len() <= index {
            ended.resize(index + 1, false);
        }
        ended[index] = true;
        let mut more = 0;
        while ended.front() == Some(&true) {
            ended.pop_front();
            more += 1;
        }
        self.readable.store(readable + more, Ordering::Release);
    }

    /// Return the number of records that can be read. Their indices are 0 to this number - 1.
    pub fn readable(&self) -> u64 {
        self.readable.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::tests::shares;
    use proptest::prelude::*;

    const DRAWS: usize = 100_000;

    fn counts(mut requests: Requests, readable: u64) -> Vec<u32> {
        let (position, mut random) = (SequentialPosition::default(), Random::new(8));
        let mut counts = vec![0; readable as usize];
        (0..DRAWS).for_each(|_| counts[requests.next(readable, &position, &mut random) as usize] += 1);
        counts
    }

    fn share(counts: &[u32]) -> f64 {
        f64::from(counts.iter().sum::<u32>()) / DRAWS as f64
    }

    #[test]
    fn uniform_requests_draw_every_record_equally_often() {
        let counts = counts(Requests::Uniform(20..120), 150);
        assert_eq!((share(&counts[..20]), share(&counts[120..])), (0.0, 0.0));
        // 1000 requests for each record are expected, with a standard deviation of 32.
        assert!(counts[20..120].iter().all(|count| (840..1160).contains(count)), "{counts:?}");
    }

    #[test]
    fn sequential_requests_start_again_after_the_last_record() {
        let (position, mut random) = (SequentialPosition::default(), Random::new(8));
        let mut requests = Requests::Sequential(5..8);
        let drawn: Vec<_> = (0..7).map(|_| requests.next(100, &position, &mut random)).collect();
        assert_eq!(drawn, [5, 6, 7, 5, 6, 7, 5]);
        for share in shares(2) {
            let position = SequentialPosition::new(share);
            let part: Vec<_> = (0..3).map(|_| requests.next(100, &position, &mut random)).collect();
            assert_eq!(part, share.part(drawn.iter().copied()).take(3).collect::<Vec<_>>());
        }
    }

    #[test]
    fn hot_records_get_the_configured_fraction_of_requests() {
        let counts = counts(Requests::Hotspot { hot: 0..200, cold: 200..1000, operations: 0.8 }, 1000);
        assert!((share(&counts[..200]) - 0.8).abs() < 0.007, "five standard deviations of 0.0013");
    }

    #[test]
    fn exponential_requests_choose_the_newest_records_at_the_configured_percentage() {
        let counts = counts(Requests::exponential(95.0, 1000.0 * 0.5), 1000);
        // A drawn number below 0 is replaced by a new one. This happens to a share of 0.05^2 of all numbers.
        let expected = 0.95 / (1.0 - 0.05_f64.powi(2));
        assert!((share(&counts[500..]) - expected).abs() < 0.004, "{}", share(&counts[500..]));
    }

    #[test]
    fn distribution_latest_chooses_the_newest_records_with_zipfian_frequencies() {
        let counts = counts(Requests::Latest(Zipfian::new(999)), 1000);
        let zeta: f64 = (1..1000).map(|item| f64::from(item).powf(-0.99)).sum();
        for (back, count) in [(0, counts[999]), (1, counts[998])] {
            let expected = DRAWS as f64 * f64::from(back + 1).powf(-0.99) / zeta;
            assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt(), "{count}, not {expected}");
        }
        assert_eq!(counts[0], 0, "as in YCSB, the oldest record is never read");
    }

    proptest! {
        #[test]
        fn requests_draw_only_records_that_can_be_read(readable in 2..500_u64, more in 0..500_u64, seed in any::<u64>()) {
            let (position, mut random) = (SequentialPosition::default(), Random::new(seed));
            for mut requests in [
                Requests::Uniform(0..readable),
                Requests::Zipfian(ScrambledZipfian::new(0, readable + more)),
                Requests::Latest(Zipfian::new(readable - 1)),
                Requests::Sequential(1..readable),
                Requests::exponential(95.0, readable as f64),
                Requests::Hotspot { hot: 0..1, cold: 1..readable, operations: 0.5 },
            ] {
                for grown in [readable, readable + more] {
                    prop_assert!((0..20).all(|_| requests.next(grown, &position, &mut random) < grown));
                }
            }
        }
    }

    #[test]
    fn record_is_readable_once_all_inserts_up_to_this_record_have_ended() {
        let sequence = Sequence::default();
        sequence.begin_at_least(10);
        let numbers: Vec<_> = (0..4).map(|_| sequence.claim()).collect();
        assert_eq!((numbers, sequence.readable()), (vec![10, 11, 12, 13], 10));
        for (number, readable) in [(11, 10), (13, 10), (10, 12), (12, 14)] {
            sequence.acknowledge(number);
            assert_eq!(sequence.readable(), readable);
        }
        sequence.begin_at_least(12);
        assert_eq!((sequence.claim(), sequence.readable()), (14, 14));
        sequence.begin_at_least(100);
        assert_eq!((sequence.claim(), sequence.readable()), (100, 100));
    }

    #[test]
    fn record_numbers_claimed_by_several_threads_do_not_repeat() {
        let sequence = Sequence::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| sequence.acknowledge(sequence.claim())));
            }
        });
        assert_eq!((sequence.claim(), sequence.readable()), (4000, 4000));
    }

    proptest! {
        #[test]
        fn several_hosts_together_insert_the_same_records_as_a_single_host(
            hosts in 1..=8_u64,
            begins_at in 0..1000_u64,
            inserted in 0..200_u64,
            skipped in 0..50_u64,
        ) {
            let sequences: Vec<_> = shares(hosts).into_iter().map(Sequence::new).collect();
            let (end, again) = (begins_at + inserted, begins_at + inserted + skipped);
            for (from, to) in [(begins_at, end), (again, again + inserted)] {
                let mut all = Vec::new();
                for sequence in &sequences {
                    sequence.begin_at_least(from);
                    let mut records = std::iter::repeat_with(|| sequence.record(sequence.next.load(Ordering::Relaxed)));
                    while records.next().is_some_and(|record| record < to) {
                        all.push(sequence.record(sequence.claim()));
                    }
                }
                all.sort_unstable();
                prop_assert_eq!(all, (from..to).collect::<Vec<_>>());
            }
        }

        #[test]
        fn each_host_reads_the_loaded_records_and_its_own_inserts(hosts in 1..=8_u64, begins_at in 0..100_u64) {
            for share in shares(hosts) {
                let sequence = Sequence::new(share);
                sequence.begin_at_least(begins_at);
                let inserted: Vec<_> = (0..5).map(|_| sequence.claim()).collect();
                inserted.iter().for_each(|index| sequence.acknowledge(*index));
                let records = inserted.iter().map(|index| sequence.record(*index));
                let expected: Vec<_> = (0..begins_at).chain(records).collect();
                let readable: Vec<_> = (0..sequence.readable()).map(|index| sequence.record(index)).collect();
                prop_assert_eq!(readable, expected);
            }
        }

        #[test]
        fn records_become_readable_in_order_whatever_the_order_of_their_inserts(order in Just((0..50_u64).collect::<Vec<_>>()).prop_shuffle()) {
            let sequence = Sequence::default();
            (0..50).for_each(|_| { sequence.claim(); });
            let mut ended = std::collections::BTreeSet::new();
            for number in order {
                sequence.acknowledge(number);
                ended.insert(number);
                let expected = (0..50).find(|number| !ended.contains(number)).unwrap_or(50);
                prop_assert_eq!(sequence.readable(), expected);
            }
        }
    }
}
