//! Parsing of responses that arrive in parts of any size (RFC 9112). Bodies are counted and not kept.

use base::error::{Class, Failure, Result};
use httparse::{EMPTY_HEADER, Header, ParserConfig};
use std::mem::MaybeUninit;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub keep_alive: bool,
    pub bytes: u64,
    pub body_bytes: u64,
}

/// A parser of the consecutive responses on one connection.
#[derive(Debug, Default)]
pub struct Reader {
    state: State,
    /// The received part of a header that is still incomplete.
    partial: Vec<u8>,
    /// The last header and its parsed content. If the next header is equal, it is not parsed again. Most headers change
    /// only once a second, when the date in them changes.
    last: Option<Known>,
    bytes: u64,
    body_bytes: u64,
}

#[derive(Debug)]
struct Known {
    text: Box<[u8]>,
    head: Head,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    Length(Head, u64),
    Chunked(Head, Chunked),
    UntilClose(Head),
}

impl Reader {
    /// Process the next bytes of a response, at least one byte. If the response is now complete, return it and the
    /// number of `bytes` that belong to it. Otherwise return None.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<(Response, usize)>> {
        let mut rest = bytes;
        loop {
            let processed = match &mut self.state {
                State::Head => match self.take_head(rest)? {
                    Some(processed) => processed,
                    None => return Ok(None),
                },
                State::Length(_, left) => {
                    let some = (*left).min(rest.len() as u64);
                    *left -= some;
                    self.body_bytes += some;
                    self.bytes += some;
                    some as usize
                }
                State::Chunked(head, chunked) => {
                    let processed = chunked.take(rest)?;
                    self.body_bytes += processed.data;
                    self.bytes += processed.bytes as u64;
                    if processed.ended {
                        self.state = State::Length(*head, 0);
                    }
                    processed.bytes
                }
                State::UntilClose(_) => {
                    self.body_bytes += rest.len() as u64;
                    self.bytes += rest.len() as u64;
                    rest.len()
                }
            };
            rest = &rest[processed..];
            match self.state {
                State::Length(head, 0) => return Ok(Some((self.whole(head), bytes.len() - rest.len()))),
                _ if rest.is_empty() => return Ok(None),
                _ => {}
            }
        }
    }

    /// Process the end of the connection, which completes a body without a stated length. Errors: class `closed` or
    /// `short_body` if the response is incomplete.
    pub fn end(&mut self) -> Result<Response> {
        match self.state {
            State::UntilClose(head) => Ok(self.whole(head)),
            State::Head if self.bytes == 0 && self.partial.is_empty() => Err(Failure::closed()),
            State::Head => {
                Err(Failure::new(Class::Closed, "the server closed the connection within a response's header"))
            }
            State::Length(_, left) => Err(short(format!("{left} bytes were missing"))),
            State::Chunked(..) => Err(short("the last chunk was missing".into())),
        }
    }

    /// Return the failure of a TLS connection that ended without `close_notify`. An attacker could have cut the
    /// connection, so even a body that lasts until the end of the connection counts as incomplete.
    pub fn cut(&mut self) -> Failure {
        self.end().err().unwrap_or_else(|| short("the body's end was not announced".into()))
    }

    pub fn software(&self) -> Option<String> {
        software(&self.last.as_ref()?.text)
    }

    fn whole(&mut self, head: Head) -> Response {
        let Head { status, keep_alive, .. } = head;
        let response = Response { status, keep_alive, bytes: self.bytes, body_bytes: self.body_bytes };
        (self.state, self.bytes, self.body_bytes) = (State::Head, 0, 0);
        response
    }

    /// Return the number of `bytes` up to the header's end. If `bytes` does not contain the end, store `bytes` and
    /// return None.
    fn take_head(&mut self, bytes: &[u8]) -> Result<Option<usize>> {
        let known = self.partial.len();
        // Nearly every header arrives in one read and is parsed in place.
        let (head, length) = if known == 0 {
            match self.recognise(bytes) {
                Some(offset) => offset,
                None => {
                    check_beginning(bytes)?;
                    let end = end(&bytes[..bytes.len().min(LONGEST_HEAD)], 0);
                    let Some(length) = end else { return self.keep(bytes) };
                    (self.read(&bytes[..length])?, length)
                }
            }
        } else {
            let room = LONGEST_HEAD - known;
            self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
            check_beginning(&self.partial)?;
            let Some(length) = end(&self.partial, known) else { return self.check_length(bytes.len() > room) };
            let header = std::mem::take(&mut self.partial);
            (self.read(&header[..length])?, length)
        };
        self.bytes += length as u64;
        self.state = match head.body {
            Body::Length(left) => State::Length(head, left),
            Body::Chunked => State::Chunked(head, Chunked::new()),
            Body::UntilClose => State::UntilClose(head),
            Body::Interim => State::Head,
        };
        Ok(Some(length - known))
    }

    fn recognise(&self, bytes: &[u8]) -> Option<(Head, usize)> {
        let known = self.last.as_ref()?;
        bytes.starts_with(&known.text).then_some((known.head, known.text.len()))
    }

    fn read(&mut self, text: &[u8]) -> Result<Head> {
        let head = read(text)?;
        match &mut self.last {
            // A header that differs only in its date has the same length, so the allocation is reused.
            Some(known) if known.text.len() == text.len() => {
                known.text.copy_from_slice(text);
                known.head = head;
            }
            last => *last = Some(Known { text: text.into(), head }),
        }
        Ok(head)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<Option<usize>> {
        self.partial.extend_from_slice(&bytes[..bytes.len().min(LONGEST_HEAD)]);
        self.check_length(bytes.len() > LONGEST_HEAD)
    }

    fn check_length(&self, too_long: bool) -> Result<Option<usize>> {
        if too_long { Err(Failure::protocol("the response's header is longer than 64 KiB")) } else { Ok(None) }
    }
}

