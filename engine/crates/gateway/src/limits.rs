//! How much of the gateway one client, or one address, may take.

use serde::Deserialize;

/// Of one listener. Those of time, and of statements, are for guarded sessions alone, but the login's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Of one address, which in IPv6 is a network of 64 bits: whoever has one address there has them all.
    pub connections_an_address: usize,
    /// Connections that are not logged in yet.
    pub logins: usize,
    /// From a connection to its login's end.
    pub login_seconds: u64,
    /// From a command's first byte to its last.
    pub command_seconds: u64,
    /// In which a client that is written to, or the server, must take something.
    pub write_seconds: u64,
    /// Between an answer's last byte and a command's first.
    pub idle_seconds: u64,
    /// Of a statement's text.
    pub statement_bytes: usize,
    /// Of all parameters of a prepared statement that come by themselves, until it is executed.
    pub long_data_bytes: usize,
    /// Prepared statements of one session.
    pub prepared_statements: usize,
    /// After which the server is asked again which tables it has: so long a new one may be unknown.
    pub catalogue_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 1000,
            connections_an_address: 100,
            logins: 128,
            // Both servers' own default.
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

/// As clocks count.
pub const fn nanoseconds(seconds: u64) -> u64 {
    seconds.saturating_mul(1_000_000_000)
}
