//! What the responses of HTTP were, beside how long they took.

use serde::Serialize;
use std::collections::BTreeMap;

/// Counts of a slice's responses.
#[derive(Debug, Default)]
pub struct Responses {
    /// The few statuses that there are.
    statuses: Vec<(u16, u64)>,
    reused: u64,
    response_bytes: u64,
    body_bytes: u64,
    other_length: u64,
    /// As the first response that says it says it.
    pub software: Option<String>,
}

/// What the responses of a slice were, failed ones included that came whole. Bytes are those inside TLS.
#[derive(Debug, Serialize)]
pub struct HttpAnswer {
    /// Responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Those on a connection that had carried another before.
    pub reused: u64,
    /// With headers and framing.
    pub response_bytes: u64,
    /// Without either.
    pub body_bytes: u64,
    /// Of the response that proved the arm; null where none did.
    pub body_length: Option<u64>,
    /// Responses with a body of another length.
    pub other_length: u64,
    /// What the server calls itself.
    pub software: Option<String>,
}

/// One response that came whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// RFC 9110, 15.
    pub status: u16,
    /// The connection may carry another request.
    pub keep_alive: bool,
    /// Header, framing and body, inside TLS.
    pub bytes: u64,
    /// The body alone.
    pub body_bytes: u64,
}

impl Responses {
    /// One more. `reused`: on a connection that had carried another; `usual`: of the length that was expected.
    pub fn count(&mut self, response: &Response, reused: bool, usual: bool) {
        self.add_status(response.status, 1);
        self.reused += u64::from(reused);
        self.response_bytes += response.bytes;
        self.body_bytes += response.body_bytes;
        self.other_length += u64::from(!usual);
    }

    /// Add another worker's.
    pub fn merge(&mut self, other: Responses) {
        other.statuses.into_iter().for_each(|(status, count)| self.add_status(status, count));
        self.reused += other.reused;
        self.response_bytes += other.response_bytes;
        self.body_bytes += other.body_bytes;
        self.other_length += other.other_length;
        self.software = self.software.take().or(other.software);
    }

    /// As the answer has it; `body_length` is what was expected.
    pub fn answer(&self, body_length: Option<u64>) -> HttpAnswer {
        HttpAnswer {
            statuses: self.statuses.iter().copied().collect(),
            reused: self.reused,
            response_bytes: self.response_bytes,
            body_bytes: self.body_bytes,
            body_length,
            other_length: self.other_length,
            software: self.software.clone(),
        }
    }

    fn add_status(&mut self, status: u16, count: u64) {
        match self.statuses.iter_mut().find(|(known, _)| *known == status) {
            Some((_, known)) => *known += count,
            None => self.statuses.push((status, count)),
        }
    }
}
