//! Responses as they come, in pieces of any size (RFC 9112). Bodies are counted and not kept.

use super::chunked::Chunked;
use super::head::{self, Body, Head, LONGEST_HEAD};
use crate::error::{Class, Failure, Result};
use crate::record::Response;

/// Reads one response after the other.
#[derive(Debug, Default)]
pub struct Reader {
    state: State,
    /// Of a header that did not come in one piece: the beginning.
    partial: Vec<u8>,
    bytes: u64,
    body_bytes: u64,
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
    /// The next bytes of a response, at least one; once it is whole, the response and how many of them were its own.
    ///
    /// # Errors
    /// `protocol`, `plain_refused`. Nothing more can be read then.
    pub fn take(&mut self, bytes: &[u8], software: &mut Option<String>) -> Result<Option<(Response, usize)>> {
        let mut rest = bytes;
        loop {
            let taken = match &mut self.state {
                State::Head => match self.take_head(rest, software)? {
                    Some(taken) => taken,
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
                    let taken = chunked.take(rest)?;
                    self.body_bytes += taken.data;
                    self.bytes += taken.bytes as u64;
                    if taken.ended {
                        self.state = State::Length(*head, 0);
                    }
                    taken.bytes
                }
                State::UntilClose(_) => {
                    self.body_bytes += rest.len() as u64;
                    self.bytes += rest.len() as u64;
                    rest.len()
                }
            };
            rest = &rest[taken..];
            match self.state {
                State::Length(head, 0) => return Ok(Some((self.whole(head), bytes.len() - rest.len()))),
                _ if rest.is_empty() => return Ok(None),
                _ => {}
            }
        }
    }

    /// The connection has ended: where nothing said how long the body is, that is its end.
    ///
    /// # Errors
    /// `short_body` within a body, `closed` before one.
    pub fn end(&mut self) -> Result<Response> {
        match self.state {
            State::UntilClose(head) => Ok(self.whole(head)),
            State::Head if self.bytes == 0 && self.partial.is_empty() => Err(Failure::closed()),
            State::Head => {
                Err(Failure::new(Class::Closed, "the server closed the connection within a response's header"))
            }
            State::Length(_, left) => Err(short(format!("{left} bytes of it were still to come"))),
            State::Chunked(..) => Err(short("its last chunk was still to come".into())),
        }
    }

    /// The connection broke off without an end of its own, such as TLS's `close_notify`.
    pub fn cut(&mut self) -> Failure {
        self.end().err().unwrap_or_else(|| short("its end was not announced".into()))
    }

    fn whole(&mut self, head: Head) -> Response {
        let Head { status, keep_alive, .. } = head;
        let response = Response { status, keep_alive, bytes: self.bytes, body_bytes: self.body_bytes };
        (self.state, self.bytes, self.body_bytes) = (State::Head, 0, 0);
        response
    }

    /// How many of these bytes belong to the header that ends within them; None where none does.
    fn take_head(&mut self, bytes: &[u8], software: &mut Option<String>) -> Result<Option<usize>> {
        let known = self.partial.len();
        // Nearly every header comes in one piece: it is read where it lies.
        let (head, length) = if known == 0 {
            head::check_beginning(bytes)?;
            let end = head::end(&bytes[..bytes.len().min(LONGEST_HEAD)], 0);
            let Some(length) = end else { return self.keep(bytes) };
            (head::read(&bytes[..length], software)?, length)
        } else {
            let room = LONGEST_HEAD - known;
            self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
            head::check_beginning(&self.partial)?;
            let Some(length) = head::end(&self.partial, known) else { return self.check_length(bytes.len() > room) };
            let head = head::read(&self.partial[..length], software)?;
            self.partial = Vec::new();
            (head, length)
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
