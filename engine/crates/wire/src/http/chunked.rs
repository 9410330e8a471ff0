//! Chunked bodies (RFC 9112, 7.1), byte by byte: a chunk's framing may be cut anywhere.

use super::head::LONGEST_HEAD;
use base::error::{Failure, Result};

/// Where in the framing the next byte lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// The first digit of a size.
    Size,
    /// A further digit, or what ends the size.
    MoreSize,
    /// After the digits, up to the line's end: extensions, which mean nothing to us.
    Extension,
    SizeEnd,
    /// The data, `left` bytes of it.
    Data,
    DataReturn,
    DataEnd,
    /// The first byte of a trailer's line, or of the empty line that ends all.
    Trailer,
    MoreTrailer,
    /// The line feed of the empty line.
    LastEnd,
}

/// Reads one chunked body.
#[derive(Debug, Clone)]
pub struct Chunked {
    at: At,
    left: u64,
    /// Framing since the last data: no endless line is waited for.
    framing: usize,
}

/// What some bytes were.
pub struct Taken {
    pub bytes: usize,
    pub data: u64,
    pub ended: bool,
}

impl Chunked {
    /// Before the first size.
    pub fn new() -> Self {
        Chunked { at: At::Size, left: 0, framing: 0 }
    }

    pub fn take(&mut self, bytes: &[u8]) -> Result<Taken> {
        let (mut taken, mut data) = (0, 0);
        while taken < bytes.len() {
            if self.at == At::Data {
                let some = self.left.min((bytes.len() - taken) as u64);
                self.left -= some;
                data += some;
                taken += some as usize;
                if self.left == 0 {
                    self.at = At::DataReturn;
                }
                continue;
            }
            let ended = self.step(bytes[taken])?;
            taken += 1;
            if ended {
                return Ok(Taken { bytes: taken, data, ended });
            }
        }
        Ok(Taken { bytes: taken, data, ended: false })
    }

    /// One byte of framing; whether it was the last.
    fn step(&mut self, byte: u8) -> Result<bool> {
        self.framing += 1;
        if self.framing > LONGEST_HEAD {
            return Err(Failure::protocol("a chunk's size or the trailer is longer than 64 KiB"));
        }
        self.at = match (self.at, byte) {
            (At::Size | At::MoreSize, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.add_digit(byte)?;
                At::MoreSize
            }
            (At::MoreSize | At::Extension, b'\r') => At::SizeEnd,
            (At::MoreSize, b';' | b' ' | b'\t') => At::Extension,
            (At::Extension, byte) if byte != b'\n' => At::Extension,
            (At::SizeEnd, b'\n') if self.left == 0 => At::Trailer,
            (At::SizeEnd, b'\n') => {
                self.framing = 0;
                At::Data
            }
            (At::DataReturn, b'\r') => At::DataEnd,
            (At::DataEnd, b'\n') => At::Size,
            (At::Trailer, b'\r') => At::LastEnd,
            (At::LastEnd, b'\n') => return Ok(true),
            (At::MoreTrailer, b'\n') => At::Trailer,
            (At::Trailer | At::MoreTrailer, _) => At::MoreTrailer,
            (At::Size | At::MoreSize | At::Extension | At::SizeEnd, _) => {
                return Err(Failure::protocol("the response has a chunk whose size is none"));
            }
            (At::DataReturn | At::DataEnd | At::LastEnd | At::Data, _) => {
                return Err(Failure::protocol("the response has a chunk that does not end where it says"));
            }
        };
        Ok(false)
    }

    fn add_digit(&mut self, digit: u8) -> Result<()> {
        let value = u64::from((digit as char).to_digit(16).unwrap_or_default());
        let grown = self.left.checked_mul(16).and_then(|left| left.checked_add(value));
        self.left = grown.ok_or_else(|| Failure::protocol("the response has a chunk whose size is none: too large"))?;
        Ok(())
    }
}
