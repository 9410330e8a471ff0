//! YCSB's data: keys and fields of `usertable`, the same for the same seed (Cooper et al., "Benchmarking Cloud Serving
//! Systems with YCSB", SoCC 2010; site.ycsb.Utils and CoreWorkload).

use super::Random;
use crate::border::Data;
use std::io::Write;

/// "user" and the digits of a 64-bit number that is not negative.
const LONGEST_KEY: usize = 4 + 19;
/// FNV-1a's, as `site.ycsb.Utils` has them.
const FNV_OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 1_099_511_628_211;

/// The table of a run.
#[derive(Debug, Clone)]
pub struct Table {
    data: Data,
    seed: u64,
    names: Vec<String>,
}

impl Table {
    /// Of this size; the fields' bytes follow from the seed and the record's number.
    pub fn new(data: Data, seed: u64) -> Self {
        Table { data, seed, names: (0..data.fields).map(|field| format!("field{field}")).collect() }
    }

    /// How many records there are; they are asked for by number, from 0.
    pub fn records(&self) -> u64 {
        self.data.records
    }

    /// The key of a record.
    pub fn key(&self, record: u64) -> Key {
        Key::new(record)
    }

    /// Name and value of every field of a record, in order.
    pub fn for_each_field(&self, record: u64, mut each: impl FnMut(&str, &[u8])) {
        let mut random = Random::new(self.seed ^ fnv_hash(record));
        let mut value = vec![0; self.data.field_length as usize];
        for name in &self.names {
            random.fill_printable(&mut value);
            each(name, &value);
        }
    }
}

/// A record's key, without a heap.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    bytes: [u8; LONGEST_KEY],
    length: usize,
}

impl Key {
    /// `CoreWorkload.buildKeyName` with hashed insert order.
    pub fn new(record: u64) -> Self {
        let mut bytes = [0; LONGEST_KEY];
        let mut rest = &mut bytes[..];
        write!(rest, "user{}", fnv_hash(record)).expect("the longest key fits");
        let length = LONGEST_KEY - rest.len();
        Key { bytes, length }
    }

    /// As it goes over the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// `Utils.fnvhash64`: the number's octets from low to high, the result made positive as Java's `Math.abs` does.
pub fn fnv_hash(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(FNV_OFFSET_BASIS, |hash, octet| (hash ^ u64::from(*octet)).wrapping_mul(FNV_PRIME));
    (hash as i64).wrapping_abs() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_as_ycsb_does() {
        // The first records of a table loaded by YCSB 0.17 with its default, hashed, insert order.
        assert_eq!(Key::new(0).as_bytes(), b"user6284781860667377211");
        assert_eq!(Key::new(1).as_bytes(), b"user8517097267634966620");
        assert_eq!(Key::new(2).as_bytes(), b"user1820151046732198393");
    }

    #[test]
    fn values_are_printable_and_follow_from_seed_and_record() {
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
