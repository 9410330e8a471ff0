//! Errors of a slice, counted by class; the first of each class keeps its words.

use crate::border::ErrorCount;
use crate::error::Failure;

/// Counts by class, in the order in which the classes were first seen.
#[derive(Debug, Default)]
pub struct ErrorTally(Vec<ErrorCount>);

impl ErrorTally {
    /// One more.
    pub fn count(&mut self, failure: Failure) {
        self.add(ErrorCount { first: failure, count: 1 });
    }

    /// Add another thread's.
    pub fn merge(&mut self, other: ErrorTally) {
        other.0.into_iter().for_each(|errors| self.add(errors));
    }

    /// For the border.
    pub fn answer(self) -> Vec<ErrorCount> {
        self.0
    }

    fn add(&mut self, errors: ErrorCount) {
        match self.0.iter_mut().find(|known| known.first.class == errors.first.class) {
            Some(known) => known.count += errors.count,
            None => self.0.push(errors),
        }
    }
}
