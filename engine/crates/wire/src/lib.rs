//! Protocols, one folder each, and their registry.
//!
//! A protocol reads its own settings, opens sessions, and implements the operations of [`workload`]'s traits. Other
//! crates look a protocol up by name in [`PROTOCOLS`].
//!
//! To add a protocol, write a folder with a [`Protocol`], [`Settings`] and a [`Service`], and add its name twice below.

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

/// All supported protocols.
pub static PROTOCOLS: &[Protocol] = &[
    // One line each, so that a new protocol changes no other line.
    mongodb::PROTOCOL,
    mysql::PROTOCOL,
    postgres::PROTOCOL,
    redis::PROTOCOL,
    http::PROTOCOL,
];

pub struct Protocol {
    pub name: &'static str,
    pub kinds: &'static [Kind],
    /// Parses a plan's settings of a service, without the protocol's name. Fails with serde's message.
    pub read: fn(Value) -> serde_json::Result<Arc<dyn Settings>>,
}

impl Protocol {
    const fn of<S: Settings + DeserializeOwned + 'static>(name: &'static str, kinds: &'static [Kind]) -> Self {
        Protocol { name, kinds, read: |value| Ok(Arc::new(S::deserialize(value)?)) }
    }
}

/// A plan's settings of a service of one protocol.
pub trait Settings: Debug + Send + Sync {
    /// Check what can be refused before a server is contacted, for workloads of these kinds.
    fn check(&self, _kinds: &[Kind]) -> Result<()> {
        Ok(())
    }

    /// Return whether a worker of this kind keeps its connection between operations.
    fn is_persistent(&self, kind: Kind) -> bool {
        kind != Kind::Connect
    }

    /// Return the table of the records that are read and written by key; None if there is none.
    fn table(&self) -> Option<TablePlace<'_>> {
        None
    }

    /// Discover the servers, and connect once to the first that will be measured. Each connection may take `timeout_ns`
    /// nanoseconds.
    fn discover<'a>(&'a self, transport: &'a Transport, reactor: &'a Rc<Reactor>, timeout_ns: u64) -> Discovery<'a>;
}

/// The discovery of a service.
pub type Discovery<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Service>>> + 'a>>;

fn discovery<'a>(service: impl Future<Output = Result<impl Service + 'static>> + 'a) -> Discovery<'a> {
    Box::pin(async { Ok(Arc::new(service.await?) as Arc<dyn Service>) })
}

/// A service after discovery, shared by all threads.
pub trait Service: Send + Sync {
    fn first_reader(&self) -> String;

    /// Start a worker. Each protocol spawns its own, so that the measured loop is compiled for the protocol.
    fn spawn(self: Arc<Self>, job: Job<'_>) -> TaskId;

    /// Begin a slice: discard counts from the preparation.
    fn begin_slice(&self) {}

    /// Add the counts of all workers since the last call; to be called when a slice has ended.
    fn take_counts(&self, _into: &mut Counts) {}

    fn facts(&self) -> Facts {
        Facts::new()
    }
}

/// Facts for an arm's evidence, by name.
pub type Facts = BTreeMap<&'static str, Value>;

pub fn protocol(name: &str) -> Option<&'static Protocol> {
    PROTOCOLS.iter().find(|protocol| protocol.name == name)
}
