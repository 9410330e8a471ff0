//! Commands as they are sent (Redis's documentation, "Sending commands to a Redis server"): an array of bulk strings.

use std::io::Write;

/// Append the head of a command of so many arguments, its name included.
pub fn append_head(out: &mut Vec<u8>, arguments: usize) {
    write!(out, "*{arguments}\r\n").expect("memory takes what is written");
}

/// Append an argument.
pub fn append_argument(out: &mut Vec<u8>, argument: &[u8]) {
    append_sized(out, argument.len(), |out| out.extend_from_slice(argument));
}

/// Append an argument of so many bytes, which `body` appends.
pub fn append_sized(out: &mut Vec<u8>, length: usize, body: impl FnOnce(&mut Vec<u8>)) {
    append_length(out, length);
    body(out);
    append_end(out);
}

/// Append the line that stands before an argument's bytes; [`append_end`] stands behind them.
pub fn append_length(out: &mut Vec<u8>, length: usize) {
    write!(out, "${length}\r\n").expect("memory takes what is written");
}

/// Append what stands behind an argument's bytes.
pub fn append_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// Append a whole number as an argument.
pub fn append_number(out: &mut Vec<u8>, number: i64) {
    // The sign and the digits of the longest.
    let mut text = [0; 20];
    let mut rest = &mut text[..];
    write!(rest, "{number}").expect("twenty characters are enough");
    let length = 20 - rest.len();
    append_argument(out, &text[..length]);
}

/// Append a whole command.
pub fn append(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    append_head(out, arguments.len());
    arguments.iter().for_each(|argument| append_argument(out, argument));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::reply::{Element, Reader, length};
    use proptest::prelude::*;

    #[test]
    fn a_command_is_an_array_of_strings() {
        let mut out = Vec::new();
        append(&mut out, &[b"GET", b"key:1"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n");
    }

    proptest! {
        #[test]
        fn a_number_is_written_whole(number in any::<i64>()) {
            let mut out = Vec::new();
            append_number(&mut out, number);
            prop_assert_eq!(length(&out).unwrap(), Some(out.len()));
            let text = number.to_string();
            prop_assert_eq!(Reader::new(&out).next().unwrap(), Some(Element::Bytes(text.as_bytes())));
        }
    }
}
