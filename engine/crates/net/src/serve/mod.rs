//! What processes that serve connections have in common, whatever they serve: a [`Server`] for each listener, taken by
//! as many threads as the plan says.
//!
//! Every thread has its own socket for each listener, its own executor and its own counters: what threads share is the
//! server's own affair.

mod listener;
pub mod sockets;

pub use listener::Listener;

use crate::runtime::{Executor, Reactor, Runtime};
use crate::transport::{Stream, TlsServer};
use base::clock;
use base::error::{Class, Failure, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::iter::Sum;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Of a thread, in bytes: a statement nested as deep as the gateway reads it takes some megabytes. Untouched pages cost nothing.
pub const STACK: usize = 32 << 20;

/// What becomes of a listener's connections; each thread has a clone.
pub trait Server: Clone + Send + 'static {
    /// Of one thread.
    type Counters: Counters;

    async fn serve(self, stream: Stream, reactor: Rc<Reactor>, counters: Arc<Self::Counters>);
}

/// One listener's on one thread, which alone writes them; another may read.
pub trait Counters: Default + Send + Sync + 'static {
    /// As they are told.
    type Told: Sum;

    /// A connection was taken, whatever becomes of it.
    fn connection(&self);

    fn read(&self) -> Self::Told;
}

/// PEM files; one may be both.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The leaf first.
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
}

impl TlsFiles {
    pub fn open(&self) -> Result<TlsServer> {
        TlsServer::new(&self.certificate_file, &self.key_file)
    }
}

/// Since the start.
#[derive(Debug, Serialize)]
pub struct AllCounters<T> {
    pub cpu_ns: u64,
    pub listeners: BTreeMap<SocketAddr, T>,
}

/// All listeners of a process, on all of its threads.
pub struct Listeners<C> {
    addresses: Vec<SocketAddr>,
    /// Of each thread, in the order of the addresses.
    counters: Vec<Vec<Arc<C>>>,
}

impl<C: Counters> Listeners<C> {
    /// Listen on all addresses before any of them is served; port 0 is any that is free. Threads are called `name`, and
    /// serve until the process ends.
    pub fn open<S: Server<Counters = C>>(asked: Vec<(SocketAddr, S)>, threads: usize, name: &str) -> Result<Self> {
        let mut addresses = Vec::new();
        let mut shares: Vec<Vec<Listener<S>>> = (0..threads).map(|_| Vec::new()).collect();
        for (address, server) in asked {
            let unheard = |error| Failure::new(Class::Plan, format!("cannot listen on {address}: {error}"));
            let sockets = sockets::sockets(address, threads).map_err(unheard)?;
            addresses.push(sockets::address(&sockets[0])?);
            for (share, socket) in shares.iter_mut().zip(sockets) {
                share.push(Listener::new(socket, server.clone()));
            }
        }
        let counters = shares.iter().map(|share| share.iter().map(Listener::counters).collect()).collect();
        shares.into_iter().for_each(|share| start(share, name));
        Ok(Listeners { addresses, counters })
    }

    /// In the order in which they were asked for, with the ports that were free.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn counters(&self) -> AllCounters<C::Told> {
        let total = |place: usize| self.counters.iter().map(|thread| thread[place].read()).sum();
        let listeners = self.addresses.iter().enumerate().map(|(place, address)| (*address, total(place)));
        AllCounters { cpu_ns: clock::process_cpu(), listeners: listeners.collect() }
    }
}

fn start<S: Server>(share: Vec<Listener<S>>, name: &str) {
    let work = move || {
        let outcome = Executor::new(Runtime::Epoll).and_then(|mut executor| {
            for listener in share {
                let reactor = executor.reactor().clone();
                executor.spawn(listener.take_all(reactor));
            }
            executor.run_to_end()
        });
        // Listeners never end, so it is an error that did.
        panic!("a thread that serves ended: {outcome:?}");
    };
    std::thread::Builder::new().name(name.into()).stack_size(STACK).spawn(work).expect("a thread can be started");
}
