//! What goes in and out of `costof-engine gateway`.

use super::counters::ListenerCounters;
use crate::border::Transport;
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

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerPlan {
    /// Port 0 is any that is free.
    pub address: SocketAddr,
    /// TOML.
    pub rules_file: PathBuf,
    /// `host:port` of the one behind.
    pub server: String,
    /// Plain without.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// To the server.
    #[serde(default = "plain")]
    pub server_transport: Transport,
}

/// PEM files; one may be both.
#[derive(Debug, Clone, Deserialize)]
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
    Reload {},
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Ready(Ready),
    Counters(AllCounters),
    Reloaded(BTreeMap<SocketAddr, Option<String>>),
    Error(Failure),
}

/// Connections are being taken on all of these, in the plan's order, with the ports that were free.
#[derive(Debug, Serialize)]
pub struct Ready {
    pub listeners: Vec<SocketAddr>,
    /// What an operator should know.
    pub warnings: Vec<String>,
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
        for listener in &plan.listeners {
            // The proofs of MySQL's accounts differ: a password that is safe under TLS would go on in plain.
            if listener.tls.is_some() != matches!(listener.server_transport, Transport::Tls(_)) {
                let why = "tls and server_transport go together: both sides under TLS, or neither";
                return Err(wrong(&format!("{}: {why}", listener.address)));
            }
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

fn plain() -> Transport {
    Transport::Plain {}
}

fn wrong(what: &str) -> Failure {
    Failure::new(Class::Plan, format!("cannot follow this command: {what}"))
}
