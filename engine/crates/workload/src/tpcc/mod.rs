//! TPC-C by the clauses of its specification, revision 5.11: the data of clause 4.3 and the five transactions of clause 2,
//! in the mix of clause 5.2, for MySQL and MariaDB. Tables are those of `costof/tpcc.py`. Priced systems, response-time
//! limits and reports of a result are none of ours: times are `costof`'s own.

mod connection;
mod deck;
mod delivery;
mod loader;
mod names;
mod new_order;
mod numbers;
mod order_status;
mod payment;
mod rows;
mod settings;
mod statements;
mod stock_level;
mod strings;
mod terminal;
mod transactions;
mod unit;

pub use loader::Loader;
pub use settings::{Isolation, Settings, TpccPhase};
pub use terminal::{Place, Terminal};

/// Rows of `item`, and of each warehouse's `stock` (clause 1.2.1).
pub const ITEMS: u32 = 100_000;
/// Of a warehouse.
pub const DISTRICTS: u32 = 10;
/// Of a district.
pub const CUSTOMERS: u32 = 3000;
/// Of a district, once it is loaded: each customer has one (clause 4.3.3.1).
pub const ORDERS: u32 = 3000;
/// From this one on, a loaded order is not delivered yet (clause 4.3.3.1).
pub const FIRST_UNDELIVERED: u32 = 2101;
/// Lines of an order (clause 2.4.1.3).
pub const LINES: std::ops::RangeInclusive<u32> = 5..=15;
/// The most of them.
pub const MOST_LINES: usize = 15;
