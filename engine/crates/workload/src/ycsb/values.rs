//! What is written into records and which of their fields are read.

use super::Lengths;
use base::Random;
use std::ops::Range;

/// Which fields of a record an operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fields {
    All,
    One(u32),
}

/// What a table's records look like to a workload: what a protocol must know to get ready for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub fields: u32,
    pub reads_all: bool,
    pub writes_all: bool,
    pub inserts: bool,
    pub reads: bool,
    pub updates: bool,
    pub scans: bool,
}

/// New values for fields, made as they are written down.
pub struct Values<'a> {
    fields: Range<u32>,
    lengths: &'a Lengths,
    random: &'a mut Random,
}

impl<'a> Values<'a> {
    /// For these fields of a record with `count` of them.
    pub fn new(fields: Fields, count: u32, lengths: &'a Lengths, random: &'a mut Random) -> Self {
        let fields = match fields {
            Fields::All => 0..count,
            Fields::One(field) => field..field + 1,
        };
        Values { fields, lengths, random }
    }

    pub fn fields(&self) -> Range<u32> {
        self.fields.clone()
    }

    /// Append each value, after what `head` has written for a field of this number and this length.
    pub fn append(self, message: &mut Vec<u8>, mut head: impl FnMut(&mut Vec<u8>, u32, usize)) {
        for field in self.fields {
            let length = self.lengths.next(self.random) as usize;
            head(message, field, length);
            let at = message.len();
            message.resize(at + length, 0);
            self.random.fill_printable(&mut message[at..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_follows_its_head() {
        let (mut message, mut random) = (Vec::new(), Random::new(1));
        let lengths = Lengths::uniform(1, 9);
        Values::new(Fields::All, 3, &lengths, &mut random).append(&mut message, |message, field, length| {
            message.extend_from_slice(&[field as u8, length as u8]);
        });
        let mut rest = &message[..];
        for field in 0..3 {
            let [number, length, after @ ..] = rest else { panic!("a head") };
            assert_eq!(*number, field);
            let (value, after) = after.split_at(usize::from(*length));
            assert!((1..=9).contains(length) && value.iter().all(|byte| (32..127).contains(byte)));
            rest = after;
        }
        assert!(rest.is_empty());
        let one = Values::new(Fields::One(2), 3, &lengths, &mut random);
        assert_eq!(one.fields(), 2..3);
    }
}
