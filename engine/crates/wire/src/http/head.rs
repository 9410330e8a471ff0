//! A response's header: where it ends, and what it says about the body and the connection (RFC 9112, 2.1, 6.3, 9.3).

use base::error::{Class, Failure, Result};
use httparse::{EMPTY_HEADER, Header, ParserConfig, Response};
use std::mem::MaybeUninit;

/// A header that is longer is none: nobody's is.
pub const LONGEST_HEAD: usize = 64 * 1024;
/// Fields of a header.
const MOST_FIELDS: usize = 128;
/// What every response begins with that this client can read.
const BEGINNING: &[u8] = b"HTTP/1.";
/// What a TLS server may say to a request in plain (RFC 8446, 5.1).
const TLS_ALERT: u8 = 21;
/// Of what is no response so much is shown.
const SHOWN: usize = 24;
/// A server's own name is cut here.
const LONGEST_SOFTWARE: usize = 100;

/// What follows a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// So many bytes.
    Length(u64),
    Chunked,
    UntilClose,
    /// Nothing: the answer itself is still to come.
    Interim,
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// RFC 9110, 15.
    pub status: u16,
    pub body: Body,
    pub keep_alive: bool,
}

/// The length of a header that ends within these bytes, which are known up to `known` not to hold its end.
pub fn end(bytes: &[u8], known: usize) -> Option<usize> {
    // An end is "\n\r\n" or "\n\n": the line's end that begins it may be among the known.
    let mut from = known.saturating_sub(2);
    while let Some(found) = bytes[from..].iter().position(|&byte| byte == b'\n') {
        let after = from + found + 1;
        match &bytes[after..] {
            [b'\n', ..] => return Some(after + 1),
            [b'\r', b'\n', ..] => return Some(after + 2),
            _ => from = after,
        }
    }
    None
}

pub fn check_beginning(bytes: &[u8]) -> Result<()> {
    let looked_at = bytes.len().min(BEGINNING.len());
    if bytes[..looked_at] == BEGINNING[..looked_at] {
        return Ok(());
    }
    if bytes.first() == Some(&TLS_ALERT) {
        let detail = "the server answered plain bytes with an alert of TLS: it speaks nothing else there";
        return Err(Failure::new(Class::PlainRefused, detail));
    }
    let shown = bytes[..bytes.len().min(SHOWN)].escape_ascii();
    Err(Failure::protocol(format!("the answer is not HTTP/1: it begins with \"{shown}\"")))
}

pub fn read(bytes: &[u8]) -> Result<Head> {
    let mut room = [const { MaybeUninit::<Header>::uninit() }; MOST_FIELDS];
    let mut response = Response::new(&mut []);
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
    let mut response = Response::new(&mut room);
    response.parse(bytes).ok()?;
    let server = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("server"))?;
    Some(printable(server.value))
}

/// What the fields say that concern the message itself.
#[derive(Default)]
struct Fields {
    length: Option<u64>,
    /// The last transfer coding is `chunked`, where there are any.
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

    /// RFC 9112, 6.3.
    fn body(&self, status: u16) -> Result<Body> {
        match (status, self.chunked, self.length) {
            (101, _, _) => Err(Failure::protocol("the server changes to another protocol, which nobody asked for")),
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
    length.ok_or_else(|| Failure::protocol("the response's Content-Length is no number"))
}

fn printable(value: &[u8]) -> String {
    let value = &value[..value.len().min(LONGEST_SOFTWARE)];
    String::from_utf8_lossy(value).replace(char::is_control, " ")
}
