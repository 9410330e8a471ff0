//! The listeners, their rules and the limits on their connections. Rules are compared with the columns of the server's base
//! tables, for which it is asked by the account that `[check]` names.

use crate::conversation::Conversations;
use crate::counters::{Counters, ListenerCounters};
use crate::errors::{ErrPacket, TOO_MANY_CONNECTIONS};
use crate::learn::Learner;
use crate::plan::{Limits, ListenerPlan, Plan};
use crate::rules::{ColumnFacts, Rules};
use crate::session::Shared;
use base::error::{Class, Failure, Result};
use base::{Secret, clock};
use net::runtime::Executor;
use net::serve::{AllCounters, Listeners, STACK, TlsFiles};
use net::transport::{Address, TlsServer, Transport};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::mysql::catalogue::{Inquiry, Row};

const DEFAULT_PORT: u16 = 3306;
/// In nanoseconds; a server with thousands of tables takes some of it.
const CHECK_TIMEOUT_NS: u64 = 120_000_000_000;

/// By bytes: the collation of these tables takes names for equal that differ in case. A server's own tables count as unknown.
const COLUMNS: &str = "SELECT c.table_schema, c.table_name, c.column_name, \
    IF(c.extra LIKE '%auto_increment%' OR c.column_default LIKE '%nextval(%', '1', '0') \
    FROM information_schema.columns c JOIN information_schema.tables t \
    ON BINARY t.table_schema = BINARY c.table_schema AND BINARY t.table_name = BINARY c.table_name \
    WHERE t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') \
    AND c.table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')";
const VIEWS: &str = "SELECT DISTINCT table_name FROM information_schema.tables \
    WHERE table_type NOT IN ('BASE TABLE', 'SYSTEM VERSIONED') AND table_schema <> 'information_schema'";
const NETWORK: u32 = 64;

pub struct Gateway {
    listeners: Listeners<Counters>,
    sites: Vec<Arc<Site>>,
    /// A signal and a command may come together; the later one must win.
    reloading: Mutex<()>,
}

pub struct Site {
    plan: ListenerPlan,
    pub tls: Option<TlsServer>,
    pub server: Address,
    pub transport: Transport,
    pub shared: Arc<Shared>,
    pub admission: Arc<Admission>,
}

impl Gateway {
    /// Listen on all addresses before any of them is served.
    pub fn open(plan: &Plan) -> Result<Self> {
        let sites = plan.listeners.iter().map(|plan| Ok(Arc::new(Site::new(plan)?))).collect::<Result<Vec<_>>>()?;
        let conversations = sites.iter().map(|site| (site.plan.address, Conversations(site.clone())));
        let listeners = Listeners::open(conversations.collect(), plan.threads, "gateway")?;
        Ok(Gateway { listeners, sites, reloading: Mutex::new(()) })
    }

    pub fn addresses(&self) -> &[SocketAddr] {
        self.listeners.addresses()
    }

    fn places(&self) -> impl Iterator<Item = (&SocketAddr, &Arc<Site>)> {
        self.addresses().iter().zip(&self.sites)
    }

    /// Return what an operator should know of the present rules.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (address, site) in self.places() {
            let (rules, _) = site.shared.rules();
            warnings.extend(rules.warnings().iter().map(|warning| format!("{address}: {warning}")));
        }
        warnings
    }

    pub fn counters(&self) -> AllCounters<ListenerCounters> {
        self.listeners.counters()
    }

    /// Read all rules again. Return for each listener None, or why the old rules stay.
    pub fn reload(&self) -> BTreeMap<SocketAddr, Option<String>> {
        let _one_at_a_time = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        self.places().map(|(address, site)| (*address, site.reload().err().map(|failure| failure.detail))).collect()
    }

    /// Ask each server again and again, so that a new column is known.
    pub fn watch(self: &Arc<Self>) -> Result<()> {
        let refused =
            |error: std::io::Error| Failure::new(Class::Internal, format!("cannot watch the server: {error}"));
        for site in self.sites.iter().cloned() {
            let gateway = self.clone();
            let work = move || loop {
                std::thread::sleep(Duration::from_secs(site.plan.limits.catalogue_seconds));
                let _one_at_a_time = gateway.reloading.lock().unwrap_or_else(PoisonError::into_inner);
                site.rediscover();
            };
            std::thread::Builder::new().name("catalogue".into()).stack_size(STACK).spawn(work).map_err(refused)?;
        }
        Ok(())
    }
}

impl Site {
    fn new(plan: &ListenerPlan) -> Result<Self> {
        let server = Address::parse(&plan.server, DEFAULT_PORT)?;
        let transport = Transport::for_many(&plan.server_transport)?;
        let rules = read_rules(plan, &server, &transport)?;
        let learner = plan.learn.as_ref().map(|plan| Learner::open(plan, &rules)).transpose()?;
        let shared = Arc::new(Shared::new(rules, plan.limits, learner));
        let admission = Arc::new(Admission { limits: plan.limits, counts: Mutex::default() });
        let tls = plan.tls.as_ref().map(TlsFiles::open).transpose()?;
        Ok(Site { plan: plan.clone(), tls, server, transport, shared, admission })
    }

    /// Ask the server for its columns. If it cannot be asked now, its last answer stays.
    fn rediscover(&self) {
        let (rules, _) = self.shared.rules();
        let mut fresh = (*rules).clone();
        if check(&mut fresh, &self.server, &self.transport).is_ok() && fresh.catalogue != rules.catalogue {
            self.shared.replace(fresh);
        }
    }

    fn reload(&self) -> Result<()> {
        self.shared.replace(read_rules(&self.plan, &self.server, &self.transport)?);
        Ok(())
    }
}

