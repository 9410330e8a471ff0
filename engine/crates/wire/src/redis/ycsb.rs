//! YCSB's operations, with the same commands as YCSB's Redis binding (`site.ycsb.db.RedisClient`). A record is a hash
//! stored under its key. One sorted set contains all keys, ordered by Java's hash of each key.

use super::channel::{
    Channel, append_argument, append_digits, append_end, append_head, append_length, append_number, digits, number,
};
use super::reply::{Element, Reader, first};
use crate::query_checks::check_scan;
use base::error::{Class, Failure, Result};
use workload::ycsb::{Fields, Key, Values};

/// The name of the sorted set of all keys (`RedisClient.INDEX_KEY`).
const INDEX: &[u8] = b"_indices";
/// The part of a field's name before its number.
const FIELD: &[u8] = b"field";

/// YCSB's operations on hashes whose keys all have one prefix.
pub struct Hashes {
    prefix: String,
}

/// The keys that a scan returned, each stored after its own length. The buffer is reused for the next scan.
#[derive(Default)]
pub struct ScannedKeys(Vec<u8>);

impl Hashes {
    pub fn new(prefix: &str) -> Self {
        Hashes { prefix: prefix.into() }
    }

    pub async fn insert(&self, channel: &mut Channel, key: &Key, values: Values<'_>) -> Result<()> {
        self.write(channel, key, values).await?;
        let request = channel.request();
        append_head(request, 4);
        append_argument(request, b"ZADD");
        self.append_name(INDEX, request);
        append_number(request, java_hash(key.as_bytes()).into());
        append_argument(request, key.as_bytes());
        channel.ask(number).await?;
        Ok(())
    }

    pub async fn update(&self, channel: &mut Channel, key: &Key, values: Values<'_>) -> Result<()> {
        match self.write(channel, key, values).await? {
            0 => Ok(()),
            new => Err(Failure::new(Class::Server, format!("{new} fields did not exist: is the data loaded?"))),
        }
    }

    pub async fn read(&self, channel: &mut Channel, key: &[u8], fields: Fields, record_fields: u32) -> Result<()> {
        let request = channel.request();
        match fields {
            Fields::All => {
                append_head(request, 2);
                append_argument(request, b"HGETALL");
                self.append_name(key, request);
                channel.ask(|element, rest| check(element, rest, 2 * u64::from(record_fields))).await
            }
            Fields::One(field) => {
                append_head(request, 3);
                append_argument(request, b"HMGET");
                self.append_name(key, request);
                append_field(field, request);
                channel.ask(|element, rest| check(element, rest, 1)).await
            }
        }
    }

    /// Read `count` keys in the order of the index, from this key on, and then read each record. This takes one round
    /// trip for the keys and one for each record.
    pub async fn scan(
        &self,
        channel: &mut Channel,
        from: &Key,
        count: u64,
        fields: Fields,
        record_fields: u32,
        scanned: &mut ScannedKeys,
    ) -> Result<()> {
        let request = channel.request();
        append_head(request, 7);
        append_argument(request, b"ZRANGEBYSCORE");
        self.append_name(INDEX, request);
        append_number(request, java_hash(from.as_bytes()).into());
        append_argument(request, b"+inf");
        append_argument(request, b"LIMIT");
        append_number(request, 0);
        append_number(request, i64::try_from(count).unwrap_or(i64::MAX));
        channel.ask(|element, rest| scanned.read(element, rest, count)).await?;
        for key in scanned.keys() {
            self.read(channel, key, fields, record_fields).await?;
        }
        Ok(())
    }

    async fn write(&self, channel: &mut Channel, key: &Key, values: Values<'_>) -> Result<i64> {
        let request = channel.request();
        let fields = values.fields();
        append_head(request, 2 + 2 * fields.len());
        append_argument(request, b"HSET");
        self.append_name(key.as_bytes(), request);
        values.append(request, |out, field, length| {
            // End the value of the previous field.
            if field > fields.start {
                append_end(out);
            }
            append_field(field, out);
            append_length(out, length);
        });
        append_end(request);
        channel.ask(number).await
    }

    fn append_name(&self, name: &[u8], out: &mut Vec<u8>) {
        append_length(out, self.prefix.len() + name.len());
        out.extend_from_slice(self.prefix.as_bytes());
        out.extend_from_slice(name);
        append_end(out);
    }
}

