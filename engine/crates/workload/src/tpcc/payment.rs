//! Payment (clause 2.5): a customer pays at a district.

use super::DISTRICTS;
use super::names::LastName;
use super::numbers::{Constants, between, percent};
use super::statements::{
    CUSTOMER_DATA, DISTRICT_TAKES, INSERT_HISTORY, PAY, PAY_WITH_DATA, PAYING_CUSTOMER, PLACES, WAREHOUSE_TAKES,
};
use super::terminal::{Ended, Home, Who, one_row, rows_changed, shown};
use crate::sql::{DateTime, Parameters, Row, Sql};
use base::Random;
use base::error::Result;
use std::io::Write;

/// Of C_DATA.
const LONGEST_DATA: usize = 500;

/// What is typed in at the terminal.
#[derive(Debug, Clone)]
pub struct Payment {
    warehouse: u32,
    district: u32,
    customer_warehouse: u32,
    customer_district: u32,
    who: Who,
    cents: i64,
}

/// Room for what is read, used again.
#[derive(Debug, Default)]
pub struct PaymentBuffers {
    namesakes: Vec<i64>,
    bad_credit: bool,
    data: Vec<u8>,
    history: Vec<u8>,
}

impl Payment {
    /// Clause 2.5.1.
    pub fn drawn(home: Home, constants: &Constants, random: &mut Random) -> Self {
        let district = between(random, 1, DISTRICTS);
        // 2.5.1.2: 15 % are customers of another warehouse, where there is one.
        let remote = percent(random, 15) && home.warehouses > 1;
        Payment {
            warehouse: home.warehouse,
            district,
            customer_warehouse: if remote { home.other(random) } else { home.warehouse },
            customer_district: if remote { between(random, 1, DISTRICTS) } else { district },
            who: Who::drawn(constants, random),
            cents: between(random, 100, 500_000).into(),
        }
    }

    /// Clause 2.5.2.2.
    /// Errors: those of its statements; `protocol`, where a row that must be there is not.
    pub async fn run(&self, session: &mut impl Sql, buffers: &mut PaymentBuffers, now: DateTime) -> Result<Ended> {
        let of = (self.customer_warehouse, self.customer_district);
        let customer = self.who.customer(session, of, &mut buffers.namesakes).await?;
        self.read_customer(session, customer, buffers).await?;
        self.pay(session, customer, buffers).await?;
        self.take(session, buffers).await?;
        let changed = session
            .change(INSERT_HISTORY, |fill| {
                fill.integer(self.customer_warehouse.into()).integer(self.customer_district.into()).integer(customer);
                fill.integer(self.warehouse.into()).integer(self.district.into());
                fill.datetime(now).cents(self.cents).text(&buffers.history)
            })
            .await?;
        rows_changed(changed, 1, "history")?;
        session.say("COMMIT").await?;
        Ok(Ended::Committed)
    }

    async fn read_customer(&self, session: &mut impl Sql, customer: i64, buffers: &mut PaymentBuffers) -> Result<()> {
        let PaymentBuffers { bad_credit, .. } = buffers;
        let rows = session
            .select(
                PAYING_CUSTOMER,
                |fill| {
                    fill.integer(self.customer_warehouse.into()).integer(self.customer_district.into());
                    fill.integer(customer)
                },
                |row| {
                    row.texts(9)?;
                    shown(row.datetime_or_null()?);
                    *bad_credit = row.text()? == b"BC";
                    shown((row.decimal(2)?, row.decimal(4)?, row.decimal(2)?));
                    Ok(())
                },
            )
            .await?;
        one_row(rows, "customer")
    }

