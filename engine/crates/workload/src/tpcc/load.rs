//! Workload `tpcc` with phase `load`, which writes TPC-C's data as SQL (clause 4.3.3.1). Each operation writes one
//! [`Unit`] of the data, such as a district, in one transaction of several INSERT statements. A unit's contents do not
//! depend on other units, so workers can write units in parallel.

use super::numbers::{
    Constants, LastName, append_data, append_digits, append_letters, append_text, append_zip, between, percent,
};
use super::terminal::{Connection, shuffle};
use super::{CUSTOMERS, DISTRICTS, FIRST_UNDELIVERED, ITEMS, LINES, ORDERS};
use crate::Workload;
use crate::client::{Client, Session};
use crate::sql::{DateTime, Sql};
use base::error::{Class, Failure, Result};
use base::{Random, clock};
use record::{Evidence, Phase, Timeline};
use std::fmt::Arguments;
use std::io::Write;
use std::ops::Range;

/// One worker's part of the load. It writes units (parts of the data), one in each operation.
pub struct Loader<C: Client> {
    connection: Connection<C>,
    warehouses: u32,
    seed: u64,
}

impl<C: Client<Session: Sql>> Loader<C> {
    pub fn new(client: C, warehouses: u32, seed: u64) -> Self {
        Loader { connection: Connection::with(client, &[], vec!["SET autocommit = 0".into()]), warehouses, seed }
    }
}

impl<C: Client<Session: Sql>> Workload for Loader<C> {
    /// The maximum number of statements in one operation. The timeout is multiplied by this number, because a busy
    /// server may take seconds for each statement.
    fn in_a_row(&self) -> u64 {
        u64::from(MAX_STATEMENTS)
    }

    fn disconnect(&mut self) {
        self.connection.disconnect();
    }

    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        self.connection.prepare(evidence).await
    }

    async fn operate(&mut self, claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let unit = Unit::numbered(claimed.start, self.warehouses)
            .ok_or_else(|| Failure::new(Class::Plan, "the load has more operations than parts of the data to write"))?;
        let mut session = self.connection.take(evidence).await?;
        let rows = Rows::new(self.seed, claimed.start, DateTime::from_unix(clock::unix() / 1_000_000_000));
        timeline.start(session.traffic());
        let mut outcome = rows.for_each_part(unit, async |part| write(&mut session, part).await).await;
        if outcome.is_ok() {
            outcome = session.execute("COMMIT").await;
        }
        timeline.end_phase(Phase::Operation, session.traffic());
        self.connection.settle_transaction(session, outcome).await
    }
}

async fn write(session: &mut impl Sql, Part { into, rows, count }: Part) -> Result<()> {
    let written = session.insert_rows(into, &rows).await?;
    if written == count {
        return Ok(());
    }
    Err(Failure::new(Class::Server, format!("the server wrote {written} of {count} rows")))
}

const CUSTOMER: &str = "INSERT INTO customer (c_w_id, c_d_id, c_id, c_last, c_middle, c_first, c_street_1, c_street_2, \
    c_city, c_state, c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, c_ytd_payment, \
    c_payment_cnt, c_delivery_cnt, c_data) VALUES ";
const HISTORY: &str =
    "INSERT INTO history (h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_date, h_amount, h_data) VALUES ";
const ORDER: &str = "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, \
    o_all_local) VALUES ";
const ORDER_LINE: &str = "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, \
    ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) VALUES ";
const NEW_ORDER: &str = "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES ";
const DISTRICT: &str = "INSERT INTO district (d_w_id, d_id, d_name, d_street_1, d_street_2, d_city, d_state, d_zip, \
    d_tax, d_ytd, d_next_o_id) VALUES ";
const WAREHOUSE: &str = "INSERT INTO warehouse (w_id, w_name, w_street_1, w_street_2, w_city, w_state, w_zip, w_tax, \
    w_ytd) VALUES ";
const STOCK: &str = "INSERT INTO stock (s_w_id, s_i_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, \
    s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, s_remote_cnt, s_data) VALUES ";
const ITEM: &str = "INSERT INTO item (i_id, i_im_id, i_name, i_price, i_data) VALUES ";

