//! The messages that `costof-engine gateway` reads and prints, and the limits of a listener's connections and sessions.

use crate::counters::ListenerCounters;
use base::error::Result;
use base::lines::{self, invalid_command};
use net::serve::{AllCounters, TlsFiles};
use net::settings::Transport;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The first line of standard input, which configures the gateway.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub threads: usize,
    pub listeners: Vec<ListenerPlan>,
}

/// A listener, and the server to which it passes statements.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerPlan {
    /// The address to listen on. Port 0 selects a free port.
    pub address: SocketAddr,
    pub rules_file: PathBuf,
    /// The address of the server behind the gateway, `host:port`.
    pub server: String,
    /// The certificate and key for TLS with clients. None if clients connect in plaintext.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    #[serde(default = "plain")]
    pub server_transport: Transport,
    #[serde(default)]
    pub learn: Option<LearnPlan>,
    #[serde(default)]
    pub limits: Limits,
}

/// Learning mode: the accounts whose statements the gateway records so that a person can approve them, and the file to
/// which it writes the statements.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnPlan {
    pub file: PathBuf,
    /// The names of the accounts. Their statements need no approval, and their results are not encrypted.
    pub accounts: Vec<String>,
}

/// The limits of one listener. The limits up to `login_seconds` apply to all connections. `catalogue_seconds` applies
/// to the listener as a whole. The other limits apply to sessions whose commands the gateway checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub connections: usize,
    /// The maximum number of simultaneous connections from one IPv4 address or one IPv6 /64 network.
    pub connections_an_address: usize,
    /// The maximum number of simultaneous connections that have not logged in yet.
    pub logins: usize,
    /// The maximum number of seconds from the start of a connection to the end of its login.
    pub login_seconds: u64,
    /// The maximum number of seconds from the first to the last byte of a command.
    pub command_seconds: u64,
    /// The maximum number of seconds for which a client or the server may read none of the bytes sent to it.
    pub write_seconds: u64,
    /// The maximum number of seconds from the last byte of an answer to the first byte of the next command.
    pub idle_seconds: u64,
    pub statement_bytes: usize,
    /// The maximum number of bytes of parameters for one execution of a prepared statement.
    pub long_data_bytes: usize,
    /// The maximum number of prepared statements of one session.
    pub prepared_statements: usize,
    /// The number of seconds between two queries of the list of the server's columns.
    pub catalogue_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 1000,
            connections_an_address: 100,
            logins: 128,
            // The default of `connect_timeout` in MySQL and MariaDB.
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

/// A command to the running gateway: any line of standard input after the first.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    Counters {},
    Reload {},
}

/// The answer to a command, on one line of standard output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Ready(Ready),
    Counters(AllCounters<ListenerCounters>),
    Reloaded(BTreeMap<SocketAddr, Option<String>>),
}

/// The message that all listeners are open. It contains their addresses with the actual ports, in the order in which
/// the plan (the gateway's configuration) lists them.
#[derive(Debug, Serialize)]
pub struct Ready {
    pub listeners: Vec<SocketAddr>,
    pub warnings: Vec<String>,
}

impl Plan {
    pub fn parse(line: &[u8]) -> Result<Plan> {
        let plan: Plan = lines::parse(line)?;
        if plan.threads == 0 {
            return Err(invalid_command("threads must be at least 1"));
        }
        if plan.listeners.is_empty() {
            return Err(invalid_command("the plan has no listener"));
        }
        for listener in &plan.listeners {
            if listener.learn.as_ref().is_some_and(|learn| learn.accounts.is_empty()) {
                return Err(invalid_command("learn has no accounts: name at least one"));
            }
            // With TLS on only one side, a password could be exposed. On a TLS connection, clients may send a password
            // in a form that is safe only under TLS. The gateway would pass it on over a plaintext connection.
            if listener.tls.is_some() != matches!(listener.server_transport, Transport::Tls(_)) {
                let why = "tls and server_transport go together: use TLS on both sides or on neither";
                return Err(invalid_command(&format!("{}: {why}", listener.address)));
            }
        }
        Ok(plan)
    }
}

fn plain() -> Transport {
    Transport::Plain {}
}
