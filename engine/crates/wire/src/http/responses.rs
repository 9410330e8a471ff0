//! What responses were, beside how long they took.

use super::response::Response;
use record::{Counts, Tally};

/// Counts of one worker's responses, failed ones included that came whole. Bytes are those inside TLS.
#[derive(Debug, Default)]
pub struct Responses {
    statuses: Vec<(u16, u64)>,
    reused: u64,
    bytes: u64,
    pub body_bytes: u64,
    other_length: u64,
}

impl Responses {
    /// One more. `reused`: on a connection that had carried another; `usual`: of the length that was expected.
    pub fn count(&mut self, response: &Response, reused: bool, usual: bool) {
        match self.statuses.iter_mut().find(|(known, _)| *known == response.status) {
            Some((_, count)) => *count += 1,
            None => self.statuses.push((response.status, 1)),
        }
        self.reused += u64::from(reused);
        self.bytes += response.bytes;
        self.body_bytes += response.body_bytes;
        self.other_length += u64::from(!usual);
    }
}

impl Tally for Responses {
    fn add_to(&self, counts: &mut Counts) {
        for (status, count) in &self.statuses {
            counts.add(("http.status", *status), *count);
        }
        counts.add("http.reused", self.reused);
        counts.add("http.response_bytes", self.bytes);
        counts.add("http.body_bytes", self.body_bytes);
        counts.add("http.other_length", self.other_length);
    }
}
