//! A stream through buffers that are used again: under every protocol whose messages say how long they are.

use base::error::{Failure, Result};
use net::transport::{Address, Stream, Transport};
use record::{Phase, Timeline};
use std::ops::Range;

/// Enough for a record of each workload's and all around it; what is larger grows it once.
const FIRST_INBOX: usize = 4096;

/// Requests out, answers in.
pub struct Buffered {
    stream: Stream,
    pub outbox: Vec<u8>,
    inbox: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffered {
    /// Nothing was received over the stream that would have to be read first.
    pub fn new(stream: Stream) -> Self {
        Buffered { stream, outbox: Vec::new(), inbox: vec![0; FIRST_INBOX], start: 0, end: 0 }
    }

    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Go on under TLS, marking `tls`.
    /// Errors: `protocol`, where the server has already said more in plain: somebody else could have, and it would be
    /// taken for the server's. Those of [`Stream::secure`].
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

    pub fn come(&self) -> &[u8] {
        &self.inbox[self.start..self.end]
    }

    /// Take so many bytes of what has come. They are at this place until the next [`Buffered::fill`].
    pub fn take(&mut self, length: usize) -> Range<usize> {
        let place = self.start..self.start + length;
        self.start = place.end;
        place
    }

    pub fn at(&self, place: Range<usize>) -> &[u8] {
        &self.inbox[place]
    }

    /// Receive more. The inbox grows with what has come, not with what a length field claims will.
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

    pub fn check_idle(&self) -> Result<()> {
        if self.come().is_empty() { Ok(()) } else { Err(Failure::protocol("more was answered than asked")) }
    }

    pub fn close(self) {
        self.stream.close();
    }

    /// As `close`, with the outbox as the last word; it is not waited for.
    pub fn close_with_outbox(self) {
        self.stream.close_with(&self.outbox);
    }
}