fn short(detail: String) -> Failure {
    Failure::new(Class::ShortBody, format!("the server closed the connection within a response's body: {detail}"))
}

/// The maximum length of a header in bytes.
pub const LONGEST_HEAD: usize = 64 * 1024;
const MOST_FIELDS: usize = 128;
const BEGINNING: &[u8] = b"HTTP/1.";
/// The first byte of a TLS alert (RFC 8446, 5.1), with which a TLS server may answer a plain request.
const TLS_ALERT: u8 = 21;
/// The maximum number of bytes that an error message quotes from an invalid response.
const QUOTED: usize = 24;
/// The maximum length in bytes of the header field Server. A longer value is cut.
const LONGEST_SOFTWARE: usize = 100;

/// The way in which the end of a response's body is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    Length(u64),
    Chunked,
    UntilClose,
    /// There is no body. This is an interim response, and the final one follows.
    Interim,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub body: Body,
    pub keep_alive: bool,
}

/// Return the length of the header if it ends within `bytes`. Otherwise return None. The first `known` bytes were
/// already searched and do not contain the end.
pub fn end(bytes: &[u8], known: usize) -> Option<usize> {
    // A header ends with "\n\r\n" or "\n\n". The first line feed may be among the known bytes.
    let mut from = known.saturating_sub(2);
    while let Some(offset) = bytes[from..].iter().position(|&byte| byte == b'\n') {
        let after = from + offset + 1;
        match &bytes[after..] {
            [b'\n', ..] => return Some(after + 1),
            [b'\r', b'\n', ..] => return Some(after + 2),
            _ => from = after,
        }
    }
    None
}

pub fn check_beginning(bytes: &[u8]) -> Result<()> {
    let checked = bytes.len().min(BEGINNING.len());
    if bytes[..checked] == BEGINNING[..checked] {
        return Ok(());
    }
    if bytes.first() == Some(&TLS_ALERT) {
        let detail = "the server answered a plain request with a TLS alert: this port requires TLS";
        return Err(Failure::new(Class::PlainRefused, detail));
    }
    let quoted = bytes[..bytes.len().min(QUOTED)].escape_ascii();
    Err(Failure::protocol(format!("the answer is not HTTP/1: it begins with \"{quoted}\"")))
}

pub fn read(bytes: &[u8]) -> Result<Head> {
    let mut room = [const { MaybeUninit::<Header>::uninit() }; MOST_FIELDS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut room);
    match parsed {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        Ok(_) => return Err(Failure::protocol("the response's header is not HTTP/1: it ends too early")),
        Err(error) => return Err(Failure::protocol(format!("the response's header is not HTTP/1: {error}"))),
    }
    let status = response.code.unwrap_or_default();
    let is_http_1_1 = response.version == Some(1);
    let mut fields = Fields::default();
    for header in response.headers.iter() {
        fields.take(header)?;
    }
    let body = fields.body(status)?;
    let keep_alive = !fields.close && (is_http_1_1 || fields.keep_alive) && body != Body::UntilClose;
    Ok(Head { status, body, keep_alive })
}

pub fn software(bytes: &[u8]) -> Option<String> {
    let mut room = [EMPTY_HEADER; MOST_FIELDS];
    let mut response = httparse::Response::new(&mut room);
    response.parse(bytes).ok()?;
    let server = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("server"))?;
    Some(printable(server.value))
}