impl ScannedKeys {
    fn read(&mut self, element: Element<'_>, mut rest: Reader<'_>, limit: u64) -> Result<()> {
        self.0.clear();
        let Element::Aggregate(count) = element else {
            return Err(Failure::protocol("the answer to a scan is not a list of keys"));
        };
        check_scan(count, limit, "key")?;
        (0..count).try_for_each(|_| self.push(first(&mut rest)?))
    }

    fn push(&mut self, key: Element<'_>) -> Result<()> {
        let Element::Bytes(key) = key else { return Err(Failure::protocol("a key is not a string")) };
        self.0.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.0.extend_from_slice(key);
        Ok(())
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first_chunk()?;
            let (key, after) = after.split_at(u32::from_le_bytes(*length) as usize);
            rest = after;
            Some(key)
        })
    }
}

fn check(element: Element<'_>, mut rest: Reader<'_>, strings: u64) -> Result<()> {
    match element {
        Element::Aggregate(0) => {
            return Err(Failure::new(Class::Server, "the record does not exist: is the data loaded?"));
        }
        Element::Aggregate(count) if count == strings => {}
        _ => return Err(Failure::protocol("a record has other fields than YCSB's")),
    }
    (0..strings).try_for_each(|_| match first(&mut rest)? {
        Element::Bytes(_) => Ok(()),
        Element::Null => Err(Failure::new(Class::Server, "the field does not exist: is the data loaded?")),
        _ => Err(Failure::protocol("a field is not a string")),
    })
}

fn append_field(field: u32, out: &mut Vec<u8>) {
    append_length(out, FIELD.len() + digits(field.into(), 1));
    out.extend_from_slice(FIELD);
    append_digits(out, field.into(), 1);
    append_end(out);
}

/// Return Java's `String.hashCode` of an ASCII key.
fn java_hash(key: &[u8]) -> i32 {
    key.iter().fold(0_i32, |hash, character| hash.wrapping_mul(31).wrapping_add(i32::from(*character)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_hashes_equal_the_hashes_that_java_computes() {
        for (text, hash) in [("", 0), ("a", 97), ("hello", 99_162_322), ("user6284781860667377211", -594_971_599)] {
            assert_eq!(java_hash(text.as_bytes()), hash, "{text}");
        }
    }

    fn read(reply: &[u8], strings: u64) -> Result<()> {
        let mut reader = Reader::new(reply);
        let element = first(&mut reader)?;
        check(element, reader, strings)
    }

    #[test]
    fn records_are_parsed_in_resp2_and_resp3() {
        read(b"*2\r\n$6\r\nfield0\r\n$1\r\na\r\n", 2).unwrap();
        read(b"%1\r\n$6\r\nfield0\r\n$1\r\na\r\n", 2).unwrap();
        for (reply, class) in [
            (&b"*0\r\n"[..], Class::Server),
            (b"*1\r\n$-1\r\n", Class::Server),
            (b"*1\r\n_\r\n", Class::Server),
            (b"*1\r\n:1\r\n", Class::Protocol),
            (b"*3\r\n:1\r\n:1\r\n:1\r\n", Class::Protocol),
            (b"$1\r\na\r\n", Class::Protocol),
        ] {
            assert_eq!(read(reply, 1).unwrap_err().class, class, "{}", reply.escape_ascii());
        }
    }

    #[test]
    fn keys_are_parsed_from_the_reply_to_a_scan() {
        let mut scanned = ScannedKeys::default();
        let mut reader = Reader::new(b"*2\r\n$5\r\nuser1\r\n$0\r\n\r\n");
        let element = first(&mut reader).unwrap();
        scanned.read(element, reader, 2).unwrap();
        assert_eq!(scanned.keys().collect::<Vec<_>>(), [&b"user1"[..], b""]);
        assert_eq!(scanned.read(element, reader, 1).unwrap_err().class, Class::Protocol);
        assert_eq!(scanned.read(Element::Aggregate(0), reader, 1).unwrap_err().class, Class::Server);
    }

    #[test]
    fn reading_records_and_keys_from_arbitrary_bytes_never_panics() {
        bolero::check!().with_iterations(2000).with_type().for_each(|(reply, count): &(Vec<u8>, u8)| {
            let _ = read(reply, u64::from(*count));
            let mut scanned = ScannedKeys::default();
            let _ = scanned.read(Element::Aggregate(u64::from(*count)), Reader::new(reply), 255);
            assert!(scanned.keys().count() <= usize::from(*count));
        });
    }
}
