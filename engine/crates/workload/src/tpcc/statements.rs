//! The SQL statements of TPC-C's transactions. Every transaction locks rows in the same order: customers, stock,
//! districts, warehouses. Deadlocks are therefore rare. The warehouse's row, which all of the warehouse's terminals
//! use, comes last and is therefore locked for the shortest time. Values occur only in parameters and results, so the
//! text of each statement is constant.

use super::{DISTRICTS, LINES, MAX_LINES};
use crate::sql::Parameter::{self, DateTime, Decimal, Integer, Text};
use crate::sql::{Column, Statement};
use std::sync::LazyLock;

/// This constant and the constants below are the statements' indices in [`all`].
pub const ITEMS: usize = 0;
pub const CUSTOMER_OF_ORDER: usize = 1;
pub const DISTRICT_FOR_ORDER: usize = 2;
pub const NEXT_ORDER: usize = 3;
pub const WAREHOUSE_TAX: usize = 4;
pub const INSERT_ORDER: usize = 5;
pub const INSERT_NEW_ORDER: usize = 6;
pub const CUSTOMERS_WITH_NAME: usize = 7;
pub const PAYING_CUSTOMER: usize = 8;
pub const CUSTOMER_DATA: usize = 9;
pub const PAY: usize = 10;
pub const PAY_WITH_DATA: usize = 11;
pub const ADD_TO_DISTRICT: usize = 12;
pub const ADD_TO_WAREHOUSE: usize = 13;
pub const WAREHOUSE_AND_DISTRICT: usize = 14;
pub const INSERT_HISTORY: usize = 15;
pub const CUSTOMER_STATUS: usize = 16;
pub const LAST_ORDER: usize = 17;
pub const ORDER_LINES: usize = 18;
pub const OLDEST_ORDERS: usize = 19;
pub const DELETE_NEW_ORDERS: usize = 20;
pub const SET_CARRIER: usize = 21;
pub const ORDERING_CUSTOMERS: usize = 22;
pub const DELIVER_LINES: usize = 23;
pub const AMOUNTS: usize = 24;
pub const CHARGE_CUSTOMER: usize = 25;
pub const NEXT_ORDER_OF_DISTRICT: usize = 26;
pub const LOW_STOCK: usize = 27;
const FIRST_STOCK: usize = 28;
const FIRST_UPDATE: usize = FIRST_STOCK + DISTRICTS as usize;
const FIRST_LINES: usize = FIRST_UPDATE + UPDATE_SIZES.len();

/// The numbers of rows in the statements that update stock. An order with fewer rows repeats its last row, which
/// changes nothing.
pub const UPDATE_SIZES: [usize; 3] = [5, 10, MAX_LINES];
/// The minimum number of lines in an INSERT. An order that is rolled back lacks its last line, so the minimum is one
/// less than the smallest number of lines of an order.
const FEWEST_LINES: usize = *LINES.start() as usize - 1;

pub fn stock_query(district: u32) -> usize {
    FIRST_STOCK + district as usize - 1
}

/// Return the smallest prepared update with at least `rows` rows of stock: its index in [`all`] and its number of rows.
pub fn smallest_update(rows: usize) -> (usize, usize) {
    let place = UPDATE_SIZES.iter().position(|size| *size >= rows).expect("an order has no more lines");
    (FIRST_UPDATE + place, UPDATE_SIZES[place])
}

pub fn insert_lines(count: usize) -> usize {
    FIRST_LINES + count - FEWEST_LINES
}

pub fn all() -> &'static [Statement] {
    static ALL: LazyLock<Vec<Statement>> = LazyLock::new(build_all);
    &ALL
}

fn build_all() -> Vec<Statement> {
    let mut all = new_order();
    all.extend(payment());
    all.extend(order_status());
    all.extend(delivery());
    all.extend(stock_level());
    all.extend((1..=DISTRICTS).map(stock));
    all.extend(UPDATE_SIZES.map(update_stock));
    all.extend((FEWEST_LINES..=MAX_LINES).map(lines));
    all
}

fn statement(text: impl Into<String>, parameters: &[Parameter], columns: &'static [Column]) -> Statement {
    Statement { text: text.into(), parameters: parameters.to_vec(), columns }
}

/// Return the statements of New-Order (clause 2.4.2.2).
fn new_order() -> Vec<Statement> {
    let marks = vec!["?"; MAX_LINES].join(",");
    vec![
        statement(
            format!("SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id IN ({marks})"),
            &[Integer; MAX_LINES],
            &[Column::Int, Column::Decimal, Column::Text, Column::Text],
        ),
        statement(
            "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &[Integer; 3],
            &[Column::Decimal, Column::Text, Column::Text],
        ),
        statement(
            "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ? FOR UPDATE",
            &[Integer; 2],
            &[Column::Decimal, Column::Int],
        ),
        statement("UPDATE district SET d_next_o_id = ? WHERE d_w_id = ? AND d_id = ?", &[Integer; 3], &[]),
        statement("SELECT w_tax FROM warehouse WHERE w_id = ?", &[Integer], &[Column::Decimal]),
        statement(
            "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
             VALUES (?, ?, ?, ?, ?, ?, ?)",
            &[Integer, Integer, Integer, Integer, DateTime, Integer, Integer],
            &[],
        ),
        statement("INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (?, ?, ?)", &[Integer; 3], &[]),
    ]
}

