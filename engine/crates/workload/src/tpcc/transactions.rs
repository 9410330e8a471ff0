//! The five transactions of clause 2: what is typed in at the terminal, and the statements that follow.

use super::numbers::{Constants, LastName, between, is_original, percent};
use super::statements::{
    AMOUNTS, CARRY, CHARGE, CUSTOMER_DATA, CUSTOMER_OF_ORDER, CUSTOMER_STATUS, DELETE_NEW_ORDERS, DELIVER_LINES,
    DISTRICT_FOR_ORDER, DISTRICT_TAKES, INSERT_HISTORY, INSERT_NEW_ORDER, INSERT_ORDER, ITEMS, LAST_ORDER, LOW_STOCK,
    NEXT_ORDER, NEXT_ORDER_OF_DISTRICT, OLDEST_ORDERS, ORDER_LINES, ORDERING_CUSTOMERS, PAY, PAY_WITH_DATA,
    PAYING_CUSTOMER, PLACES, WAREHOUSE_TAKES, WAREHOUSE_TAX, insert_lines, stock_of, update_of,
};
use super::terminal::{Ended, Home, Who, one_row, rows_changed, shown};
use super::{DISTRICTS, LINES, MOST_LINES};
use crate::sql::{DateTime, Parameters, Row, Sql};
use base::Random;
use base::error::{Failure, Result};
use std::io::Write;

/// An item that nobody sells (clause 2.4.1.5).
const UNUSED_ITEM: u32 = super::ITEMS + 1;
const DIST_INFO: usize = 24;

/// What is typed in at the terminal.
#[derive(Debug, Clone)]
pub struct NewOrder {
    warehouse: u32,
    district: u32,
    customer: u32,
    lines: [Ordered; MOST_LINES],
    count: usize,
}

/// A line as it is typed in.
#[derive(Debug, Clone, Copy, Default)]
struct Ordered {
    item: u32,
    supply: u32,
    quantity: u32,
}

/// What becomes of a line.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    price_cents: i64,
    found: bool,
    original: bool,
    stock: usize,
}

/// A row of stock of which something is ordered: by two lines, where an item is typed in twice.
#[derive(Debug, Clone, Copy, Default)]
struct Stock {
    warehouse: u32,
    item: u32,
    found: bool,
    original: bool,
    quantity: i64,
    dist_info: [u8; DIST_INFO],
    ordered: i64,
    orders: i64,
    remote_orders: i64,
}

/// Room for what is read, used again.
#[derive(Debug, Default)]
pub struct NewOrderBuffers {
    lines: [Line; MOST_LINES],
    stock: Vec<Stock>,
}

/// What the customer pays of the sum of the lines, with both taxes (clause 2.4.2.2), rates in tenths of a thousandth.
#[derive(Debug, Clone, Copy, Default)]
struct Rates {
    discount: i64,
    district_tax: i64,
    warehouse_tax: i64,
}

impl NewOrder {
    /// Clause 2.4.1.
    pub fn drawn(home: Home, constants: &Constants, random: &mut Random) -> Self {
        let mut order = NewOrder {
            warehouse: home.warehouse,
            district: between(random, 1, DISTRICTS),
            customer: constants.customer(random),
            lines: Default::default(),
            count: between(random, *LINES.start(), *LINES.end()) as usize,
        };
        for line in &mut order.lines[..order.count] {
            // 2.4.1.5: 1 % from another warehouse, where there is one.
            let supply = if percent(random, 1) { home.other(random) } else { home.warehouse };
            *line = Ordered { item: constants.item(random), supply, quantity: between(random, 1, 10) };
        }
        // 2.4.1.4: of 1 % the last item is none.
        if percent(random, 1) {
            order.lines[order.count - 1].item = UNUSED_ITEM;
        }
        order
    }

    /// Clause 2.4.2.2. An order with an unused item is processed like any other and then rolled back (clause 2.4.2.3).
    /// Errors: those of its statements; `protocol`, where a row that must be there is not.
    pub async fn run(&self, session: &mut impl Sql, buffers: &mut NewOrderBuffers, now: DateTime) -> Result<Ended> {
        let all_found = self.read_items(session, buffers).await?;
        let mut rates = Rates { discount: self.read_customer(session).await?, ..Rates::default() };
        self.take_stock(session, buffers).await?;
        let (district_tax, order) = self.take_number(session).await?;
        self.insert(session, buffers, order, now).await?;
        rates.district_tax = district_tax;
        rates.warehouse_tax = self.read_warehouse(session).await?;
        shown((rates.total(self.sum_cents(buffers)), self.brands(buffers)));
        session.say(if all_found { "COMMIT" } else { "ROLLBACK" }).await?;
        Ok(if all_found { Ended::Committed } else { Ended::RolledBack })
    }

