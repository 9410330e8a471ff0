//! Rows, value by value (MySQL Internals, "ProtocolText::ResultsetRow" and "Binary Protocol Resultset Row").

use super::Tally;
use super::columns::Column;
use super::sealing::Sealing;
use crate::messages::too_long;
use base::error::{Failure, Result};
use mysql::bytes::{NULL, Reader, append_length};
use mysql::packet::{self, HEADER};
use mysql::row::{BINARY_ROW, Nulls, begin_binary};
use mysql::{BinaryForm, RowFormat};
use std::rc::Rc;

/// The longest date or time in a binary row, a TIME.
const LONGEST_TEMPORAL: usize = 12;

/// Append a row with some columns encrypted; nothing if that fails.
///
/// # Errors
/// `protocol`, `encryption`.
pub fn append_sealed(
    payload: &[u8],
    sequence: u8,
    format: RowFormat,
    columns: &[Rc<Column>],
    sealing: &mut Sealing,
    tally: &mut Tally,
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    let mut writer = Writer { reader: Reader::new(payload), sealing, tally, out };
    let done = match format {
        RowFormat::Text => writer.text(columns),
        RowFormat::Binary => writer.binary(columns),
    };
    let done = done.and_then(|()| packet::finish(&mut out[start..], sequence).map_err(|_| too_long("a row")));
    if done.is_err() {
        out.truncate(start);
    }
    done
}

/// Check that a row has these columns and no more.
///
/// # Errors
/// `protocol`.
pub fn check(payload: &[u8], format: RowFormat, columns: &[Rc<Column>]) -> Result<()> {
    let mut reader = Reader::new(payload);
    match format {
        RowFormat::Text => {
            for _ in columns {
                reader.text_or_null()?;
            }
        }
        RowFormat::Binary => {
            reader.u8()?;
            let nulls = Nulls::read(&mut reader, columns.len())?;
            for (_, column) in columns.iter().enumerate().filter(|(place, _)| !nulls.has(*place)) {
                form(column)?.read(&mut reader)?;
            }
        }
    }
    ends(&reader)
}

fn ends(reader: &Reader<'_>) -> Result<()> {
    if reader.is_empty() { Ok(()) } else { Err(Failure::protocol("a row is longer than its columns")) }
}

struct Writer<'a> {
    reader: Reader<'a>,
    sealing: &'a mut Sealing,
    tally: &'a mut Tally,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn text(&mut self, columns: &[Rc<Column>]) -> Result<()> {
        for column in columns {
            if self.reader.peek() == Some(NULL) {
                self.reader.u8()?;
                self.out.push(NULL);
            } else {
                self.value(column, BinaryForm::Text)?;
            }
        }
        ends(&self.reader)
    }

    fn binary(&mut self, columns: &[Rc<Column>]) -> Result<()> {
        let nulls = begin_binary(&mut self.reader, columns.len())?;
        self.out.push(BINARY_ROW);
        self.out.extend_from_slice(nulls.bytes());
        for (place, column) in columns.iter().enumerate() {
            if !nulls.has(place) {
                self.value(column, form(column)?)?;
            }
        }
        ends(&self.reader)
    }

    fn value(&mut self, column: &Column, form: BinaryForm) -> Result<()> {
        let mut whole = self.reader;
        let content = form.read(&mut self.reader)?;
        let Column::Sealed { kind, algorithm, associated, .. } = column else {
            let whole = whole.rest();
            let left = self.reader.clone().rest().len();
            self.out.extend_from_slice(&whole[..whole.len() - left]);
            return Ok(());
        };
        let mut place = [0; LONGEST_TEMPORAL];
        let content = if form == BinaryForm::Short { filled(*kind, content, &mut place) } else { content };
        let sealed = algorithm.sealed_length(content.len());
        append_length(self.out, sealed as u64);
        self.sealing.seal(*algorithm, associated, content, self.out)?;
        self.tally.values_encrypted += 1;
        self.tally.plaintext_bytes += content.len() as u64;
        self.tally.ciphertext_bytes += sealed as u64;
        Ok(())
    }
}

/// Return a date or time with all its parts. Servers leave out trailing zeros, which depend on the time zone that a client
/// chooses, and would show in the length.
fn filled<'v>(kind: u8, content: &'v [u8], place: &'v mut [u8; LONGEST_TEMPORAL]) -> &'v [u8] {
    let length = match kind {
        // DATE
        0x0A => 4,
        // TIME
        0x0B => LONGEST_TEMPORAL,
        // TIMESTAMP, DATETIME
        _ => 11,
    };
    match place.get_mut(..content.len()) {
        Some(start) if content.len() <= length => start.copy_from_slice(content),
        _ => return content,
    }
    &place[..length]
}

/// Return the form of this column's values in a binary row.
fn form(column: &Column) -> Result<BinaryForm> {
    let (Column::Plain { kind } | Column::Sealed { kind, .. }) = column;
    BinaryForm::of(*kind).ok_or_else(|| Failure::protocol("a value is of a type that no row has"))
}
