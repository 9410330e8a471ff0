//! Keys: `user` and a number, as `CoreWorkload.buildKeyName` makes them.

use crate::ycsb::InsertOrder;
use std::io::Write;

/// Of MySQL's column `YCSB_KEY VARCHAR(255)`.
pub const LONGEST_KEY: usize = 255;
/// Of a number that is not negative as Java's `long` has it.
pub const MOST_DIGITS: usize = 19;
/// FNV-1a's, as `site.ycsb.Utils` has them.
const FNV_OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 1_099_511_628_211;

/// How the numbers of records become their keys.
#[derive(Debug, Clone)]
pub struct KeyNames {
    pub prefix: String,
    /// A number has at least so many digits.
    pub zero_padding: usize,
    /// Whether the number is the record's or its hash.
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

/// A record's key, without a heap.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    bytes: [u8; LONGEST_KEY],
    length: usize,
}

impl Key {
    /// YCSB's default: hashed, not padded.
    pub fn new(record: u64) -> Self {
        Key::from_parts("user", fnv_hash(record), 0)
    }

    fn from_parts(prefix: &str, number: u64, zero_padding: usize) -> Self {
        let mut bytes = [0; LONGEST_KEY];
        let mut rest = &mut bytes[..];
        write!(rest, "{prefix}{number:0zero_padding$}").expect("longer keys are refused with the plan");
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
    use proptest::prelude::*;

    fn names(order: InsertOrder, zero_padding: usize) -> KeyNames {
        KeyNames { prefix: "user".into(), zero_padding, order }
    }

    fn text(key: Key) -> String {
        String::from_utf8(key.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn hashes_as_ycsb_does() {
        // The first records of a table loaded by YCSB 0.17 with its default, hashed, insert order.
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

    /// FNV-1a of 64 bits (draft-eastlake-fnv-17, 2), a bit at a time and in wide numbers.
    fn published(number: u64) -> u64 {
        let (mut hash, prime) = (14_695_981_039_346_656_037_u128, (1_u128 << 40) + 0x1b3);
        for octet in 0..8 {
            hash ^= u128::from(number >> (8 * octet) & 0xff);
            hash = (hash * prime) % (1 << 64);
        }
        if hash >> 63 == 1 { ((1_u128 << 64) - hash) as u64 } else { hash as u64 }
    }

    proptest! {
        #[test]
        fn every_hash_is_the_published_algorithms(number in any::<u64>()) {
            prop_assert_eq!(fnv_hash(number), published(number));
        }

        #[test]
        fn ordered_keys_of_enough_padding_sort_as_their_numbers(one in any::<u32>(), other in any::<u32>()) {
            let names = names(InsertOrder::Ordered, 10);
            let (one, other) = (u64::from(one), u64::from(other));
            prop_assert_eq!(names.key(one).as_bytes().cmp(names.key(other).as_bytes()), one.cmp(&other));
        }
    }
}