    /// Change the customer's row; with bad credit, its data too.
    async fn pay(&self, session: &mut impl Sql, customer: i64, buffers: &mut PaymentBuffers) -> Result<()> {
        let (warehouse, district) = (self.customer_warehouse.into(), self.customer_district.into());
        if !buffers.bad_credit {
            let changed = session
                .change(PAY, |fill| {
                    fill.cents(self.cents).cents(self.cents).integer(warehouse).integer(district).integer(customer)
                })
                .await?;
            return rows_changed(changed, 1, "customer");
        }
        self.begin_data(customer, &mut buffers.data);
        let PaymentBuffers { data, .. } = buffers;
        let rows = session
            .select(
                CUSTOMER_DATA,
                |fill| fill.integer(warehouse).integer(district).integer(customer),
                |row| {
                    data.extend_from_slice(row.text()?);
                    Ok(())
                },
            )
            .await?;
        one_row(rows, "customer")?;
        data.truncate(LONGEST_DATA);
        let changed = session
            .change(PAY_WITH_DATA, |fill| {
                fill.cents(self.cents).cents(self.cents).text(data);
                fill.integer(warehouse).integer(district).integer(customer)
            })
            .await?;
        rows_changed(changed, 1, "customer")
    }

    fn begin_data(&self, customer: i64, data: &mut Vec<u8>) {
        let Payment { customer_warehouse, customer_district, warehouse, district, cents, .. } = self;
        data.clear();
        let (whole, fraction) = (cents / 100, cents % 100);
        write!(
            data,
            "{customer} {customer_district} {customer_warehouse} {district} {warehouse} {whole}.{fraction:02} "
        )
        .expect("memory takes what is written");
    }

    /// District and warehouse take the money; their names make H_DATA.
    async fn take(&self, session: &mut impl Sql, PaymentBuffers { history, .. }: &mut PaymentBuffers) -> Result<()> {
        let (warehouse, district) = (self.warehouse.into(), self.district.into());
        let changed =
            session.change(DISTRICT_TAKES, |fill| fill.cents(self.cents).integer(warehouse).integer(district)).await?;
        rows_changed(changed, 1, "district")?;
        let changed = session.change(WAREHOUSE_TAKES, |fill| fill.cents(self.cents).integer(warehouse)).await?;
        rows_changed(changed, 1, "warehouse")?;
        let rows = session
            .select(
                PLACES,
                |fill| fill.integer(warehouse).integer(warehouse).integer(district),
                |row| {
                    history.clear();
                    history.extend_from_slice(row.text()?);
                    row.texts(5)?;
                    history.extend_from_slice(b"    ");
                    history.extend_from_slice(row.text()?);
                    row.texts(5)
                },
            )
            .await?;
        one_row(rows, "warehouse")
    }
}

impl Who {
    /// Clause 2.5.1.2: 60 % by last name.
    pub fn drawn(constants: &Constants, random: &mut Random) -> Self {
        if percent(random, 60) {
            Who::Name(LastName::new(constants.asked_name(random)))
        } else {
            Who::Number(constants.customer(random))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CUSTOMERS;
    use super::*;

    #[test]
    fn payments_are_typed_in_as_clause_2_5_1_has_it() {
        let (mut random, constants) = (Random::new(1), Constants::drawn(1));
        let mut draw =
            |warehouses| Payment::drawn(Home { warehouse: 2, district: 1, warehouses }, &constants, &mut random);
        let payments: Vec<_> = (0..50_000).map(|_| draw(3)).collect();
        let share = |wanted: fn(&Payment) -> bool| payments.iter().filter(|one| wanted(one)).count() as f64 / 50_000.0;
        assert!((0.145..0.155).contains(&share(|one| one.customer_warehouse != 2)));
        assert!((0.59..0.61).contains(&share(|one| matches!(one.who, Who::Name(_)))));
        let at_home = |one: &Payment| one.customer_warehouse == 2;
        assert!(payments.iter().filter(|one| at_home(one)).all(|one| one.customer_district == one.district));
        assert!(payments.iter().all(|one| (100..=500_000).contains(&one.cents)));
        assert!(
            payments.iter().all(|one| !matches!(one.who, Who::Number(number) if number == 0 || number > CUSTOMERS))
        );
        assert!((0..1000).all(|_| draw(1).customer_warehouse == 2), "there is no other");
    }

    #[test]
    fn data_begins_with_the_payment() {
        let payment = Payment {
            warehouse: 1,
            district: 2,
            customer_warehouse: 3,
            customer_district: 4,
            who: Who::Number(5),
            cents: 123_405,
        };
        let mut data = b"of before".to_vec();
        payment.begin_data(5, &mut data);
        assert_eq!(data, b"5 4 3 2 1 1234.05 ");
    }
}
