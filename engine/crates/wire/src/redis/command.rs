//! Commands as they are sent (Redis's documentation, "Sending commands to a Redis server"): an array of bulk strings.

/// The digits of the largest number, and its sign.
const LONGEST_NUMBER: usize = 20;

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

/// Append the line that stands before an argument's bytes; [`append_end`] stands behind them.
pub fn append_length(out: &mut Vec<u8>, length: usize) {
    out.push(b'$');
    append_digits(out, length as u64, 1);
    append_end(out);
}

/// Append what stands behind an argument's bytes.
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

/// How many digits [`append_digits`] appends.
pub fn digits(number: u64, fewest: usize) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1).max(fewest)
}

/// Append a number's digits, after zeros where they are fewer: `std::fmt` took a fifth of a pipeline's time.
pub fn append_digits(out: &mut Vec<u8>, number: u64, fewest: usize) {
    let (mut text, mut rest) = ([b'0'; LONGEST_NUMBER], number);
    let from = LONGEST_NUMBER - digits(number, fewest);
    for place in text[from..].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
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
