//! What a plan says of a workload, and of the data that it is about.

use crate::tpcc;
use crate::ycsb;
use base::error::Result;
use base::lines::wrong;
use serde::Deserialize;

/// The size of the table: YCSB's `usertable`, or sysbench's, of which only the number of records is free.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Records; keys are made of the numbers below it.
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

/// What a slice does.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename = "Workload")]
pub struct Settings {
    pub name: String,
    pub kind: Kind,
    /// Operations under way at the same time, each on a connection of its own.
    #[serde(default = "one")]
    pub workers: usize,
    /// Of `connect` alone: whether a new connection is asked a query; it is where absent.
    pub first_operation: Option<bool>,
    /// Of `connect` alone: so many more follow the first query, on the same connection.
    #[serde(default)]
    pub further_operations: u32,
    /// Of `request` alone: a connection is kept until the server ends it, however few requests the service says one carries.
    #[serde(default)]
    pub keep_connections: bool,
    /// When operations begin; where absent, each as soon as its worker is free.
    pub pace: Option<Pace>,
    /// So long each worker's user thinks before an operation, on average; not at all where absent.
    pub think_ms: Option<f64>,
    pub ycsb: Option<ycsb::Settings>,
    pub tpcc: Option<tpcc::Settings>,
}

impl Settings {
    pub fn check(&self) -> Result<()> {
        let Settings { name, kind, workers, .. } = self;
        if *workers == 0 {
            return Err(wrong(&format!("workload '{name}' has no workers")));
        }
        let refuse = |what: &str| Err(wrong(&format!("workload '{name}': {what}")));
        if self.first_operation.is_some() && *kind != Kind::Connect {
            return refuse("first_operation is a matter of connect alone");
        }
        if self.further_operations > 0 && (*kind != Kind::Connect || self.first_operation == Some(false)) {
            return refuse("further_operations are a matter of connect alone, after a first one");
        }
        if self.keep_connections && *kind != Kind::Request {
            return refuse("keep_connections is a matter of request alone");
        }
        if self.pace.is_some_and(|pace| !(pace.per_second.is_finite() && pace.per_second > 0.0)) {
            return refuse("per_second is a number above 0");
        }
        if self.think_ms.is_some_and(|mean| !(mean.is_finite() && mean > 0.0)) {
            return refuse("think_ms is a number above 0");
        }
        if self.think_ms.is_some() && self.pace.is_some() {
            return refuse("a pace says when operations begin, and think_ms does");
        }
        if self.ycsb.is_some() && *kind != Kind::Ycsb {
            return refuse("ycsb is a matter of kind ycsb alone");
        }
        let Some(tpcc) = &self.tpcc else { return Ok(()) };
        if *kind != Kind::Tpcc {
            return refuse("tpcc is a matter of kind tpcc alone");
        }
        tpcc.check(self.pace.is_some() || self.think_ms.is_some()).or_else(refuse)
    }
}

/// When the operations of a slice begin, whichever worker is free.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Of all workers together, on average.
    pub per_second: f64,
    pub arrivals: Arrivals,
}

/// How the instants of a pace lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    Constant,
    /// As independent clients come: exponentially distributed gaps.
    Poisson,
}

fn one() -> usize {
    1
}

/// What one operation of a workload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A new connection, its first query unless the workload goes without, and its end.
    Connect,
    Query,
    Load,
    Request,
    Ycsb,
    /// A transaction of TPC-C, or a part of its data.
    Tpcc,
    /// Sixteen queries over a persistent connection, sent before the first answer.
    Pipeline,
    Tpcb,
    /// A record written over a persistent connection, whether it is there or not.
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

/// What a session that answers one question after the other can be asked.
pub const QUERIES: &[Kind] = &[Kind::Connect, Kind::Query];
/// What a session that reads and writes records by their keys can be asked.
pub const RECORDS: &[Kind] = &[Kind::Connect, Kind::Query, Kind::Load, Kind::Ycsb];
/// What one that speaks SQL can be asked.
pub const SQL: &[Kind] = &[Kind::Connect, Kind::Query, Kind::Load, Kind::Ycsb, Kind::Tpcc];
/// What one that reads and writes records besides, several at once, and carries out pgbench's transactions, can be asked.
pub const PGBENCH: &[Kind] = &[Kind::Connect, Kind::Query, Kind::Load, Kind::Ycsb, Kind::Pipeline, Kind::Tpcb];
/// What one that reads and writes records by their keys, there or not, and several at once, can be asked.
pub const CACHE: &[Kind] = &[Kind::Connect, Kind::Query, Kind::Load, Kind::Ycsb, Kind::Pipeline, Kind::Write];
/// What one that carries requests can be asked.
pub const REQUESTS: &[Kind] = &[Kind::Connect, Kind::Request];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ycsb::YcsbPhase;

    #[test]
    fn reads_a_pace() {
        let paced =
            r#"{"name": "r", "kind": "request", "workers": 2, "pace": {"per_second": 5.5, "arrivals": "poisson"}}"#;
        let workload: Settings = serde_json::from_str(paced).unwrap();
        assert_eq!(workload.pace, Some(Pace { per_second: 5.5, arrivals: Arrivals::Poisson }));
        for wrong in [
            paced.replace("poisson", "bursts"),
            paced.replace("5.5,", r#"5.5, "burst": 1,"#),
            paced.replace(r#", "arrivals": "poisson""#, ""),
        ] {
            assert!(wrong != paced && serde_json::from_str::<Settings>(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_a_connection_that_is_asked_once_is_asked_again() {
        let text = r#"{"name": "c", "kind": "connect", "further_operations": 19}"#;
        let refused = |text: &str| serde_json::from_str::<Settings>(text).unwrap().check().is_err();
        assert!(!refused(text));
        assert!(refused(&text.replace("connect", "query")));
        assert!(refused(&text.replace("19", r#"19, "first_operation": false"#)));
    }

    #[test]
    fn reads_a_workload_of_ycsb() {
        let text = r#"{"name": "y", "kind": "ycsb", "ycsb": {"phase": "load", "record_count": 5}}"#;
        let workload: Settings = serde_json::from_str(text).unwrap();
        let settings = workload.ycsb.unwrap();
        assert_eq!((settings.phase, settings.record_count, settings.field_count), (YcsbPhase::Load, 5, 10));
        assert!(serde_json::from_str::<Settings>(&text.replace("record_count", "recordcount")).is_err());
    }
}
