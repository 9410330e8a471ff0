//! What a slice counts beside times, by name.

use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Counts of a slice. The first part of a dotted name says who counted: `http.reused`, `tpcc.committed.payment`.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts(BTreeMap<Cow<'static, str>, u64>);

impl Counts {
    /// So many more. A name of which there were none is answered too: it was looked for.
    pub fn add(&mut self, name: impl Into<Cow<'static, str>>, count: u64) {
        *self.0.entry(name.into()).or_default() += count;
    }

    /// Add another thread's.
    pub fn merge(&mut self, other: Counts) {
        other.0.into_iter().for_each(|(name, count)| self.add(name, count));
    }
}

/// One worker's counts while it measures: plain integers, which get their names when its slice is over, since a name costs
/// more than a count.
pub trait Tally: Default {
    /// Add them under their names.
    fn add_to(&self, counts: &mut Counts);
}

/// Nothing is counted.
impl Tally for () {
    fn add_to(&self, _counts: &mut Counts) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up_and_none_are_told() {
        let (mut one, mut other) = (Counts::default(), Counts::default());
        one.add("http.reused", 0);
        one.add("http.status.200", 2);
        other.add(format!("http.status.{}", 200), 3);
        other.add("http.status.404", 1);
        one.merge(other);
        let expected = r#"{"http.reused":0,"http.status.200":5,"http.status.404":1}"#;
        assert_eq!(serde_json::to_string(&one).unwrap(), expected);
    }
}
