//! Order-Status (clause 2.6): a customer's last order.

use super::DISTRICTS;
use super::numbers::{Constants, between};
use super::statements::{CUSTOMER_STATUS, LAST_ORDER, ORDER_LINES};
use super::terminal::{Ended, Home, Who, one_row, shown};
use crate::sql::{Parameters, Row, Sql};
use base::Random;
use base::error::{Failure, Result};

/// What is typed in at the terminal.
#[derive(Debug, Clone)]
pub struct OrderStatus {
    warehouse: u32,
    district: u32,
    who: Who,
}

impl OrderStatus {
    /// Clause 2.6.1.
    pub fn drawn(home: Home, constants: &Constants, random: &mut Random) -> Self {
        OrderStatus {
            warehouse: home.warehouse,
            district: between(random, 1, DISTRICTS),
            who: Who::drawn(constants, random),
        }
    }

    /// Clause 2.6.2.2.
    /// Errors: those of its statements; `protocol`, where a row that must be there is not.
    pub async fn run(&self, session: &mut impl Sql, namesakes: &mut Vec<i64>) -> Result<Ended> {
        let of = (self.warehouse, self.district);
        let (warehouse, district) = (self.warehouse.into(), self.district.into());
        let customer = self.who.customer(session, of, namesakes).await?;
        let rows = session
            .select(
                CUSTOMER_STATUS,
                |fill| fill.integer(warehouse).integer(district).integer(customer),
                |row| {
                    shown(row.decimal(2)?);
                    row.texts(3)
                },
            )
            .await?;
        one_row(rows, "customer")?;
        let mut order = 0;
        let rows = session
            .select(
                LAST_ORDER,
                |fill| fill.integer(warehouse).integer(district).integer(customer),
                |row| {
                    order = row.integer()?;
                    shown((row.datetime_or_null()?, row.integer_or_null()?));
                    Ok(())
                },
            )
            .await?;
        one_row(rows, "order")?;
        let lines = session
            .select(
                ORDER_LINES,
                |fill| fill.integer(warehouse).integer(district).integer(order),
                |row| {
                    shown((row.integer()?, row.integer()?, row.integer()?));
                    shown((row.decimal(2)?, row.datetime_or_null()?));
                    Ok(())
                },
            )
            .await?;
        if lines == 0 {
            return Err(Failure::protocol(format!("order {order} of district {district} has no lines")));
        }
        session.say("COMMIT").await?;
        Ok(Ended::Committed)
    }
}
