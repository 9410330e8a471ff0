//! An incremental parser of HTTP/1.1 and 1.0 requests (RFC 9112), and the responses. The parser interprets only those
//! header fields on which the response depends.

#[cfg(test)]
mod tests;

use httparse::{Error, Status};
use std::mem::MaybeUninit;

/// The maximum length in bytes of a request line and its header fields together.
pub const LONGEST_HEADER: usize = 16 << 10;
/// The initial size of the buffer in bytes. Most requests fit, and 10,000 idle connections take only 10 MB.
const FIRST_BUFFER: usize = 1 << 10;
/// The maximum number of header fields, as in Apache.
const MAX_FIELDS: usize = 100;
const LONGEST_WAIT_MS: u32 = 60_000;

/// The properties of a request on which the response depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub method: Method,
    pub wait_ms: u32,
    pub persistence: Persistence,
}

/// The HTTP methods, grouped by how the response differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET and POST, whose response has a body.
    GetOrPost,
    /// HEAD: the response of GET without its body.
    Head,
    Other,
}

/// The state of the connection after the response (RFC 9112, 9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// The connection persists, as is the default of HTTP/1.1.
    Implied,
    /// The connection persists, and the response must say so because the client uses HTTP/1.0.
    Stated,
    /// The connection closes.
    None,
}

/// The reason why a request is refused. After a refused request, the rest of the connection cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are not a request, or the request has contradictory fields.
    Malformed,
    LengthRequired,
    ExpectationFailed,
    /// The header exceeds [`LONGEST_HEADER`] or [`MAX_FIELDS`].
    HeaderTooLong,
}

impl Request {
    pub fn keeps_alive(&self) -> bool {
        self.persistence != Persistence::None
    }
}

/// A parser that turns received bytes into requests. It skips the bodies of requests and never stores them.
pub struct Reader {
    buffer: Vec<u8>,
    /// The start of the received bytes that have not been parsed yet.
    start: usize,
    end: usize,
    /// A parsed request whose body has not completely arrived.
    pending: Option<Request>,
    body_left: u64,
}

struct Header {
    request: Request,
    length: usize,
    body_length: u64,
}

impl Default for Reader {
    fn default() -> Self {
        Reader::new()
    }
}

impl Reader {
    pub fn new() -> Self {
        Reader { buffer: vec![0; FIRST_BUFFER], start: 0, end: 0, pending: None, body_left: 0 }
    }

    /// Return the part of the buffer into which to receive more bytes.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize((self.buffer.len() * 2).min(LONGEST_HEADER), 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Return the whole buffer, for receiving bytes that are ignored.
    pub fn discard_buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    pub fn received(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// Return the next complete request, or None if bytes are missing. Errors: the reason why the connection must be
    /// closed.
    pub fn next_request(&mut self) -> Result<Option<Request>, Refusal> {
        if self.pending.is_none() {
            let Some(header) = read_header(&self.buffer[self.start..self.end])? else { return Ok(None) };
            self.start += header.length;
            self.body_left = header.body_length;
            self.pending = Some(header.request);
        }
        let skipped = self.body_left.min((self.end - self.start) as u64);
        self.start += skipped as usize;
        self.body_left -= skipped;
        Ok(if self.body_left == 0 { self.pending.take() } else { None })
    }
}

fn read_header(bytes: &[u8]) -> Result<Option<Header>, Refusal> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut []);
    match parsed.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(Status::Complete(length)) => interpret(&parsed, length).map(Some),
        Ok(Status::Partial) if bytes.len() >= LONGEST_HEADER => Err(Refusal::HeaderTooLong),
        Ok(Status::Partial) => Ok(None),
        Err(Error::TooManyHeaders) => Err(Refusal::HeaderTooLong),
        Err(_) => Err(Refusal::Malformed),
    }
}

