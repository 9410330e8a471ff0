//! The numbers of new records, and which of them can be read (`site.ycsb.generator.AcknowledgedCounterGenerator`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// One table's: shared by all that insert into it and read from it.
#[derive(Debug, Default)]
pub struct Sequence {
    next: AtomicU64,
    /// Every insert of a number below it has ended.
    readable: AtomicU64,
    /// From `readable` on: whose insert has ended, before one below it.
    ended: Mutex<VecDeque<bool>>,
}

impl Sequence {
    /// The records below this number are there. Not while inserts are under way.
    pub fn begin_at_least(&self, records: u64) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if self.next.load(Ordering::Relaxed) < records {
            ended.clear();
            self.next.store(records, Ordering::Relaxed);
            self.readable.store(records, Ordering::Release);
        }
    }

    /// The number of the next new record.
    pub fn claim(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Its insert has ended, well or not: as in YCSB, a number that was never acknowledged would keep all later ones
    /// from being read.
    pub fn acknowledge(&self, number: u64) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let readable = self.readable.load(Ordering::Relaxed);
        let Some(place) = number.checked_sub(readable) else { return };
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

    /// So many records, from 0, can be asked for.
    pub fn readable(&self) -> u64 {
        self.readable.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
