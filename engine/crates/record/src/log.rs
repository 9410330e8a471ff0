//! One thread's record of a slice (a measured window): times, errors by class and phase, counts by name, and evidence.

use crate::{Evidence, Recorder, Timeline};
use base::error::Failure;
use serde::{Serialize, Serializer};
use std::fmt;

/// The log of a slice (a measured window), written by all workers of a thread. After the slice, the logs of all threads
/// are merged.
#[derive(Default)]
pub struct SliceLog {
    pub recorder: Recorder,
    pub errors: ErrorTally,
    pub counts: Counts,
    pub evidence: Evidence,
    pub operations: u64,
    /// The start of the first operation (even a failed one) in nanoseconds of the monotonic clock. None if no operation
    /// began.
    pub first_began: Option<u64>,
    /// The end of the last operation (even a failed one) in nanoseconds of the monotonic clock. 0 if no operation
    /// ended.
    pub last_end: u64,
}

impl SliceLog {
    pub fn succeeded(&mut self, operations: u64, timeline: &Timeline) {
        self.operations += operations;
        self.ended(timeline.at());
        self.recorder.record(timeline);
    }

    pub fn began(&mut self, at: u64) {
        self.first_began = Some(self.first_began.map_or(at, |first| first.min(at)));
    }

    pub fn ended(&mut self, at: u64) {
        self.last_end = self.last_end.max(at);
    }

    pub fn failed(&mut self, failure: Failure) {
        self.errors.count(failure);
    }

    /// Add another thread's log to this one, and empty the other log, whose memory stays allocated.
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

/// The number of errors of one class and phase, with the first of these errors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    #[serde(flatten)]
    pub first: Failure,
    pub count: u64,
}

/// Errors, counted by class and phase. They are in the order in which each class and phase first occurred.
#[derive(Debug, Default)]
pub struct ErrorTally(Vec<ErrorCount>);

impl ErrorTally {
    pub fn count(&mut self, failure: Failure) {
        self.add(ErrorCount { first: failure, count: 1 });
    }

    pub fn merge(&mut self, other: ErrorTally) {
        other.0.into_iter().for_each(|errors| self.add(errors));
    }

    pub fn answer(&self) -> Vec<ErrorCount> {
        self.0.clone()
    }

    fn add(&mut self, errors: ErrorCount) {
        let same_kind = |known: &&mut ErrorCount| {
            (known.first.class, known.first.phase) == (errors.first.class, errors.first.phase)
        };
        match self.0.iter_mut().find(same_kind) {
            Some(known) => known.count += errors.count,
            None => self.0.push(errors),
        }
    }
}

/// The counts of a slice (a measured window) by name. The first part of a name is the protocol or workload:
/// `http.reused`, `tpcc.committed.payment`.
#[derive(Debug, Default)]
pub struct Counts(Vec<(Name, u64)>);

/// The name of a count. The text of the name is built only when the results are serialized. A worker that ends must not
/// spend time on texts, because other workers are still measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    words: &'static str,
    number: Option<u16>,
}

impl From<&'static str> for Name {
    fn from(words: &'static str) -> Self {
        Name { words, number: None }
    }
}

impl From<(&'static str, u16)> for Name {
    fn from((words, number): (&'static str, u16)) -> Self {
        Name { words, number: Some(number) }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            None => out.write_str(self.words),
            Some(number) => write!(out, "{}.{number}", self.words),
        }
    }
}

impl Counts {
    pub fn add(&mut self, name: impl Into<Name>, count: u64) {
        let name = name.into();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known += count,
            None => self.0.push((name, count)),
        }
    }

    pub fn merge(&mut self, other: Counts) {
        other.0.into_iter().for_each(|(name, count)| self.add(name, count));
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.iter().map(|(name, count)| (name.to_string(), count)))
    }
}

/// The counts of one worker as plain integers. When the worker ends, [`Tally::add_to`] adds them to named [`Counts`].
pub trait Tally: Default {
    fn add_to(&self, counts: &mut Counts);
}

impl Tally for () {
    fn add_to(&self, _counts: &mut Counts) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_two_tables_of_counts_adds_the_counts() {
        let (mut one, mut other) = (Counts::default(), Counts::default());
        one.add("http.reused", 0);
        one.add(("http.status", 200), 2);
        other.add(("http.status", 404), 1);
        other.add(("http.status", 200), 3);
        one.merge(other);
        let expected = r#"{"http.reused":0,"http.status.200":5,"http.status.404":1}"#;
        assert_eq!(serde_json::to_string(&one).unwrap(), expected);
    }
}