/// The header fields that determine the body's length and whether the connection stays open.
#[derive(Default)]
struct Fields {
    length: Option<u64>,
    chunked: Option<bool>,
    close: bool,
    keep_alive: bool,
}

impl Fields {
    fn take(&mut self, header: &Header<'_>) -> Result<()> {
        let name = header.name;
        if name.eq_ignore_ascii_case("content-length") {
            for value in header.value.split(|&byte| byte == b',') {
                let length = content_length(value.trim_ascii())?;
                if self.length.is_some_and(|other| other != length) {
                    return Err(Failure::protocol("the response has conflicting lengths"));
                }
                self.length = Some(length);
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            let last = header.value.rsplit(|&byte| byte == b',').next().unwrap_or_default();
            self.chunked = Some(last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
        } else if name.eq_ignore_ascii_case("connection") {
            for option in header.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                self.close |= option.eq_ignore_ascii_case(b"close");
                self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }

    /// Return how the end of the body is recognised (RFC 9112, 6.3).
    fn body(&self, status: u16) -> Result<Body> {
        match (status, self.chunked, self.length) {
            (101, _, _) => Err(Failure::protocol("the server switches to another protocol without a request")),
            (100..200, _, _) => Ok(Body::Interim),
            (204 | 304, _, _) => Ok(Body::Length(0)),
            (_, Some(_), Some(_)) => {
                Err(Failure::protocol("the response has conflicting lengths: Content-Length and Transfer-Encoding"))
            }
            (_, Some(true), None) => Ok(Body::Chunked),
            (_, None, Some(length)) => Ok(Body::Length(length)),
            (_, Some(false) | None, None) => Ok(Body::UntilClose),
        }
    }
}

fn content_length(value: &[u8]) -> Result<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let length = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|value| value.parse().ok());
    length.ok_or_else(|| Failure::protocol("the response's Content-Length is not a number"))
}

fn printable(value: &[u8]) -> String {
    let value = &value[..value.len().min(LONGEST_SOFTWARE)];
    String::from_utf8_lossy(value).replace(char::is_control, " ")
}

/// The part of a chunked body to which the next byte belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// The first digit of a size.
    Size,
    /// A further digit of a size, or the end of the size.
    MoreSize,
    /// The rest of the line after the size: extensions, which are ignored.
    Extension,
    SizeEnd,
    /// The data of a chunk. [`Chunked::left`] is the number of its bytes that are still to come.
    Data,
    DataReturn,
    DataEnd,
    /// The first byte of a trailer line or of the final empty line.
    Trailer,
    MoreTrailer,
    /// The line feed of the final empty line.
    LastEnd,
}

/// A parser of a chunked body (RFC 9112, 7.1). It counts the data and finds the end of the body.
#[derive(Debug, Clone)]
pub struct Chunked {
    position: Position,
    left: u64,
    /// The number of bytes since the last byte of data: sizes, line ends and trailer. It is limited, because a server
    /// could otherwise send an endless line.
    framing: usize,
}

pub struct Progress {
    pub bytes: usize,
    pub data: u64,
    pub ended: bool,
}

impl Chunked {
    pub fn new() -> Self {
        Chunked { position: Position::Size, left: 0, framing: 0 }
    }

    pub fn take(&mut self, bytes: &[u8]) -> Result<Progress> {
        let (mut processed, mut data) = (0, 0);
        while processed < bytes.len() {
            if self.position == Position::Data {
                let some = self.left.min((bytes.len() - processed) as u64);
                self.left -= some;
                data += some;
                processed += some as usize;
                if self.left == 0 {
                    self.position = Position::DataReturn;
                }
                continue;
            }
            let ended = self.step(bytes[processed])?;
            processed += 1;
            if ended {
                return Ok(Progress { bytes: processed, data, ended });
            }
        }
        Ok(Progress { bytes: processed, data, ended: false })
    }

