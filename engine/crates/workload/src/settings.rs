//! The settings of a workload and its data, as the plan (the configuration of a run) contains them.

use crate::tpcc;
use crate::ycsb;
use base::error::Result;
use base::lines::invalid_command;
use serde::Deserialize;

/// The size of the data that workloads such as `query` and `load` read and write. (Workloads `ycsb` and `tpcc` have
/// their own settings.) Only YCSB's table uses `fields`, the number of fields of a record, and `field_length`, the
/// length of a field in bytes. sysbench, pgbench or the service's settings define the size of other records.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The number of records. They are numbered from 0, and their keys are computed from these numbers.
    pub records: u64,
    #[serde(default = "ten")]
    pub fields: u32,
    #[serde(default = "a_hundred")]
    pub field_length: u32,
}

fn ten() -> u32 {
    10
}

fn a_hundred() -> u32 {
    100
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename = "Workload")]
pub struct Settings {
    pub name: String,
    pub kind: Kind,
    /// The number of workers. Each performs one operation at a time, on its own connection.
    #[serde(default = "one")]
    pub workers: usize,
    /// Only for `connect`: whether to perform a first operation on each new connection; true if absent.
    pub first_operation: Option<bool>,
    /// Only for `connect`: the number of operations on each connection after the first operation.
    #[serde(default)]
    pub further_operations: u32,
    /// Only for `request`: whether to keep each connection until the server ends it. If true, the maximum number of
    /// requests on a connection (`requests_per_connection` of the service) is ignored.
    #[serde(default)]
    pub keep_connections: bool,
    /// The rate at which operations begin. If absent, a worker begins its next operation as soon as it is free.
    pub pace: Option<Pace>,
    /// The mean time in milliseconds that a worker waits before each operation, like a user who thinks; 0 if absent.
    pub think_ms: Option<f64>,
    pub ycsb: Option<ycsb::Settings>,
    pub tpcc: Option<tpcc::Settings>,
}

impl Settings {
    /// Check the settings. Errors: class `plan` if they are invalid or contradict each other.
    pub fn check(&self) -> Result<()> {
        let Settings { name, kind, workers, .. } = self;
        let refuse = |reason: &str| Err(invalid_command(&format!("workload '{name}': {reason}")));
        if *workers == 0 {
            return refuse("workers must be at least 1");
        }
        if self.first_operation.is_some() && *kind != Kind::Connect {
            return refuse("first_operation needs kind 'connect'");
        }
        if self.further_operations > 0 && (*kind != Kind::Connect || self.first_operation == Some(false)) {
            return refuse("further_operations needs kind 'connect' with a first operation");
        }
        if self.keep_connections && *kind != Kind::Request {
            return refuse("keep_connections needs kind 'request'");
        }
        if self.pace.is_some_and(|pace| !(pace.per_second.is_finite() && pace.per_second > 0.0)) {
            return refuse("per_second must be a number above 0");
        }
        if self.think_ms.is_some_and(|mean| !(mean.is_finite() && mean > 0.0)) {
            return refuse("think_ms must be a number above 0");
        }
        if self.think_ms.is_some() && self.pace.is_some() {
            return refuse("pace and think_ms exclude each other; remove one");
        }
        if self.ycsb.is_some() && *kind != Kind::Ycsb {
            return refuse("ycsb needs kind 'ycsb'");
        }
        let Some(tpcc) = &self.tpcc else { return Ok(()) };
        if *kind != Kind::Tpcc {
            return refuse("tpcc needs kind 'tpcc'");
        }
        tpcc.check(self.pace.is_some() || self.think_ms.is_some()).or_else(refuse)
    }
}

/// The rate at which operations begin. Whichever worker is free performs the next operation.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// The mean number of operations a second that all workers together begin.
    pub per_second: f64,
    pub arrivals: Arrivals,
}

/// The distribution of the intervals between the starts of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    Constant,
    /// Exponentially distributed intervals, as if the operations came from many independent clients.
    Poisson,
}

fn one() -> usize {
    1
}

/// The kind of a workload, which determines its operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Each operation opens a connection, performs queries on it, and ends it.
    Connect,
    Query,
    Load,
    Request,
    Ycsb,
    /// One TPC-C transaction. In TPC-C's phase `load`, each operation writes a part of the data instead.
    Tpcc,
    /// Sixteen queries in each operation, over a persistent connection, all sent before the first answer is awaited.
    Pipeline,
    Tpcb,
    /// A write of one record over a persistent connection.
    Write,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Connect => "connect",
            Kind::Query => "query",
            Kind::Load => "load",
            Kind::Request => "request",
            Kind::Ycsb => "ycsb",
            Kind::Tpcc => "tpcc",
            Kind::Pipeline => "pipeline",
            Kind::Tpcb => "tpcb",
            Kind::Write => "write",
        }
    }
}

/// The kinds of workloads for protocols whose sessions can only query ([`crate::Ask`]).
pub const QUERIES: &[Kind] = &[Kind::Connect, Kind::Query];
/// The workloads of protocols whose sessions access records by key ([`crate::KeyValue`], [`crate::Records`]).
pub const RECORDS: &[Kind] = &[Kind::Connect, Kind::Query, Kind::Load, Kind::Ycsb];
/// The kinds of workloads for protocols whose sessions can read and write records and speak SQL ([`crate::sql::Sql`]).
pub const SQL: &[Kind] = &[Kind::Connect, Kind::Query, Kind::Load, Kind::Ycsb, Kind::Tpcc, Kind::Write];
/// The kinds of workloads for protocols whose sessions can read and write records, pipeline queries, and perform
/// pgbench's transactions ([`crate::Pgbench`]).
pub const PGBENCH: &[Kind] = &[Kind::Connect, Kind::Query, Kind::Load, Kind::Ycsb, Kind::Pipeline, Kind::Tpcb];
/// The kinds of workloads for caches such as Redis, whose sessions can read and write records, pipeline queries, and
/// overwrite single records ([`crate::Overwrite`]).
pub const CACHE: &[Kind] = &[Kind::Connect, Kind::Query, Kind::Load, Kind::Ycsb, Kind::Pipeline, Kind::Write];
/// The kinds of workloads for protocols whose sessions carry HTTP requests ([`crate::Requests`]).
pub const REQUESTS: &[Kind] = &[Kind::Connect, Kind::Request];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_further_operations_requires_a_connect_workload_with_a_first_operation() {
        let text = r#"{"name": "c", "kind": "connect", "further_operations": 19}"#;
        let refused = |text: &str| serde_json::from_str::<Settings>(text).unwrap().check().is_err();
        assert!(!refused(text));
        assert!(refused(&text.replace("connect", "query")));
        assert!(refused(&text.replace("19", r#"19, "first_operation": false"#)));
    }
}
