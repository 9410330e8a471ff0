//! TPC-C for MySQL and MariaDB as specified in revision 5.11: the data of clause 4.3, and the five transactions of
//! clause 2 in the mix of clause 5.2. The tables are those of `costof/datasets/tpcc.py`.
//!
//! The specification also defines prices, reports and limits on response times. These are not implemented: `costof`
//! reports TPC-C's times like those of any other workload.

mod load;
mod numbers;
mod statements;
mod terminal;
mod transactions;

pub use load::Loader;
pub use terminal::{Place, Terminal};

use serde::Deserialize;

/// The settings of a workload of kind `tpcc`. All of its fields are optional.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename = "Tpcc")]
pub struct Settings {
    pub phase: TpccPhase,
    /// The number of warehouses. It determines the size of all tables (clause 4.2).
    pub warehouses: u32,
    /// The isolation level of all transactions. Phase `load` uses the server's default instead.
    pub isolation: Isolation,
    /// True if terminals wait for keying and think times (clause 5.2.5).
    pub keying: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { phase: TpccPhase::Run, warehouses: 1, isolation: Isolation::Serializable, keying: false }
    }
}

/// The maximum number of warehouses. They would take about 10 TB, because a hundred warehouses take about 10 GB.
const MAX_WAREHOUSES: u32 = 100_000;

impl Settings {
    /// Check the settings. `paced` is whether the workload has a pace (a fixed rate) or think times.
    /// Errors: the reason why the settings are invalid.
    pub fn check(&self, paced: bool) -> Result<(), &'static str> {
        if !(1..=MAX_WAREHOUSES).contains(&self.warehouses) {
            return Err("warehouses must be a number from 1 to 100,000");
        }
        if self.keying && (paced || self.phase == TpccPhase::Load) {
            return Err("keying needs phase 'run' without pace and think_ms");
        }
        Ok(())
    }
}

/// The phase of the benchmark. In `load` an operation writes a part of the data; in `run` it is a transaction.
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

/// The number of rows of `item`, and of `stock` for each warehouse (clause 1.2.1).
pub const ITEMS: u32 = 100_000;
/// The number of districts in each warehouse.
pub const DISTRICTS: u32 = 10;
/// The number of customers in each district.
pub const CUSTOMERS: u32 = 3000;
/// The number of orders in each district after loading: one for each customer (clause 4.3.3.1).
pub const ORDERS: u32 = 3000;
/// The number of the first loaded order that has not been delivered yet (clause 4.3.3.1).
pub const FIRST_UNDELIVERED: u32 = 2101;
/// The numbers of lines that an order may have (clause 2.4.1.3).
pub const LINES: std::ops::RangeInclusive<u32> = 5..=15;
pub const MAX_LINES: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tpcc_settings_are_parsed_and_unknown_values_are_rejected() {
        let settings = |text: &str| serde_json::from_str::<Settings>(text);
        let defaults = settings("{}").unwrap();
        assert_eq!((defaults.phase, defaults.warehouses, defaults.keying), (TpccPhase::Run, 1, false));
        assert_eq!(defaults.isolation, Isolation::Serializable);
        let all = r#"{"phase": "load", "warehouses": 3, "isolation": "read-committed", "keying": true}"#;
        assert_eq!(settings(all).unwrap().isolation, Isolation::ReadCommitted);
        for (known, unknown) in [("read-committed", "snapshot"), ("keying", "thinking"), ("load", "check")] {
            assert!(settings(&all.replace(known, unknown)).is_err(), "{unknown}");
        }
    }

    #[test]
    fn keying_is_rejected_for_the_load_phase_and_for_workloads_with_a_pace() {
        let refused = |text: &str, paced: bool| serde_json::from_str::<Settings>(text).unwrap().check(paced).is_err();
        let keying = r#"{"phase": "run", "keying": true}"#;
        assert!(!refused(keying, false) && refused(keying, true));
        assert!(refused(&keying.replace("run", "load"), false));
    }
}
