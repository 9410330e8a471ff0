//! The SQL traits that a protocol implements for workload `tpcc`. A connection prepares each statement once. The caller
//! appends parameters one after the other, and reads rows column by column without copying.

use crate::client::Session;
use base::error::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    Integer,
    /// `DECIMAL`, with which the server calculates exactly. With strings the server would use floating-point numbers.
    Decimal,
    Text,
    DateTime,
}

/// A statement to prepare: its text, the types of its parameters, and the types of its result's columns.
#[derive(Debug)]
pub struct Statement {
    pub text: String,
    pub parameters: Vec<Parameter>,
    pub columns: &'static [Column],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Tiny,
    Short,
    Int,
    /// `BIGINT`, the type of `COUNT`.
    Big,
    /// `DECIMAL`, the type of amounts of money and of their sums.
    Decimal,
    /// `CHAR` or `VARCHAR`.
    Text,
    DateTime,
}

/// A date and time of day, without a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DateTime {
    pub year: u16,
    /// The number of the month, from 1 to 12.
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
}

impl DateTime {
    /// Return the UTC date and time, by Hinnant's "chrono-compatible low-level date algorithms" (`civil_from_days`).
    pub fn from_unix(seconds: u64) -> Self {
        let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
        // Days are counted from 1 March of year 0, so that a leap day is the last day of its year.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        DateTime {
            year: (year_of_era + era * 400 + u64::from(month <= 2)) as u16,
            month: month as u8,
            day: (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u8,
            hour: (second_of_day / 3600) as u8,
            minute: (second_of_day / 60 % 60) as u8,
            second: (second_of_day % 60) as u8,
        }
    }
}

/// The parameters of a statement. They are appended one after the other.
pub trait Parameters {
    fn integer(&mut self, number: i64) -> &mut Self;

    /// Append an amount of money in cents as a `DECIMAL` with two decimal places.
    fn cents(&mut self, cents: i64) -> &mut Self;

    fn text(&mut self, text: &[u8]) -> &mut Self;

    fn datetime(&mut self, at: DateTime) -> &mut Self;

    fn null(&mut self) -> &mut Self;
}

/// A row of a result. Its columns are read one after the other. It is an error of class `protocol` if a column has
/// another type or is unexpectedly NULL, or if there is no further column.
pub trait Row<'a> {
    fn integer(&mut self) -> Result<i64>;

    fn integer_or_null(&mut self) -> Result<Option<i64>>;

    /// Read a `DECIMAL` with at most `places` decimal places, and return it in units of the last decimal place. With
    /// two places, 12.5 is returned as 1250.
    fn decimal(&mut self, places: u32) -> Result<i64>;

    fn text(&mut self) -> Result<&'a [u8]>;

    fn datetime_or_null(&mut self) -> Result<Option<DateTime>>;

    /// Skip `count` columns with strings.
    fn texts(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            self.text()?;
        }
        Ok(())
    }
}

/// A session that speaks SQL. Once its buffers have grown, executing a statement does not allocate memory.
pub trait Sql: Session {
    type Parameters: Parameters;
    type Row<'a>: Row<'a>;

    /// Prepare these statements. The other methods refer to them by index. The preparation is not measured. Errors:
    /// class `server` if a table is missing or has other columns; `protocol` for an invalid answer; those of a broken
    /// connection.
    async fn prepare_all(&mut self, statements: &'static [Statement]) -> Result<()>;

    fn statements_sent(&self) -> u64;

    /// Execute the text of a statement that has no parameters and no result, such as `COMMIT`.
    /// Errors, also of the methods below: class `server` if the server answers with an error; `protocol` if the answer
    /// is invalid; the errors of a broken connection.
    async fn execute(&mut self, text: &str) -> Result<()>;

    /// Execute the INSERT `into` followed by `rows`, such as `(1,'a'),(2,'b')`. Return the number of rows written.
    async fn insert_rows(&mut self, into: &str, rows: &[u8]) -> Result<u64>;

    /// Execute the prepared statement with this index, which has no result, and return the number of changed rows.
    async fn change(&mut self, index: usize, fill: impl Fill<Self>) -> Result<u64>;

    /// Execute the prepared query with this index, call `each` for each row, and return the number of rows.
    async fn select(
        &mut self,
        index: usize,
        fill: impl Fill<Self>,
        each: impl FnMut(&mut Self::Row<'_>) -> Result<()>,
    ) -> Result<u64>;
}

/// A function that appends a statement's parameters to its argument. The function returns its argument, so that callers
/// can write it as one chain of calls.
pub trait Fill<S: Sql + ?Sized>: for<'a> FnOnce(&'a mut S::Parameters) -> &'a mut S::Parameters {}

impl<S: Sql + ?Sized, F> Fill<S> for F where F: for<'a> FnOnce(&'a mut S::Parameters) -> &'a mut S::Parameters {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_seconds_convert_to_calendar_dates() {
        let date = |seconds| {
            let DateTime { year, month, day, hour, minute, second } = DateTime::from_unix(seconds);
            format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
        };
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(date(951_868_799), "2000-02-29 23:59:59");
        assert_eq!(date(1_795_315_005), "2026-11-22 02:36:45");
        assert_eq!(date(4_107_542_400), "2100-03-01 00:00:00");
    }
}
