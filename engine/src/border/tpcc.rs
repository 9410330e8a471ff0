//! The settings of TPC-C's workloads.

use serde::Deserialize;

/// What a workload of kind `tpcc` does. Every field may be absent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tpcc {
    /// Loading the data, or working on it.
    pub phase: TpccPhase,
    /// How many there are; everything else follows from it (clause 4.2).
    pub warehouses: u32,
    /// Of every transaction; a load has the server's own.
    pub isolation: Isolation,
    /// Whether terminals keep keying and think times (clause 5.2.5).
    pub keying: bool,
}

impl Default for Tpcc {
    fn default() -> Self {
        Tpcc { phase: TpccPhase::Run, warehouses: 1, isolation: Isolation::Serializable, keying: false }
    }
}

/// What an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TpccPhase {
    /// A unit of the data, written.
    Load,
    /// A transaction.
    Run,
}

/// SQL's isolation levels (ISO 9075-2, 4.41).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Others' uncommitted changes are seen.
    ReadUncommitted,
    /// A row that is read twice may differ.
    ReadCommitted,
    /// A condition that is asked twice may find more rows.
    RepeatableRead,
    /// As if transactions came one after the other.
    Serializable,
}

impl Isolation {
    /// As SQL spells it.
    pub fn sql(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "READ UNCOMMITTED",
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}
