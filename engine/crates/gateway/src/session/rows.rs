//! Rows, value by value (MySQL Internals, "ProtocolText::ResultsetRow" and "Binary Protocol Resultset Row").

use super::Tally;
use super::columns::Column;
use super::sealing::Sealing;
use crate::messages::{append_length, too_long};
use base::error::{Failure, Result};
use mysql::RowFormat;
use mysql::bytes::{NULL, Reader};
use mysql::packet::{self, HEADER};
use std::rc::Rc;

/// First byte of a binary row.
const BINARY_ROW: u8 = 0x00;
/// The first column's bit in a binary row's bitmap of NULLs.
const FIRST_BIT: usize = 2;

/// Append a row whose columns are these, some of them encrypted; where that fails, nothing.
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

/// Whether a row has these columns and no more.
///
/// # Errors
/// `protocol`.
pub fn check(payload: &[u8], format: RowFormat, columns: &[Rc<Column>]) -> Result<()> {
    let mut reader = Reader::new(payload);
    let nulls = match format {
        RowFormat::Text => &[][..],
        RowFormat::Binary => {
            reader.u8()?;
            reader.bytes((columns.len() + FIRST_BIT).div_ceil(8))?
        }
    };
    for (place, column) in columns.iter().enumerate() {
        match format {
            RowFormat::Text if reader.peek() == Some(NULL) => drop(reader.u8()?),
            RowFormat::Text => drop(reader.text()?),
            RowFormat::Binary if is_null(nulls, place) => {}
            RowFormat::Binary => drop(Layout::binary(kind(column))?.take(&mut reader)?),
        }
    }
    ends(&reader)
}

fn is_null(nulls: &[u8], place: usize) -> bool {
    let bit = place + FIRST_BIT;
    nulls[bit / 8] >> (bit % 8) & 1 == 1
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

/// How a value lies in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Behind its length, a length-encoded integer.
    String,
    /// Behind its length, a byte.
    Time,
    /// So many bytes.
    Number(usize),
}

impl Writer<'_> {
    fn text(&mut self, columns: &[Rc<Column>]) -> Result<()> {
        for column in columns {
            if self.reader.peek() == Some(NULL) {
                self.reader.u8()?;
                self.out.push(NULL);
            } else {
                self.value(column, Layout::String)?;
            }
        }
        ends(&self.reader)
    }

    fn binary(&mut self, columns: &[Rc<Column>]) -> Result<()> {
        if self.reader.u8()? != BINARY_ROW {
            return Err(Failure::protocol("a row is not binary"));
        }
        let nulls = self.reader.bytes((columns.len() + FIRST_BIT).div_ceil(8))?;
        self.out.push(BINARY_ROW);
        self.out.extend_from_slice(nulls);
        for (place, column) in columns.iter().enumerate() {
            if !is_null(nulls, place) {
                self.value(column, Layout::binary(kind(column))?)?;
            }
        }
        ends(&self.reader)
    }

    fn value(&mut self, column: &Column, layout: Layout) -> Result<()> {
        let mut whole = self.reader;
        let content = layout.take(&mut self.reader)?;
        let Column::Sealed { algorithm, associated, .. } = column else {
            let whole = whole.rest();
            let left = self.reader.clone().rest().len();
            self.out.extend_from_slice(&whole[..whole.len() - left]);
            return Ok(());
        };
        let sealed = algorithm.sealed_length(content.len());
        append_length(sealed as u64, self.out);
        self.sealing.seal(*algorithm, associated, content, self.out)?;
        self.tally.values_encrypted += 1;
        self.tally.plaintext_bytes += content.len() as u64;
        self.tally.ciphertext_bytes += sealed as u64;
        Ok(())
    }
}

fn kind(column: &Column) -> u8 {
    match column {
        Column::Plain { kind } | Column::Sealed { kind, .. } => *kind,
    }
}

impl Layout {
    /// By `MYSQL_TYPE_…` (MySQL Internals, "Binary Protocol Value").
    fn binary(kind: u8) -> Result<Self> {
        Ok(match kind {
            // TINY
            0x01 => Layout::Number(1),
            // SHORT, YEAR
            0x02 | 0x0D => Layout::Number(2),
            // LONG, FLOAT, INT24
            0x03 | 0x04 | 0x09 => Layout::Number(4),
            // DOUBLE, LONGLONG
            0x05 | 0x08 => Layout::Number(8),
            // TIMESTAMP, DATE, TIME, DATETIME
            0x07 | 0x0A | 0x0B | 0x0C => Layout::Time,
            // DECIMAL, VARCHAR, BIT; VECTOR, JSON, NEWDECIMAL, ENUM, SET, the BLOBs, VAR_STRING, STRING, GEOMETRY
            0x00 | 0x0F | 0x10 | 0xF2 | 0xF5..=0xFF => Layout::String,
            _ => return Err(Failure::protocol("a value is of a type that no row has")),
        })
    }

    /// What of a value is not its length.
    fn take<'a>(self, reader: &mut Reader<'a>) -> Result<&'a [u8]> {
        match self {
            Layout::String => reader.text(),
            Layout::Time => {
                let length = reader.u8()?;
                reader.bytes(length.into())
            }
            Layout::Number(bytes) => reader.bytes(bytes),
        }
    }
}