/// Return New-Order's query for a warehouse's stock (clause 2.4.2.2) with the district's column, such as S_DIST_01.
fn stock(district: u32) -> Statement {
    let marks = vec!["?"; MAX_LINES].join(",");
    statement(
        format!(
            "SELECT s_i_id, s_quantity, s_dist_{district:02}, s_data FROM stock \
             WHERE s_w_id = ? AND s_i_id IN ({marks}) FOR UPDATE"
        ),
        &[Integer; MAX_LINES + 1],
        &[Column::Int, Column::Short, Column::Text, Column::Text],
    )
}

/// Return the update of `rows` rows of stock: `INSERT … ON DUPLICATE KEY UPDATE` can set different values in each row.
fn update_stock(rows: usize) -> Statement {
    let marks = vec!["(?, ?, ?, ?, ?, ?)"; rows].join(", ");
    statement(
        format!(
            "INSERT INTO stock (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt) VALUES {marks} \
             ON DUPLICATE KEY UPDATE s_quantity = VALUES(s_quantity), s_ytd = s_ytd + VALUES(s_ytd), \
             s_order_cnt = s_order_cnt + VALUES(s_order_cnt), s_remote_cnt = s_remote_cnt + VALUES(s_remote_cnt)"
        ),
        &vec![Integer; 6 * rows],
        &[],
    )
}

fn lines(count: usize) -> Statement {
    let marks = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?)"; count].join(", ");
    let one = [Integer, Integer, Integer, Integer, Integer, Integer, Integer, Decimal, Text];
    statement(
        format!(
            "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
             ol_amount, ol_dist_info) VALUES {marks}"
        ),
        &one.repeat(count),
        &[],
    )
}

/// Return the statements of Payment (clause 2.5.2.2).
fn payment() -> Vec<Statement> {
    vec![
        // An index contains all columns of this query, so the rows of customers with this name are not locked.
        statement(
            "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first",
            &[Integer, Integer, Text],
            &[Column::Int],
        ),
        statement(
            "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, \
             c_credit, c_credit_lim, c_discount, c_balance FROM customer \
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE",
            &[Integer; 3],
            &[
                Column::Text,
                Column::Text,
                Column::Text,
                Column::Text,
                Column::Text,
                Column::Text,
                Column::Text,
                Column::Text,
                Column::Text,
                Column::DateTime,
                Column::Text,
                Column::Decimal,
                Column::Decimal,
                Column::Decimal,
            ],
        ),
        statement(
            "SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &[Integer; 3],
            &[Column::Text],
        ),
        statement(
            "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, \
             c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &[Decimal, Decimal, Integer, Integer, Integer],
            &[],
        ),
        statement(
            "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, \
             c_payment_cnt = c_payment_cnt + 1, c_data = ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &[Decimal, Decimal, Text, Integer, Integer, Integer],
            &[],
        ),
        statement(
            "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?",
            &[Decimal, Integer, Integer],
            &[],
        ),
        statement("UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", &[Decimal, Integer], &[]),
        statement(
            "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip, d_name, d_street_1, d_street_2, d_city, \
             d_state, d_zip FROM warehouse, district WHERE w_id = ? AND d_w_id = ? AND d_id = ?",
            &[Integer; 3],
            &[Column::Text; 12],
        ),
        statement(
            "INSERT INTO history (h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_date, h_amount, h_data) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            &[Integer, Integer, Integer, Integer, Integer, DateTime, Decimal, Text],
            &[],
        ),
    ]
}

/// Return the statements of Order-Status (clause 2.6.2.2).
fn order_status() -> Vec<Statement> {
    vec![
        statement(
            "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &[Integer; 3],
            &[Column::Decimal, Column::Text, Column::Text, Column::Text],
        ),
        statement(
            "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? \
             ORDER BY o_id DESC LIMIT 1",
            &[Integer; 3],
            &[Column::Int, Column::DateTime, Column::Tiny],
        ),
        statement(
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            &[Integer; 3],
            &[Column::Int, Column::Int, Column::Tiny, Column::Decimal, Column::DateTime],
        ),
    ]
}

/// Return an SQL condition that selects one order in each district. For each district, its parameters are the number of
/// the district and the number of the order.
fn one_order_per_district(district: &str, order: &str) -> String {
    let one = format!("({district} = ? AND {order} = ?)");
    vec![one; DISTRICTS as usize].join(" OR ")
}