fn interpret(parsed: &httparse::Request, length: usize) -> Result<Header, Refusal> {
    let fields = Fields::read(parsed.headers)?;
    let is_1_1 = parsed.version == Some(1);
    // HTTP/1.1 requires exactly one Host field (RFC 9112, 3.2).
    if fields.hosts > 1 || (is_1_1 && fields.hosts == 0) {
        return Err(Refusal::Malformed);
    }
    if fields.transfer_encoding {
        // Transfer-Encoding with Content-Length, or in HTTP/1.0, may be request smuggling (RFC 9112, 6.1).
        let contradicts = fields.content_length.is_some() || !is_1_1;
        return Err(if contradicts { Refusal::Malformed } else { Refusal::LengthRequired });
    }
    // `Expect` in an HTTP/1.0 request is ignored (RFC 9110, 10.1.1).
    if fields.expects && is_1_1 {
        return Err(Refusal::ExpectationFailed);
    }
    let persistence = match (is_1_1, fields.close, fields.keep_alive) {
        (_, true, _) | (false, _, false) => Persistence::None,
        (false, false, true) => Persistence::Stated,
        (true, false, _) => Persistence::Implied,
    };
    let method = match parsed.method {
        Some("GET" | "POST") => Method::GetOrPost,
        Some("HEAD") => Method::Head,
        _ => Method::Other,
    };
    let wait_ms = wait_ms(parsed.path.unwrap_or_default())?;
    let request = Request { method, wait_ms, persistence };
    Ok(Header { request, length, body_length: fields.content_length.unwrap_or(0) })
}

/// The header fields on which the response depends.
#[derive(Default)]
struct Fields {
    hosts: u32,
    content_length: Option<u64>,
    transfer_encoding: bool,
    expects: bool,
    close: bool,
    keep_alive: bool,
}

impl Fields {
    fn read(headers: &[httparse::Header]) -> Result<Self, Refusal> {
        let mut fields = Fields::default();
        for header in headers {
            fields.add(header)?;
        }
        Ok(fields)
    }

    fn add(&mut self, header: &httparse::Header) -> Result<(), Refusal> {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        // The comparison of lengths is cheap and rules out most names.
        match header.name.len() {
            4 if is("host") => self.hosts += 1,
            6 if is("expect") => self.expects = true,
            10 if is("connection") => {
                for option in header.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if is("content-length") => {
                let length = decimal(header.value).ok_or(Refusal::Malformed)?;
                if self.content_length.replace(length).is_some_and(|before| before != length) {
                    return Err(Refusal::Malformed);
                }
            }
            17 if is("transfer-encoding") => self.transfer_encoding = true,
            _ => {}
        }
        Ok(())
    }
}

fn wait_ms(target: &str) -> Result<u32, Refusal> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let Some(value) = query.split('&').find_map(|pair| pair.strip_prefix("wait=")) else { return Ok(0) };
    let wait = decimal(value.as_bytes()).and_then(|wait| u32::try_from(wait).ok());
    wait.filter(|&wait| wait <= LONGEST_WAIT_MS).ok_or(Refusal::Malformed)
}

/// Return the value of decimal digits, or None for any other text. (`str::parse` would also accept a sign.)
fn decimal(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

macro_rules! ok {
    ($connection:literal) => {
        concat!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n", $connection, "\r\nOK")
            .as_bytes()
    };
}

macro_rules! error {
    ($status:literal, $fields:literal) => {
        concat!("HTTP/1.1 ", $status, "\r\nContent-Length: 0\r\n", $fields, "\r\n").as_bytes()
    };
}

const BODY: &[u8] = b"OK";

pub fn response(request: &Request) -> &'static [u8] {
    match request.method {
        Method::GetOrPost => ok(request.persistence),
        Method::Head => ok(request.persistence).strip_suffix(BODY).unwrap_or_default(),
        Method::Other => not_allowed(request.persistence),
    }
}

pub fn error_response(refusal: Refusal) -> &'static [u8] {
    match refusal {
        Refusal::Malformed => error!("400 Bad Request", "Connection: close\r\n"),
        Refusal::LengthRequired => error!("411 Length Required", "Connection: close\r\n"),
        Refusal::ExpectationFailed => error!("417 Expectation Failed", "Connection: close\r\n"),
        Refusal::HeaderTooLong => error!("431 Request Header Fields Too Large", "Connection: close\r\n"),
    }
}

fn ok(persistence: Persistence) -> &'static [u8] {
    match persistence {
        Persistence::Implied => ok!(""),
        Persistence::Stated => ok!("Connection: keep-alive\r\n"),
        Persistence::None => ok!("Connection: close\r\n"),
    }
}

fn not_allowed(persistence: Persistence) -> &'static [u8] {
    match persistence {
        Persistence::Implied => error!("405 Method Not Allowed", "Allow: GET, HEAD, POST\r\n"),
        Persistence::Stated => error!("405 Method Not Allowed", "Allow: GET, HEAD, POST\r\nConnection: keep-alive\r\n"),
        Persistence::None => error!("405 Method Not Allowed", "Allow: GET, HEAD, POST\r\nConnection: close\r\n"),
    }
}
