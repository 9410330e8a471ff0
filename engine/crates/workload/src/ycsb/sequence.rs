//! The numbers of new records, and which of them can be read (`site.ycsb.generator.AcknowledgedCounterGenerator`).

use crate::Share;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// One table's: shared by all that insert into it and read from it.
///
/// It counts places: one for each record that was loaded, by its number, then one for each that this host inserts. Of a host
/// that is alone a record's place is its number.
#[derive(Debug, Default)]
pub struct Sequence {
    share: Share,
    loaded: AtomicU64,
    /// … and this is the number of the first one that this host inserts.
    first_new: AtomicU64,
    next: AtomicU64,
    readable: AtomicU64,
    /// From `readable` on: whose insert has ended, before one below it.
    ended: Mutex<VecDeque<bool>>,
}

impl Sequence {
    /// Of no records yet; of the new ones' numbers this host has a share.
    pub fn new(share: Share) -> Self {
        Sequence { share, first_new: AtomicU64::new(share.number(0)), ..Sequence::default() }
    }

    /// The records below this number are there, whoever inserted them. Not while inserts are under way.
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

    pub fn record(&self, place: u64) -> u64 {
        match place.checked_sub(self.loaded.load(Ordering::Relaxed)) {
            None => place,
            Some(new) => self.first_new.load(Ordering::Relaxed) + new * self.share.step(),
        }
    }

    pub fn claim(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Its insert has ended, well or not: as in YCSB, a place that was never acknowledged would keep all later ones
    /// from being read.
    pub fn acknowledge(&self, place: u64) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let readable = self.readable.load(Ordering::Relaxed);
        let Some(place) = place.checked_sub(readable) else { return };
        let place = place as usize;
        if ended.len() <= place {
            ended.resize(place + 1, false);
        }
        ended[place] = true;
        let mut more = 0;
        while ended.front() == Some(&true) {
            ended.pop_front();
            more += 1;
        }
        self.readable.store(readable + more, Ordering::Release);
    }

    /// The records at so many places, from 0, can be asked for.
    pub fn readable(&self) -> u64 {
        self.readable.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::tests::shares;
    use proptest::prelude::*;

    #[test]
    fn only_what_has_ended_can_be_read() {
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
    fn what_the_hosts_have_loaded_is_there_for_each() {
        for share in shares(3) {
            let sequence = Sequence::new(share);
            (0..share.count(5)).for_each(|_| sequence.acknowledge(sequence.claim()));
            sequence.begin_at_least(1);
            let readable: Vec<_> = (0..sequence.readable()).map(|place| sequence.record(place)).collect();
            let own = (1..5).filter(|record| share.first_from(*record) == *record);
            assert_eq!(readable, [0].into_iter().chain(own).collect::<Vec<_>>());
        }
    }

    #[test]
    fn threads_share_it() {
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
        fn hosts_insert_the_records_of_one_machine(
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
        fn a_host_asks_for_what_was_loaded_and_for_its_own(hosts in 1..=8_u64, begins_at in 0..100_u64) {
            for share in shares(hosts) {
                let sequence = Sequence::new(share);
                sequence.begin_at_least(begins_at);
                let inserted: Vec<_> = (0..5).map(|_| sequence.claim()).collect();
                inserted.iter().for_each(|place| sequence.acknowledge(*place));
                let own = inserted.iter().map(|place| sequence.record(*place));
                let expected: Vec<_> = (0..begins_at).chain(own).collect();
                let readable: Vec<_> = (0..sequence.readable()).map(|place| sequence.record(place)).collect();
                prop_assert_eq!(readable, expected);
            }
        }

        #[test]
        fn all_can_be_read_in_the_end(order in Just((0..50_u64).collect::<Vec<_>>()).prop_shuffle()) {
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
