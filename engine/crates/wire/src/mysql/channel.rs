//! A connection on which packets go, in buffers that are used again; and the one place where result sets are read (MySQL
//! Internals, "Text Resultset" and "Binary Protocol Resultset"): a count of columns, their definitions, rows, an end.

use super::decryption::Decryption;
use crate::buffered::Buffered;
use base::error::{Failure, Result};
use mysql::RowFormat;
use mysql::bytes::Reader;
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

    pub async fn secure(self, transport: &Transport, address: &Address, timeline: &mut Timeline) -> Result<Self> {
        Ok(Channel { io: self.io.secure(transport, address, timeline).await?, ..self })
    }

    /// Where the next packet of a conversation is to be written; then [`Channel::send`].
    pub fn reply(&mut self) -> &mut Vec<u8> {
        self.io.outbox.clear();
        self.io.outbox.resize(HEADER, 0);
        &mut self.io.outbox
    }

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

/// How an answer is laid out.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub binary: bool,
    /// Lists end without an EOF of their own.
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

    /// The next row of a result set, as the server sent it, also where a gateway has encrypted it on the way; None at its
    /// end, after which nothing may follow ([`Channel::check_idle`]).
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
        _ => Err(Failure::protocol("the answer to a query is no result set")),
    }
}

fn expect_eof(packet: &[u8]) -> Result<()> {
    if packet::is_end(packet, false) { Ok(()) } else { Err(Failure::protocol("a list does not end where it should")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::error::Class;
    use proptest::prelude::*;

    #[test]
    fn a_result_set_begins_with_its_columns() {
        assert_eq!(read_column_count(b"\x01").unwrap(), 1);
        assert!(read_column_count(b"\x00").is_err(), "no columns");
        assert!(read_column_count(b"\x00\x00\x00\x02\x00\x00\x00").is_err(), "an OK");
        assert!(read_column_count(b"\xfb/etc/passwd").is_err(), "a request for our files");
        assert_eq!(read_column_count(b"\xff\x7a\x04#42S02no table").unwrap_err().class, Class::Server);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (read_column_count(&bytes), expect_eof(&bytes));
        }
    }
}
