//! The messages of `costof-engine gateway`.

use super::counters::ListenerCounters;
use super::limits::Limits;
use base::error::Result;
use base::lines::{self, wrong};
use net::serve::{AllCounters, TlsFiles};
use net::settings::Transport;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The first line of standard input.
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
    /// The rules, in TOML.
    pub rules_file: PathBuf,
    /// `host:port` of the server behind the gateway.
    pub server: String,
    /// None for plain clients.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// The transport to the server.
    #[serde(default = "plain")]
    pub server_transport: Transport,
    /// Statements of some accounts are learned.
    #[serde(default)]
    pub learn: Option<LearnPlan>,
    /// Limits that differ from the defaults.
    #[serde(default)]
    pub limits: Limits,
}

/// Whose statements are learned, and where they are written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnPlan {
    pub file: PathBuf,
    /// They are not guarded.
    pub accounts: Vec<String>,
}

/// A later line of standard input.
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
    Counters(AllCounters<ListenerCounters>),
    Reloaded(BTreeMap<SocketAddr, Option<String>>),
}

/// The addresses of the listeners, in the plan's order, with the ports that were free.
#[derive(Debug, Serialize)]
pub struct Ready {
    pub listeners: Vec<SocketAddr>,
    /// What an operator should know of the rules.
    pub warnings: Vec<String>,
}

impl Plan {
    /// # Errors
    /// `plan`.
    pub fn parse(line: &[u8]) -> Result<Plan> {
        let plan: Plan = lines::parse(line)?;
        if plan.threads == 0 {
            return Err(wrong("threads is at least 1"));
        }
        if plan.listeners.is_empty() {
            return Err(wrong("there is no listener in it"));
        }
        for listener in &plan.listeners {
            if listener.learn.as_ref().is_some_and(|learn| learn.accounts.is_empty()) {
                return Err(wrong("learn names no account"));
            }
            // The proofs of MySQL's accounts differ: a password that is safe under TLS would go on in plain.
            if listener.tls.is_some() != matches!(listener.server_transport, Transport::Tls(_)) {
                let why = "tls and server_transport go together: both sides under TLS, or neither";
                return Err(wrong(&format!("{}: {why}", listener.address)));
            }
        }
        Ok(plan)
    }
}

fn plain() -> Transport {
    Transport::Plain {}
}
