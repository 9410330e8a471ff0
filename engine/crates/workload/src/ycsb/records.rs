//! YCSB's records: their keys, their fields and their values. A key is `user` and a number, as in YCSB's
//! `CoreWorkload.buildKeyName`. This module also defines the table that the workloads `connect`, `query` and `load`
//! use, whose contents depend only on the seed.

use super::{InsertOrder, Lengths};
use crate::Data;
use base::Random;
use std::io::Write;
use std::ops::Range;

/// The maximum length of a key in bytes, which is that of MySQL's column `YCSB_KEY VARCHAR(255)`.
pub const LONGEST_KEY: usize = 255;
/// The maximum number of digits of a non-negative `long` in Java.
pub const MAX_DIGITS: usize = 19;
/// The constants of FNV-1a, as in `site.ycsb.Utils`.
const FNV_OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 1_099_511_628_211;

/// The rule by which record numbers become keys.
#[derive(Debug, Clone)]
pub struct KeyNames {
    pub prefix: String,
    /// The minimum number of digits in a key. Shorter numbers are padded with zeros.
    pub zero_padding: usize,
    pub order: InsertOrder,
}

impl KeyNames {
    pub fn key(&self, record: u64) -> Key {
        let number = match self.order {
            InsertOrder::Hashed => fnv_hash(record),
            InsertOrder::Ordered => record,
        };
        Key::from_parts(&self.prefix, number, self.zero_padding)
    }
}

/// A record's key. It needs no heap allocation.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    bytes: [u8; LONGEST_KEY],
    length: usize,
}

impl Key {
    /// Return the key of a record by YCSB's defaults: the number is hashed and not padded.
    pub fn new(record: u64) -> Self {
        Key::from_parts("user", fnv_hash(record), 0)
    }

    fn from_parts(prefix: &str, number: u64, zero_padding: usize) -> Self {
        let mut bytes = [0; LONGEST_KEY];
        let mut rest = &mut bytes[..];
        write!(rest, "{prefix}{number:0zero_padding$}").expect("plans with longer keys are rejected");
        let length = LONGEST_KEY - rest.len();
        Key { bytes, length }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Return the hash of a number as YCSB's `Utils.fnvhash64` computes it: FNV-1a over the number's bytes, lowest first,
/// and then the absolute value as by Java's `Math.abs`.
pub fn fnv_hash(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(FNV_OFFSET_BASIS, |hash, octet| (hash ^ u64::from(*octet)).wrapping_mul(FNV_PRIME));
    (hash as i64).wrapping_abs() as u64
}

/// The fields of a record that an operation reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fields {
    All,
    One(u32),
}

/// The kinds of a workload's operations and the fields that they use. They determine which statements a protocol
/// prepares.
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

/// New random values for the fields of a record. [`Values::append`] generates them.
pub struct Values<'a> {
    fields: Range<u32>,
    lengths: &'a Lengths,
    random: &'a mut Random,
}

impl<'a> Values<'a> {
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

    /// Append the values to a message. In front of each value, `append_header` appends the value's header. The
    /// arguments of `append_header` are the message, the field's number and the value's length.
    pub fn append(self, message: &mut Vec<u8>, mut append_header: impl FnMut(&mut Vec<u8>, u32, usize)) {
        for field in self.fields {
            let length = self.lengths.next(self.random) as usize;
            append_header(message, field, length);
            let at = message.len();
            message.resize(at + length, 0);
            self.random.fill_printable(&mut message[at..]);
        }
    }
}

#[derive(Debug, Clone)]
pub struct Table {
    data: Data,
    seed: u64,
    names: Vec<String>,
}

impl Table {
    pub fn new(data: Data, seed: u64) -> Self {
        Table { data, seed, names: (0..data.fields).map(|field| format!("field{field}")).collect() }
    }

    pub fn records(&self) -> u64 {
        self.data.records
    }

    pub fn key(&self, record: u64) -> Key {
        Key::new(record)
    }

    pub fn for_each_field(&self, record: u64, mut each: impl FnMut(&str, &[u8])) {
        let mut random = Random::new(self.seed ^ fnv_hash(record));
        let mut value = vec![0; self.data.field_length as usize];
        for name in &self.names {
            random.fill_printable(&mut value);
            each(name, &value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(order: InsertOrder, zero_padding: usize) -> KeyNames {
        KeyNames { prefix: "user".into(), zero_padding, order }
    }

    fn text(key: Key) -> String {
        String::from_utf8(key.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn hashed_keys_equal_the_keys_that_ycsb_generates() {
        // The first records of a table that YCSB 0.17 loaded with its default insert order (hashed).
        for (record, key) in
            [(0, "user6284781860667377211"), (1, "user8517097267634966620"), (2, "user1820151046732198393")]
        {
            assert_eq!(text(Key::new(record)), key);
            assert_eq!(text(names(InsertOrder::Hashed, 1).key(record)), key);
        }
    }

    #[test]
    fn ordered_keys_are_padded_numbers() {
        assert_eq!(text(names(InsertOrder::Ordered, 1).key(0)), "user0");
        assert_eq!(text(names(InsertOrder::Ordered, 8).key(42)), "user00000042");
        assert_eq!(text(names(InsertOrder::Ordered, 2).key(12345)), "user12345");
        assert_eq!(text(names(InsertOrder::Hashed, 22).key(0)), "user0006284781860667377211");
    }

    proptest! {
        #[test]
        fn padded_ordered_keys_sort_like_their_numbers(one in any::<u32>(), other in any::<u32>()) {
            let names = names(InsertOrder::Ordered, 10);
            let (one, other) = (u64::from(one), u64::from(other));
            prop_assert_eq!(names.key(one).as_bytes().cmp(names.key(other).as_bytes()), one.cmp(&other));
        }
    }

    #[test]
    fn each_field_value_is_written_after_its_header() {
        let (mut message, mut random) = (Vec::new(), Random::new(1));
        let lengths = Lengths::uniform(1, 9);
        Values::new(Fields::All, 3, &lengths, &mut random).append(&mut message, |message, field, length| {
            message.extend_from_slice(&[field as u8, length as u8]);
        });
        let mut rest = &message[..];
        for field in 0..3 {
            let [number, length, after @ ..] = rest else { panic!("no header") };
            assert_eq!(*number, field);
            let (value, after) = after.split_at(usize::from(*length));
            assert!((1..=9).contains(length) && value.iter().all(|byte| (32..127).contains(byte)));
            rest = after;
        }
        assert!(rest.is_empty());
        let one = Values::new(Fields::One(2), 3, &lengths, &mut random);
        assert_eq!(one.fields(), 2..3);
    }

    #[test]
    fn table_values_are_printable_and_depend_on_seed_and_record() {
        let data = Data { records: 10, fields: 10, field_length: 100 };
        let fields = |seed, record| {
            let mut all = Vec::new();
            Table::new(data, seed).for_each_field(record, |name, value| all.push((name.to_owned(), value.to_vec())));
            all
        };
        let first = fields(1, 0);
        assert_eq!(first, fields(1, 0));
        assert_ne!(first, fields(1, 1));
        assert_ne!(first, fields(2, 0));
        assert_eq!(first.len(), 10);
        assert_eq!(first[9].0, "field9");
        assert!(first.iter().all(|(_, value)| value.len() == 100 && value.iter().all(|byte| (32..127).contains(byte))));
    }
}
