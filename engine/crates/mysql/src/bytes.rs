//! Functions that read and append the integers and strings of MySQL's protocol (MySQL Internals, "Protocol Data
//! Types"). Input may be malformed: reading returns errors and never panics.

use base::error::{Failure, Result};

/// The first byte of a length-encoded integer that follows in 2, 3 or 8 more bytes. An integer below 251 has a single
/// byte, which is the integer itself.
const TWO_FOLLOW: u8 = 0xFC;
const THREE_FOLLOW: u8 = 0xFD;
const EIGHT_FOLLOW: u8 = 0xFE;
/// The byte that stands for NULL in a text row, in place of a length.
pub const NULL: u8 = 0xFB;

/// A reader of a packet's fields. It holds the bytes that are not read yet.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(packet: &'a [u8]) -> Self {
        Reader(packet)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Read `count` bytes. Errors of this and all other methods with a `Result`: `protocol` if fewer bytes are left.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub fn until_zero(&mut self) -> Result<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(too_short)?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Ok(text)
    }

    /// Read up to a zero byte, or to the end if there is none: some servers omit the last zero byte.
    pub fn until_zero_or_end(&mut self) -> &'a [u8] {
        self.until_zero().unwrap_or_else(|_| self.rest())
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?[0])
    }

    /// Read a little-endian integer of two bytes.
    pub fn u16(&mut self) -> Result<u16> {
        Ok(self.integer(2)? as u16)
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(self.integer(4)? as u32)
    }

    pub fn u64(&mut self) -> Result<u64> {
        self.integer(8)
    }

    /// Read a length-encoded integer.
    pub fn length(&mut self) -> Result<u64> {
        match self.u8()? {
            TWO_FOLLOW => self.integer(2),
            THREE_FOLLOW => self.integer(3),
            EIGHT_FOLLOW => self.integer(8),
            NULL | 0xFF => Err(Failure::protocol("the answer has an invalid length")),
            small => Ok(u64::from(small)),
        }
    }

    /// Read a length-encoded string.
    pub fn text(&mut self) -> Result<&'a [u8]> {
        let length = self.length()?;
        self.bytes(usize::try_from(length).map_err(|_| too_short())?)
    }

    /// Read a value of a text row. Return None for NULL.
    pub fn text_or_null(&mut self) -> Result<Option<&'a [u8]>> {
        if self.peek() == Some(NULL) {
            return self.u8().map(|_| None);
        }
        self.text().map(Some)
    }

    /// Read a string that follows its length, which is one byte.
    pub fn short_text(&mut self) -> Result<&'a [u8]> {
        let length = self.u8()?;
        self.bytes(length.into())
    }

    fn integer(&mut self, bytes: usize) -> Result<u64> {
        Ok(self.bytes(bytes)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

pub fn append_text(out: &mut Vec<u8>, text: &[u8]) {
    append_length(out, text.len() as u64);
    out.extend_from_slice(text);
}

pub fn append_length(out: &mut Vec<u8>, number: u64) {
    let bytes = number.to_le_bytes();
    let (first, count) = match number {
        0..=250 => return out.push(bytes[0]),
        251..=0xFFFF => (TWO_FOLLOW, 2),
        0x1_0000..=0xFF_FFFF => (THREE_FOLLOW, 3),
        _ => (EIGHT_FOLLOW, 8),
    };
    out.push(first);
    out.extend_from_slice(&bytes[..count]);
}

fn too_short() -> Failure {
    Failure::protocol("the answer is too short")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn length_encoded_integers_of_every_size_are_read() {
        let cases: [(&[u8], u64); 5] = [
            (b"\0", 0),
            (b"\xfa", 250),
            (b"\xfc\xfb\x00", 251),
            (b"\xfd\x00\x00\x01", 65_536),
            (b"\xfe\x00\x00\x00\x01\0\0\0\0", 1 << 24),
        ];
        for (bytes, length) in cases {
            assert_eq!(Reader::new(bytes).length().unwrap(), length);
        }
        assert!(Reader::new(b"\xff").length().is_err() && Reader::new(b"\xfb").length().is_err());
        assert!(Reader::new(b"\xfc\x01").length().is_err(), "cut");
        assert!(Reader::new(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff").text().is_err(), "longer than memory");
    }

    #[test]
    fn string_ends_at_its_zero_byte() {
        let mut reader = Reader::new(b"ab\0c");
        assert_eq!(reader.until_zero().unwrap(), b"ab");
        assert!(reader.until_zero().is_err());
        assert_eq!(reader.until_zero_or_end(), b"c");
        assert!(reader.is_empty());
    }

    proptest! {
        #[test]
        fn reading_a_written_length_encoded_integer_returns_the_original_number(number: u64) {
            let mut out = Vec::new();
            append_length(&mut out, number);
            prop_assert_eq!(Reader::new(&out).length().unwrap(), number);
        }

        #[test]
        fn reading_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = Reader::new(&bytes);
            while !reader.is_empty() && reader.text().is_ok() {}
            let mut reader = Reader::new(&bytes);
            let _ = (reader.u32(), reader.u16(), reader.u8(), reader.until_zero(), reader.length());
        }
    }
}