/// The number of customers in one statement, which is about 300 KB long.
const CUSTOMERS_AT_ONCE: u32 = 500;
/// The number of orders in one statement. The statement with the lines of these orders is about 300 KB long.
const ORDERS_AT_ONCE: u32 = 300;
/// The maximum number of statements in the transaction of one unit (the data that one operation writes), reached by
/// units of kind `District`. Four statements are for the district's row, the history, the new orders, and COMMIT. The
/// other statements are for the customers, the orders and the order lines.
pub const MAX_STATEMENTS: u32 = 4 + CUSTOMERS / CUSTOMERS_AT_ONCE + 2 * ORDERS / ORDERS_AT_ONCE;

/// The text of one INSERT statement, with the number of its rows.
pub struct Part {
    /// The part of the statement in front of the rows, up to `VALUES`.
    pub into: &'static str,
    pub rows: Vec<u8>,
    pub count: u64,
}

/// The generator of the rows of one unit (the data that one operation of a load writes).
pub struct Rows {
    constants: Constants,
    random: Random,
    /// The time of the load as an SQL literal in quotes. All dates in the data are this date.
    date: String,
}

impl Rows {
    /// Create the generator of the unit (part of the data) with this number. Except for dates, which are `now`, the
    /// rows depend only on the seed and the number.
    pub fn new(seed: u64, number: u64, now: DateTime) -> Self {
        let DateTime { year, month, day, hour, minute, second } = now;
        Rows {
            constants: Constants::draw(seed),
            random: Random::for_stream(seed, number),
            date: format!("'{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}'"),
        }
    }

    /// Generate the statements of the unit (part of the data) and call `take` with each of them.
    /// Errors: the first error of `take`, which ends the iteration.
    pub async fn for_each_part<E>(
        mut self,
        unit: Unit,
        mut take: impl AsyncFnMut(Part) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match unit {
            Unit::District { warehouse, district } => {
                take(self.district(warehouse, district)).await?;
                for first in (1..=CUSTOMERS).step_by(CUSTOMERS_AT_ONCE as usize) {
                    take(self.customers(warehouse, district, first)).await?;
                }
                take(self.history(warehouse, district)).await?;
                // A district's orders go to its customers in random order, one order to each customer (clause 4.3.3.1).
                let mut customers: Vec<u32> = (1..=CUSTOMERS).collect();
                shuffle(&mut customers, &mut self.random);
                for first in (1..=ORDERS).step_by(ORDERS_AT_ONCE as usize) {
                    let [orders, lines] = self.orders(warehouse, district, first, &customers);
                    take(orders).await?;
                    take(lines).await?;
                }
                take(new_orders(warehouse, district)).await
            }
            Unit::Stock { warehouse, from } => take(self.stock(warehouse, from)).await,
            Unit::Items { from } => take(self.items(from)).await,
            Unit::Warehouse { warehouse } => take(self.warehouse(warehouse)).await,
        }
    }

    fn warehouse(&mut self, warehouse: u32) -> Part {
        let mut part = Part::new(WAREHOUSE);
        part.begin(format_args!("{warehouse},"));
        self.append_place(&mut part);
        // W_YTD, the warehouse's total of payments, must be the sum of D_YTD over its ten districts.
        part.end(format_args!(",{:.4},300000.00", self.tenthousandths(2000)));
        part
    }

    fn district(&mut self, warehouse: u32, district: u32) -> Part {
        let mut part = Part::new(DISTRICT);
        part.begin(format_args!("{warehouse},{district},"));
        self.append_place(&mut part);
        part.end(format_args!(",{:.4},30000.00,{}", self.tenthousandths(2000), ORDERS + 1));
        part
    }

    fn append_place(&mut self, part: &mut Part) {
        append_text(&mut self.random, 6, 10, &mut part.rows);
        part.rows.push(b',');
        self.append_address(part);
    }

    fn append_address(&mut self, Part { rows, .. }: &mut Part) {
        for _ in 0..3 {
            append_text(&mut self.random, 10, 20, rows);
            rows.push(b',');
        }
        append_letters(&mut self.random, 2, rows);
        rows.push(b',');
        append_zip(&mut self.random, rows);
    }

