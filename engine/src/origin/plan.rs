//! What goes in and out of `costof-engine origin`.

use super::counters::ListenerCounters;
use crate::error::{Class, Failure, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The first line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub threads: usize,
    pub listeners: Vec<ListenerPlan>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerPlan {
    /// Port 0 is any that is free.
    pub address: SocketAddr,
    /// Plain without.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
}

/// PEM files; one may be both.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
}

/// A later line.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    Counters {},
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Ready(Ready),
    Counters(AllCounters),
    Error(Failure),
}

/// Connections are being taken on all of these, in the plan's order, with the ports that were free.
#[derive(Debug, Serialize)]
pub struct Ready {
    pub listeners: Vec<SocketAddr>,
}

/// Since the start.
#[derive(Debug, Serialize)]
pub struct AllCounters {
    /// User and system time of this process.
    pub cpu_ns: u64,
    pub listeners: BTreeMap<SocketAddr, ListenerCounters>,
}

impl Plan {
    /// # Errors
    /// `plan`.
    pub fn parse(line: &str) -> Result<Plan> {
        let plan: Plan = serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))?;
        if plan.threads == 0 {
            return Err(wrong("threads is at least 1"));
        }
        if plan.listeners.is_empty() {
            return Err(wrong("there is no listener in it"));
        }
        Ok(plan)
    }
}

impl Command {
    /// # Errors
    /// `plan`.
    pub fn parse(line: &str) -> Result<Command> {
        serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))
    }
}

fn wrong(what: &str) -> Failure {
    Failure::new(Class::Plan, format!("cannot follow this command: {what}"))
}
