//! The rows of a prepared statement (MySQL Internals, "Binary Protocol Resultset Row"), read column by column where they
//! lie. Which columns there are is the statement's to say: the tables are ours, and a row that is another is an error.

use base::error::{Failure, Result};
use mysql::bytes::Reader;
use mysql::row::{Nulls, begin_binary};
use workload::sql::{self, Column, DateTime};

/// A row of which columns are read one after the other.
pub struct Row<'a> {
    reader: Reader<'a>,
    nulls: Nulls<'a>,
    columns: &'static [Column],
    at: usize,
}

impl<'a> Row<'a> {
    /// A packet that holds a row of these columns.
    /// Errors: `protocol`; so it is with all that follow, also where a column is of another type or NULL.
    pub fn new(packet: &'a [u8], columns: &'static [Column]) -> Result<Self> {
        let mut reader = Reader::new(packet);
        let nulls = begin_binary(&mut reader, columns.len())?;
        Ok(Row { reader, nulls, columns, at: 0 })
    }

    pub fn end(&self) -> Result<()> {
        if self.at == self.columns.len() && self.reader.is_empty() {
            return Ok(());
        }
        Err(Failure::protocol("a row holds more than its columns"))
    }

    fn next(&mut self) -> Result<(Column, bool)> {
        let column = *self.columns.get(self.at).ok_or_else(|| Failure::protocol("a row has no more columns"))?;
        self.at += 1;
        Ok((column, self.nulls.has(self.at - 1)))
    }
}

impl<'a> sql::Row<'a> for Row<'a> {
    fn integer(&mut self) -> Result<i64> {
        self.integer_or_null()?.ok_or_else(null)
    }

    fn integer_or_null(&mut self) -> Result<Option<i64>> {
        match self.next()? {
            (_, true) => Ok(None),
            (Column::Tiny, _) => Ok(Some((self.reader.u8()? as i8).into())),
            (Column::Short, _) => Ok(Some((self.reader.u16()? as i16).into())),
            (Column::Int, _) => Ok(Some((self.reader.u32()? as i32).into())),
            (Column::Big, _) => Ok(Some(self.reader.u64()? as i64)),
            _ => Err(another_type()),
        }
    }

    fn decimal(&mut self, places: u32) -> Result<i64> {
        match self.next()? {
            (_, true) => Err(null()),
            (Column::Decimal, _) => read_decimal(self.reader.text()?, places),
            _ => Err(another_type()),
        }
    }

    fn text(&mut self) -> Result<&'a [u8]> {
        match self.next()? {
            (_, true) => Err(null()),
            (Column::Text, _) => self.reader.text(),
            _ => Err(another_type()),
        }
    }

    fn datetime_or_null(&mut self) -> Result<Option<DateTime>> {
        match self.next()? {
            (_, true) => Ok(None),
            (Column::DateTime, _) => read_datetime(self.reader.short_text()?).map(Some),
            _ => Err(another_type()),
        }
    }
}

fn null() -> Failure {
    Failure::protocol("a column is NULL that never is: are the tables as they should be?")
}

fn another_type() -> Failure {
    Failure::protocol("a column is of another type than it is read as")
}

fn read_decimal(text: &[u8], places: u32) -> Result<i64> {
    let wrong = || Failure::protocol("a column holds no decimal number, or one that is too large");
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let point = digits.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = point.map_or((digits, &[][..]), |at| (&digits[..at], &digits[at + 1..]));
    let missing = places.checked_sub(fraction.len() as u32).ok_or_else(wrong)?;
    let mut units = 0_i64;
    for byte in whole.iter().chain(fraction) {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0')).ok_or_else(wrong)?;
        units = units.checked_mul(10).and_then(|units| units.checked_add(digit)).ok_or_else(wrong)?;
    }
    let scaled = 10_i64.checked_pow(missing).and_then(|scale| units.checked_mul(scale)).ok_or_else(wrong)?;
    Ok(if negative { -scaled } else { scaled })
}

