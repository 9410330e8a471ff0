//! TPC-C's five transactions (clause 2): drawing of the random input, and execution of the statements.

use super::numbers::{Constants, LastName, between, is_original, percent};
use super::statements::{
    ADD_TO_DISTRICT, ADD_TO_WAREHOUSE, AMOUNTS, CHARGE_CUSTOMER, CUSTOMER_DATA, CUSTOMER_OF_ORDER, CUSTOMER_STATUS,
    DELETE_NEW_ORDERS, DELIVER_LINES, DISTRICT_FOR_ORDER, INSERT_HISTORY, INSERT_NEW_ORDER, INSERT_ORDER, ITEMS,
    LAST_ORDER, LOW_STOCK, NEXT_ORDER, NEXT_ORDER_OF_DISTRICT, OLDEST_ORDERS, ORDER_LINES, ORDERING_CUSTOMERS, PAY,
    PAY_WITH_DATA, PAYING_CUSTOMER, SET_CARRIER, WAREHOUSE_AND_DISTRICT, WAREHOUSE_TAX, insert_lines, smallest_update,
    stock_query,
};
use super::terminal::{CustomerSelection, Home, TransactionEnd, display, one_row, rows_changed};
use super::{DISTRICTS, LINES, MAX_LINES};
use crate::sql::{DateTime, Parameters, Row, Sql};
use base::Random;
use base::error::{Failure, Result};
use std::io::Write;

/// The number of an item that does not exist (clause 2.4.1.5).
const UNUSED_ITEM: u32 = super::ITEMS + 1;
/// The length of the columns S_DIST_01 to S_DIST_10.
const DIST_INFO: usize = 24;

/// The random input of a New-Order transaction.
#[derive(Debug, Clone)]
pub struct NewOrder {
    warehouse: u32,
    district: u32,
    customer: u32,
    lines: [Ordered; MAX_LINES],
    count: usize,
}

/// The random input of one line of an order: the item, the warehouse that supplies it, and the quantity.
#[derive(Debug, Clone, Copy, Default)]
struct Ordered {
    item: u32,
    supply: u32,
    quantity: u32,
}

/// The data that a New-Order transaction reads from the database for one line of the order.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    price_cents: i64,
    exists: bool,
    original: bool,
    /// The index, in [`NewOrderBuffers::stock`], of the stock from which this line takes its items.
    stock: usize,
}

/// A row of stock from which lines of the order take items. Several lines may order the same item.
#[derive(Debug, Clone, Copy, Default)]
struct Stock {
    warehouse: u32,
    item: u32,
    exists: bool,
    original: bool,
    quantity: i64,
    dist_info: [u8; DIST_INFO],
    ordered: i64,
    orders: i64,
    remote_orders: i64,
}

/// The buffers for the rows that New-Order transactions read. All of a terminal's New-Order transactions use them.
#[derive(Debug, Default)]
pub struct NewOrderBuffers {
    lines: [Line; MAX_LINES],
    stock: Vec<Stock>,
}

/// The discount and taxes of an order (clause 2.4.2.2), in ten-thousandths: 1250 is 12.5 %.
#[derive(Debug, Clone, Copy, Default)]
struct Rates {
    discount: i64,
    district_tax: i64,
    warehouse_tax: i64,
}

impl NewOrder {
    /// Draw the random input (clause 2.4.1).
    pub fn draw(home: Home, constants: &Constants, random: &mut Random) -> Self {
        let mut order = NewOrder {
            warehouse: home.warehouse,
            district: between(random, 1, DISTRICTS),
            customer: constants.customer(random),
            lines: Default::default(),
            count: between(random, *LINES.start(), *LINES.end()) as usize,
        };
        for line in &mut order.lines[..order.count] {
            // 1 % of the lines are supplied by another warehouse, if there is another one (clause 2.4.1.5).
            let supply = if percent(random, 1) { home.other_warehouse(random) } else { home.warehouse };
            *line = Ordered { item: constants.item(random), supply, quantity: between(random, 1, 10) };
        }
        // In 1 % of the orders the last item does not exist (clause 2.4.1.4).
        if percent(random, 1) {
            order.lines[order.count - 1].item = UNUSED_ITEM;
        }
        order
    }

