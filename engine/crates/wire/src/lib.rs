//! The supported protocols, each in a folder of its own, and the list of them.
//!
//! A protocol parses its own settings, opens sessions, and implements the operations of the traits in [`workload`].
//! Other crates find a protocol by its name with [`protocol`].
//!
//! To add a protocol, write a folder with a [`Protocol`], [`Settings`] and a [`Service`], and add the protocol to the
//! modules and to [`PROTOCOLS`] below.

pub mod http;
pub mod mongodb;
pub mod mysql;
pub mod postgres;
pub mod redis;

mod buffered;
mod one_server;
mod query_checks;
mod scram;

pub use one_server::{Client, OneServer};

use base::error::Result;
use net::runtime::{Reactor, TaskId};
use net::settings::Transport;
use record::Counts;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use workload::ycsb::TablePlace;
use workload::{Job, Kind};

pub static PROTOCOLS: &[Protocol] = &[
    // One line for each protocol, so that adding one changes no other line.
    mongodb::PROTOCOL,
    mysql::PROTOCOL,
    postgres::PROTOCOL,
    redis::PROTOCOL,
    http::PROTOCOL,
];

/// A protocol: its name, the kinds of workloads that it supports, and the parser of its settings.
pub struct Protocol {
    pub name: &'static str,
    pub kinds: &'static [Kind],
    /// Parses a service's settings from a JSON object without the protocol's name. Errors: those of `serde_json`.
    pub read: fn(Value) -> serde_json::Result<Arc<dyn Settings>>,
}

impl Protocol {
    const fn of<S: Settings + DeserializeOwned + 'static>(name: &'static str, kinds: &'static [Kind]) -> Self {
        Protocol { name, kinds, read: |value| Ok(Arc::new(S::deserialize(value)?)) }
    }
}

/// The settings of a service in a plan (the configuration of a run). Each protocol has its own type.
pub trait Settings: Debug + Send + Sync {
    /// Check the settings for these workloads without contacting a server. Errors: class `plan` (invalid settings).
    fn check(&self, _kinds: &[Kind]) -> Result<()> {
        Ok(())
    }

    /// Return whether a worker that executes this kind of workload keeps its connection between operations.
    fn is_persistent(&self, kind: Kind) -> bool {
        kind != Kind::Connect
    }

    /// Return the table of the records that a workload accesses by key, or None if the service has no table.
    fn table(&self) -> Option<TablePlace<'_>> {
        None
    }

    /// Find the service's servers, and connect once to the first server that will be measured. Each connection attempt
    /// may take `timeout_ns` nanoseconds.
    fn discover<'a>(&'a self, transport: &'a Transport, reactor: &'a Rc<Reactor>, timeout_ns: u64) -> Discovery<'a>;
}

/// The future that [`Settings::discover`] returns. Its result is the service with the servers that were found.
pub type Discovery<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Service>>> + 'a>>;

fn discovery<'a>(service: impl Future<Output = Result<impl Service + 'static>> + 'a) -> Discovery<'a> {
    Box::pin(async { Ok(Arc::new(service.await?) as Arc<dyn Service>) })
}

/// A service whose servers have been found. All threads share it.
pub trait Service: Send + Sync {
    /// Return the address of the server that the first worker reads from.
    fn first_reader(&self) -> String;

    /// Start a worker. Each protocol starts its own workers, so that the compiler specializes the loop of operations
    /// for the protocol, without dynamic dispatch.
    fn spawn(self: Arc<Self>, job: Job<'_>) -> TaskId;

    /// Begin a slice (a measured window): discard the counts of its preparation, such as decrypted values.
    fn begin_slice(&self) {}

    /// Add to `into` everything that was counted since the last call, such as the values that all workers have
    /// decrypted. Call this when a slice (a measured window) has ended.
    fn take_counts(&self, _into: &mut Counts) {}

    fn facts(&self) -> Facts {
        Facts::new()
    }
}

/// Properties of a service by name, such as `{"software": "nginx"}`. They prove which service a run measured.
pub type Facts = BTreeMap<&'static str, Value>;

pub fn protocol(name: &str) -> Option<&'static Protocol> {
    PROTOCOLS.iter().find(|protocol| protocol.name == name)
}
