//! GET and SET of strings by keys as redis-benchmark has them (`-r`): `key:` and a number of twelve digits at least.

use super::command::{append_argument, append_head, append_length, append_number, append_sized};
use super::reply::{Element, Reader};
use base::Random;
use base::error::{Class, Failure, Result};
use std::io::Write;

/// `key:` and the digits of the largest number.
const LONGEST_NAME: usize = 4 + 20;

/// The strings of a run.
#[derive(Debug, Clone)]
pub struct Strings {
    prefix: String,
    records: u64,
    value_bytes: usize,
    expires_after_seconds: Option<i64>,
}

impl Strings {
    /// So many strings of so many bytes each, their keys after this prefix.
    pub fn new(prefix: &str, records: u64, value_bytes: usize, expires_after_seconds: Option<u64>) -> Self {
        let expires_after_seconds = expires_after_seconds.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        Strings { prefix: prefix.into(), records, value_bytes, expires_after_seconds }
    }

    /// The number of any.
    pub fn any(&self, random: &mut Random) -> u64 {
        random.below(self.records)
    }

    /// Append the command that reads this one.
    pub fn append_get(&self, record: u64, out: &mut Vec<u8>) {
        append_head(out, 2);
        append_argument(out, b"GET");
        self.append_key(record, out);
    }

    /// Append the command that writes this one; its bytes follow from its number.
    pub fn append_set(&self, record: u64, out: &mut Vec<u8>) {
        append_head(out, if self.expires_after_seconds.is_some() { 5 } else { 3 });
        append_argument(out, b"SET");
        self.append_key(record, out);
        append_sized(out, self.value_bytes, |out| {
            let at = out.len();
            out.resize(at + self.value_bytes, 0);
            Random::new(record).fill_printable(&mut out[at..]);
        });
        if let Some(seconds) = self.expires_after_seconds {
            append_argument(out, b"EX");
            append_number(out, seconds);
        }
    }

    /// The answer to a command that reads one.
    ///
    /// # Errors
    /// `server`, where there is none, or it is of another length; `protocol`.
    pub fn check(&self, element: Element<'_>, _rest: Reader<'_>) -> Result<()> {
        match element {
            Element::Bytes(value) if value.len() == self.value_bytes => Ok(()),
            Element::Bytes(value) => {
                let detail = format!("a value has {} bytes, not {}", value.len(), self.value_bytes);
                Err(Failure::new(Class::Server, detail))
            }
            Element::Null => Err(Failure::new(Class::Server, "there is no such key: is the data loaded?")),
            _ => Err(Failure::protocol("the answer to GET is no string")),
        }
    }

    fn append_key(&self, record: u64, out: &mut Vec<u8>) {
        let mut name = [0; LONGEST_NAME];
        let mut rest = &mut name[..];
        write!(rest, "key:{record:012}").expect("no number is longer");
        let length = LONGEST_NAME - rest.len();
        append_length(out, self.prefix.len() + length);
        out.extend_from_slice(self.prefix.as_bytes());
        out.extend_from_slice(&name[..length]);
        super::command::append_end(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::reply::length;
    use proptest::prelude::*;

    #[test]
    fn keys_are_redis_benchmarks() {
        let mut out = Vec::new();
        Strings::new("", 100, 1, None).append_get(42, &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n");
        out.clear();
        Strings::new("c:", 100, 1, None).append_get(u64::MAX, &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$26\r\nc:key:18446744073709551615\r\n");
    }

    #[test]
    fn a_string_expires_where_it_is_to() {
        let mut out = Vec::new();
        Strings::new("", 100, 8, Some(60)).append_set(0, &mut out);
        assert!(out.starts_with(b"*5\r\n$3\r\nSET\r\n") && out.ends_with(b"$2\r\nEX\r\n$2\r\n60\r\n"));
    }

    proptest! {
        #[test]
        fn every_command_is_whole(records in 1..u64::MAX, bytes in 1..5000_usize, seed in any::<u64>()) {
            let strings = Strings::new("p", records, bytes, None);
            let record = strings.any(&mut Random::new(seed));
            prop_assert!(record < records);
            let mut out = Vec::new();
            strings.append_set(record, &mut out);
            prop_assert_eq!(length(&out).unwrap(), Some(out.len()));
        }
    }

    #[test]
    fn a_value_is_there_and_of_its_length() {
        let (strings, rest) = (Strings::new("", 1, 3, None), Reader::new(b""));
        strings.check(Element::Bytes(b"abc"), rest).unwrap();
        for element in [Element::Bytes(b"ab"), Element::Null] {
            assert_eq!(strings.check(element, rest).unwrap_err().class, Class::Server);
        }
        assert_eq!(strings.check(Element::Aggregate(0), rest).unwrap_err().class, Class::Protocol);
    }
}
