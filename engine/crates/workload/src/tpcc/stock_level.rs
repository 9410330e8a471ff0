//! Stock-Level (clause 2.8): how many of a district's last items are low in stock.

use super::numbers::between;
use super::statements::{LOW_STOCK, NEXT_ORDER_OF_DISTRICT};
use super::terminal::{Ended, Home, one_row, shown};
use crate::sql::{Parameters, Row, Sql};
use base::Random;
use base::error::Result;

/// Orders that are looked at.
const LAST_ORDERS: i64 = 20;

/// What is typed in at the terminal.
#[derive(Debug, Clone)]
pub struct StockLevel {
    home: Home,
    threshold: u32,
}

impl StockLevel {
    /// Clause 2.8.1.
    pub fn drawn(home: Home, random: &mut Random) -> Self {
        StockLevel { home, threshold: between(random, 10, 20) }
    }

    /// Clause 2.8.2.2.
    /// Errors: those of its statements; `protocol`, where a row that must be there is not.
    pub async fn run(&self, session: &mut impl Sql) -> Result<Ended> {
        let (warehouse, district) = (self.home.warehouse.into(), self.home.district.into());
        let mut next = 0;
        let rows = session
            .select(
                NEXT_ORDER_OF_DISTRICT,
                |fill| fill.integer(warehouse).integer(district),
                |row| {
                    next = row.integer()?;
                    Ok(())
                },
            )
            .await?;
        one_row(rows, "district")?;
        let rows = session
            .select(
                LOW_STOCK,
                |fill| {
                    fill.integer(warehouse).integer(district).integer(next).integer(next - LAST_ORDERS);
                    fill.integer(warehouse).integer(self.threshold.into())
                },
                |row| row.integer().map(shown),
            )
            .await?;
        one_row(rows, "count")?;
        session.say("COMMIT").await?;
        Ok(Ended::Committed)
    }
}
