//! The two formats of rows, and the bitmap of NULLs at the beginning of a binary row (MySQL Internals,
//! "ProtocolText::ResultsetRow" and "Binary Protocol Resultset Row").

use crate::bytes::Reader;
use base::error::{Failure, Result};

/// The first byte of a binary row.
pub const BINARY_ROW: u8 = 0x00;
/// The position of the first column's bit in the bitmap of NULLs of a binary row.
pub const FIRST_COLUMN: usize = 2;

/// The encoding of the values in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowFormat {
    Text,
    Binary,
}

/// Read the beginning of a binary row with this number of columns, and return its bitmap of NULLs.
pub fn begin_binary<'a>(reader: &mut Reader<'a>, columns: usize) -> Result<Nulls<'a>> {
    if reader.u8()? != BINARY_ROW {
        return Err(Failure::protocol("a row is not in the binary format"));
    }
    Nulls::read(reader, columns)
}

/// A binary row's bitmap of NULLs.
#[derive(Debug, Clone, Copy)]
pub struct Nulls<'a>(&'a [u8]);

impl<'a> Nulls<'a> {
    pub fn read(reader: &mut Reader<'a>, columns: usize) -> Result<Self> {
        reader.bytes(columns.saturating_add(FIRST_COLUMN).div_ceil(8)).map(Nulls)
    }

    /// Return whether the value of this column is NULL.
    pub fn has(self, column: usize) -> bool {
        let bit = column + FIRST_COLUMN;
        self.0[bit / 8] >> (bit % 8) & 1 == 1
    }

    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}
