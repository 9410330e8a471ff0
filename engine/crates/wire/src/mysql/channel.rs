//! A connection on which packets go, in buffers that are used again.

use super::decryption::Decryption;
use base::error::{Failure, Result};
use mysql::packet::{self, HEADER};
use net::transport::{Address, Stream, Transport};
use record::{Phase, Timeline, Traffic};
use std::ops::Range;

/// Enough for a row of sysbench's table and all around it; what is larger grows it once.
const FIRST_INBOX: usize = 4096;

/// Packets out, packets in.
pub struct Channel {
    stream: Stream,
    outbox: Vec<u8>,
    pub(super) inbox: Vec<u8>,
    /// What has come and was not read yet is `inbox[start..end]`.
    start: usize,
    end: usize,
    /// Of the next packet, whoever sends it: both ends count together, from each command on.
    sequence: u8,
    /// Between the packets of a result set and whoever reads them.
    pub(super) decryption: Option<Decryption>,
}

impl Channel {
    /// Over a stream on which nothing was said yet.
    pub fn new(stream: Stream) -> Self {
        let inbox = vec![0; FIRST_INBOX];
        Channel { stream, outbox: Vec::new(), inbox, start: 0, end: 0, sequence: 0, decryption: None }
    }

    /// Go on under TLS, marking `tls`.
    ///
    /// # Errors
    /// `protocol`, where the server has already said more in plain: somebody else could have, and it would be taken for
    /// the server's. Those of [`Stream::secure`].
    pub async fn secure(self, transport: &Transport, address: &Address, timeline: &mut Timeline) -> Result<Self> {
        self.check_idle()?;
        Ok(Channel { stream: self.stream.secure(transport, address, timeline).await?, ..self })
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

    /// Where the next packet of a conversation is to be written; then [`Channel::send`].
    pub fn reply(&mut self) -> &mut Vec<u8> {
        self.outbox.clear();
        self.outbox.resize(HEADER, 0);
        &mut self.outbox
    }

    /// As `reply`, for a packet that begins a conversation with this command.
    pub fn command(&mut self, command: u8) -> &mut Vec<u8> {
        self.sequence = 0;
        self.reply().push(command);
        &mut self.outbox
    }

    /// Send the packet that was written.
    ///
    /// # Errors
    /// Those of a broken connection; `plan`, where it is too long.
    pub async fn send(&mut self) -> Result<()> {
        packet::finish(&mut self.outbox, self.sequence)?;
        self.sequence = self.sequence.wrapping_add(1);
        self.stream.send(&self.outbox).await
    }

    /// The next packet's payload.
    ///
    /// # Errors
    /// `protocol` and those of a broken connection.
    pub async fn receive(&mut self) -> Result<&[u8]> {
        let payload = self.receive_at().await?;
        Ok(&self.inbox[payload])
    }

    /// Where in the inbox the next packet's payload is.
    pub(super) async fn receive_at(&mut self) -> Result<Range<usize>> {
        loop {
            let come = &self.inbox[self.start..self.end];
            if let Some((length, sequence)) = packet::header(come)? {
                self.check_sequence(sequence, come.get(HEADER))?;
                if come.len() >= HEADER + length {
                    let payload = self.start + HEADER..self.start + HEADER + length;
                    self.start = payload.end;
                    self.sequence = sequence.wrapping_add(1);
                    return Ok(payload);
                }
            }
            self.fill().await?;
        }
    }

    /// Nothing is there that was not read.
    ///
    /// # Errors
    /// `protocol`.
    pub fn check_idle(&self) -> Result<()> {
        if self.start == self.end { Ok(()) } else { Err(Failure::protocol("more was answered than asked")) }
    }

    /// End the connection with a command that has no answer.
    pub fn close_with(mut self, command: u8) {
        self.command(command);
        if packet::finish(&mut self.outbox, self.sequence).is_ok() {
            self.stream.close_with(&self.outbox);
        }
    }

    /// Looked at as soon as it is there: what is no MySQL server may claim megabytes that never come. A server that
    /// ends a connection on its own account says so out of turn, so an error may have any number.
    fn check_sequence(&self, sequence: u8, first: Option<&u8>) -> Result<()> {
        let is_error = first.is_none_or(|first| packet::is_error(&[*first]));
        if sequence == self.sequence || is_error {
            return Ok(());
        }
        Err(Failure::protocol(format!("the answer is out of sequence ({sequence}, not {})", self.sequence)))
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
