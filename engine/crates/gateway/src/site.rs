//! The listeners and their rules.

use super::admission::Admission;
use super::check::check;
use super::conversation::{Conversations, Site};
use super::counters::{Counters, ListenerCounters};
use super::learn::Learner;
use super::plan::{ListenerPlan, Plan};
use super::rules::Rules;
use super::session::Shared;
use base::error::{Class, Failure, Result};
use net::serve::{AllCounters, Listeners, STACK, TlsFiles};
use net::transport::{Address, Transport};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The port of a server whose address has none.
const DEFAULT_PORT: u16 = 3306;

/// All listeners on all threads.
pub struct Gateway {
    listeners: Listeners<Counters>,
    /// In the plan's order.
    places: Vec<Place>,
    /// A signal and a command may come together; the later one must win.
    reloading: Mutex<()>,
}

/// One listener, on all threads.
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
        let sites = plan.listeners.iter().map(|asked| Ok(Arc::new(site(asked)?))).collect::<Result<Vec<_>>>()?;
        let asked = plan.listeners.iter().zip(&sites).map(|(asked, site)| (asked.address, Conversations(site.clone())));
        let listeners = Listeners::open(asked.collect(), plan.threads, "gateway")?;
        let all = plan.listeners.iter().zip(listeners.addresses()).zip(sites);
        let places = all.map(|((asked, address), site)| Place { address: *address, asked: asked.clone(), site });
        Ok(Gateway { places: places.collect(), listeners, reloading: Mutex::new(()) })
    }

    /// In the plan's order.
    pub fn addresses(&self) -> &[SocketAddr] {
        self.listeners.addresses()
    }

    /// Return what an operator should know of the present rules.
    pub fn warnings(&self) -> Vec<String> {
        let of_place = |place: &Place| {
            let (rules, _) = place.site.shared.rules();
            rules.warnings().iter().map(|warning| format!("{}: {warning}", place.address)).collect::<Vec<_>>()
        };
        self.places.iter().flat_map(of_place).collect()
    }

    /// Return the counters since the start.
    pub fn counters(&self) -> AllCounters<ListenerCounters> {
        self.listeners.counters()
    }

    /// Read all rules again. Return for each listener None, or why the old rules stay.
    pub fn reload(&self) -> BTreeMap<SocketAddr, Option<String>> {
        let _one_at_a_time = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        self.places.iter().map(|place| (place.address, place.reload().err().map(|failure| failure.detail))).collect()
    }
}

/// Ask each server again and again, so that a new column is known.
///
/// # Errors
/// `internal`.
pub fn watch(gateway: &Arc<Gateway>) -> Result<()> {
    let refused = |error: std::io::Error| Failure::new(Class::Internal, format!("cannot watch the server: {error}"));
    for number in 0..gateway.places.len() {
        let gateway = gateway.clone();
        let work = move || {
            let place = &gateway.places[number];
            loop {
                std::thread::sleep(Duration::from_secs(place.asked.limits.catalogue_seconds));
                let _one_at_a_time = gateway.reloading.lock().unwrap_or_else(PoisonError::into_inner);
                place.rediscover();
            }
        };
        std::thread::Builder::new().name("catalogue".into()).stack_size(STACK).spawn(work).map_err(refused)?;
    }
    Ok(())
}

impl Place {
    /// Ask the server for its columns. If it cannot be asked now, its last answer stays.
    fn rediscover(&self) {
        let Site { server, transport, shared, .. } = &*self.site;
        let (rules, _) = shared.rules();
        let mut fresh = (*rules).clone();
        if check(&mut fresh, server, transport).is_ok() && fresh.catalogue != rules.catalogue {
            shared.replace(fresh);
        }
    }

    fn reload(&self) -> Result<()> {
        let Site { server, transport, shared, .. } = &*self.site;
        shared.replace(read(&self.asked, server, transport)?);
        Ok(())
    }
}

fn site(asked: &ListenerPlan) -> Result<Site> {
    let server = Address::parse(&asked.server, DEFAULT_PORT)?;
    let transport = Transport::for_many(&asked.server_transport)?;
    let rules = read(asked, &server, &transport)?;
    let learner = asked.learn.as_ref().map(|plan| Learner::open(plan, &rules)).transpose()?;
    let shared = Arc::new(Shared::new(rules, asked.limits, learner));
    let admission = Arc::new(Admission::new(asked.limits));
    let tls = asked.tls.as_ref().map(TlsFiles::open).transpose()?;
    Ok(Site { tls, server, transport, shared, admission })
}

fn read(asked: &ListenerPlan, server: &Address, transport: &Transport) -> Result<Rules> {
    let mut rules = Rules::read(&asked.rules_file)?;
    let place =
        |failure: Failure| Failure::new(Class::Plan, format!("{}: {}", asked.rules_file.display(), failure.detail));
    check(&mut rules, server, transport).map_err(place)?;
    Ok(rules)
}
