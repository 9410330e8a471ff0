//! A connection on which messages go, in buffers that are used again.

use super::message::{self, HEADER, backend, frontend};
use super::result::{Answer, Outcome, Step};
use base::error::{Failure, Result};
use net::transport::Stream;
use record::{Phase, Timeline, Traffic};
use std::ops::Range;

/// Enough for a row of pgbench's or YCSB's table and all around it; what is larger grows it once.
const FIRST_INBOX: usize = 4096;

/// Messages out, messages in.
pub struct Channel {
    stream: Stream,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
    /// What has come and was not read yet is `inbox[start..end]`.
    start: usize,
    end: usize,
}

impl Channel {
    /// Over a stream that has been made secure, where it should be.
    pub fn new(stream: Stream) -> Self {
        Channel { stream, outbox: Vec::new(), inbox: vec![0; FIRST_INBOX], start: 0, end: 0 }
    }

    /// What has gone over it so far.
    pub fn traffic(&self) -> Traffic {
        self.stream.traffic()
    }

    /// What it runs over.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// A phase ends here.
    pub fn end_phase(&self, phase: Phase, timeline: &mut Timeline) {
        timeline.end_phase(phase, self.traffic());
    }

    /// Where the next messages are to be written; then [`Channel::send`].
    pub fn request(&mut self) -> &mut Vec<u8> {
        self.outbox.clear();
        &mut self.outbox
    }

    /// Send what was written, in one go.
    ///
    /// # Errors
    /// Those of a broken connection.
    pub async fn send(&mut self) -> Result<()> {
        self.stream.send(&self.outbox).await
    }

    /// The next message: its type and its body. What a server says unasked (notices, and settings that change) is passed over.
    ///
    /// # Errors
    /// `protocol` and those of a broken connection.
    pub async fn receive(&mut self) -> Result<(u8, &[u8])> {
        let (kind, body) = self.receive_at().await?;
        Ok((kind, &self.inbox[body]))
    }

    /// Send what was written, and take all that comes up to ReadyForQuery; `each` looks at every row. The session is then
    /// ready for more, also after an error that the server has answered.
    ///
    /// # Errors
    /// The server's first; `protocol`, those of `each` and of a broken connection.
    pub async fn ask(&mut self, each: impl FnMut(&[u8]) -> Result<()>) -> Result<Outcome> {
        self.send().await?;
        self.take_answer(Answer::new(each)).await
    }

    /// As `ask`, where an answer has begun or is to be.
    ///
    /// # Errors
    /// As `ask`.
    pub async fn take_answer<E: FnMut(&[u8]) -> Result<()>>(&mut self, mut answer: Answer<E>) -> Result<Outcome> {
        loop {
            let (kind, body) = match self.receive_at().await {
                Ok(message) => message,
                Err(failure) => return Err(answer.cut_short(failure)),
            };
            if let Step::Ready(outcome) = answer.take(kind, &self.inbox[body])? {
                self.check_idle()?;
                return outcome;
            }
        }
    }

    /// Nothing is there that was not read, but what a server may say at any time: a notice, or why it ends the session. The
    /// next answer begins with it.
    ///
    /// # Errors
    /// `protocol`.
    pub fn check_idle(&self) -> Result<()> {
        match self.inbox[self.start..self.end].first() {
            None | Some(&backend::ERROR_RESPONSE) => Ok(()),
            Some(kind) if is_unasked(*kind) => Ok(()),
            Some(_) => Err(Failure::protocol("more was answered than asked")),
        }
    }

    /// Say that this is the end, without waiting.
    pub fn close(mut self) {
        message::append(self.request(), frontend::TERMINATE, |_| ());
        self.stream.close_with(&self.outbox);
    }

    async fn receive_at(&mut self) -> Result<(u8, Range<usize>)> {
        loop {
            let come = &self.inbox[self.start..self.end];
            match message::header(come)? {
                Some((kind, length)) if come.len() >= HEADER + length => {
                    let body = self.start + HEADER..self.start + HEADER + length;
                    self.start = body.end;
                    if !is_unasked(kind) {
                        return Ok((kind, body));
                    }
                }
                _ => self.fill().await?,
            }
        }
    }

    /// Receive more. The inbox grows with what has come, not with what a length field claims will.
    async fn fill(&mut self) -> Result<()> {
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
}

fn is_unasked(kind: u8) -> bool {
    matches!(kind, backend::NOTICE_RESPONSE | backend::PARAMETER_STATUS | backend::NOTIFICATION_RESPONSE)
}