    fn customers(&mut self, warehouse: u32, district: u32, first: u32) -> Part {
        let mut part = Part::new(CUSTOMER);
        for customer in first..first + CUSTOMERS_AT_ONCE {
            // The first 1,000 customers have the 1,000 possible names. NURand draws the names of later customers.
            let name = if customer <= 1000 { customer - 1 } else { self.constants.loaded_name(&mut self.random) };
            let last = LastName::new(name);
            let last = str::from_utf8(last.as_bytes()).expect("syllables are letters");
            part.begin(format_args!("{warehouse},{district},{customer},'{last}','OE',"));
            append_text(&mut self.random, 8, 16, &mut part.rows);
            part.rows.push(b',');
            self.append_address(&mut part);
            part.rows.push(b',');
            append_digits(&mut self.random, 16, &mut part.rows);
            let credit = if percent(&mut self.random, 10) { "BC" } else { "GC" };
            let discount = self.tenthousandths(5000);
            part.write(format_args!(",{},'{credit}',50000.00,{discount:.4},-10.00,10.00,1,0,", self.date));
            append_text(&mut self.random, 300, 500, &mut part.rows);
            part.end(format_args!(""));
        }
        part
    }

    fn history(&mut self, warehouse: u32, district: u32) -> Part {
        let mut part = Part::new(HISTORY);
        for customer in 1..=CUSTOMERS {
            let date = &self.date;
            part.begin(format_args!("{warehouse},{district},{customer},{warehouse},{district},{date},10.00,"));
            append_text(&mut self.random, 12, 24, &mut part.rows);
            part.end(format_args!(""));
        }
        part
    }

    fn orders(&mut self, warehouse: u32, district: u32, first: u32, customers: &[u32]) -> [Part; 2] {
        let (mut orders, mut lines) = (Part::new(ORDER), Part::new(ORDER_LINE));
        for order in first..first + ORDERS_AT_ONCE {
            let customer = customers[order as usize - 1];
            let count = between(&mut self.random, *LINES.start(), *LINES.end());
            orders.begin(format_args!("{warehouse},{district},{order},{customer},{},", self.date));
            if order < FIRST_UNDELIVERED {
                orders.write(format_args!("{}", between(&mut self.random, 1, 10)));
            } else {
                orders.write(format_args!("NULL"));
            }
            orders.end(format_args!(",{count},1"));
            for number in 1..=count {
                self.append_line(&mut lines, [warehouse, district, order, number]);
            }
        }
        [orders, lines]
    }

    fn append_line(&mut self, part: &mut Part, [warehouse, district, order, number]: [u32; 4]) {
        let item = between(&mut self.random, 1, super::ITEMS);
        part.begin(format_args!("{warehouse},{district},{order},{number},{item},{warehouse},"));
        if order < FIRST_UNDELIVERED {
            part.write(format_args!("{},5,0.00,", self.date));
        } else {
            let cents = between(&mut self.random, 1, 999_999);
            part.write(format_args!("NULL,5,{}.{:02},", cents / 100, cents % 100));
        }
        append_text(&mut self.random, 24, 24, &mut part.rows);
        part.end(format_args!(""));
    }

    fn stock(&mut self, warehouse: u32, from: u32) -> Part {
        let mut part = Part::new(STOCK);
        for item in from..from + ROWS {
            part.begin(format_args!("{warehouse},{item},{},", between(&mut self.random, 10, 100)));
            for _ in 0..DISTRICTS {
                append_text(&mut self.random, 24, 24, &mut part.rows);
                part.rows.push(b',');
            }
            part.write(format_args!("0,0,0,"));
            append_data(&mut self.random, &mut part.rows);
            part.end(format_args!(""));
        }
        part
    }

    fn items(&mut self, from: u32) -> Part {
        let mut part = Part::new(ITEM);
        for item in from..from + ROWS {
            part.begin(format_args!("{item},{},", between(&mut self.random, 1, 10_000)));
            append_text(&mut self.random, 14, 24, &mut part.rows);
            let cents = between(&mut self.random, 100, 10_000);
            part.write(format_args!(",{}.{:02},", cents / 100, cents % 100));
            append_data(&mut self.random, &mut part.rows);
            part.end(format_args!(""));
        }
        part
    }

