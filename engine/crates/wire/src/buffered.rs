//! A stream with reusable buffers, for protocols whose messages begin with their length.

use base::error::{Failure, Result};
use net::transport::{Address, Stream, Transport};
use record::{Phase, Timeline};
use std::ops::Range;

/// The initial size of the inbox in bytes, enough for most messages. The inbox stays large after a larger message.
const FIRST_INBOX: usize = 4096;

/// A stream with a buffer for requests (the outbox) and a buffer for answers (the inbox).
pub struct Buffered {
    stream: Stream,
    pub outbox: Vec<u8>,
    inbox: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffered {
    /// Create buffers for a stream from which no bytes have been received yet.
    pub fn new(stream: Stream) -> Self {
        Buffered { stream, outbox: Vec::new(), inbox: vec![0; FIRST_INBOX], start: 0, end: 0 }
    }

    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Continue under TLS, and record the phase `tls`. Errors: those of [`Stream::secure`]; `protocol` if plaintext
    /// bytes were already received. An attacker could have sent these bytes, and the client would take them for bytes
    /// that TLS protected.
    pub async fn secure(self, transport: &Transport, address: &Address, timeline: &mut Timeline) -> Result<Self> {
        self.check_idle()?;
        Ok(Buffered { stream: self.stream.secure(transport, address, timeline).await?, ..self })
    }

    pub fn end_phase(&self, phase: Phase, timeline: &mut Timeline) {
        timeline.end_phase(phase, self.stream.traffic());
    }

    pub async fn send(&mut self) -> Result<()> {
        self.stream.send(&self.outbox).await
    }

    pub fn received_bytes(&self) -> &[u8] {
        &self.inbox[self.start..self.end]
    }

    /// Consume `length` received bytes, and return their range for [`Buffered::at`], valid until [`Buffered::fill`].
    pub fn take(&mut self, length: usize) -> Range<usize> {
        let range = self.start..self.start + length;
        self.start = range.end;
        range
    }

    pub fn at(&self, range: Range<usize>) -> &[u8] {
        &self.inbox[range]
    }

    /// Receive more bytes. The inbox grows only with the bytes received, so a wrong length field cannot make it huge.
    pub async fn fill(&mut self) -> Result<()> {
        if self.start > 0 {
            self.inbox.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.inbox.len() {
            self.inbox.resize(self.end * 2, 0);
        }
        match self.stream.receive(&mut self.inbox[self.end..]).await? {
            0 => Err(Failure::closed()),
            received => {
                self.end += received;
                Ok(())
            }
        }
    }

    /// Check that no unread bytes were received. Errors: class `protocol` if there are any.
    pub fn check_idle(&self) -> Result<()> {
        if self.received_bytes().is_empty() {
            Ok(())
        } else {
            Err(Failure::protocol("the server sent more than was requested"))
        }
    }

    pub fn close(self) {
        self.stream.close();
    }

    /// Try once to send the outbox, then close the connection without waiting for an answer.
    pub fn close_with_outbox(self) {
        self.stream.close_with(&self.outbox);
    }
}