    fn ordered(&self) -> &[Ordered] {
        &self.lines[..self.count]
    }

    async fn read_items(&self, session: &mut impl Sql, buffers: &mut NewOrderBuffers) -> Result<bool> {
        buffers.lines = Default::default();
        let NewOrderBuffers { lines, .. } = buffers;
        session
            .select(
                ITEMS,
                |fill| {
                    // The last one again, where there are fewer: the list is a set.
                    for place in 0..MOST_LINES {
                        fill.integer(self.lines[place.min(self.count - 1)].item.into());
                    }
                    fill
                },
                |row| {
                    let (item, price_cents) = (row.integer()?, row.decimal(2)?);
                    row.texts(1)?;
                    let original = is_original(row.text()?);
                    for (ordered, line) in self.ordered().iter().zip(lines.iter_mut()) {
                        if i64::from(ordered.item) == item {
                            *line = Line { price_cents, found: true, original, ..*line };
                        }
                    }
                    Ok(())
                },
            )
            .await?;
        match self.ordered().iter().zip(&buffers.lines).find(|(_, line)| !line.found) {
            None => Ok(true),
            Some((Ordered { item: UNUSED_ITEM, .. }, _)) => Ok(false),
            Some((ordered, _)) => Err(Failure::protocol(format!("there is no item {}", ordered.item))),
        }
    }

    async fn read_customer(&self, session: &mut impl Sql) -> Result<i64> {
        let (warehouse, district, customer) = (self.warehouse.into(), self.district.into(), self.customer.into());
        let mut discount = 0;
        let rows = session
            .select(
                CUSTOMER_OF_ORDER,
                |fill| fill.integer(warehouse).integer(district).integer(customer),
                |row| {
                    discount = row.decimal(4)?;
                    row.texts(2)
                },
            )
            .await?;
        one_row(rows, "customer")?;
        Ok(discount)
    }

    async fn take_stock(&self, session: &mut impl Sql, buffers: &mut NewOrderBuffers) -> Result<()> {
        self.list_stock(buffers);
        let mut begin = 0;
        while begin < buffers.stock.len() {
            let warehouse = buffers.stock[begin].warehouse;
            let length = buffers.stock[begin..].iter().take_while(|stock| stock.warehouse == warehouse).count();
            self.read_stock(session, &mut buffers.stock[begin..begin + length]).await?;
            begin += length;
        }
        self.count_off(buffers);
        update_stock(session, &buffers.stock).await
    }

    fn list_stock(&self, NewOrderBuffers { lines, stock }: &mut NewOrderBuffers) {
        stock.clear();
        for (ordered, _) in self.ordered().iter().zip(lines.iter()).filter(|(_, line)| line.found) {
            let key = |stock: &Stock| (stock.warehouse, stock.item);
            if let Err(at) = stock.binary_search_by_key(&(ordered.supply, ordered.item), key) {
                stock.insert(at, Stock { warehouse: ordered.supply, item: ordered.item, ..Stock::default() });
            }
        }
        for (ordered, line) in self.ordered().iter().zip(lines.iter_mut()).filter(|(_, line)| line.found) {
            let key = |stock: &Stock| (stock.warehouse, stock.item);
            line.stock = stock.binary_search_by_key(&(ordered.supply, ordered.item), key).expect("it was put there");
        }
    }

    async fn read_stock(&self, session: &mut impl Sql, wanted: &mut [Stock]) -> Result<()> {
        let (warehouse, last) = (wanted[0].warehouse, wanted.len() - 1);
        let mut items = [0; MOST_LINES];
        items.iter_mut().enumerate().for_each(|(place, item)| *item = wanted[place.min(last)].item);
        session
            .select(
                stock_of(self.district),
                |fill| {
                    fill.integer(warehouse.into());
                    items.iter().fold(fill, |fill, item| fill.integer((*item).into()))
                },
                |row| {
                    let (item, quantity, dist_info) = (row.integer()?, row.integer()?, row.text()?);
                    let original = is_original(row.text()?);
                    for stock in wanted.iter_mut().filter(|stock| i64::from(stock.item) == item) {
                        (stock.found, stock.quantity, stock.original) = (true, quantity, original);
                        let length = dist_info.len().min(DIST_INFO);
                        stock.dist_info[..length].copy_from_slice(&dist_info[..length]);
                    }
                    Ok(())
                },
            )
            .await?;
        match wanted.iter().find(|stock| !stock.found) {
            None => Ok(()),
            Some(Stock { warehouse, item, .. }) => {
                Err(Failure::protocol(format!("warehouse {warehouse} has no stock of item {item}")))
            }
        }
    }

