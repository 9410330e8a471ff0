//! A connection that sends commands and receives replies, with reusable buffers.
//!
//! A command is sent as an array of bulk strings (Redis's documentation, "Sending commands to a Redis server").

use super::reply::{self, Element, Reader};
use crate::buffered::Buffered;
use base::error::{Class, Failure, Result};
use net::transport::Stream;

/// A connection to a Redis server. [`Channel::ask`] or [`Channel::ask_all`] sends the commands in [`Channel::request`].
pub struct Channel {
    pub(super) io: Buffered,
}

impl Channel {
    pub fn new(stream: Stream) -> Self {
        Channel { io: Buffered::new(stream) }
    }

    pub fn request(&mut self) -> &mut Vec<u8> {
        self.io.outbox.clear();
        &mut self.io.outbox
    }

    /// Send the command in the outbox. Call `read` with the first element of the reply and a reader of the other
    /// elements, and return its result.
    pub async fn ask<T>(&mut self, read: impl FnOnce(Element<'_>, Reader<'_>) -> Result<T>) -> Result<T> {
        self.io.send().await?;
        match self.take(read).await {
            Err(failure) if failure.class != Class::Server => Err(failure),
            result => self.io.check_idle().and(result),
        }
    }

    /// Send the outbox, a pipeline of `commands` commands, in one write. Pass each reply to `read`. A server's error is
    /// returned only after all replies, so that the connection can be used again.
    pub async fn ask_all(
        &mut self,
        commands: usize,
        mut read: impl FnMut(Element<'_>, Reader<'_>) -> Result<()>,
    ) -> Result<()> {
        self.io.send().await?;
        let mut outcome = Ok(());
        for _ in 0..commands {
            match self.take(&mut read).await {
                Err(failure) if failure.class != Class::Server => return Err(failure),
                result => outcome = outcome.and(result),
            }
        }
        self.io.check_idle().and(outcome)
    }

    async fn take<T>(&mut self, read: impl FnOnce(Element<'_>, Reader<'_>) -> Result<T>) -> Result<T> {
        let reply = loop {
            match reply::length(self.io.received_bytes())? {
                Some(length) => break self.io.take(length),
                None => self.io.fill().await?,
            }
        };
        let mut reader = Reader::new(self.io.at(reply));
        let first = reply::first(&mut reader)?;
        read(first, reader)
    }
}

pub fn ok(element: Element<'_>, _rest: Reader<'_>) -> Result<()> {
    match element {
        Element::Line(b"OK") => Ok(()),
        _ => Err(Failure::protocol("the answer is not OK")),
    }
}

pub fn number(element: Element<'_>, _rest: Reader<'_>) -> Result<i64> {
    let Element::Line(text) = element else { return Err(not_a_number()) };
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(not_a_number)
}

fn not_a_number() -> Failure {
    Failure::protocol("the answer is not a number")
}

const LONGEST_NUMBER: usize = 20;

/// Append the beginning of a command, such as `*3`. `arguments` is the number of its arguments, including its name.
pub fn append_head(out: &mut Vec<u8>, arguments: usize) {
    out.push(b'*');
    append_digits(out, arguments as u64, 1);
    append_end(out);
}

pub fn append_argument(out: &mut Vec<u8>, argument: &[u8]) {
    append_length(out, argument.len());
    out.extend_from_slice(argument);
    append_end(out);
}

/// Append the line before an argument's bytes, such as `$5`. The caller appends the bytes and calls [`append_end`].
pub fn append_length(out: &mut Vec<u8>, length: usize) {
    out.push(b'$');
    append_digits(out, length as u64, 1);
    append_end(out);
}

pub fn append_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

pub fn append_number(out: &mut Vec<u8>, number: i64) {
    append_length(out, usize::from(number < 0) + digits(number.unsigned_abs(), 1));
    if number < 0 {
        out.push(b'-');
    }
    append_digits(out, number.unsigned_abs(), 1);
    append_end(out);
}

/// Return the number of digits with which [`append_digits`] writes a number.
pub fn digits(number: u64, min_digits: usize) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1).max(min_digits)
}

/// Append a number's digits, with leading zeros up to `min_digits`. This is faster than `std::fmt`, which would take a
/// fifth of the time of a whole pipeline.
pub fn append_digits(out: &mut Vec<u8>, number: u64, min_digits: usize) {
    let (mut text, mut rest) = ([b'0'; LONGEST_NUMBER], number);
    let from = LONGEST_NUMBER - digits(number, min_digits);
    for digit in text[from..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&text[from..]);
}

pub fn append(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    append_head(out, arguments.len());
    arguments.iter().for_each(|argument| append_argument(out, argument));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::reply::length;
    use proptest::prelude::*;

    #[test]
    fn reply_of_an_unexpected_kind_is_refused() {
        let rest = Reader::new(b"");
        ok(Element::Line(b"OK"), rest).unwrap();
        assert_eq!(number(Element::Line(b"-3"), rest).unwrap(), -3);
        for element in [Element::Line(b"QUEUED"), Element::Bytes(b"OK"), Element::Null, Element::Aggregate(0)] {
            assert_eq!(ok(element, rest).unwrap_err().class, Class::Protocol);
            assert_eq!(number(element, rest).unwrap_err().class, Class::Protocol);
        }
    }

    #[test]
    fn command_is_an_array_of_strings() {
        let mut out = Vec::new();
        append(&mut out, &[b"GET", b"key:1"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n");
    }

    proptest! {
        #[test]
        fn numbers_in_commands_are_written_with_all_their_digits(number in any::<i64>()) {
            let mut out = Vec::new();
            append_number(&mut out, number);
            prop_assert_eq!(length(&out).unwrap(), Some(out.len()));
            let text = number.to_string();
            prop_assert_eq!(Reader::new(&out).next().unwrap(), Some(Element::Bytes(text.as_bytes())));
        }
    }
}
