//! One thread's share of a slice.

use super::{Counts, ErrorTally, Evidence, Recorder, Timeline};
use base::error::Failure;

/// What a thread's workers write into; merged with the other threads' for the answer.
#[derive(Default)]
pub struct SliceLog {
    pub recorder: Recorder,
    pub errors: ErrorTally,
    pub counts: Counts,
    pub evidence: Evidence,
    pub operations: u64,
    /// The first beginning of an attempt, on the monotonic clock.
    pub first_began: Option<u64>,
    /// The last end of an attempt, whatever came of it, on the monotonic clock; 0 before the first.
    pub last_end: u64,
}

impl SliceLog {
    /// An attempt succeeded; it was so many operations.
    pub fn succeeded(&mut self, operations: u64, timeline: &Timeline) {
        self.operations += operations;
        self.ended(timeline.at());
        self.recorder.record(timeline);
    }

    /// A worker's first attempt began at this instant.
    pub fn began(&mut self, at: u64) {
        self.first_began = Some(self.first_began.map_or(at, |first| first.min(at)));
    }

    pub fn ended(&mut self, at: u64) {
        self.last_end = self.last_end.max(at);
    }

    /// An attempt failed, or getting ready for one.
    pub fn failed(&mut self, failure: Failure) {
        self.errors.count(failure);
    }

    /// Add another thread's, and leave that one empty for the next slice, its memory kept.
    pub fn absorb(&mut self, other: &mut SliceLog) {
        self.recorder.merge(&other.recorder);
        self.errors.merge(std::mem::take(&mut other.errors));
        self.counts.merge(std::mem::take(&mut other.counts));
        self.evidence.merge(std::mem::take(&mut other.evidence));
        self.operations += other.operations;
        if let Some(at) = other.first_began {
            self.began(at);
        }
        self.last_end = self.last_end.max(other.last_end);
        other.clear();
    }

    pub fn clear(&mut self) {
        self.recorder.reset();
        self.errors = ErrorTally::default();
        self.counts = Counts::default();
        self.evidence = Evidence::default();
        self.operations = 0;
        self.first_began = None;
        self.last_end = 0;
    }
}