    /// What each row of stock is after the order (clause 2.4.2.2).
    fn count_off(&self, NewOrderBuffers { lines, stock }: &mut NewOrderBuffers) {
        for (ordered, line) in self.ordered().iter().zip(lines.iter()).filter(|(_, line)| line.found) {
            let stock = &mut stock[line.stock];
            let quantity = i64::from(ordered.quantity);
            stock.quantity = left(stock.quantity, quantity);
            stock.ordered += quantity;
            stock.orders += 1;
            stock.remote_orders += i64::from(ordered.supply != self.warehouse);
        }
    }

    async fn take_number(&self, session: &mut impl Sql) -> Result<(i64, i64)> {
        let (warehouse, district) = (self.warehouse.into(), self.district.into());
        let (mut tax, mut order) = (0, 0);
        let rows = session
            .select(
                DISTRICT_FOR_ORDER,
                |fill| fill.integer(warehouse).integer(district),
                |row| {
                    (tax, order) = (row.decimal(4)?, row.integer()?);
                    Ok(())
                },
            )
            .await?;
        one_row(rows, "district")?;
        let changed =
            session.change(NEXT_ORDER, |fill| fill.integer(order + 1).integer(warehouse).integer(district)).await?;
        rows_changed(changed, 1, "district")?;
        Ok((tax, order))
    }

    /// The warehouse's tax: last, since every payment waits for those who have read it.
    async fn read_warehouse(&self, session: &mut impl Sql) -> Result<i64> {
        let mut tax = 0;
        let rows = session
            .select(
                WAREHOUSE_TAX,
                |fill| fill.integer(self.warehouse.into()),
                |row| {
                    tax = row.decimal(4)?;
                    Ok(())
                },
            )
            .await?;
        one_row(rows, "warehouse")?;
        Ok(tax)
    }

    async fn insert(&self, session: &mut impl Sql, buffers: &NewOrderBuffers, order: i64, now: DateTime) -> Result<()> {
        let (warehouse, district): (i64, i64) = (self.warehouse.into(), self.district.into());
        let all_local = self.ordered().iter().all(|line| line.supply == self.warehouse);
        let changed = session
            .change(INSERT_ORDER, |fill| {
                fill.integer(warehouse).integer(district).integer(order).integer(self.customer.into());
                fill.datetime(now).integer(self.count as i64).integer(all_local.into())
            })
            .await?;
        rows_changed(changed, 1, "order")?;
        let changed =
            session.change(INSERT_NEW_ORDER, |fill| fill.integer(warehouse).integer(district).integer(order)).await?;
        rows_changed(changed, 1, "new order")?;
        let found = || self.ordered().iter().zip(&buffers.lines).enumerate().filter(|(_, (_, line))| line.found);
        let count = found().count();
        let changed = session
            .change(insert_lines(count), |fill| {
                for (place, (ordered, line)) in found() {
                    fill.integer(warehouse).integer(district).integer(order).integer(place as i64 + 1);
                    fill.integer(ordered.item.into()).integer(ordered.supply.into()).integer(ordered.quantity.into());
                    fill.cents(amount_cents(ordered, line)).text(&buffers.stock[line.stock].dist_info);
                }
                fill
            })
            .await?;
        rows_changed(changed, count as u64, "order lines")
    }

    fn sum_cents(&self, buffers: &NewOrderBuffers) -> i64 {
        self.ordered().iter().zip(&buffers.lines).map(|(ordered, line)| amount_cents(ordered, line)).sum()
    }

    /// A line is of brand B where item and stock are original, else G: how many are.
    fn brands(&self, NewOrderBuffers { lines, stock }: &NewOrderBuffers) -> usize {
        lines[..self.count].iter().filter(|line| line.original && stock[line.stock].original).count()
    }
}

fn amount_cents(ordered: &Ordered, line: &Line) -> i64 {
    i64::from(ordered.quantity) * line.price_cents
}

/// S_QUANTITY after so many were taken: it is filled up before it falls below ten.
fn left(there: i64, taken: i64) -> i64 {
    if there >= taken + 10 { there - taken } else { there - taken + 91 }
}