    fn step(&mut self, byte: u8) -> Result<bool> {
        self.framing += 1;
        if self.framing > LONGEST_HEAD {
            return Err(Failure::protocol("a chunk's size or the trailer is longer than 64 KiB"));
        }
        self.position = match (self.position, byte) {
            (Position::Size | Position::MoreSize, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.add_digit(byte)?;
                Position::MoreSize
            }
            (Position::MoreSize | Position::Extension, b'\r') => Position::SizeEnd,
            (Position::MoreSize, b';' | b' ' | b'\t') => Position::Extension,
            (Position::Extension, byte) if byte != b'\n' => Position::Extension,
            (Position::SizeEnd, b'\n') if self.left == 0 => Position::Trailer,
            (Position::SizeEnd, b'\n') => {
                self.framing = 0;
                Position::Data
            }
            (Position::DataReturn, b'\r') => Position::DataEnd,
            (Position::DataEnd, b'\n') => Position::Size,
            (Position::Trailer, b'\r') => Position::LastEnd,
            (Position::LastEnd, b'\n') => return Ok(true),
            (Position::MoreTrailer, b'\n') => Position::Trailer,
            (Position::Trailer | Position::MoreTrailer, _) => Position::MoreTrailer,
            (Position::Size | Position::MoreSize | Position::Extension | Position::SizeEnd, _) => {
                return Err(Failure::protocol("the response has a chunk with an invalid size"));
            }
            (Position::DataReturn | Position::DataEnd | Position::LastEnd | Position::Data, _) => {
                return Err(Failure::protocol("the response has a chunk that does not end after its stated size"));
            }
        };
        Ok(false)
    }

