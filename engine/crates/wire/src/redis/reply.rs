//! Parsing of replies in RESP2 and RESP3 (Redis's documentation, "Redis serialization protocol specification"). A reply
//! consists of elements. An element is a line (`+OK`), or a line with a length and then that many bytes (`$2` and
//! `OK`). An aggregate is a line with a count (`*2`) and then that many elements. This module uses no sockets.

use base::error::{Class, Failure, Result};

/// The end of every line and of every bulk string.
const END: &[u8] = b"\r\n";
/// The maximum length of a line from a server: Redis's `PROTO_INLINE_MAX_SIZE`.
const LONGEST_LINE: usize = 64 * 1024;
/// The maximum length of a string: the default of Redis's `proto-max-bulk-len`.
const LONGEST_BYTES: u64 = 512 * 1024 * 1024;
/// The maximum number of elements in a reply: Redis's limit for a command's arguments, far above the expected number.
const MOST_ELEMENTS: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element<'a> {
    /// A simple string, a number or a boolean, as its text.
    Line(&'a [u8]),
    /// A bulk string, or a verbatim string including its format.
    Bytes(&'a [u8]),
    Error(&'a [u8]),
    Null,
    /// An aggregate, with the number of elements that follow. A map has two elements for each entry.
    Aggregate(u64),
}

/// A reader of elements from received bytes.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(received_bytes: &'a [u8]) -> Self {
        Reader(received_bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Read the next element. If the element is incomplete, return None and consume nothing.
    pub fn next(&mut self) -> Result<Option<Element<'a>>> {
        let Some(&kind) = self.0.first() else { return Ok(None) };
        check(kind)?;
        let Some((line, rest)) = line(&self.0[1..])? else { return Ok(None) };
        let (element, rest) = match kind {
            b'+' | b':' | b',' | b'#' | b'(' => (Element::Line(line), rest),
            b'-' => (Element::Error(line), rest),
            b'_' => (Element::Null, rest),
            b'$' | b'=' | b'!' => match bytes(line, rest)? {
                Some((element, rest)) => (if kind == b'!' { as_error(element) } else { element }, rest),
                None => return Ok(None),
            },
            _ => (aggregate(line, if kind == b'%' { 2 } else { 1 })?, rest),
        };
        self.0 = rest;
        Ok(Some(element))
    }
}

/// Return the length in bytes of the reply that begins here, with nested elements, or None if it is incomplete.
pub fn length(received_bytes: &[u8]) -> Result<Option<usize>> {
    let mut reader = Reader::new(received_bytes);
    // Missing elements are counted instead of visited recursively, so deeply nested replies cannot exhaust the stack.
    let mut missing: u64 = 1;
    while missing > 0 {
        let Some(element) = reader.next()? else { return Ok(None) };
        missing -= 1;
        if let Element::Aggregate(elements) = element {
            missing += elements;
        }
        if missing > MOST_ELEMENTS {
            return Err(Failure::protocol("a reply has more elements than any command requests"));
        }
    }
    Ok(Some(received_bytes.len() - reader.0.len()))
}

/// Read the first element of a complete reply. Errors: the server's error if the reply is an error.
pub fn first<'a>(reader: &mut Reader<'a>) -> Result<Element<'a>> {
    match reader.next()? {
        Some(Element::Error(words)) => Err(failure(words)),
        Some(element) => Ok(element),
        None => Err(Failure::protocol("a reply is shorter than its stated length")),
    }
}

/// Convert an error reply, whose first word determines the class, to a failure. The connection remains usable.
pub fn failure(text: &[u8]) -> Failure {
    let message = String::from_utf8_lossy(text);
    let class = match message.split(' ').next() {
        Some("NOAUTH" | "WRONGPASS" | "NOPERM" | "DENIED") => Class::Authentication,
        // The client sent a password, but the server has no password configured.
        Some("ERR") if message.starts_with("ERR AUTH ") => Class::Authentication,
        // Other errors, such as LOADING, OOM, MOVED, or ERR when the maximum number of clients is reached.
        _ => Class::Server,
    };
    let moved = ["MOVED ", "ASK ", "READONLY "].iter().any(|word| message.starts_with(word));
    Failure { moved, ..Failure::new(class, message) }
}

fn check(kind: u8) -> Result<()> {
    match kind {
        b'+' | b':' | b',' | b'#' | b'(' | b'-' | b'_' | b'$' | b'=' | b'!' | b'*' | b'~' | b'%' => Ok(()),
        b'>' | b'|' => Err(Failure::protocol("the server sent a push message, which was not requested")),
        b';' | b'.' => Err(Failure::protocol("a reply is streamed without a stated length")),
        _ => Err(Failure::protocol("the answer is not a Redis reply")),
    }
}