/// A row counts twice where it was there, and once where nothing changed: as those do that are only there to fill up.
async fn update_stock(session: &mut impl Sql, stock: &[Stock]) -> Result<()> {
    let (place, rows) = update_of(stock.len());
    let nothing = |last: &Stock| Stock { ordered: 0, orders: 0, remote_orders: 0, ..*last };
    let changed = session
        .change(place, |fill| {
            for at in 0..rows {
                let stock = stock.get(at).copied().unwrap_or_else(|| nothing(&stock[stock.len() - 1]));
                fill.integer(stock.warehouse.into()).integer(stock.item.into()).integer(stock.quantity);
                fill.integer(stock.ordered).integer(stock.orders).integer(stock.remote_orders);
            }
            fill
        })
        .await?;
    rows_changed(changed, (stock.len() + rows) as u64, "stock")
}

impl Rates {
    /// In cents, rounded.
    fn total(self, sum_cents: i64) -> i64 {
        const WHOLE: i128 = 10_000;
        let discounted = i128::from(sum_cents) * (WHOLE - i128::from(self.discount));
        let taxed = discounted * (WHOLE + i128::from(self.district_tax) + i128::from(self.warehouse_tax));
        ((taxed + WHOLE * WHOLE / 2) / (WHOLE * WHOLE)) as i64
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::CUSTOMERS;

    fn drawn(warehouses: u32, count: usize) -> Vec<NewOrder> {
        let (mut random, constants) = (Random::new(1), Constants::drawn(1));
        (0..count)
            .map(|_| NewOrder::drawn(Home { warehouse: 2, district: 1, warehouses }, &constants, &mut random))
            .collect()
    }

    #[test]
    fn orders_are_typed_in_as_clause_2_4_1_has_it() {
        let orders = drawn(3, 50_000);
        let share =
            |wanted: fn(&NewOrder) -> bool| orders.iter().filter(|order| wanted(order)).count() as f64 / 50_000.0;
        assert!((0.008..0.012).contains(&share(|order| order.ordered().last().unwrap().item == UNUSED_ITEM)));
        let lines: Vec<_> = orders.iter().flat_map(NewOrder::ordered).collect();
        let remote = lines.iter().filter(|line| line.supply != 2).count() as f64 / lines.len() as f64;
        assert!((0.009..0.011).contains(&remote), "{remote}");
        assert!(lines.iter().all(|line| (1..=10).contains(&line.quantity) && (1..=3).contains(&line.supply)));
        let mean = lines.len() as f64 / 50_000.0;
        assert!((9.9..10.1).contains(&mean), "{mean}");
        assert!(drawn(1, 1000).iter().flat_map(NewOrder::ordered).all(|line| line.supply == 2), "there is no other");
    }

    #[test]
    fn stock_is_filled_up_before_it_falls_below_ten() {
        assert_eq!((left(20, 10), left(19, 10), left(11, 1), left(10, 1)), (10, 100, 10, 100));
    }

    #[test]
    fn the_total_has_both_taxes_and_the_discount() {
        let rates = Rates { discount: 1000, district_tax: 500, warehouse_tax: 1500 };
        assert_eq!(rates.total(10_000), 10_800);
        assert_eq!(Rates { discount: 1, district_tax: 1, warehouse_tax: 0 }.total(1), 1);
    }

    #[test]
    fn an_item_that_is_typed_in_twice_is_one_row_of_stock() {
        let mut order = drawn(3, 1).remove(0);
        order.count = 5;
        for (place, (item, supply)) in [(7, 2), (5, 2), (7, 2), (7, 1), (UNUSED_ITEM, 2)].into_iter().enumerate() {
            order.lines[place] = Ordered { item, supply, quantity: 10 };
        }
        let mut buffers = NewOrderBuffers::default();
        buffers.lines[..4].iter_mut().for_each(|line| line.found = true);
        order.list_stock(&mut buffers);
        let keys: Vec<_> = buffers.stock.iter().map(|stock| (stock.warehouse, stock.item)).collect();
        assert_eq!(keys, [(1, 7), (2, 5), (2, 7)]);
        buffers.stock.iter_mut().for_each(|stock| stock.quantity = 25);
        order.count_off(&mut buffers);
        let Stock { quantity, ordered, orders, remote_orders, .. } = buffers.stock[2];
        assert_eq!((quantity, ordered, orders, remote_orders), (96, 20, 2, 0));
        let Stock { quantity, ordered, orders, remote_orders, .. } = buffers.stock[0];
        assert_eq!((quantity, ordered, orders, remote_orders), (15, 10, 1, 1));
    }

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