    /// Draw a tax or a discount from 0 to `most` ten-thousandths, as a fraction of 1.
    fn tenthousandths(&mut self, most: u32) -> f64 {
        f64::from(between(&mut self.random, 0, most)) / 10_000.0
    }
}

fn new_orders(warehouse: u32, district: u32) -> Part {
    let mut part = Part::new(NEW_ORDER);
    for order in FIRST_UNDELIVERED..=ORDERS {
        part.begin(format_args!("{warehouse},{district},{order}"));
        part.end(format_args!(""));
    }
    part
}

impl Part {
    fn new(into: &'static str) -> Self {
        Part { into, rows: Vec::new(), count: 0 }
    }

    fn begin(&mut self, columns: Arguments<'_>) {
        self.rows.extend_from_slice(if self.count == 0 { b"(" } else { b",(" });
        self.count += 1;
        self.write(columns);
    }

    fn end(&mut self, columns: Arguments<'_>) {
        self.write(columns);
        self.rows.push(b')');
    }

    fn write(&mut self, columns: Arguments<'_>) {
        self.rows.write_fmt(columns).expect("writing to memory does not fail");
    }
}

/// The number of rows in one unit (the data that one operation of a load writes) of table `stock` or `item`.
pub const ROWS: u32 = 1000;
const PARTS: u64 = (ITEMS / ROWS) as u64;

/// The data that one operation of a load writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A district with its customers, their history, and its orders.
    District {
        warehouse: u32,
        district: u32,
    },
    Stock {
        warehouse: u32,
        from: u32,
    },
    Items {
        from: u32,
    },
    Warehouse {
        warehouse: u32,
    },
}