fn line(received_bytes: &[u8]) -> Result<Option<(&[u8], &[u8])>> {
    let window = &received_bytes[..received_bytes.len().min(LONGEST_LINE + END.len())];
    match window.iter().position(|byte| *byte == b'\r') {
        Some(at) => match received_bytes.get(at + 1) {
            Some(b'\n') => Ok(Some((&received_bytes[..at], &received_bytes[at + END.len()..]))),
            Some(_) => Err(Failure::protocol("a line of a reply does not end with CR LF")),
            None => Ok(None),
        },
        None if window.len() > LONGEST_LINE => Err(Failure::protocol("a line of a reply has no end")),
        None => Ok(None),
    }
}

fn bytes<'a>(line: &[u8], rest: &'a [u8]) -> Result<Option<(Element<'a>, &'a [u8])>> {
    let Some(length) = count(line, LONGEST_BYTES)? else { return Ok(Some((Element::Null, rest))) };
    let length = length as usize;
    let Some((value, after)) = rest.split_at_checked(length) else { return Ok(None) };
    match after.split_at_checked(END.len()) {
        None if END.starts_with(after) => Ok(None),
        Some((END, after)) => Ok(Some((Element::Bytes(value), after))),
        _ => Err(Failure::protocol("a string of a reply does not have its stated length")),
    }
}

fn as_error(element: Element<'_>) -> Element<'_> {
    match element {
        Element::Bytes(text) => Element::Error(text),
        other => other,
    }
}

fn aggregate(line: &[u8], elements_per_entry: u64) -> Result<Element<'static>> {
    Ok(count(line, MOST_ELEMENTS)?.map_or(Element::Null, |entries| Element::Aggregate(elements_per_entry * entries)))
}