    fn add_digit(&mut self, digit: u8) -> Result<()> {
        let value = u64::from((digit as char).to_digit(16).unwrap_or_default());
        let grown = self.left.checked_mul(16).and_then(|left| left.checked_add(value));
        self.left =
            grown.ok_or_else(|| Failure::protocol("the response has a chunk with an invalid size: too large"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Read these parts and the end of the connection. Return the response and its length, or the error's class.
    fn read<'a>(parts: impl Iterator<Item = &'a [u8]>) -> std::result::Result<(Response, usize), Class> {
        let (mut reader, mut before) = (Reader::default(), 0);
        for part in parts {
            match reader.take(part) {
                Ok(Some((response, length))) => return Ok((response, before + length)),
                Ok(None) => before += part.len(),
                Err(failure) => return Err(failure.class),
            }
        }
        reader.end().map(|response| (response, before)).map_err(|failure| failure.class)
    }

    fn whole(bytes: &[u8]) -> std::result::Result<(Response, usize), Class> {
        read(std::iter::once(bytes).filter(|bytes| !bytes.is_empty()))
    }

    fn body_length(header: &str, rest: &str) -> std::result::Result<u64, Class> {
        whole(format!("HTTP/1.1 200 OK\r\n{header}\r\n{rest}").as_bytes()).map(|(response, _)| response.body_bytes)
    }

    fn is_kept_alive(first: &str, header: &str) -> bool {
        whole(format!("{first}\r\nContent-Length: 0\r\n{header}\r\n").as_bytes()).unwrap().0.keep_alive
    }

    #[test]
    fn header_is_parsed_whether_or_not_it_equals_the_previous_header() {
        let mut reader = Reader::default();
        for status in [200, 200, 404, 404, 200] {
            let bytes = format!("HTTP/1.1 {status} x\r\nContent-Length: 2\r\n\r\nOK").into_bytes();
            let (response, length) = reader.take(&bytes).unwrap().unwrap();
            assert_eq!((response.status, response.body_bytes, length), (status, 2, bytes.len()));
        }
    }

    #[test]
    fn server_name_is_read_even_if_the_header_arrives_in_pieces() {
        let named = b"HTTP/1.1 200 OK\r\nserver: s\tx\r\nContent-Length: 0\r\n\r\n";
        for length in [named.len(), 7] {
            let mut reader = Reader::default();
            assert_eq!(reader.software(), None);
            for part in named.chunks(length) {
                reader.take(part).unwrap();
            }
            assert_eq!(reader.software().as_deref(), Some("s x"));
        }
        let mut reader = Reader::default();
        reader.take(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        assert_eq!(reader.software(), None);
    }

    #[test]
    fn body_ends_after_its_stated_length() {
        assert_eq!(body_length("Content-Length: 3\r\n", "abc"), Ok(3));
        assert_eq!(body_length("content-length: 3, 3\r\nContent-Length: 3\r\n", "abc"), Ok(3));
        assert_eq!(body_length("Transfer-Encoding: gzip, Chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"), Ok(3));
        assert_eq!(body_length("Transfer-Encoding: gzip\r\n", "abc"), Ok(3));
        assert_eq!(body_length("", "until the end"), Ok(13));
        assert_eq!(body_length("Content-Length: 4\r\n", "abc"), Err(Class::ShortBody));
        assert_eq!(body_length("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n"), Err(Class::ShortBody));
        assert_eq!(whole(b""), Err(Class::Closed));
        assert_eq!(whole(b"HTTP/1.1 200 OK\r\nA: b\r\n"), Err(Class::Closed));
        for status in ["204 No Content", "304 Not Modified"] {
            let response = format!("HTTP/1.1 {status}\r\nContent-Length: 9\r\n\r\n");
            assert_eq!(whole(response.as_bytes()).map(|(_, length)| length), Ok(response.len()));
        }
    }

    #[test]
    fn invalid_and_conflicting_body_lengths_are_errors() {
        for length in ["3\r\nContent-Length: 4", "3, 4", "", "-1", "+3", "0x3", "3 3", "18446744073709551616"] {
            assert_eq!(body_length(&format!("Content-Length: {length}\r\n"), "abc"), Err(Class::Protocol), "{length}");
        }
        let both = "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n";
        assert_eq!(body_length(both, "abc"), Err(Class::Protocol));
        for chunks in ["\r\n", ";x\r\n", "g\r\n", "-3\r\n", "3\nabc", "3\r\nabcd\r\n", "11111111111111111\r\n", "3 \n"]
        {
            assert_eq!(body_length("Transfer-Encoding: chunked\r\n", chunks), Err(Class::Protocol), "{chunks:?}");
        }
    }

    #[test]
    fn http_version_and_connection_header_decide_whether_a_connection_is_kept() {
        assert!(is_kept_alive("HTTP/1.1 200 OK", ""));
        assert!(!is_kept_alive("HTTP/1.1 200 OK", "Connection: x, Close\r\n"));
        assert!(!is_kept_alive("HTTP/1.0 200 OK", ""));
        assert!(is_kept_alive("HTTP/1.0 200 OK", "Connection: Keep-Alive\r\n"));
        assert!(!is_kept_alive("HTTP/1.1 200 OK", "Connection: close\r\nConnection: keep-alive\r\n"));
    }

    #[test]
    fn invalid_response_headers_are_errors() {
        for bytes in ["HTTP/2 200\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "SSH-2.0"]
        {
            assert_eq!(whole(bytes.as_bytes()), Err(Class::Protocol), "{bytes}");
        }
        assert_eq!(whole(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"), Err(Class::Protocol));
        assert_eq!(whole(b"\x15\x03\x03"), Err(Class::PlainRefused));
    }

    #[test]
    fn response_headers_are_limited_to_64_kib() {
        let header = |length: usize| {
            let frame = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: \r\n\r\n".len();
            format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: {}\r\n\r\n", "x".repeat(length - frame)).into_bytes()
        };
        for (length, expected) in [(LONGEST_HEAD, Ok(LONGEST_HEAD)), (LONGEST_HEAD + 1, Err(Class::Protocol))] {
            let bytes = header(length);
            assert_eq!(whole(&bytes).map(|(_, length)| length), expected);
            assert_eq!(read(bytes.chunks(1000)).map(|(_, length)| length), expected);
        }
    }

    /// Return bytes that resemble valid or invalid responses. Divided into parts, they cover every state of the parser.
    fn response_like_bytes() -> impl Strategy<Value = Vec<u8>> {
        let line = prop::sample::select(vec![
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.0 503 Busy\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 204 x\n",
        ]);
        let field = prop::sample::select(vec![
            "Content-Length: 5\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Connection: close\r\n",
            "Server: x\n",
            "Content-Length: 0\r\n",
            "A b: c\r\n",
            "\r\n",
            "\n",
        ]);
        let body = prop::sample::select(vec![
            "5\r\nHello\r\n",
            "0\r\n\r\n",
            "0;x\r\nA: b\r\n\r\n",
            "Hello",
            "\r\n",
            "x",
            "HTTP/1.1 200 OK\r\n\r\n",
        ]);
        let texts =
            (prop::collection::vec(line, 0..3), prop::collection::vec(field, 0..5), prop::collection::vec(body, 0..4));
        (texts, prop::collection::vec(any::<u8>(), 0..8)).prop_map(|((lines, fields, bodies), noise)| {
            [lines.concat(), fields.concat(), "\r\n".into(), bodies.concat()]
                .concat()
                .into_bytes()
                .into_iter()
                .chain(noise)
                .collect()
        })
    }

    proptest! {
        #[test]
        fn parsed_response_does_not_depend_on_how_its_bytes_are_divided(bytes in response_like_bytes(), cuts in prop::collection::vec(1..20_usize, 1..20)) {
            let mut rest = &bytes[..];
            let mut cuts = cuts.into_iter().cycle();
            let parts = std::iter::from_fn(|| {
                let (part, after) = rest.split_at(cuts.next()?.min(rest.len()));
                rest = after;
                (!part.is_empty()).then_some(part)
            });
            prop_assert_eq!(read(parts), whole(&bytes));
            prop_assert_eq!(read(bytes.chunks(1)), whole(&bytes));
        }
    }
}
