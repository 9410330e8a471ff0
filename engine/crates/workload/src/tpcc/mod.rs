//! TPC-C by the clauses of its specification, revision 5.11: the data of clause 4.3 and the five transactions of clause 2,
//! in the mix of clause 5.2, for MySQL and MariaDB. Tables are those of `costof/tpcc.py`. Priced systems, response-time
//! limits and reports of a result are none of ours: times are `costof`'s own.

mod load;
mod numbers;
mod statements;
mod terminal;
mod transactions;

pub use load::Loader;
pub use terminal::{Place, Terminal};

use serde::Deserialize;

/// What a workload of kind `tpcc` does. Every field may be absent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename = "Tpcc")]
pub struct Settings {
    pub phase: TpccPhase,
    /// How many there are; everything else follows from it (clause 4.2).
    pub warehouses: u32,
    /// Of every transaction; a load has the server's own.
    pub isolation: Isolation,
    /// Whether terminals keep keying and think times (clause 5.2.5).
    pub keying: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { phase: TpccPhase::Run, warehouses: 1, isolation: Isolation::Serializable, keying: false }
    }
}

/// More would be 10 GB of data for each hundred of them, and no number of a unit overflows.
const MOST_WAREHOUSES: u32 = 100_000;

impl Settings {
    /// What of them can be refused before any server is asked.
    /// Errors: what is wrong, in words.
    pub fn check(&self, paced: bool) -> Result<(), &'static str> {
        if !(1..=MOST_WAREHOUSES).contains(&self.warehouses) {
            return Err("warehouses is a number from 1 to 100,000");
        }
        if self.keying && (paced || self.phase == TpccPhase::Load) {
            return Err("keying is a matter of phase run, and of terminals without a pace of their own");
        }
        Ok(())
    }
}

/// What an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TpccPhase {
    Load,
    Run,
}

/// SQL's isolation levels (ISO 9075-2, 4.41).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    pub fn sql(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "READ UNCOMMITTED",
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_workload_of_tpcc() {
        let settings = |text: &str| serde_json::from_str::<Settings>(text);
        let least = settings("{}").unwrap();
        assert_eq!((least.phase, least.warehouses, least.keying), (TpccPhase::Run, 1, false));
        assert_eq!(least.isolation, Isolation::Serializable);
        let all = r#"{"phase": "load", "warehouses": 3, "isolation": "read-committed", "keying": true}"#;
        assert_eq!(settings(all).unwrap().isolation, Isolation::ReadCommitted);
        for (known, unknown) in [("read-committed", "snapshot"), ("keying", "thinking"), ("load", "check")] {
            assert!(settings(&all.replace(known, unknown)).is_err(), "{unknown}");
        }
    }
}
