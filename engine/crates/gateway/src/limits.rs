//! Limits on what one client or one address may use.

use serde::Deserialize;

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
    /// Bytes of long data for one execution of a prepared statement.
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

/// Convert seconds to nanoseconds.
pub const fn nanoseconds(seconds: u64) -> u64 {
    seconds.saturating_mul(1_000_000_000)
}
