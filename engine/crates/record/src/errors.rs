//! Errors of a slice, counted by class and phase; the first of each keeps its words.

use base::error::Failure;
use serde::Serialize;

/// Errors of one class, and of one phase where that is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// The first.
    #[serde(flatten)]
    pub first: Failure,
    pub count: u64,
}

/// Counts, in the order in which their kinds were first seen.
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
        let alike = |known: &&mut ErrorCount| {
            (known.first.class, known.first.phase) == (errors.first.class, errors.first.phase)
        };
        match self.0.iter_mut().find(alike) {
            Some(known) => known.count += errors.count,
            None => self.0.push(errors),
        }
    }
}
