//! The counters of the gateway: connections, TLS handshakes, commands, rows, encrypted values, refusals and errors.

use net::serve;
use serde::Serialize;
use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::AddAssign;
use std::sync::{Mutex, PoisonError};

/// The counters of one listener on one thread. Only this thread writes them, but other threads may read them. The lock
/// keeps them consistent with each other. Locking takes a hundredth of the time of a `send` system call.
#[derive(Debug, Default)]
pub struct Counters(Mutex<ListenerCounters>);

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct ListenerCounters {
    pub connections: u64,
    /// The number of completed TLS handshakes with clients, by TLS version.
    pub tls: BTreeMap<&'static str, u64>,
    #[serde(flatten)]
    pub tally: Tally,
}

/// The numbers that a session adds to the counters.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// The number of commands passed on to the server.
    pub commands: u64,
    /// The number of rows sent to guarded accounts, which may send only approved statements.
    pub rows: u64,
    /// The number of encrypted values. NULLs are not encrypted.
    pub values_encrypted: u64,
    /// The total size of the encrypted values in bytes, before encryption.
    pub plaintext_bytes: u64,
    /// The total size of the encrypted values in bytes, after encryption.
    pub ciphertext_bytes: u64,
    pub refused: u64,
    /// The number of sessions that ended with an error.
    pub errors: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.commands += other.commands;
        self.rows += other.rows;
        self.values_encrypted += other.values_encrypted;
        self.plaintext_bytes += other.plaintext_bytes;
        self.ciphertext_bytes += other.ciphertext_bytes;
        self.refused += other.refused;
        self.errors += other.errors;
    }
}

impl Counters {
    pub fn handshake(&self, version: &'static str) {
        self.change(|counters| *counters.tls.entry(version).or_default() += 1);
    }

    pub fn add(&self, tally: Tally) {
        self.change(|counters| counters.tally += tally);
    }

    pub fn error(&self) {
        self.add(Tally { errors: 1, ..Tally::default() });
    }

    fn change(&self, update: impl FnOnce(&mut ListenerCounters)) {
        update(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl serve::Counters for Counters {
    type Totals = ListenerCounters;

    fn connection(&self) {
        self.change(|counters| counters.connections += 1);
    }

    fn read(&self) -> ListenerCounters {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sum for ListenerCounters {
    fn sum<I: Iterator<Item = Self>>(threads: I) -> Self {
        threads.fold(Self::default(), |mut total, thread| {
            total.connections += thread.connections;
            total.tally += thread.tally;
            for (version, count) in thread.tls {
                *total.tls.entry(version).or_default() += count;
            }
            total
        })
    }
}