impl Unit {
    /// Return the unit (part of the data) with this number, counted from 0, or None if the data has no further unit.
    /// The largest units come first, so that all workers finish at about the same time.
    pub fn numbered(number: u64, warehouses: u32) -> Option<Unit> {
        let all = u64::from(warehouses);
        let districts = all * u64::from(DISTRICTS);
        let first = |part: u64| (part % PARTS) as u32 * ROWS + 1;
        let warehouse = |number: u64| number as u32 + 1;
        if number < districts {
            let per = u64::from(DISTRICTS);
            return Some(Unit::District { warehouse: warehouse(number / per), district: (number % per) as u32 + 1 });
        }
        let number = number - districts;
        if number < all * PARTS {
            return Some(Unit::Stock { warehouse: warehouse(number / PARTS), from: first(number) });
        }
        let number = number - all * PARTS;
        if number < PARTS {
            return Some(Unit::Items { from: first(number) });
        }
        let number = number - PARTS;
        (number < all).then(|| Unit::Warehouse { warehouse: warehouse(number) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn rows(unit: Unit, seed: u64) -> Vec<(String, Vec<Vec<String>>)> {
        let tables = RefCell::new(Vec::new());
        let generation = Rows::new(seed, 0, DateTime::from_unix(0)).for_each_part(unit, async |part: Part| {
            let text = str::from_utf8(&part.rows).unwrap();
            let text = text.strip_prefix('(').unwrap().strip_suffix(')').unwrap();
            let columns = |row: &str| row.split(',').map(|column| column.trim_matches('\'').to_owned()).collect();
            let rows: Vec<Vec<String>> = text.split("),(").map(columns).collect();
            assert_eq!(rows.len() as u64, part.count);
            let width = part.into.split([',', '(']).count() - 1;
            assert!(rows.iter().all(|row| row.len() == width), "{}", part.into);
            tables.borrow_mut().push((part.into.split(' ').nth(2).unwrap().to_owned(), rows));
            Ok::<_, ()>(())
        });
        let mut generation = pin!(generation);
        assert!(generation.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(Ok(())));
        tables.take()
    }

    fn rows_of<'a>(parts: &'a [(String, Vec<Vec<String>>)], table: &str) -> Vec<&'a Vec<String>> {
        parts.iter().filter(|(name, _)| name == table).flat_map(|(_, rows)| rows).collect()
    }

    fn number(text: &str) -> u32 {
        text.parse().unwrap()
    }

    #[test]
    fn generated_district_follows_clause_4_3_3_1() {
        let parts = rows(Unit::District { warehouse: 3, district: 7 }, 1);
        assert!(parts.iter().flat_map(|(_, rows)| rows).all(|row| row[0] == "3" && row[1] == "7"));
        let counts =
            ["district", "customer", "history", "orders", "new_order"].map(|table| rows_of(&parts, table).len());
        assert_eq!(counts, [1, 3000, 3000, 3000, 900]);
        assert_eq!(parts.len() + 1, MAX_STATEMENTS as usize);

        let orders = rows_of(&parts, "orders");
        let mut customers: Vec<_> = orders.iter().map(|row| number(&row[3])).collect();
        assert!(!customers.is_sorted());
        customers.sort_unstable();
        assert!(customers.into_iter().eq(1..=3000), "a permutation");
        assert!(orders.iter().all(|row| (row[5] == "NULL") == (number(&row[2]) >= 2101)));
        let lines = rows_of(&parts, "order_line");
        assert_eq!(lines.len() as u32, orders.iter().map(|row| number(&row[6])).sum::<u32>());
        for line in lines {
            let delivered = number(&line[2]) < 2101;
            assert_eq!((line[6] != "NULL", line[8] == "0.00"), (delivered, delivered));
        }
        let new: Vec<_> = rows_of(&parts, "new_order").iter().map(|row| number(&row[2])).collect();
        assert!(new.into_iter().eq(2101..=3000));
    }

    #[test]
    fn customers_have_the_specified_names_and_credit_ratings() {
        let parts = rows(Unit::District { warehouse: 1, district: 1 }, 2);
        let customers = rows_of(&parts, "customer");
        for (place, customer) in customers.iter().take(1000).enumerate() {
            assert_eq!(customer[3].as_bytes(), LastName::new(place as u32).as_bytes());
        }
        let bad = customers.iter().filter(|row| row[13] == "BC").count();
        assert!((240..360).contains(&bad), "{bad}");
        assert!(customers.iter().all(|row| (300..=500).contains(&row[20].len())));
        assert!(customers.iter().all(|row| row[15].parse::<f64>().unwrap() <= 0.5));
    }

    #[test]
    fn stock_and_item_tables_are_loaded_in_units_of_a_thousand_rows() {
        let stock_parts = rows(Unit::Stock { warehouse: 2, from: 5001 }, 3);
        let stock = rows_of(&stock_parts, "stock");
        assert!(stock.iter().map(|row| number(&row[1])).eq(5001..=6000));
        assert!(stock.iter().all(|row| (10..=100).contains(&number(&row[2]))));
        let item_parts = rows(Unit::Items { from: 99_001 }, 3);
        let items = rows_of(&item_parts, "item");
        assert!(items.iter().map(|row| number(&row[0])).eq(99_001..=100_000));
        assert!(items.iter().all(|row| (1.0..=100.0).contains(&row[3].parse::<f64>().unwrap())));
        for rows in [stock, items] {
            let original = rows.iter().filter(|row| row.last().unwrap().contains("ORIGINAL")).count();
            // A tenth of 1,000 rows is expected, with a standard deviation of 9.5.
            assert!((55..145).contains(&original), "{original}");
        }
    }

    #[test]
    fn rows_of_a_load_unit_depend_on_the_seed() {
        let unit = Unit::Warehouse { warehouse: 1 };
        assert_eq!(rows(unit, 5), rows(unit, 5));
        assert_ne!(rows(unit, 5), rows(unit, 6));
    }

    #[test]
    fn load_units_cover_all_data_without_repetition() {
        for warehouses in [1, 3] {
            let units: Vec<_> = (0..).map_while(|number| Unit::numbered(number, warehouses)).collect();
            assert_eq!(units.len() as u32, 111 * warehouses + 100);
            assert_eq!(units.iter().collect::<HashSet<_>>().len(), units.len());
            assert_eq!(units[0], Unit::District { warehouse: 1, district: 1 });
            assert_eq!(units.last(), Some(&Unit::Warehouse { warehouse: warehouses }));
            assert!(units.contains(&Unit::Stock { warehouse: warehouses, from: 99_001 }));
            assert!(units.contains(&Unit::Items { from: 1 }));
        }
        assert_eq!(Unit::numbered(u64::MAX, u32::MAX), None);
    }
}
