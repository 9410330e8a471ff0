//! Result sets (MySQL Internals, "Text Resultset" and "Binary Protocol Resultset"): a count of columns, their definitions,
//! rows, an end. The one place where they are read, in whatever statement's answer.

use super::channel::Channel;
use base::error::{Failure, Result};
use mysql::RowFormat;
use mysql::bytes::Reader;
use mysql::packet;

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
    /// The beginning of a result set: how many columns it has.
    /// Errors: `protocol`, also where the answer is no result set; the server's own, those of a broken connection.
    pub async fn receive_column_count(&mut self) -> Result<u64> {
        read_column_count(self.receive().await?)
    }

    /// So many definitions of columns, or of a statement's parameters, with the EOF that ends them.
    /// Errors: as `receive_column_count`; `encryption`, where a column cannot be decrypted.
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
    /// Errors: as `receive_column_count`; the server may end a result set by an error. `encryption`, as for
    /// definitions.
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
