//! GET and SET of strings, with the keys of redis-benchmark (`-r`), such as `key:000000000042`.

use super::channel::{append_argument, append_digits, append_end, append_head, append_length, digits};
use super::reply::{Element, Reader};
use base::Random;
use base::error::{Class, Failure, Result};
use std::sync::LazyLock;

const KEY: &[u8] = b"key:";
/// The minimum number of digits of a key.
const KEY_DIGITS: usize = 12;
/// The number of offsets in [`FILLING`] at which values begin. Neighbouring records have different offsets and values.
const SHIFTS: u64 = 64;

/// A size of values, and the records that have it: in each group of `every` records, the `count` records from position
/// `first` on. For example, every 10, first 2 and count 8 mean the records 2 to 9, 12 to 19, 22 to 29, ….
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    bytes: usize,
    every: u64,
    first: u64,
    count: u64,
}

/// The sizes of values. Values of all sizes are loaded together, so that arms (variants of the experiment) with
/// different sizes can use the same data. In 1000 records, the values of each size have about 100 kB in total.
const SIZES: [Size; 3] = [
    Size { bytes: 100, every: 10, first: 2, count: 8 },
    Size { bytes: 1024, every: 10, first: 1, count: 1 },
    Size { bytes: 100 * 1024, every: 1000, first: 0, count: 1 },
];

pub fn is_size(bytes: usize) -> bool {
    SIZES.iter().any(|size| size.bytes == bytes)
}

/// Random bytes. Every value is a part of these bytes.
static FILLING: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let longest = SIZES.iter().map(|size| size.bytes).max().unwrap_or_default();
    let mut filling = vec![0; longest + SHIFTS as usize];
    Random::new(1).fill_printable(&mut filling);
    filling
});

/// The strings of a service, and the size of the strings that operations read and write.
#[derive(Debug, Clone)]
pub struct Strings {
    prefix: String,
    records: u64,
    size: Size,
}

impl Strings {
    /// Describe `records` strings whose keys begin with `prefix`. Operations read and write the strings of
    /// `value_bytes` bytes. Panics if no value has `value_bytes` bytes ([`is_size`]).
    pub fn new(prefix: &str, records: u64, value_bytes: usize) -> Self {
        let size = *SIZES.iter().find(|size| size.bytes == value_bytes).expect("the plan was checked");
        Strings { prefix: prefix.into(), records, size }
    }

    /// Choose a random record whose value has the configured size, and return the record's index.
    pub fn any(&self, random: &mut Random) -> u64 {
        let Size { every, first, count, .. } = self.size;
        random.below((self.records / every).max(1)) * every + first + random.below(count)
    }

    pub fn append_get(&self, record: u64, out: &mut Vec<u8>) {
        append_head(out, 2);
        append_argument(out, b"GET");
        self.append_key(record, out);
    }

    pub fn append_set(&self, record: u64, out: &mut Vec<u8>) {
        append_head(out, 3);
        append_argument(out, b"SET");
        self.append_key(record, out);
        append_argument(out, value(record));
    }

    /// Check that the reply to GET is a string of the expected size. Errors: class `server` for another size or a
    /// missing key; `protocol` for another kind of reply.
    pub fn check(&self, element: Element<'_>, _rest: Reader<'_>) -> Result<()> {
        match element {
            Element::Bytes(value) if value.len() == self.size.bytes => Ok(()),
            Element::Bytes(value) => {
                let detail = format!("a value has {} bytes, not {}", value.len(), self.size.bytes);
                Err(Failure::new(Class::Server, detail))
            }
            Element::Null => Err(Failure::new(Class::Server, "the key does not exist: is the data loaded?")),
            _ => Err(Failure::protocol("the answer to GET is not a string")),
        }
    }

    fn append_key(&self, record: u64, out: &mut Vec<u8>) {
        append_length(out, self.prefix.len() + KEY.len() + digits(record, KEY_DIGITS));
        out.extend_from_slice(self.prefix.as_bytes());
        out.extend_from_slice(KEY);
        append_digits(out, record, KEY_DIGITS);
        append_end(out);
    }
}

fn value(record: u64) -> &'static [u8] {
    let has_size = |size: &&Size| (size.first..size.first + size.count).contains(&(record % size.every));
    // Records without a size, such as record 10, get values of the smallest size, but no operation reads them.
    let bytes = SIZES.iter().rev().find(has_size).map_or(SIZES[0].bytes, |size| size.bytes);
    let from = (record % SHIFTS) as usize;
    &FILLING[from..from + bytes]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::reply::length;
    use proptest::prelude::*;

    #[test]
    fn string_keys_equal_the_keys_of_redis_benchmark() {
        let mut out = Vec::new();
        Strings::new("", 100, 100).append_get(42, &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n");
        out.clear();
        Strings::new("c:", 100, 100).append_get(u64::MAX, &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$26\r\nc:key:18446744073709551615\r\n");
    }

    proptest! {
        #[test]
        fn randomly_drawn_record_has_a_value_of_the_configured_size(tens in 1..1_000_000_u64, size in 0..SIZES.len(), seed in any::<u64>()) {
            let (records, bytes) = (10 * tens, SIZES[size].bytes);
            let strings = Strings::new("p", records, bytes);
            let record = strings.any(&mut Random::new(seed));
            prop_assert!(record < records);
            prop_assert_eq!(value(record).len(), bytes);
            let mut out = Vec::new();
            strings.append_set(record, &mut out);
            prop_assert_eq!(length(&out).unwrap(), Some(out.len()));
        }
    }

    #[test]
    fn thousand_records_have_899_small_100_medium_and_1_large_value() {
        let count_of_size = |bytes| (0..1000).filter(|record| value(*record).len() == bytes).count();
        assert_eq!((count_of_size(100), count_of_size(1024), count_of_size(100 * 1024)), (899, 100, 1));
    }

    #[test]
    fn missing_value_or_value_of_unexpected_length_is_a_server_error() {
        let (strings, rest) = (Strings::new("", 10, 100), Reader::new(b""));
        strings.check(Element::Bytes(&[b'a'; 100]), rest).unwrap();
        for element in [Element::Bytes(b"ab"), Element::Null] {
            assert_eq!(strings.check(element, rest).unwrap_err().class, Class::Server);
        }
        assert_eq!(strings.check(Element::Aggregate(0), rest).unwrap_err().class, Class::Protocol);
    }
}
