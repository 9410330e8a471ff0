//! A connection on which packets go, in buffers that are used again.

use super::decryption::Decryption;
use crate::buffered::Buffered;
use base::error::{Failure, Result};
use mysql::packet::{self, HEADER};
use net::transport::{Address, Stream, Transport};
use record::Timeline;
use std::ops::Range;

/// Packets out, packets in.
pub struct Channel {
    pub(super) io: Buffered,
    /// Of the next packet, whoever sends it: both ends count together, from each command on.
    sequence: u8,
    pub(super) decryption: Option<Decryption>,
}

impl Channel {
    pub fn new(stream: Stream) -> Self {
        Channel { io: Buffered::new(stream), sequence: 0, decryption: None }
    }

    /// Go on under TLS, as [`Buffered::secure`].
    pub async fn secure(self, transport: &Transport, address: &Address, timeline: &mut Timeline) -> Result<Self> {
        Ok(Channel { io: self.io.secure(transport, address, timeline).await?, ..self })
    }

    /// Where the next packet of a conversation is to be written; then [`Channel::send`].
    pub fn reply(&mut self) -> &mut Vec<u8> {
        self.io.outbox.clear();
        self.io.outbox.resize(HEADER, 0);
        &mut self.io.outbox
    }

    /// As `reply`, for a packet that begins a conversation with this command.
    pub fn command(&mut self, command: u8) -> &mut Vec<u8> {
        self.sequence = 0;
        let packet = self.reply();
        packet.push(command);
        packet
    }

    /// Send the packet that was written.
    /// Errors: those of a broken connection; `plan`, where it is too long.
    pub async fn send(&mut self) -> Result<()> {
        packet::finish(&mut self.io.outbox, self.sequence)?;
        self.sequence = self.sequence.wrapping_add(1);
        self.io.send().await
    }

    pub async fn receive(&mut self) -> Result<&[u8]> {
        let payload = self.receive_at().await?;
        Ok(self.io.at(payload))
    }

    pub(super) async fn receive_at(&mut self) -> Result<Range<usize>> {
        loop {
            let come = self.io.come();
            if let Some((length, sequence)) = packet::header(come)? {
                self.check_sequence(sequence, come.get(HEADER))?;
                if come.len() >= HEADER + length {
                    self.io.take(HEADER);
                    let payload = self.io.take(length);
                    self.sequence = sequence.wrapping_add(1);
                    return Ok(payload);
                }
            }
            self.io.fill().await?;
        }
    }

    pub fn close_with(mut self, command: u8) {
        self.command(command);
        if packet::finish(&mut self.io.outbox, self.sequence).is_ok() {
            self.io.close_with_outbox();
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
}
