//! A connection on which one request and its reply go at a time, in buffers that are used again.

use super::message;
use crate::buffered::Buffered;
use base::error::Result;
use bson::{RawDocument, RawDocumentBuf};
use net::transport::Stream;
use std::ops::Range;

/// Requests out, replies in.
pub struct Channel {
    pub(super) io: Buffered,
    request_id: i32,
}

impl Channel {
    /// Over a stream that has been made secure, where it should be.
    pub fn new(stream: Stream) -> Self {
        Channel { io: Buffered::new(stream), request_id: 0 }
    }

    /// Where the next request is to be written, header included; then [`Channel::exchange`].
    pub fn request(&mut self) -> &mut Vec<u8> {
        &mut self.io.outbox
    }

    pub async fn command(&mut self, command: &RawDocumentBuf) -> Result<&RawDocument> {
        message::begin(&mut self.io.outbox);
        self.io.outbox.extend_from_slice(command.as_bytes());
        self.exchange().await
    }

    /// Send the request that was written, and return its reply.
    pub async fn exchange(&mut self) -> Result<&RawDocument> {
        self.request_id = self.request_id.wrapping_add(1);
        message::finish(&mut self.io.outbox, self.request_id);
        self.io.send().await?;
        let reply = self.receive().await?;
        message::body(self.io.at(reply), self.request_id)
    }

    /// One whole message; where it is.
    async fn receive(&mut self) -> Result<Range<usize>> {
        loop {
            match message::length(self.io.come())? {
                Some(length) if self.io.come().len() >= length => {
                    let reply = self.io.take(length);
                    self.io.check_idle()?;
                    return Ok(reply);
                }
                _ => self.io.fill().await?,
            }
        }
    }
}
