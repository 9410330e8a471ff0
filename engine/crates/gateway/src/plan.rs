//! The messages of `costof-engine gateway`, and the limits on what one client or one address may use.

use crate::counters::ListenerCounters;
use base::error::Result;
use base::lines::{self, invalid_command};
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
    pub rules_file: PathBuf,
    /// `host:port` of the server behind the gateway.
    pub server: String,
    /// None for plain clients.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    #[serde(default = "plain")]
    pub server_transport: Transport,
    #[serde(default)]
    pub learn: Option<LearnPlan>,
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

/// The limits of one listener. Those of time and of statements, but for the login's, hold for guarded sessions only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections from one address, or from one IPv6 network of 64 bits.
    pub connections_an_address: usize,
    /// Connections that are not logged in yet.
    pub logins: usize,
    /// Seconds from a connection to the end of its login.
    pub login_seconds: u64,
    /// Seconds from a command's first byte to its last.
    pub command_seconds: u64,
    /// Seconds in which a client or the server must read something of what it is sent.
    pub write_seconds: u64,
    /// Seconds between an answer's last byte and the next command's first.
    pub idle_seconds: u64,
    /// Bytes of a statement's text.
    pub statement_bytes: usize,
    /// Bytes of parameters for one execution of a prepared statement.
    pub long_data_bytes: usize,
    /// Prepared statements of one session.
    pub prepared_statements: usize,
    /// Seconds between two questions for the server's columns.
    pub catalogue_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 1000,
            connections_an_address: 100,
            logins: 128,
            // The default of both servers.
            login_seconds: 10,
            command_seconds: 30,
            write_seconds: 60,
            idle_seconds: 8 * 3600,
            statement_bytes: 1 << 20,
            long_data_bytes: 16 << 20,
            prepared_statements: 1024,
            catalogue_seconds: 60,
        }
    }
}

pub const fn nanoseconds(seconds: u64) -> u64 {
    seconds.saturating_mul(1_000_000_000)
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
    pub warnings: Vec<String>,
}

impl Plan {
    pub fn parse(line: &[u8]) -> Result<Plan> {
        let plan: Plan = lines::parse(line)?;
        if plan.threads == 0 {
            return Err(invalid_command("threads is at least 1"));
        }
        if plan.listeners.is_empty() {
            return Err(invalid_command("there is no listener in it"));
        }
        for listener in &plan.listeners {
            if listener.learn.as_ref().is_some_and(|learn| learn.accounts.is_empty()) {
                return Err(invalid_command("learn names no account"));
            }
            // The proofs of MySQL's accounts differ: a password that is safe under TLS would go on in plain.
            if listener.tls.is_some() != matches!(listener.server_transport, Transport::Tls(_)) {
                let why = "tls and server_transport go together: both sides under TLS, or neither";
                return Err(invalid_command(&format!("{}: {why}", listener.address)));
            }
        }
        Ok(plan)
    }
}

fn plain() -> Transport {
    Transport::Plain {}
}