/// Parse a length. Return None for -1, which in RESP2 means that there is no value.
fn count(line: &[u8], limit: u64) -> Result<Option<u64>> {
    match line {
        b"-1" => return Ok(None),
        b"?" => return Err(Failure::protocol("a reply is streamed without a stated length")),
        _ => {}
    }
    let more = |length: u64, digit: &u8| length.checked_mul(10)?.checked_add(char::from(*digit).to_digit(10)?.into());
    match line.iter().try_fold(0, more) {
        Some(length) if length <= limit && !line.is_empty() => Ok(Some(length)),
        _ => Err(Failure::protocol("a reply has an invalid length")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn elements(reply: &[u8]) -> Vec<Element<'_>> {
        let mut reader = Reader::new(reply);
        let mut all = Vec::new();
        while !reader.is_empty() {
            all.push(reader.next().unwrap().unwrap());
        }
        all
    }

    #[test]
    fn replies_of_the_specification_are_parsed() {
        use Element::{Aggregate, Bytes, Error, Line, Null};
        for (reply, expected) in [
            (&b"+OK\r\n"[..], vec![Line(b"OK")]),
            (b"-ERR no\r\n", vec![Error(b"ERR no")]),
            (b":-7\r\n", vec![Line(b"-7")]),
            (b"$5\r\na\r\nbc\r\n", vec![Bytes(b"a\r\nbc")]),
            (b"$0\r\n\r\n", vec![Bytes(b"")]),
            (b"$-1\r\n", vec![Null]),
            (b"*-1\r\n", vec![Null]),
            (b"_\r\n", vec![Null]),
            (b",1.5\r\n", vec![Line(b"1.5")]),
            (b"#t\r\n", vec![Line(b"t")]),
            (b"!6\r\nERR no\r\n", vec![Error(b"ERR no")]),
            (b"=6\r\ntxt:ab\r\n", vec![Bytes(b"txt:ab")]),
            (b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", vec![Aggregate(2), Bytes(b"a"), Aggregate(1), Line(b"1")]),
            (b"%1\r\n+proto\r\n:3\r\n", vec![Aggregate(2), Line(b"proto"), Line(b"3")]),
            (b"~0\r\n", vec![Aggregate(0)]),
        ] {
            assert_eq!(elements(reply), expected, "{}", reply.escape_ascii());
            assert_eq!(length(reply).unwrap(), Some(reply.len()));
        }
    }

    #[test]
    fn incomplete_reply_has_no_length_yet() {
        let reply = b"*2\r\n%1\r\n$3\r\nabc\r\n_\r\n$4\r\n\r\n\r\n\r\n";
        for end in 0..reply.len() {
            assert_eq!(length(&reply[..end]).unwrap(), None, "{end}");
        }
        assert_eq!(length(&[reply, &b"+more"[..]].concat()).unwrap(), Some(reply.len()));
    }

    #[test]
    fn invalid_reply_is_refused_at_its_first_invalid_bytes() {
        let endless = [b"+", &[b'a'; LONGEST_LINE + 1][..]].concat();
        for received_bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n",
            b"\x15\x03\x01\0\x02\x02\x46",
            b"$536870913\r\n",
            b"*1048577\r\n",
            b"%1048576\r\n",
            b"$-2\r\n",
            b"$+1\r\n",
            b"$\r\n",
            b"$18446744073709551616\r\n",
            b"$1\r\nabc",
            b"+OK\rno",
            b"$?\r\n;1\r\na\r\n;0\r\n",
            b"*?\r\n:1\r\n.\r\n",
            b">1\r\n+invalidate\r\n",
            b"|1\r\n+ttl\r\n:1\r\n:2\r\n",
            &endless,
        ] {
            assert_eq!(length(received_bytes).unwrap_err().class, Class::Protocol, "{}", received_bytes.escape_ascii());
        }
    }

    #[test]
    fn endlessly_nested_replies_are_refused_without_recursion() {
        let deep = b"*1\r\n".repeat(1_000_000);
        assert_eq!(length(&deep).unwrap(), None);
        let wide = b"*1000000\r\n".repeat(3);
        assert_eq!(length(&wide).unwrap_err().class, Class::Protocol);
    }

    #[test]
    fn first_word_of_a_redis_error_determines_its_class() {
        for (words, class, moved) in [
            (&b"NOAUTH Authentication required."[..], Class::Authentication, false),
            (b"WRONGPASS invalid username-password pair or user is disabled.", Class::Authentication, false),
            (b"NOPERM this user has no permissions to run the 'get' command", Class::Authentication, false),
            (b"ERR AUTH <password> called without any password configured", Class::Authentication, false),
            (b"LOADING Redis is loading the dataset in memory", Class::Server, false),
            (b"OOM command not allowed when used memory > 'maxmemory'.", Class::Server, false),
            (b"MOVED 3999 127.0.0.1:6381", Class::Server, true),
            (b"READONLY You can't write against a read only replica.", Class::Server, true),
            (b"ERR max number of clients reached", Class::Server, false),
            (b"", Class::Server, false),
        ] {
            let failure = failure(words);
            assert_eq!((failure.class, failure.moved), (class, moved), "{failure}");
        }
    }

    proptest! {
        #[test]
        fn bulk_strings_may_have_any_bytes(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..12)) {
            let mut reply = format!("*{}\r\n", values.len()).into_bytes();
            for value in &values {
                reply.extend_from_slice(format!("${}\r\n", value.len()).as_bytes());
                reply.extend_from_slice(value);
                reply.extend_from_slice(END);
            }
            prop_assert_eq!(length(&reply).unwrap(), Some(reply.len()));
            let read = elements(&reply);
            prop_assert_eq!(read[0], Element::Aggregate(values.len() as u64));
            for (value, element) in values.iter().zip(&read[1..]) {
                prop_assert_eq!(*element, Element::Bytes(value));
            }
        }
    }

    /// Fuzzing: `cargo test` uses a fixed number of inputs, `cargo bolero test` an unlimited number.
    #[test]
    fn computed_length_of_a_reply_in_arbitrary_bytes_is_exact() {
        bolero::check!().with_iterations(2000).for_each(|bytes: &[u8]| {
            if let Ok(Some(whole)) = length(bytes) {
                assert!((3..=bytes.len()).contains(&whole));
                assert_eq!(length(&bytes[..whole]).unwrap(), Some(whole));
                assert_eq!(length(&bytes[..whole - 1]).unwrap(), None);
            }
            failure(bytes);
        });
    }

    #[test]
    fn computed_length_of_a_nested_reply_is_exact() {
        const ELEMENTS: [&[u8]; 16] = [
            b"*2\r\n",
            b"%1\r\n",
            b"~3\r\n",
            b"*0\r\n",
            b"$-1\r\n",
            b"$3\r\nabc\r\n",
            b"$2\r\na",
            b"_\r\n",
            b":1\r\n",
            b"+OK\r\n",
            b"-ERR\r\n",
            b"!1\r\nx\r\n",
            b"=4\r\ntxt:\r\n",
            b"$?\r\n",
            b">1\r\n",
            b"\r",
        ];
        bolero::check!().with_iterations(2000).with_type().for_each(|chosen: &Vec<u8>| {
            let bytes: Vec<u8> = chosen.iter().flat_map(|index| ELEMENTS[usize::from(*index) % 16]).copied().collect();
            if let Ok(Some(whole)) = length(&bytes) {
                let mut reader = Reader::new(&bytes[..whole]);
                while reader.next().unwrap().is_some() {}
                assert!(reader.is_empty());
            }
        });
    }
}
