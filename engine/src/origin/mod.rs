//! `costof-engine origin`: the server behind a balancer, which answers `OK` after as long as it is asked to.
//!
//! Read it in this order: [`plan`] is what goes in and out, [`listener`] takes connections, [`conversation`] serves one
//! of them: a [`request`] reader over its bytes, and the [`response`] to each. [`counters`] is what was served.
//!
//! Every thread has its own socket for each listener, its own executor and its own counters: nothing is shared between
//! them but the TLS settings, so that a session ticket of one is good at the others.

mod conversation;
mod counters;
pub mod listener;
mod plan;
pub mod request;
mod response;

use crate::clock;
use crate::error::{Class, Failure, Result};
use crate::process;
use crate::runtime::Executor;
use crate::transport::TlsServer;
use counters::{Counters, ListenerCounters};
use listener::Listener;
use plan::{AllCounters, Answer, Command, ListenerPlan, Plan, Ready};
use rustix::net::SocketFlags;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

/// Serve what standard input asks for, until it ends.
pub fn run() -> ExitCode {
    process::die_with_parent();
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            process::say(&Answer::Error(failure));
            ExitCode::from(process::EXIT_USAGE)
        }
    }
}

fn serve() -> Result<()> {
    let mut lines = std::io::stdin().lines().map_while(std::result::Result::ok).filter(|line| !line.trim().is_empty());
    let Some(line) = lines.next() else { return Ok(()) };
    let plan = Plan::parse(&line)?;
    process::allow_many_connections();
    let site = Site::open(&plan)?;
    process::say(&Answer::Ready(Ready { listeners: site.addresses.clone() }));
    for line in lines {
        match Command::parse(&line)? {
            Command::Counters {} => process::say(&Answer::Counters(site.counters())),
        }
    }
    Ok(())
}

/// What is being served.
struct Site {
    addresses: Vec<SocketAddr>,
    /// Of each thread, in the order of the addresses.
    counters: Vec<Vec<Arc<Counters>>>,
}

impl Site {
    /// Listen on all addresses before any of them is served.
    fn open(plan: &Plan) -> Result<Self> {
        let mut addresses = Vec::new();
        let mut threads: Vec<Vec<Listener>> = (0..plan.threads).map(|_| Vec::new()).collect();
        for asked in &plan.listeners {
            let tls = asked.tls.as_ref().map(|files| TlsServer::new(&files.certificate_file, &files.key_file));
            let tls = tls.transpose()?.map(Arc::new);
            let sockets = sockets(asked, plan.threads)?;
            addresses.push(listener::address(&sockets[0])?);
            for (thread, socket) in threads.iter_mut().zip(sockets) {
                thread.push(Listener::new(socket, tls.clone()));
            }
        }
        let counters = threads.iter().map(|listeners| listeners.iter().map(Listener::counters).collect()).collect();
        threads.into_iter().for_each(start);
        Ok(Site { addresses, counters })
    }

    fn counters(&self) -> AllCounters {
        let total = |place: usize| self.counters.iter().map(|thread| thread[place].read()).sum::<ListenerCounters>();
        let listeners = self.addresses.iter().enumerate().map(|(place, address)| (*address, total(place)));
        AllCounters { cpu_ns: clock::process_cpu(), listeners: BTreeMap::from_iter(listeners) }
    }
}

fn sockets(asked: &ListenerPlan, threads: usize) -> Result<Vec<rustix::fd::OwnedFd>> {
    listener::sockets(asked.address, threads)
        .map_err(|error| Failure::new(Class::Plan, format!("cannot listen on {}: {error}", asked.address)))
}

/// A thread that serves these listeners until the process ends.
fn start(listeners: Vec<Listener>) {
    let work = move || {
        let outcome = Executor::new().and_then(|mut executor| {
            for listener in listeners {
                let reactor = executor.reactor().clone();
                executor.spawn(listener.serve(reactor));
            }
            executor.run_to_end()
        });
        // Listeners never end, so it is an error that did.
        panic!("a thread of the origin ended: {outcome:?}");
    };
    std::thread::Builder::new().name("origin".into()).spawn(work).expect("a thread can be started");
}

/// How sockets of the origin are made and taken.
const SOCKET_FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