    /// Run the transaction (clause 2.4.2.2). An order with an item that does not exist is processed like any other and
    /// then rolled back (clause 2.4.2.3).
    /// Errors: those of the statements; class `protocol` if a required row is missing.
    pub async fn run(
        &self,
        session: &mut impl Sql,
        buffers: &mut NewOrderBuffers,
        now: DateTime,
    ) -> Result<TransactionEnd> {
        let all_exist = self.read_items(session, buffers).await?;
        let mut rates = Rates { discount: self.read_customer(session).await?, ..Rates::default() };
        self.process_stock(session, buffers).await?;
        let (district_tax, order) = self.claim_order_number(session).await?;
        self.insert(session, buffers, order, now).await?;
        rates.district_tax = district_tax;
        rates.warehouse_tax = self.read_warehouse(session).await?;
        display((rates.total(self.sum_cents(buffers)), self.brands(buffers)));
        session.execute(if all_exist { "COMMIT" } else { "ROLLBACK" }).await?;
        Ok(if all_exist { TransactionEnd::Committed } else { TransactionEnd::RolledBack })
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
                    // Unused parameters repeat the last item, which does not change the result.
                    for place in 0..MAX_LINES {
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
                            *line = Line { price_cents, exists: true, original, ..*line };
                        }
                    }
                    Ok(())
                },
            )
            .await?;
        match self.ordered().iter().zip(&buffers.lines).find(|(_, line)| !line.exists) {
            None => Ok(true),
            Some((Ordered { item: UNUSED_ITEM, .. }, _)) => Ok(false),
            Some((ordered, _)) => {
                Err(Failure::protocol(format!("item {} does not exist; load the data", ordered.item)))
            }
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

    async fn process_stock(&self, session: &mut impl Sql, buffers: &mut NewOrderBuffers) -> Result<()> {
        self.list_stock(buffers);
        let mut begin = 0;
        while begin < buffers.stock.len() {
            let warehouse = buffers.stock[begin].warehouse;
            let length = buffers.stock[begin..].iter().take_while(|stock| stock.warehouse == warehouse).count();
            self.read_stock(session, &mut buffers.stock[begin..begin + length]).await?;
            begin += length;
        }
        self.reduce_stock(buffers);
        update_stock(session, &buffers.stock).await
    }

    fn list_stock(&self, NewOrderBuffers { lines, stock }: &mut NewOrderBuffers) {
        stock.clear();
        for (ordered, _) in self.ordered().iter().zip(lines.iter()).filter(|(_, line)| line.exists) {
            let key = |stock: &Stock| (stock.warehouse, stock.item);
            if let Err(at) = stock.binary_search_by_key(&(ordered.supply, ordered.item), key) {
                stock.insert(at, Stock { warehouse: ordered.supply, item: ordered.item, ..Stock::default() });
            }
        }
        for (ordered, line) in self.ordered().iter().zip(lines.iter_mut()).filter(|(_, line)| line.exists) {
            let key = |stock: &Stock| (stock.warehouse, stock.item);
            line.stock =
                stock.binary_search_by_key(&(ordered.supply, ordered.item), key).expect("the loop above inserted it");
        }
    }

    async fn read_stock(&self, session: &mut impl Sql, rows: &mut [Stock]) -> Result<()> {
        let (warehouse, last) = (rows[0].warehouse, rows.len() - 1);
        let mut items = [0; MAX_LINES];
        items.iter_mut().enumerate().for_each(|(place, item)| *item = rows[place.min(last)].item);
        session
            .select(
                stock_query(self.district),
                |fill| {
                    fill.integer(warehouse.into());
                    items.iter().fold(fill, |fill, item| fill.integer((*item).into()))
                },
                |row| {
                    let (item, quantity, dist_info) = (row.integer()?, row.integer()?, row.text()?);
                    let original = is_original(row.text()?);
                    for stock in rows.iter_mut().filter(|stock| i64::from(stock.item) == item) {
                        (stock.exists, stock.quantity, stock.original) = (true, quantity, original);
                        let length = dist_info.len().min(DIST_INFO);
                        stock.dist_info[..length].copy_from_slice(&dist_info[..length]);
                    }
                    Ok(())
                },
            )
            .await?;
        match rows.iter().find(|stock| !stock.exists) {
            None => Ok(()),
            Some(Stock { warehouse, item, .. }) => {
                Err(Failure::protocol(format!("warehouse {warehouse} has no stock of item {item}")))
            }
        }
    }

    /// Compute the contents of each row of stock after the order (clause 2.4.2.2).
    fn reduce_stock(&self, NewOrderBuffers { lines, stock }: &mut NewOrderBuffers) {
        for (ordered, line) in self.ordered().iter().zip(lines.iter()).filter(|(_, line)| line.exists) {
            let stock = &mut stock[line.stock];
            let quantity = i64::from(ordered.quantity);
            stock.quantity = remaining(stock.quantity, quantity);
            stock.ordered += quantity;
            stock.orders += 1;
            stock.remote_orders += i64::from(ordered.supply != self.warehouse);
        }
    }

    async fn claim_order_number(&self, session: &mut impl Sql) -> Result<(i64, i64)> {
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

    /// Read the warehouse's tax last, because the warehouse's Payment transactions wait while the row is locked.
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
        let existing = || self.ordered().iter().zip(&buffers.lines).enumerate().filter(|(_, (_, line))| line.exists);
        let count = existing().count();
        let changed = session
            .change(insert_lines(count), |fill| {
                for (place, (ordered, line)) in existing() {
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

    /// Return the number of order lines with brand B: both I_DATA and S_DATA contain ORIGINAL (clause 2.4.2.2).
    fn brands(&self, NewOrderBuffers { lines, stock }: &NewOrderBuffers) -> usize {
        lines[..self.count].iter().filter(|line| line.original && stock[line.stock].original).count()
    }
}

fn amount_cents(ordered: &Ordered, line: &Line) -> i64 {
    i64::from(ordered.quantity) * line.price_cents
}

/// Return S_QUANTITY after an order. Stock that would fall below ten is refilled by 91.
fn remaining(quantity: i64, ordered: i64) -> i64 {
    if quantity >= ordered + 10 { quantity - ordered } else { quantity - ordered + 91 }
}

/// Write the rows of stock, and check the server's number of changed rows. In an INSERT that updates rows, the server
/// counts 2 for each changed row and 1 for each unchanged row, such as a repeated last row.
async fn update_stock(session: &mut impl Sql, stock: &[Stock]) -> Result<()> {
    let (place, rows) = smallest_update(stock.len());
    let unchanged = |last: &Stock| Stock { ordered: 0, orders: 0, remote_orders: 0, ..*last };
    let changed = session
        .change(place, |fill| {
            for at in 0..rows {
                let stock = stock.get(at).copied().unwrap_or_else(|| unchanged(&stock[stock.len() - 1]));
                fill.integer(stock.warehouse.into()).integer(stock.item.into()).integer(stock.quantity);
                fill.integer(stock.ordered).integer(stock.orders).integer(stock.remote_orders);
            }
            fill
        })
        .await?;
    rows_changed(changed, (stock.len() + rows) as u64, "stock")
}

impl Rates {
    /// Return the order's total in cents, rounded. `sum_cents` is the sum of its lines.
    fn total(self, sum_cents: i64) -> i64 {
        const WHOLE: i128 = 10_000;
        let discounted = i128::from(sum_cents) * (WHOLE - i128::from(self.discount));
        let taxed = discounted * (WHOLE + i128::from(self.district_tax) + i128::from(self.warehouse_tax));
        ((taxed + WHOLE * WHOLE / 2) / (WHOLE * WHOLE)) as i64
    }
}

/// The maximum length of C_DATA.
const LONGEST_DATA: usize = 500;

/// The random input of a Payment transaction.
#[derive(Debug, Clone)]
pub struct Payment {
    warehouse: u32,
    district: u32,
    customer_warehouse: u32,
    customer_district: u32,
    selection: CustomerSelection,
    cents: i64,
}

/// The buffers for the rows that Payment transactions read. All of a terminal's Payment transactions use them.
#[derive(Debug, Default)]
pub struct PaymentBuffers {
    same_name: Vec<i64>,
    bad_credit: bool,
    data: Vec<u8>,
    history: Vec<u8>,
}

impl Payment {
    /// Draw the random input (clause 2.5.1).
    pub fn draw(home: Home, constants: &Constants, random: &mut Random) -> Self {
        let district = between(random, 1, DISTRICTS);
        // 15 % of the customers belong to another warehouse, if there is another one (clause 2.5.1.2).
        let remote = percent(random, 15) && home.warehouses > 1;
        Payment {
            warehouse: home.warehouse,
            district,
            customer_warehouse: if remote { home.other_warehouse(random) } else { home.warehouse },
            customer_district: if remote { between(random, 1, DISTRICTS) } else { district },
            selection: CustomerSelection::draw(constants, random),
            cents: between(random, 100, 500_000).into(),
        }
    }

    /// Run the transaction (clause 2.5.2.2).
    /// Errors: those of the statements; class `protocol` if a required row is missing.
    pub async fn run(
        &self,
        session: &mut impl Sql,
        buffers: &mut PaymentBuffers,
        now: DateTime,
    ) -> Result<TransactionEnd> {
        let district = (self.customer_warehouse, self.customer_district);
        let customer = self.selection.customer(session, district, &mut buffers.same_name).await?;
        self.read_customer(session, customer, buffers).await?;
        self.pay(session, customer, buffers).await?;
        self.add_to_totals(session, buffers).await?;
        let changed = session
            .change(INSERT_HISTORY, |fill| {
                fill.integer(self.customer_warehouse.into()).integer(self.customer_district.into()).integer(customer);
                fill.integer(self.warehouse.into()).integer(self.district.into());
                fill.datetime(now).cents(self.cents).text(&buffers.history)
            })
            .await?;
        rows_changed(changed, 1, "history")?;
        session.execute("COMMIT").await?;
        Ok(TransactionEnd::Committed)
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
                    display(row.datetime_or_null()?);
                    *bad_credit = row.text()? == b"BC";
                    display((row.decimal(2)?, row.decimal(4)?, row.decimal(2)?));
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
        .expect("writing to memory does not fail");
    }

    /// Add the amount to the totals of district and warehouse, and build H_DATA from the names of both.
    async fn add_to_totals(
        &self,
        session: &mut impl Sql,
        PaymentBuffers { history, .. }: &mut PaymentBuffers,
    ) -> Result<()> {
        let (warehouse, district) = (self.warehouse.into(), self.district.into());
        let changed =
            session.change(ADD_TO_DISTRICT, |fill| fill.cents(self.cents).integer(warehouse).integer(district)).await?;
        rows_changed(changed, 1, "district")?;
        let changed = session.change(ADD_TO_WAREHOUSE, |fill| fill.cents(self.cents).integer(warehouse)).await?;
        rows_changed(changed, 1, "warehouse")?;
        let rows = session
            .select(
                WAREHOUSE_AND_DISTRICT,
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

impl CustomerSelection {
    /// Draw how the customer is selected: in 60 % of the cases by last name (clause 2.5.1.2), otherwise by number.
    pub fn draw(constants: &Constants, random: &mut Random) -> Self {
        if percent(random, 60) {
            CustomerSelection::Name(LastName::new(constants.requested_name(random)))
        } else {
            CustomerSelection::Number(constants.customer(random))
        }
    }
}

/// The random input of an Order-Status transaction.
#[derive(Debug, Clone)]
pub struct OrderStatus {
    warehouse: u32,
    district: u32,
    selection: CustomerSelection,
}

impl OrderStatus {
    /// Draw the random input (clause 2.6.1).
    pub fn draw(home: Home, constants: &Constants, random: &mut Random) -> Self {
        OrderStatus {
            warehouse: home.warehouse,
            district: between(random, 1, DISTRICTS),
            selection: CustomerSelection::draw(constants, random),
        }
    }

    /// Run the transaction (clause 2.6.2.2).
    /// Errors: those of the statements; class `protocol` if a required row is missing.
    pub async fn run(&self, session: &mut impl Sql, same_name: &mut Vec<i64>) -> Result<TransactionEnd> {
        let (warehouse, district) = (self.warehouse.into(), self.district.into());
        let customer = self.selection.customer(session, (self.warehouse, self.district), same_name).await?;
        let rows = session
            .select(
                CUSTOMER_STATUS,
                |fill| fill.integer(warehouse).integer(district).integer(customer),
                |row| {
                    display(row.decimal(2)?);
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
                    display((row.datetime_or_null()?, row.integer_or_null()?));
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
                    display((row.integer()?, row.integer()?, row.integer()?));
                    display((row.decimal(2)?, row.datetime_or_null()?));
                    Ok(())
                },
            )
            .await?;
        if lines == 0 {
            return Err(Failure::protocol(format!("order {order} of district {district} has no lines")));
        }
        session.execute("COMMIT").await?;
        Ok(TransactionEnd::Committed)
    }
}

/// The random input of a Delivery transaction.
#[derive(Debug, Clone)]
pub struct Delivery {
    warehouse: u32,
    carrier: u32,
}

/// The order to deliver in one district. `order` is 0 if the district has no new order (clause 2.7.4.2).
#[derive(Debug, Clone, Copy, Default)]
struct Delivered {
    order: i64,
    customer: i64,
    cents: i64,
}

type DistrictOrders = [Delivered; DISTRICTS as usize];

impl Delivery {
    /// Draw the random input (clause 2.7.1).
    pub fn draw(home: Home, random: &mut Random) -> Self {
        Delivery { warehouse: home.warehouse, carrier: between(random, 1, 10) }
    }

    /// Run the transaction (clause 2.7.4.2).
    /// Errors: those of the statements; class `protocol` if a required row is missing.
    pub async fn run(&self, session: &mut impl Sql, now: DateTime) -> Result<TransactionEnd> {
        let mut orders = DistrictOrders::default();
        let warehouse = i64::from(self.warehouse);
        session
            .select(
                OLDEST_ORDERS,
                |fill| warehouse_for_each_district(fill, warehouse),
                |row| {
                    let delivered = district(&mut orders, row)?;
                    delivered.order = row.integer()?;
                    Ok(())
                },
            )
            .await?;
        let count = orders.iter().filter(|delivered| delivered.order > 0).count() as u64;
        if count > 0 {
            self.deliver(session, &mut orders, count, now).await?;
        }
        session.execute("COMMIT").await?;
        Ok(TransactionEnd::Committed)
    }

    async fn deliver(
        &self,
        session: &mut impl Sql,
        orders: &mut DistrictOrders,
        count: u64,
        now: DateTime,
    ) -> Result<()> {
        let warehouse = i64::from(self.warehouse);
        let numbers = *orders;
        let changed =
            session.change(DELETE_NEW_ORDERS, |fill| append_district_orders(fill.integer(warehouse), &numbers)).await?;
        rows_changed(changed, count, "new orders")?;
        let carrier = i64::from(self.carrier);
        let changed = session
            .change(SET_CARRIER, |fill| append_district_orders(fill.integer(carrier).integer(warehouse), &numbers))
            .await?;
        rows_changed(changed, count, "orders")?;
        session
            .select(
                ORDERING_CUSTOMERS,
                |fill| append_district_orders(fill.integer(warehouse), &numbers),
                |row| {
                    let delivered = district(orders, row)?;
                    delivered.customer = row.integer()?;
                    Ok(())
                },
            )
            .await?;
        session
            .change(DELIVER_LINES, |fill| append_district_orders(fill.datetime(now).integer(warehouse), &numbers))
            .await?;
        session
            .select(
                AMOUNTS,
                |fill| append_district_orders(fill.integer(warehouse), &numbers),
                |row| {
                    let delivered = district(orders, row)?;
                    delivered.cents = row.decimal(2)?;
                    Ok(())
                },
            )
            .await?;
        for (place, delivered) in orders.iter().enumerate().filter(|(_, delivered)| delivered.order > 0) {
            let changed = session
                .change(CHARGE_CUSTOMER, |fill| {
                    fill.cents(delivered.cents).integer(warehouse).integer(place as i64 + 1).integer(delivered.customer)
                })
                .await?;
            rows_changed(changed, 1, "customer")?;
        }
        Ok(())
    }
}

fn district<'a, 'r>(orders: &'a mut DistrictOrders, row: &mut impl Row<'r>) -> Result<&'a mut Delivered> {
    let number = row.integer()?;
    let place = usize::try_from(number - 1).ok().and_then(|place| orders.get_mut(place));
    place.ok_or_else(|| Failure::protocol(format!("district {number} does not exist")))
}

fn warehouse_for_each_district<P: Parameters>(fill: &mut P, warehouse: i64) -> &mut P {
    (0..DISTRICTS).fold(fill, |fill, _| fill.integer(warehouse))
}

fn append_district_orders<'a, P: Parameters>(fill: &'a mut P, orders: &DistrictOrders) -> &'a mut P {
    for (place, Delivered { order, .. }) in orders.iter().enumerate() {
        fill.integer(place as i64 + 1).integer(*order);
    }
    fill
}

/// The number of a district's newest orders that Stock-Level examines.
const LAST_ORDERS: i64 = 20;

/// The random input of a Stock-Level transaction.
#[derive(Debug, Clone)]
pub struct StockLevel {
    home: Home,
    threshold: u32,
}

impl StockLevel {
    /// Draw the random input (clause 2.8.1).
    pub fn draw(home: Home, random: &mut Random) -> Self {
        StockLevel { home, threshold: between(random, 10, 20) }
    }

    /// Run the transaction (clause 2.8.2.2).
    /// Errors: those of the statements; class `protocol` if a required row is missing.
    pub async fn run(&self, session: &mut impl Sql) -> Result<TransactionEnd> {
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
                |row| row.integer().map(display),
            )
            .await?;
        one_row(rows, "count")?;
        session.execute("COMMIT").await?;
        Ok(TransactionEnd::Committed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::CUSTOMERS;

    fn draw(warehouses: u32, count: usize) -> Vec<NewOrder> {
        let (mut random, constants) = (Random::new(1), Constants::draw(1));
        (0..count)
            .map(|_| NewOrder::draw(Home { warehouse: 2, district: 1, warehouses }, &constants, &mut random))
            .collect()
    }

    #[test]
    fn new_order_input_follows_clause_2_4_1() {
        let orders = draw(3, 50_000);
        let share =
            |condition: fn(&NewOrder) -> bool| orders.iter().filter(|order| condition(order)).count() as f64 / 50_000.0;
        assert!((0.008..0.012).contains(&share(|order| order.ordered().last().unwrap().item == UNUSED_ITEM)));
        let lines: Vec<_> = orders.iter().flat_map(NewOrder::ordered).collect();
        let remote = lines.iter().filter(|line| line.supply != 2).count() as f64 / lines.len() as f64;
        assert!((0.009..0.011).contains(&remote), "{remote}");
        assert!(lines.iter().all(|line| (1..=10).contains(&line.quantity) && (1..=3).contains(&line.supply)));
        let mean = lines.len() as f64 / 50_000.0;
        assert!((9.9..10.1).contains(&mean), "{mean}");
        assert!(
            draw(1, 1000).iter().flat_map(NewOrder::ordered).all(|line| line.supply == 2),
            "there is one warehouse"
        );
    }

    #[test]
    fn stock_is_refilled_before_it_falls_below_ten() {
        let quantities = [(20, 10), (19, 10), (11, 1), (10, 1)].map(|(quantity, ordered)| remaining(quantity, ordered));
        assert_eq!(quantities, [10, 100, 10, 100]);
    }

    #[test]
    fn order_total_includes_both_taxes_and_the_discount() {
        let rates = Rates { discount: 1000, district_tax: 500, warehouse_tax: 1500 };
        assert_eq!(rates.total(10_000), 10_800);
        assert_eq!(Rates { discount: 1, district_tax: 1, warehouse_tax: 0 }.total(1), 1);
    }

    #[test]
    fn two_order_lines_for_one_item_change_a_single_row_of_stock() {
        let mut order = draw(3, 1).remove(0);
        order.count = 5;
        for (place, (item, supply)) in [(7, 2), (5, 2), (7, 2), (7, 1), (UNUSED_ITEM, 2)].into_iter().enumerate() {
            order.lines[place] = Ordered { item, supply, quantity: 10 };
        }
        let mut buffers = NewOrderBuffers::default();
        buffers.lines[..4].iter_mut().for_each(|line| line.exists = true);
        order.list_stock(&mut buffers);
        let keys: Vec<_> = buffers.stock.iter().map(|stock| (stock.warehouse, stock.item)).collect();
        assert_eq!(keys, [(1, 7), (2, 5), (2, 7)]);
        buffers.stock.iter_mut().for_each(|stock| stock.quantity = 25);
        order.reduce_stock(&mut buffers);
        let Stock { quantity, ordered, orders, remote_orders, .. } = buffers.stock[2];
        assert_eq!((quantity, ordered, orders, remote_orders), (96, 20, 2, 0));
        let Stock { quantity, ordered, orders, remote_orders, .. } = buffers.stock[0];
        assert_eq!((quantity, ordered, orders, remote_orders), (15, 10, 1, 1));
    }

    #[test]
    fn payment_input_follows_clause_2_5_1() {
        let (mut random, constants) = (Random::new(1), Constants::draw(1));
        let mut draw =
            |warehouses| Payment::draw(Home { warehouse: 2, district: 1, warehouses }, &constants, &mut random);
        let payments: Vec<_> = (0..50_000).map(|_| draw(3)).collect();
        let share =
            |condition: fn(&Payment) -> bool| payments.iter().filter(|one| condition(one)).count() as f64 / 50_000.0;
        assert!((0.145..0.155).contains(&share(|one| one.customer_warehouse != 2)));
        assert!((0.59..0.61).contains(&share(|one| matches!(one.selection, CustomerSelection::Name(_)))));
        let at_home = |one: &Payment| one.customer_warehouse == 2;
        assert!(payments.iter().filter(|one| at_home(one)).all(|one| one.customer_district == one.district));
        assert!(payments.iter().all(|one| (100..=500_000).contains(&one.cents)));
        assert!(payments.iter().all(
            |one| !matches!(one.selection, CustomerSelection::Number(number) if number == 0 || number > CUSTOMERS)
        ));
        assert!((0..1000).all(|_| draw(1).customer_warehouse == 2), "there is one warehouse");
    }

    #[test]
    fn ids_and_amount_of_a_payment_are_formatted_for_the_customer_data() {
        let payment = Payment {
            warehouse: 1,
            district: 2,
            customer_warehouse: 3,
            customer_district: 4,
            selection: CustomerSelection::Number(5),
            cents: 123_405,
        };
        let mut data = b"earlier data".to_vec();
        payment.begin_data(5, &mut data);
        assert_eq!(data, b"5 4 3 2 1 1234.05 ");
    }
}
