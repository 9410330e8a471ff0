//! A connection on which one request and its reply go at a time, in buffers that are used again.

use super::message;
use base::error::{Failure, Result};
use bson::{RawDocument, RawDocumentBuf};
use net::transport::Stream;
use record::Traffic;

/// Enough for a YCSB record and a replica set's cluster time; what is larger grows it once.
const FIRST_INBOX: usize = 4096;

/// Requests out, replies in.
pub struct Channel {
    stream: Stream,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
    request_id: i32,
}

impl Channel {
    /// Over a stream that has been made secure, where it should be.
    pub fn new(stream: Stream) -> Self {
        Channel { stream, outbox: Vec::new(), inbox: vec![0; FIRST_INBOX], request_id: 0 }
    }

    /// What has gone over it so far.
    pub fn traffic(&self) -> Traffic {
        self.stream.traffic()
    }

    /// What it runs over.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Where the next request is to be written, header included; then [`Channel::exchange`].
    pub fn request(&mut self) -> &mut Vec<u8> {
        &mut self.outbox
    }

    /// Send a command and return its reply, which may say that it failed.
    ///
    /// # Errors
    /// `protocol` and those of a broken connection.
    pub async fn command(&mut self, command: &RawDocumentBuf) -> Result<&RawDocument> {
        message::begin(&mut self.outbox);
        self.outbox.extend_from_slice(command.as_bytes());
        self.exchange().await
    }

    /// Send the request that was written, and return its reply.
    ///
    /// # Errors
    /// As `command`.
    pub async fn exchange(&mut self) -> Result<&RawDocument> {
        self.request_id = self.request_id.wrapping_add(1);
        message::finish(&mut self.outbox, self.request_id);
        self.stream.send(&self.outbox).await?;
        let length = self.receive().await?;
        message::body(&self.inbox[..length], self.request_id)
    }

    /// End the connection.
    pub fn close(self) {
        self.stream.close();
    }

    /// One whole message into the inbox; its length. The inbox grows with what has come, not with what a length field
    /// claims will.
    async fn receive(&mut self) -> Result<usize> {
        let mut have = 0;
        loop {
            match message::length(&self.inbox[..have])? {
                Some(length) if have == length => return Ok(length),
                Some(length) if have > length => return Err(Failure::protocol("more was answered than asked")),
                _ => {}
            }
            if have == self.inbox.len() {
                self.inbox.resize(have * 2, 0);
            }
            match self.stream.receive(&mut self.inbox[have..]).await? {
                0 => return Err(Failure::closed()),
                received => have += received,
            }
        }
    }
}