fn read_rules(plan: &ListenerPlan, server: &Address, transport: &Transport) -> Result<Rules> {
    let mut rules = Rules::read(&plan.rules_file)?;
    check(&mut rules, server, transport)
        .map_err(|why| Failure::new(Class::Plan, format!("{}: {why}", plan.rules_file.display())))?;
    Ok(rules)
}

/// Ask the server for its columns, and compare the rules with them; return what is wrong. Without protected columns nothing is
/// done.
fn check(rules: &mut Rules, server: &Address, transport: &Transport) -> std::result::Result<(), String> {
    if !rules.guard() {
        return Ok(());
    }
    let account = rules.check.clone().ok_or("there are rules for columns and no [check]")?;
    let facts = ask(server.clone(), transport.clone(), account.username, account.password);
    let (columns, views) = facts.map_err(|failure| format!("[check]: cannot ask {server}: {}", failure.detail))?;
    if let Some(unmatched) = rules.unmatched_rule(&columns) {
        return Err(unmatched);
    }
    rules.take_catalogue(&columns, &views);
    Ok(())
}

type Facts = (Vec<ColumnFacts>, Vec<String>);

/// On a runtime of its own: it is asked before the listeners begin, or beside them.
fn ask(server: Address, transport: Transport, username: String, password: Secret) -> Result<Facts> {
    let mut executor = Executor::new()?;
    let reactor = executor.reactor().clone();
    let outcome = Rc::new(RefCell::new(Err(Failure::closed())));
    let place = outcome.clone();
    executor.spawn(async move {
        reactor.set_deadline(clock::now() + CHECK_TIMEOUT_NS);
        let answer = match Inquiry::begin(&reactor, &server, &transport, &username, &password).await {
            Ok(inquiry) => facts(inquiry).await,
            Err(failure) => Err(failure),
        };
        *place.borrow_mut() = answer;
    });
    executor.run_to_end()?;
    outcome.replace(Err(Failure::closed()))
}

async fn facts(mut inquiry: Inquiry) -> Result<Facts> {
    let columns = inquiry.ask(COLUMNS).await?.into_iter().map(column).collect::<Result<_>>()?;
    let views = inquiry.ask(VIEWS).await?.into_iter().flatten().collect();
    inquiry.end();
    Ok((columns, views))
}

fn column(row: Row) -> Result<ColumnFacts> {
    let odd = |_| Failure::protocol("a row of the server's own tables has other columns than were asked for");
    let [database, table, column, gives_ids] = <[String; 4]>::try_from(row).map_err(odd)?;
    Ok(ColumnFacts { names: [database, table, column], gives_ids: gives_ids == "1" })
}

/// The counts of one listener's connections, on all its threads: in total, from one address, and not logged in yet.
#[derive(Debug)]
pub struct Admission {
    limits: Limits,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: usize,
    logins: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A connection's place in the counts, freed when it is dropped.
#[derive(Debug)]
pub struct Place {
    admission: Arc<Admission>,
    address: IpAddr,
    is_logging_in: bool,
}

impl Admission {
    /// Take a place for a connection from this address.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> std::result::Result<Place, ErrPacket> {
        let address = network(address);
        let Limits { connections, connections_an_address, logins, .. } = self.limits;
        let mut counts = self.counts();
        let of_address = counts.by_address.get(&address).copied().unwrap_or_default();
        for (count, limit, of) in [
            (counts.connections, connections, "connections"),
            (of_address, connections_an_address, "connections of one address"),
            (counts.logins, logins, "connections that are not logged in"),
        ] {
            if count >= limit {
                let message = format!("Too many connections: the gateway takes {limit} {of}");
                return Err(ErrPacket::new(TOO_MANY_CONNECTIONS, message));
            }
        }
        counts.connections += 1;
        counts.logins += 1;
        *counts.by_address.entry(address).or_default() += 1;
        Ok(Place { admission: self.clone(), address, is_logging_in: true })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    pub fn logged_in(&mut self) {
        if std::mem::take(&mut self.is_logging_in) {
            self.admission.counts().logins -= 1;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.logged_in();
        let mut counts = self.admission.counts();
        counts.connections -= 1;
        if let Some(count) = counts.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

/// Return what counts as one address: an IPv6 network, or an IPv4 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> NETWORK << NETWORK).into(),
        short => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_told_by_its_name_and_places_become_free() {
        let enter = |admission: &Arc<Admission>, address: &str| {
            admission.enter(address.parse().unwrap()).map_err(|error| {
                let mut out = Vec::new();
                error.append(0, false, &mut out);
                String::from_utf8_lossy(&out[7..]).into_owned()
            })
        };
        let limits = Limits { connections: 3, connections_an_address: 2, logins: 2, ..Limits::default() };
        let admission = Arc::new(Admission { limits, counts: Mutex::default() });
        let mut first = enter(&admission, "2001:db8::1").unwrap();
        let mut second = enter(&admission, "2001:db8:0:0:ffff::9").unwrap();
        assert!(enter(&admission, "2001:db8::2").unwrap_err().contains("2 connections of one address"));
        assert!(enter(&admission, "192.0.2.1").unwrap_err().contains("2 connections that are not logged in"));
        first.logged_in();
        first.logged_in();
        second.logged_in();
        let third = enter(&admission, "::ffff:192.0.2.1").unwrap();
        assert!(enter(&admission, "192.0.2.1").unwrap_err().ends_with("takes 3 connections"));
        drop(third);
        drop(enter(&admission, "2001:db8:0:1::1").unwrap());
        drop((first, second));
        let counts = admission.counts();
        assert_eq!((counts.connections, counts.logins, counts.by_address.len()), (0, 0, 0));
    }
}
