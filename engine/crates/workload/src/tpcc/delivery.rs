//! Delivery (clause 2.7): the oldest new order of each of the warehouse's districts.

use super::DISTRICTS;
use super::numbers::between;
use super::statements::{AMOUNTS, CARRY, CHARGE, DELETE_NEW_ORDERS, DELIVER_LINES, OLDEST_ORDERS, ORDERING_CUSTOMERS};
use super::terminal::{Ended, Home, rows_changed};
use crate::sql::{DateTime, Parameters, Row, Sql};
use base::Random;
use base::error::{Failure, Result};

/// What is typed in at the terminal.
#[derive(Debug, Clone)]
pub struct Delivery {
    warehouse: u32,
    carrier: u32,
}

/// A district's order that is delivered; number 0 where it has none (clause 2.7.4.2).
#[derive(Debug, Clone, Copy, Default)]
struct Delivered {
    order: i64,
    customer: i64,
    cents: i64,
}

type OfDistricts = [Delivered; DISTRICTS as usize];

impl Delivery {
    /// Clause 2.7.1.
    pub fn drawn(home: Home, random: &mut Random) -> Self {
        Delivery { warehouse: home.warehouse, carrier: between(random, 1, 10) }
    }

    /// Clause 2.7.4.2.
    /// Errors: those of its statements; `protocol`, where a row that must be there is not.
    pub async fn run(&self, session: &mut impl Sql, now: DateTime) -> Result<Ended> {
        let mut orders = OfDistricts::default();
        let warehouse = i64::from(self.warehouse);
        session
            .select(
                OLDEST_ORDERS,
                |fill| orders_of(fill, warehouse),
                |row| {
                    let delivered = district(&mut orders, row)?;
                    delivered.order = row.integer()?;
                    Ok(())
                },
            )
            .await?;
        let there = orders.iter().filter(|delivered| delivered.order > 0).count() as u64;
        if there > 0 {
            self.deliver(session, &mut orders, there, now).await?;
        }
        session.say("COMMIT").await?;
        Ok(Ended::Committed)
    }

    async fn deliver(&self, session: &mut impl Sql, orders: &mut OfDistricts, there: u64, now: DateTime) -> Result<()> {
        let warehouse = i64::from(self.warehouse);
        let numbers = *orders;
        let changed = session.change(DELETE_NEW_ORDERS, |fill| of_districts(fill.integer(warehouse), &numbers)).await?;
        rows_changed(changed, there, "new orders")?;
        let carrier = i64::from(self.carrier);
        let changed =
            session.change(CARRY, |fill| of_districts(fill.integer(carrier).integer(warehouse), &numbers)).await?;
        rows_changed(changed, there, "orders")?;
        session
            .select(
                ORDERING_CUSTOMERS,
                |fill| of_districts(fill.integer(warehouse), &numbers),
                |row| {
                    let delivered = district(orders, row)?;
                    delivered.customer = row.integer()?;
                    Ok(())
                },
            )
            .await?;
        session.change(DELIVER_LINES, |fill| of_districts(fill.datetime(now).integer(warehouse), &numbers)).await?;
        session
            .select(
                AMOUNTS,
                |fill| of_districts(fill.integer(warehouse), &numbers),
                |row| {
                    let delivered = district(orders, row)?;
                    delivered.cents = row.decimal(2)?;
                    Ok(())
                },
            )
            .await?;
        for (place, delivered) in orders.iter().enumerate().filter(|(_, delivered)| delivered.order > 0) {
            let changed = session
                .change(CHARGE, |fill| {
                    fill.cents(delivered.cents).integer(warehouse).integer(place as i64 + 1).integer(delivered.customer)
                })
                .await?;
            rows_changed(changed, 1, "customer")?;
        }
        Ok(())
    }
}

fn district<'a, 'r>(orders: &'a mut OfDistricts, row: &mut impl Row<'r>) -> Result<&'a mut Delivered> {
    let number = row.integer()?;
    let place = usize::try_from(number - 1).ok().and_then(|place| orders.get_mut(place));
    place.ok_or_else(|| Failure::protocol(format!("there is no district {number}")))
}

fn orders_of<P: Parameters>(fill: &mut P, warehouse: i64) -> &mut P {
    (0..DISTRICTS).fold(fill, |fill, _| fill.integer(warehouse))
}

fn of_districts<'a, P: Parameters>(fill: &'a mut P, orders: &OfDistricts) -> &'a mut P {
    for (place, Delivered { order, .. }) in orders.iter().enumerate() {
        fill.integer(place as i64 + 1).integer(*order);
    }
    fill
}
