//! A connection that sends and receives packets, with reusable buffers. Only this module reads result sets (MySQL
//! Internals, "Text Resultset" and "Binary Protocol Resultset").

use super::decryption::Decryption;
use crate::buffered::Buffered;
use base::error::{Failure, Result};
use mysql::RowFormat;
use mysql::bytes::Reader;
use mysql::packet::{self, HEADER};
use net::transport::{Address, Stream, Transport};
use record::Timeline;
use std::ops::Range;

pub struct Channel {
    pub(super) io: Buffered,
    /// The sequence number of the next packet, whichever side sends it. Each command starts again at 0.
    sequence: u8,
    pub(super) decryption: Option<Decryption>,
}

impl Channel {
    pub fn new(stream: Stream) -> Self {
        Channel { io: Buffered::new(stream), sequence: 0, decryption: None }
    }

    pub async fn secure(self, transport: &Transport, address: &Address, timeline: &mut Timeline) -> Result<Self> {
        Ok(Channel { io: self.io.secure(transport, address, timeline).await?, ..self })
    }

    /// Return the buffer for the next packet of the login. After filling it, call [`Channel::send`].
    pub fn reply(&mut self) -> &mut Vec<u8> {
        self.io.outbox.clear();
        self.io.outbox.resize(HEADER, 0);
        &mut self.io.outbox
    }

    /// Return the buffer for the arguments of a new command. After filling it, call [`Channel::send`].
    pub fn command(&mut self, command: u8) -> &mut Vec<u8> {
        self.sequence = 0;
        let packet = self.reply();
        packet.push(command);
        packet
    }

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
            let received_bytes = self.io.received_bytes();
            if let Some((length, sequence)) = packet::header(received_bytes)? {
                self.check_sequence(sequence, received_bytes.get(HEADER))?;
                if received_bytes.len() >= HEADER + length {
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

    /// Check the sequence number of a packet whose header has arrived. `first` is the first byte of the payload, or
    /// None if this byte has not arrived. Do not wait for the payload, because a server of another protocol could
    /// announce megabytes that never arrive. An error packet may have any number, because a server may send an error
    /// and end the session at any time.
    fn check_sequence(&self, sequence: u8, first: Option<&u8>) -> Result<()> {
        let is_error = first.is_none_or(|first| packet::is_error(&[*first]));
        if sequence == self.sequence || is_error {
            return Ok(());
        }
        Err(Failure::protocol(format!("the answer is out of sequence ({sequence}, not {})", self.sequence)))
    }
}

/// The layout of a result set: the format of its rows, and whether EOF packets end its parts.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub binary: bool,
    /// True if the server sends no EOF packet after the column definitions and after the rows.
    pub without_eof: bool,
}

impl Layout {
    fn format(self) -> RowFormat {
        if self.binary { RowFormat::Binary } else { RowFormat::Text }
    }
}

impl Channel {
    pub async fn receive_column_count(&mut self) -> Result<u64> {
        read_column_count(self.receive().await?)
    }

    pub async fn receive_columns(&mut self, count: u64, without_eof: bool) -> Result<()> {
        if let Some(decryption) = &mut self.decryption {
            decryption.begin();
        }
        for _ in 0..count {
            let packet = self.receive_at().await?;
            let packet = packet::not_an_error(self.io.at(packet))?;
            if let Some(decryption) = &mut self.decryption {
                decryption.define(packet)?;
            }
        }
        if count > 0 && !without_eof {
            expect_eof(self.receive().await?)?;
        }
        Ok(())
    }

    /// Return the next row of a result set, decrypted if a gateway has encrypted it. Return None after the last row.
    /// The caller can then check with [`Buffered::check_idle`] that nothing follows.
    pub async fn receive_row(&mut self, layout: Layout) -> Result<Option<&[u8]>> {
        let packet = self.receive_at().await?;
        let packet = packet::not_an_error(self.io.at(packet))?;
        if packet::is_end(packet, layout.without_eof) {
            packet::check_end(packet, layout.without_eof)?;
            if let Some(decryption) = &mut self.decryption {
                decryption.settle();
            }
            return Ok(None);
        }
        match &mut self.decryption {
            Some(decryption) => decryption.row(packet, layout.format()).map(Some),
            None => Ok(Some(packet)),
        }
    }
}

fn read_column_count(packet: &[u8]) -> Result<u64> {
    let mut reader = Reader::new(packet::not_an_error(packet)?);
    match reader.length()? {
        columns if columns > 0 && reader.is_empty() => Ok(columns),
        _ => Err(Failure::protocol("the answer to a query is not a result set")),
    }
}

fn expect_eof(packet: &[u8]) -> Result<()> {
    if packet::is_end(packet, false) {
        Ok(())
    } else {
        Err(Failure::protocol("a list does not end with an EOF packet"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::error::Class;
    use proptest::prelude::*;

    #[test]
    fn answer_to_a_query_must_begin_with_a_column_count() {
        assert_eq!(read_column_count(b"\x01").unwrap(), 1);
        assert!(read_column_count(b"\x00").is_err(), "no columns");
        assert!(read_column_count(b"\x00\x00\x00\x02\x00\x00\x00").is_err(), "an OK");
        assert!(read_column_count(b"\xfb/etc/passwd").is_err(), "a request for a local file");
        assert_eq!(read_column_count(b"\xff\x7a\x04#42S02no table").unwrap_err().class, Class::Server);
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (read_column_count(&bytes), expect_eof(&bytes));
        }
    }
}