/// MySQL Internals, "ProtocolBinary::MYSQL_TYPE_DATETIME": parts that are 0 may be left out at its end.
fn read_datetime(bytes: &[u8]) -> Result<DateTime> {
    let mut reader = Reader::new(bytes);
    let mut read = DateTime::default();
    if !reader.is_empty() {
        (read.year, read.month, read.day) = (reader.u16()?, reader.u8()?, reader.u8()?);
    }
    if !reader.is_empty() {
        (read.hour, read.minute, read.second) = (reader.u8()?, reader.u8()?, reader.u8()?);
    }
    // Microseconds, which our tables do not have.
    if !reader.is_empty() {
        reader.u32()?;
    }
    if reader.is_empty() { Ok(read) } else { Err(Failure::protocol("a date is longer than dates are")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::Value;
    use mysql_common::proto::MySerialize;
    use proptest::prelude::*;
    use workload::sql::Row as _;

    #[test]
    fn columns_of_every_type() {
        const ALL: &[Column] = &[
            Column::Tiny,
            Column::Short,
            Column::Int,
            Column::Big,
            Column::Decimal,
            Column::Text,
            Column::DateTime,
            Column::Int,
            Column::DateTime,
        ];
        let packet = b"\x00\x00\x06\xff\x00\x80\x05\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff\x05-1.50\x03abc\x07\xea\x07\x0b\x16\x02\x24\x00";
        let mut row = Row::new(packet, ALL).unwrap();
        assert_eq!(row.integer().unwrap(), -1);
        assert_eq!(row.integer().unwrap(), -32_768);
        assert_eq!(row.integer().unwrap(), 5);
        assert_eq!(row.integer().unwrap(), -2);
        assert_eq!(row.decimal(4).unwrap(), -15_000);
        assert_eq!(row.text().unwrap(), b"abc");
        let date = DateTime { year: 2026, month: 11, day: 22, hour: 2, minute: 36, second: 0 };
        assert_eq!(row.datetime_or_null().unwrap(), Some(date));
        assert!(row.end().is_err(), "two more");
        assert_eq!(row.integer_or_null().unwrap(), None);
        assert_eq!(row.datetime_or_null().unwrap(), None);
        row.end().unwrap();
        assert!(row.text().is_err(), "no more");
    }

    #[test]
    fn what_a_row_does_not_hold_is_refused() {
        const TEXT: &[Column] = &[Column::Text];
        assert!(Row::new(b"\x01\x00\x01a", TEXT).is_err(), "no binary row");
        assert!(Row::new(b"\x00\x04", TEXT).unwrap().text().is_err(), "NULL");
        assert!(Row::new(b"\x00\x00\x01a", TEXT).unwrap().integer().is_err(), "another type");
        let mut longer = Row::new(b"\x00\x00\x01ab", TEXT).unwrap();
        assert!(longer.text().is_ok() && longer.end().is_err());
    }

    #[test]
    fn decimals_are_exact_and_nothing_else() {
        for (text, places, units) in [
            (&b"0.1234"[..], 4, 1234),
            (b"-10.00", 2, -1000),
            (b"300000", 2, 30_000_000),
            (b".5", 1, 5),
            (b"92233720368547758.07", 2, i64::MAX),
        ] {
            assert_eq!(read_decimal(text, places).unwrap(), units);
        }
        for wrong in [&b"1.234"[..], b"1e5", b"--1", b"92233720368547758.08", b"1.2.3"] {
            assert!(read_decimal(wrong, 2).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn values_of_another_implementation(number: i64, text in prop::collection::vec(any::<u8>(), 0..400), day in 0_u64..5_000_000_000) {
            const THREE: &[Column] = &[Column::Big, Column::Text, Column::DateTime];
            let date = DateTime::from_unix(day);
            let DateTime { year, month, day, hour, minute, second } = date;
            let mut packet = vec![0, 0];
            for value in [Value::Int(number), Value::Bytes(text.clone()), Value::Date(year, month, day, hour, minute, second, 0)] {
                value.serialize(&mut packet);
            }
            let mut row = Row::new(&packet, THREE).unwrap();
            prop_assert_eq!(row.integer().unwrap(), number);
            prop_assert_eq!(row.text().unwrap(), &text[..]);
            prop_assert_eq!(row.datetime_or_null().unwrap(), Some(date));
            row.end().unwrap();
        }

        #[test]
        fn decimals_of_every_size(units in -1_000_000_000_000_i64..1_000_000_000_000, places in 0_u32..5) {
            let scale = 10_i64.pow(places);
            let sign = if units < 0 { "-" } else { "" };
            let (whole, fraction) = (units.abs() / scale, units.abs() % scale);
            let text = if places == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction:0width$}", width = places as usize) };
            prop_assert_eq!(read_decimal(text.as_bytes(), places).unwrap(), units);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            const SOME: &[Column] = &[Column::Decimal, Column::DateTime, Column::Text, Column::Big, Column::Tiny, Column::Short, Column::Int];
            if let Ok(mut row) = Row::new(&bytes, SOME) {
                let _ = (row.decimal(2), row.datetime_or_null(), row.text(), row.integer());
                let _ = (row.integer_or_null(), row.integer_or_null(), row.integer(), row.end(), row.texts(3));
            }
            let _ = (read_decimal(&bytes, 2), read_decimal(&bytes, u32::MAX), read_datetime(&bytes));
        }
    }
}
