//! Protocols, one folder each, and their registry.
//!
//! A protocol reads its own settings, knows how to open a session, and says what can be asked over one, by the traits of
//! [`workload`]. Nobody outside names a protocol: a plan's is looked up in [`PROTOCOLS`].
//!
//! To add one, write its folder with a [`Protocol`], [`Settings`] and a [`Service`], and add its name twice below.

pub mod http;
pub mod mongodb;
pub mod mysql;
pub mod postgres;
pub mod redis;

mod buffered;
mod found;
mod one_server;
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

/// All there are.
pub static PROTOCOLS: &[Protocol] = &[
    // A line each, so that a new one touches no other.
    mongodb::PROTOCOL,
    mysql::PROTOCOL,
    postgres::PROTOCOL,
    redis::PROTOCOL,
    http::PROTOCOL,
];

/// A protocol, as a plan names it.
pub struct Protocol {
    pub name: &'static str,
    pub kinds: &'static [Kind],
    /// Reads what a plan says of a service, all of it but the protocol's name; fails in serde's words.
    pub read: fn(Value) -> serde_json::Result<Arc<dyn Settings>>,
}

impl Protocol {
    const fn of<S: Settings + DeserializeOwned + 'static>(name: &'static str, kinds: &'static [Kind]) -> Self {
        Protocol { name, kinds, read: |written| Ok(Arc::new(S::deserialize(written)?)) }
    }
}

/// What a plan says of a service of one protocol.
pub trait Settings: Debug + Send + Sync {
    /// What of them can be refused before any server is asked, for workloads of these kinds.
    fn check(&self, _kinds: &[Kind]) -> Result<()> {
        Ok(())
    }

    /// Whether a worker of this kind has a connection between its operations.
    fn is_persistent(&self, kind: Kind) -> bool {
        kind != Kind::Connect
    }

    /// Where the records are that are read and written by their keys; None, where there are none.
    fn table(&self) -> Option<TablePlace<'_>> {
        None
    }

    /// Find out which servers there are, and connect once to the one that will be measured. Each connection may take
    /// `timeout_ns` nanoseconds.
    fn discover<'a>(&'a self, transport: &'a Transport, reactor: &'a Rc<Reactor>, timeout_ns: u64) -> Discovery<'a>;
}

/// A service on its way to be known.
pub type Discovery<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Service>>> + 'a>>;

fn discovery<'a>(found: impl Future<Output = Result<impl Service + 'static>> + 'a) -> Discovery<'a> {
    Box::pin(async { Ok(Arc::new(found.await?) as Arc<dyn Service>) })
}

/// A service once it is known which of its servers do what: shared by all threads.
pub trait Service: Send + Sync {
    fn first_reader(&self) -> String;

    /// Start a worker: once for each of a plan, so that the loop that is measured is this protocol's own.
    fn spawn(self: Arc<Self>, job: Job<'_>) -> TaskId;

    /// A slice begins: what was counted while getting ready is not its.
    fn begin_slice(&self) {}

    /// Hand over what all its workers together have counted since this was called last: where a slice has ended.
    fn take_counts(&self, _into: &mut Counts) {}

    fn facts(&self) -> Facts {
        Facts::new()
    }
}

/// A part of an arm's evidence, by name.
pub type Facts = BTreeMap<&'static str, Value>;

pub fn protocol(name: &str) -> Option<&'static Protocol> {
    PROTOCOLS.iter().find(|protocol| protocol.name == name)
}
