//! What is being served.

use super::check::{UNCHECKED, check};
use super::conversation::Site;
use super::counters::{Counters, ListenerCounters};
use super::listener::Listener;
use super::plan::{AllCounters, ListenerPlan, Plan};
use super::rules::Rules;
use super::session::Shared;
use crate::clock;
use crate::error::{Class, Failure, Result};
use crate::origin::listener::{address, sockets};
use crate::runtime::Executor;
use crate::transport::{Address, TlsServer, Transport};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The port of a server that names none.
const DEFAULT_PORT: u16 = 3306;

/// All listeners on all threads.
pub struct Gateway {
    places: Vec<Place>,
    /// Of each thread, in the order of the places.
    counters: Vec<Vec<Arc<Counters>>>,
    /// A signal and a command may come together, and the later must win.
    reloading: Mutex<()>,
}

/// One listener, whatever the threads.
struct Place {
    address: SocketAddr,
    asked: ListenerPlan,
    site: Arc<Site>,
}

impl Gateway {
    /// Listen on all addresses before any of them is served.
    ///
    /// # Errors
    /// `plan` and `tls_configuration`.
    pub fn open(plan: &Plan) -> Result<Self> {
        let mut places = Vec::new();
        let mut threads: Vec<Vec<Listener>> = (0..plan.threads).map(|_| Vec::new()).collect();
        for asked in &plan.listeners {
            let site = Arc::new(site(asked)?);
            let unheard = |error| Failure::new(Class::Plan, format!("cannot listen on {}: {error}", asked.address));
            let sockets = sockets(asked.address, plan.threads).map_err(unheard)?;
            places.push(Place { address: address(&sockets[0])?, asked: asked.clone(), site: site.clone() });
            for (thread, socket) in threads.iter_mut().zip(sockets) {
                thread.push(Listener::new(socket, site.clone()));
            }
        }
        let counters = threads.iter().map(|listeners| listeners.iter().map(Listener::counters).collect()).collect();
        threads.into_iter().for_each(start);
        Ok(Gateway { places, counters, reloading: Mutex::new(()) })
    }

    /// In the plan's order.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.places.iter().map(|place| place.address).collect()
    }

    /// What an operator should know of the present rules.
    pub fn warnings(&self) -> Vec<String> {
        let unchecked = |place: &&Place| {
            let (rules, _) = place.site.shared.rules();
            rules.guard() && rules.catalogue.is_none()
        };
        self.places.iter().filter(unchecked).map(|place| format!("{}: {UNCHECKED}", place.address)).collect()
    }

    /// Since the start.
    pub fn counters(&self) -> AllCounters {
        let total = |place: usize| self.counters.iter().map(|thread| thread[place].read()).sum::<ListenerCounters>();
        let listeners = self.places.iter().enumerate().map(|(at, place)| (place.address, total(at)));
        AllCounters { cpu_ns: clock::process_cpu(), listeners: BTreeMap::from_iter(listeners) }
    }

    /// Read all rules again; by listener None, or why the rules before stay.
    pub fn reload(&self) -> BTreeMap<SocketAddr, Option<String>> {
        let _one_at_a_time = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        self.places.iter().map(|place| (place.address, place.reload().err().map(|failure| failure.detail))).collect()
    }
}

impl Place {
    fn reload(&self) -> Result<()> {
        let Site { server, transport, shared, .. } = &*self.site;
        shared.replace(read(&self.asked, server, transport)?);
        Ok(())
    }
}

fn site(asked: &ListenerPlan) -> Result<Site> {
    let tls = asked.tls.as_ref().map(|files| TlsServer::new(&files.certificate_file, &files.key_file));
    let server = Address::parse(&asked.server, DEFAULT_PORT)?;
    let transport = Transport::for_many(&asked.server_transport)?;
    let shared = Arc::new(Shared::new(read(asked, &server, &transport)?));
    Ok(Site { tls: tls.transpose()?, server, transport, shared })
}

fn read(asked: &ListenerPlan, server: &Address, transport: &Transport) -> Result<Rules> {
    let mut rules = Rules::read(&asked.rules_file)?;
    let place =
        |failure: Failure| Failure::new(Class::Plan, format!("{}: {}", asked.rules_file.display(), failure.detail));
    check(&mut rules, server, transport).map_err(place)?;
    Ok(rules)
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
        panic!("a thread of the gateway ended: {outcome:?}");
    };
    std::thread::Builder::new().name("gateway".into()).spawn(work).expect("a thread can be started");
}
