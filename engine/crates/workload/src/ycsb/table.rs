//! The table of the kinds `connect`, `query` and `load`: keys and fields of `usertable`, the same for the same seed.

use super::{Key, fnv_hash};
use crate::Data;
use base::Random;

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

#[cfg(test)]
mod tests {
    use super::*;

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
