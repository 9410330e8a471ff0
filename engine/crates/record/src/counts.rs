//! What a slice counts beside times, by name.

use serde::{Serialize, Serializer};
use std::fmt;

/// Counts of a slice. The first part of a dotted name says who counted: `http.reused`, `tpcc.committed.payment`.
#[derive(Debug, Default)]
pub struct Counts(Vec<(Name, u64)>);

/// A count's name, written out only where it is answered: workers hand their counts over while others still measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    words: &'static str,
    /// The last part, where it is a number.
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
    /// So many more. A name of which there were none is answered too: it was looked for.
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

/// One worker's counts while it measures: plain integers, which get their names when its slice is over.
pub trait Tally: Default {
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
        one.add(("http.status", 200), 2);
        other.add(("http.status", 404), 1);
        other.add(("http.status", 200), 3);
        one.merge(other);
        let expected = r#"{"http.reused":0,"http.status.200":5,"http.status.404":1}"#;
        assert_eq!(serde_json::to_string(&one).unwrap(), expected);
    }
}
