//! Replies of RESP2 and RESP3 as bytes (Redis's documentation, "Redis serialization protocol specification"): elements, each a
//! line, or a line and so many bytes; an aggregate is a line and the elements that follow it. Nothing here reads or writes a
//! socket.

use base::error::{Class, Failure, Result};

/// Every line, and the bytes that a length was said of, end so.
const END: &[u8] = b"\r\n";
/// Redis's own `PROTO_INLINE_MAX_SIZE`: no line of a server's is longer.
const LONGEST_LINE: usize = 64 * 1024;
/// Redis's `proto-max-bulk-len`, unless it was changed.
const LONGEST_BYTES: u64 = 512 * 1024 * 1024;
/// Redis takes no command of more arguments; what we ask has fewer elements by far.
const MOST_ELEMENTS: u64 = 1024 * 1024;

/// What a reply is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element<'a> {
    /// A simple string, or a number or a boolean as it is written.
    Line(&'a [u8]),
    /// A bulk string, or a verbatim one with its format before it.
    Bytes(&'a [u8]),
    Error(&'a [u8]),
    Null,
    /// So many elements follow: of a map two for each entry.
    Aggregate(u64),
}

/// What is still to be read of replies.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(come: &'a [u8]) -> Self {
        Reader(come)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next element; None, where it has not come whole. Then nothing is taken.
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

/// The length of the reply that begins here, all that is nested in it included; None, where it has not come whole.
pub fn length(come: &[u8]) -> Result<Option<usize>> {
    let mut reader = Reader::new(come);
    // Counted instead of nested: no depth of a server's uses up our stack.
    let mut wanted: u64 = 1;
    while wanted > 0 {
        let Some(element) = reader.next()? else { return Ok(None) };
        wanted -= 1;
        if let Element::Aggregate(elements) = element {
            wanted += elements;
        }
        if wanted > MOST_ELEMENTS {
            return Err(Failure::protocol("a reply has more elements than any was asked for"));
        }
    }
    Ok(Some(come.len() - reader.0.len()))
}

/// The only element of a whole reply, or the first of its elements.
pub fn first<'a>(reader: &mut Reader<'a>) -> Result<Element<'a>> {
    match reader.next()? {
        Some(Element::Error(words)) => Err(failure(words)),
        Some(element) => Ok(element),
        None => Err(Failure::protocol("a reply holds less than it says")),
    }
}

/// What a server says against a command, by the word that an error begins with. One that is an answer like another leaves
/// the connection as it was.
pub fn failure(words: &[u8]) -> Failure {
    let said = String::from_utf8_lossy(words);
    let class = match said.split(' ').next() {
        Some("NOAUTH" | "WRONGPASS" | "NOPERM" | "DENIED") => Class::Authentication,
        // That no password is set at all, and one was given.
        Some("ERR") if said.starts_with("ERR AUTH ") => Class::Authentication,
        // LOADING, OOM, MOVED, ERR max number of clients reached, and whatever else.
        _ => Class::Server,
    };
    let moved = ["MOVED ", "ASK ", "READONLY "].iter().any(|word| said.starts_with(word));
    Failure { moved, ..Failure::new(class, said) }
}

fn check(kind: u8) -> Result<()> {
    match kind {
        b'+' | b':' | b',' | b'#' | b'(' | b'-' | b'_' | b'$' | b'=' | b'!' | b'*' | b'~' | b'%' => Ok(()),
        b'>' | b'|' => Err(Failure::protocol("the server says what nobody has asked for")),
        b';' | b'.' => Err(Failure::protocol("a reply comes in pieces of no stated length")),
        _ => Err(Failure::protocol("the answer is not Redis's")),
    }
}

fn line(come: &[u8]) -> Result<Option<(&[u8], &[u8])>> {
    let window = &come[..come.len().min(LONGEST_LINE + END.len())];
    match window.iter().position(|byte| *byte == b'\r') {
        Some(at) => match come.get(at + 1) {
            Some(b'\n') => Ok(Some((&come[..at], &come[at + END.len()..]))),
            Some(_) => Err(Failure::protocol("a line of a reply does not end as lines do")),
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
        _ => Err(Failure::protocol("a string of a reply is not as long as it says")),
    }
}

fn as_error(element: Element<'_>) -> Element<'_> {
    match element {
        Element::Bytes(words) => Element::Error(words),
        other => other,
    }
}

fn aggregate(line: &[u8], each: u64) -> Result<Element<'static>> {
    Ok(count(line, MOST_ELEMENTS)?.map_or(Element::Null, |entries| Element::Aggregate(each * entries)))
}

/// A length; None for RESP2's -1, which stands for no value.
fn count(line: &[u8], most: u64) -> Result<Option<u64>> {
    match line {
        b"-1" => return Ok(None),
        b"?" => return Err(Failure::protocol("a reply comes in pieces of no stated length")),
        _ => {}
    }
    let more = |length: u64, digit: &u8| length.checked_mul(10)?.checked_add(char::from(*digit).to_digit(10)?.into());
    match line.iter().try_fold(0, more) {
        Some(length) if length <= most && !line.is_empty() => Ok(Some(length)),
        _ => Err(Failure::protocol("a reply tells a length that none has")),
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
    fn replies_are_those_of_the_specification() {
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
    fn a_reply_that_has_not_come_whole_is_waited_for() {
        let reply = b"*2\r\n%1\r\n$3\r\nabc\r\n_\r\n$4\r\n\r\n\r\n\r\n";
        for end in 0..reply.len() {
            assert_eq!(length(&reply[..end]).unwrap(), None, "{end}");
        }
        assert_eq!(length(&[reply, &b"+more"[..]].concat()).unwrap(), Some(reply.len()));
    }

    #[test]
    fn what_is_no_reply_is_told_soon() {
        let endless = [b"+", &[b'a'; LONGEST_LINE + 1][..]].concat();
        for come in [
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
            assert_eq!(length(come).unwrap_err().class, Class::Protocol, "{}", come.escape_ascii());
        }
    }

    /// Each level holds another: what is nested without end is refused without a stack.
    #[test]
    fn nesting_needs_no_stack() {
        let deep = b"*1\r\n".repeat(1_000_000);
        assert_eq!(length(&deep).unwrap(), None);
        let wide = b"*1000000\r\n".repeat(3);
        assert_eq!(length(&wide).unwrap_err().class, Class::Protocol);
    }

    #[test]
    fn errors_have_classes_by_their_first_word() {
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
        fn any_bytes_come_back(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
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

    /// Fuzzing: a fixed number of inputs with `cargo test`, without end with `cargo bolero test`.
    #[test]
    fn fuzz_arbitrary_bytes() {
        bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
            if let Ok(Some(whole)) = length(bytes) {
                assert!((3..=bytes.len()).contains(&whole));
                assert_eq!(length(&bytes[..whole]).unwrap(), Some(whole));
                assert_eq!(length(&bytes[..whole - 1]).unwrap(), None);
            }
            failure(bytes);
        });
    }

    #[test]
    fn fuzz_elements_in_any_order() {
        const PIECES: [&[u8]; 16] = [
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
        bolero::check!().with_iterations(20_000).with_type().for_each(|chosen: &Vec<u8>| {
            let bytes: Vec<u8> = chosen.iter().flat_map(|piece| PIECES[usize::from(*piece) % 16]).copied().collect();
            if let Ok(Some(whole)) = length(&bytes) {
                let mut reader = Reader::new(&bytes[..whole]);
                while reader.next().unwrap().is_some() {}
                assert!(reader.is_empty());
            }
        });
    }
}
