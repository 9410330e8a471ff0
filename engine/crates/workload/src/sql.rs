//! What workloads that are written for SQL need of a protocol, beside sessions: statements that a connection prepares once,
//! parameters of several types that are given one after the other, and rows that are read column by column where they lie.

use crate::client::Session;
use base::error::Result;

/// How a parameter is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    Integer,
    /// As `DECIMAL`: the server then counts exactly, where a string would make it count with floating point.
    Decimal,
    Text,
    DateTime,
}

/// What is prepared: its text, its question marks, and the columns of its result, none where it has none.
#[derive(Debug)]
pub struct Statement {
    pub text: String,
    pub parameters: Vec<Parameter>,
    pub columns: &'static [Column],
}

/// How a column's values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Tiny,
    Short,
    Int,
    /// `BIGINT`; counts are such.
    Big,
    /// `DECIMAL`; sums are such.
    Decimal,
    /// `CHAR`, `VARCHAR`.
    Text,
    DateTime,
}

/// A date and time of day, without a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DateTime {
    pub year: u16,
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
    /// From 0; so it is with minutes and seconds.
    pub hour: u8,
    /// To 59.
    pub minute: u8,
    /// To 59.
    pub second: u8,
}

impl DateTime {
    /// In UTC, from seconds since 1970 (Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`).
    pub fn from_unix(seconds: u64) -> Self {
        let (days, of_day) = (seconds / 86_400, seconds % 86_400);
        // Counted from 1 March of year 0, so that a leap day is a year's last.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        DateTime {
            year: (year_of_era + era * 400 + u64::from(month <= 2)) as u16,
            month: month as u8,
            day: (of_year - (153 * shifted_month + 2) / 5 + 1) as u8,
            hour: (of_day / 3600) as u8,
            minute: (of_day / 60 % 60) as u8,
            second: (of_day % 60) as u8,
        }
    }
}

/// A statement's parameters, given one after the other.
pub trait Parameters {
    fn integer(&mut self, number: i64) -> &mut Self;

    /// A `DECIMAL` of two places, in units of the second: money.
    fn cents(&mut self, cents: i64) -> &mut Self;

    fn text(&mut self, text: &[u8]) -> &mut Self;

    fn datetime(&mut self, at: DateTime) -> &mut Self;

    fn null(&mut self) -> &mut Self;
}

/// A row of which columns are read one after the other. A column of another type, or NULL where it is not asked for, is an
/// error of class `protocol`; so it is with a row that has no more.
pub trait Row<'a> {
    fn integer(&mut self) -> Result<i64>;

    /// As `integer`; None, where it is NULL.
    fn integer_or_null(&mut self) -> Result<Option<i64>>;

    /// A `DECIMAL` in units of its last place, of which it has at most so many: 12.5 is 1250 with two.
    fn decimal(&mut self, places: u32) -> Result<i64>;

    fn text(&mut self) -> Result<&'a [u8]>;

    /// A `DATETIME`; None, where it is NULL.
    fn datetime_or_null(&mut self) -> Result<Option<DateTime>>;

    /// So many strings, of which only the terminal makes something.
    fn texts(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            self.text()?;
        }
        Ok(())
    }
}

/// A session that speaks SQL. Nothing on the way of a statement allocates once buffers have grown.
pub trait Sql: Session {
    /// Where a statement's parameters go.
    type Parameters: Parameters;
    /// Where a row is read.
    type Row<'a>: Row<'a>;

    /// Prepare these, unmeasured: from then on they are named by their places.
    /// Errors: `server`, where a table is missing or has other columns; `protocol`, those of a broken connection.
    async fn prepare_all(&mut self, statements: &'static [Statement]) -> Result<()>;

    fn statements_sent(&self) -> u64;

    /// Send a statement that has neither parameters nor a result, as text: `COMMIT`.
    /// Errors: the server's own; `protocol`, those of a broken connection. So it is with those that follow.
    async fn say(&mut self, text: &str) -> Result<()>;

    /// Write these rows, `(1,'a'),(2,'b')`, after what begins an INSERT: how many were written.
    async fn insert_rows(&mut self, into: &str, rows: &[u8]) -> Result<u64>;

    /// Execute a statement without a result: how many rows it has changed.
    async fn change(&mut self, place: usize, fill: impl Fill<Self>) -> Result<u64>;

    async fn select(
        &mut self,
        place: usize,
        fill: impl Fill<Self>,
        each: impl FnMut(&mut Self::Row<'_>) -> Result<()>,
    ) -> Result<u64>;
}

/// What gives a statement its parameters: it hands back what it was given, so that one chain of calls is enough.
pub trait Fill<S: Sql + ?Sized>: for<'a> FnOnce(&'a mut S::Parameters) -> &'a mut S::Parameters {}

impl<S: Sql + ?Sized, F> Fill<S> for F where F: for<'a> FnOnce(&'a mut S::Parameters) -> &'a mut S::Parameters {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
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
