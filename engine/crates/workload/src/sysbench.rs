//! sysbench's data: the rows of its table `sbtest1` (sysbench 1.0, `oltp_common.lua`). Here a row depends only on the
//! seed and the row's number. sysbench's own random numbers also depend on its threads.

use base::Random;
use std::io::Write;

/// The number of groups of digits in column `c`. Each group has eleven digits. With a hyphen between two groups, a
/// value has 119 characters.
const GROUPS_OF_C: usize = 10;
const GROUPS_OF_PAD: usize = 5;
const GROUP_LIMIT: u64 = 100_000_000_000;

#[derive(Debug, Clone)]
pub struct Table {
    records: u64,
    seed: u64,
}

impl Table {
    /// Create the table. The contents of a row depend only on the seed and the row's number.
    pub fn new(records: u64, seed: u64) -> Self {
        Table { records, seed }
    }

    pub fn records(&self) -> u64 {
        self.records
    }

    /// Return the primary key of a record. Records are counted from 0 and keys from 1.
    pub fn id(&self, record: u64) -> u64 {
        record + 1
    }

    pub fn append_row(&self, record: u64, sql: &mut Vec<u8>) {
        let mut random = Random::for_stream(self.seed, record);
        let k = 1 + random.below(self.records);
        write!(sql, "({},{k},'", self.id(record)).expect("writing to memory does not fail");
        append_c(&mut random, sql);
        sql.extend_from_slice(b"','");
        append_groups(&mut random, GROUPS_OF_PAD, sql);
        sql.extend_from_slice(b"')");
    }
}

/// Append a random value of column `c`.
pub fn append_c(random: &mut Random, sql: &mut Vec<u8>) {
    append_groups(random, GROUPS_OF_C, sql);
}

fn append_groups(random: &mut Random, groups: usize, sql: &mut Vec<u8>) {
    for group in 0..groups {
        let hyphen = if group == 0 { "" } else { "-" };
        write!(sql, "{hyphen}{:011}", random.below(GROUP_LIMIT)).expect("writing to memory does not fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seed: u64, record: u64) -> String {
        let mut sql = Vec::new();
        Table::new(1000, seed).append_row(record, &mut sql);
        String::from_utf8(sql).unwrap()
    }

    #[test]
    fn row_has_the_format_of_sysbench() {
        for record in 0..100 {
            let row = row(1, record);
            let values: Vec<_> = row.strip_prefix('(').unwrap().strip_suffix(')').unwrap().split(',').collect();
            let [id, k, c, pad] = values[..] else { panic!("{row}") };
            assert_eq!(id.parse::<u64>().unwrap(), record + 1);
            assert!((1..=1000).contains(&k.parse::<u64>().unwrap()));
            assert_eq!((c.len(), pad.len()), (119 + 2, 59 + 2));
            let groups: Vec<_> = c.trim_matches('\'').split('-').collect();
            assert_eq!(groups.len(), 10);
            assert!(groups.iter().all(|group| group.len() == 11 && group.bytes().all(|byte| byte.is_ascii_digit())));
        }
    }

    #[test]
    fn row_depends_on_seed_and_row_number() {
        assert_eq!(row(1, 5), row(1, 5));
        assert_ne!(row(1, 5), row(2, 5));
        assert_ne!(row(1, 5)[5..], row(1, 6)[5..]);
    }
}