/// Return Delivery's statements. One database transaction delivers the orders of ten districts (clause 2.7.4.2).
fn delivery() -> Vec<Statement> {
    const ORDERS: usize = 2 * DISTRICTS as usize;
    let new_orders = one_order_per_district("no_d_id", "no_o_id");
    let orders = one_order_per_district("o_d_id", "o_id");
    let lines = one_order_per_district("ol_d_id", "ol_o_id");
    // GROUP BY with MIN would read and lock all new orders of the warehouse (observed on MariaDB 10.11).
    let oldest = (1..=DISTRICTS).map(|district| {
        format!(
            "(SELECT no_d_id, no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = {district} \
             ORDER BY no_o_id LIMIT 1 FOR UPDATE)"
        )
    });
    let oldest = oldest.collect::<Vec<_>>().join(" UNION ALL ");
    let with = |first: &[Parameter]| [first, &[Integer; ORDERS]].concat();
    vec![
        statement(
            format!("SELECT no_d_id, no_o_id FROM ({oldest}) AS oldest"),
            &[Integer; DISTRICTS as usize],
            &[Column::Tiny, Column::Int],
        ),
        statement(format!("DELETE FROM new_order WHERE no_w_id = ? AND ({new_orders})"), &with(&[Integer]), &[]),
        statement(
            format!("UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND ({orders})"),
            &with(&[Integer, Integer]),
            &[],
        ),
        statement(
            format!("SELECT o_d_id, o_c_id FROM orders WHERE o_w_id = ? AND ({orders})"),
            &with(&[Integer]),
            &[Column::Tiny, Column::Int],
        ),
        statement(
            format!("UPDATE order_line SET ol_delivery_d = ? WHERE ol_w_id = ? AND ({lines})"),
            &with(&[DateTime, Integer]),
            &[],
        ),
        statement(
            format!("SELECT ol_d_id, SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ({lines}) GROUP BY ol_d_id"),
            &with(&[Integer]),
            &[Column::Tiny, Column::Decimal],
        ),
        statement(
            "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 \
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &[Decimal, Integer, Integer, Integer],
            &[],
        ),
    ]
}

/// Return the statements of Stock-Level (clause 2.8.2.2).
fn stock_level() -> Vec<Statement> {
    vec![
        statement("SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?", &[Integer; 2], &[Column::Int]),
        statement(
            "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id < ? \
             AND ol_o_id >= ? AND s_w_id = ? AND s_i_id = ol_i_id AND s_quantity < ?",
            &[Integer; 6],
            &[Column::Big],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_mark_of_a_statement_has_a_parameter() {
        for Statement { text, parameters, .. } in all() {
            assert_eq!(text.matches('?').count(), parameters.len(), "{text}");
        }
    }

    #[test]
    fn rules_of_the_column_encryption_study_approve_exactly_the_tpcc_statements() {
        let file = include_str!("../../../../../costof/studies/mysql-column-encryption/statements.toml");
        for Statement { text, .. } in all() {
            assert!(file.contains(&format!("\ntext = \"{text}\"\n")), "{text}");
        }
        assert_eq!(file.matches("[[statements]]").count(), all().len());
    }

    #[test]
    fn statement_indices_refer_to_the_right_statements() {
        let begins = |place: usize, with: &str| {
            let text = &all()[place].text;
            assert!(text.starts_with(with), "{text}");
        };
        begins(INSERT_NEW_ORDER, "INSERT INTO new_order");
        begins(CUSTOMERS_WITH_NAME, "SELECT c_id FROM customer");
        begins(INSERT_HISTORY, "INSERT INTO history");
        begins(CUSTOMER_STATUS, "SELECT c_balance");
        begins(ORDER_LINES, "SELECT ol_i_id");
        begins(OLDEST_ORDERS, "SELECT no_d_id, no_o_id FROM (");
        begins(CHARGE_CUSTOMER, "UPDATE customer SET c_balance = c_balance + ?");
        begins(LOW_STOCK, "SELECT COUNT(DISTINCT");
        begins(stock_query(10), "SELECT s_i_id, s_quantity, s_dist_10");
        begins(smallest_update(7).0, "INSERT INTO stock");
        assert_eq!(all()[smallest_update(7).0].parameters.len(), 6 * smallest_update(7).1);
        assert_eq!((smallest_update(1).1, smallest_update(10).1, smallest_update(15).1), (5, 10, 15));
        for count in FEWEST_LINES..=MAX_LINES {
            begins(insert_lines(count), "INSERT INTO order_line");
            assert_eq!(all()[insert_lines(count)].parameters.len(), 9 * count);
        }
        assert_eq!(insert_lines(MAX_LINES), all().len() - 1);
    }
}
