//! A connection on which messages go, in buffers that are used again.

use super::message::{self, HEADER, backend, frontend};
use super::result::{Answer, Outcome, Step};
use crate::buffered::Buffered;
use base::error::{Failure, Result};
use net::transport::Stream;
use std::ops::Range;

/// Messages out, messages in.
pub struct Channel {
    pub(super) io: Buffered,
}

impl Channel {
    /// Over a stream that has been made secure, where it should be.
    pub fn new(stream: Stream) -> Self {
        Channel { io: Buffered::new(stream) }
    }

    /// Where the next messages are to be written; then [`Channel::send`].
    pub fn request(&mut self) -> &mut Vec<u8> {
        self.io.outbox.clear();
        &mut self.io.outbox
    }

    pub async fn send(&mut self) -> Result<()> {
        self.io.send().await
    }

    /// The next message: its type and its body. What a server says unasked (notices, and settings that change) is passed over.
    pub async fn receive(&mut self) -> Result<(u8, &[u8])> {
        let (kind, body) = self.receive_at().await?;
        Ok((kind, self.io.at(body)))
    }

    /// Send what was written, and take all that comes up to ReadyForQuery; `each` looks at every row. The session is then
    /// ready for more, also after an error that the server has answered.
    /// Errors: the server's first; `protocol`, those of `each` and of a broken connection.
    pub async fn ask(&mut self, each: impl FnMut(&[u8]) -> Result<()>) -> Result<Outcome> {
        self.send().await?;
        self.take_answer(Answer::new(each)).await
    }

    /// As `ask`, where an answer has begun or is to be.
    pub async fn take_answer<E: FnMut(&[u8]) -> Result<()>>(&mut self, mut answer: Answer<E>) -> Result<Outcome> {
        loop {
            let (kind, body) = match self.receive_at().await {
                Ok(message) => message,
                Err(failure) => return Err(answer.cut_short(failure)),
            };
            if let Step::Ready(outcome) = answer.take(kind, self.io.at(body))? {
                self.check_idle()?;
                return outcome;
            }
        }
    }

    /// Nothing is there that was not read, but what a server may say at any time: a notice, or why it ends the session. The
    /// next answer begins with it.
    pub fn check_idle(&self) -> Result<()> {
        match self.io.come().first() {
            None | Some(&backend::ERROR_RESPONSE) => Ok(()),
            Some(kind) if is_unasked(*kind) => Ok(()),
            Some(_) => Err(Failure::protocol("more was answered than asked")),
        }
    }

    /// Say that this is the end, without waiting.
    pub fn close(mut self) {
        message::append(self.request(), frontend::TERMINATE, |_| ());
        self.io.close_with_outbox();
    }

    async fn receive_at(&mut self) -> Result<(u8, Range<usize>)> {
        loop {
            let come = self.io.come();
            match message::header(come)? {
                Some((kind, length)) if come.len() >= HEADER + length => {
                    self.io.take(HEADER);
                    let body = self.io.take(length);
                    if !is_unasked(kind) {
                        return Ok((kind, body));
                    }
                }
                _ => self.io.fill().await?,
            }
        }
    }
}

fn is_unasked(kind: u8) -> bool {
    matches!(kind, backend::NOTICE_RESPONSE | backend::PARAMETER_STATUS | backend::NOTIFICATION_RESPONSE)
}
