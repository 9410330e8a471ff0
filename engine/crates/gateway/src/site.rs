//! The listeners, their rules, and the limits of their connections. The gateway reads the columns of the server's base
//! tables with the account in `[check]` of the rules. It then checks that each rule matches one of these columns.

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
/// The timeout in nanoseconds for the query of the server's columns. A server with thousands of tables needs seconds.
const CHECK_TIMEOUT_NS: u64 = 120_000_000_000;

/// The query of the columns of base tables. It compares names by bytes, because the collation of information_schema
/// ignores case. The server's own tables are left out, so the gateway treats their columns as unknown.
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
    /// A lock that allows one reload at a time. Without it, a signal and a command could reload at the same time, and
    /// rules that were read first could replace the rules that were read last.
    reloading: Mutex<()>,
}

/// One listener's server, rules and limits. All connections to the listener share them.
pub struct Site {
    plan: ListenerPlan,
    pub tls: Option<TlsServer>,
    pub server: Address,
    pub transport: Transport,
    pub shared: Arc<Shared>,
    pub admission: Arc<Admission>,
}

impl Gateway {
    /// Open all listeners and read their rules, before any client is served.
    pub fn open(plan: &Plan) -> Result<Self> {
        let sites = plan.listeners.iter().map(|plan| Ok(Arc::new(Site::new(plan)?))).collect::<Result<Vec<_>>>()?;
        let conversations = sites.iter().map(|site| (site.plan.address, Conversations(site.clone())));
        let listeners = Listeners::open(conversations.collect(), plan.threads, "gateway")?;
        Ok(Gateway { listeners, sites, reloading: Mutex::new(()) })
    }

    pub fn addresses(&self) -> &[SocketAddr] {
        self.listeners.addresses()
    }

    fn listeners_and_sites(&self) -> impl Iterator<Item = (&SocketAddr, &Arc<Site>)> {
        self.addresses().iter().zip(&self.sites)
    }

    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (address, site) in self.listeners_and_sites() {
            let (rules, _) = site.shared.rules();
            warnings.extend(rules.warnings().iter().map(|warning| format!("{address}: {warning}")));
        }
        warnings
    }

    pub fn counters(&self) -> AllCounters<ListenerCounters> {
        self.listeners.counters()
    }

    /// Read the rules of all listeners again. The result has one entry for each listener's address: None if the new
    /// rules are in use, or the reason why the old rules remain.
    pub fn reload(&self) -> BTreeMap<SocketAddr, Option<String>> {
        let _one_at_a_time = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        self.listeners_and_sites()
            .map(|(address, site)| (*address, site.reload().err().map(|failure| failure.detail)))
            .collect()
    }

    /// Start a thread that queries each server's columns periodically, so that the gateway knows new columns.
    pub fn watch(self: &Arc<Self>) -> Result<()> {
        let failed = |error: std::io::Error| {
            Failure::new(Class::Internal, format!("cannot start the thread that reads the server's columns: {error}"))
        };
        for site in self.sites.iter().cloned() {
            let gateway = self.clone();
            let work = move || loop {
                std::thread::sleep(Duration::from_secs(site.plan.limits.catalogue_seconds));
                let _one_at_a_time = gateway.reloading.lock().unwrap_or_else(PoisonError::into_inner);
                site.rediscover();
            };
            std::thread::Builder::new().name("catalogue".into()).stack_size(STACK).spawn(work).map_err(failed)?;
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

    /// Query the server's columns again. If the query fails, the columns of the last successful query remain.
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

/// Query the server's columns, and compare the rules with them. Return an error if the query fails or a rule matches no
/// column. Without protected columns nothing is queried.
fn check(rules: &mut Rules, server: &Address, transport: &Transport) -> std::result::Result<(), String> {
    if !rules.guard() {
        return Ok(());
    }
    let account = rules.check.clone().ok_or("rules with [[columns]] also need [check]")?;
    let columns_and_views = query(server.clone(), transport.clone(), account.username, account.password);
    let (columns, views) =
        columns_and_views.map_err(|failure| format!("[check]: cannot query {server}: {}", failure.detail))?;
    if let Some(unmatched) = rules.unmatched_rule(&columns) {
        return Err(unmatched);
    }
    rules.set_catalogue(&columns, &views);
    Ok(())
}

type Columns = (Vec<ColumnFacts>, Vec<String>);

/// Query the columns and views on a separate runtime, because the listeners' threads are busy or not started.
fn query(server: Address, transport: Transport, username: String, password: Secret) -> Result<Columns> {
    let mut executor = Executor::new()?;
    let reactor = executor.reactor().clone();
    let result = Rc::new(RefCell::new(Err(Failure::closed())));
    let place = result.clone();
    executor.spawn(async move {
        reactor.set_deadline(clock::now() + CHECK_TIMEOUT_NS);
        let answer = match Inquiry::begin(&reactor, &server, &transport, &username, &password).await {
            Ok(inquiry) => columns_and_views(inquiry).await,
            Err(failure) => Err(failure),
        };
        *place.borrow_mut() = answer;
    });
    executor.run_to_end()?;
    result.replace(Err(Failure::closed()))
}

async fn columns_and_views(mut inquiry: Inquiry) -> Result<Columns> {
    let columns = inquiry.query(COLUMNS).await?.into_iter().map(column).collect::<Result<_>>()?;
    let views = inquiry.query(VIEWS).await?.into_iter().flatten().collect();
    inquiry.end();
    Ok((columns, views))
}

fn column(row: Row) -> Result<ColumnFacts> {
    let unexpected = |_| Failure::protocol("a row of the server's own tables has other columns than requested");
    let [database, table, column, is_generated] = <[String; 4]>::try_from(row).map_err(unexpected)?;
    Ok(ColumnFacts { names: [database, table, column], is_generated: is_generated == "1" })
}

/// The limits of one listener, and the numbers of its current connections: in total, of each client address, and of
/// clients that have not logged in yet. The numbers include the connections of all threads.
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

/// A connection that [`Admission`] counts. When this value is dropped, the connection is no longer counted.
#[derive(Debug)]
pub struct Place {
    admission: Arc<Admission>,
    address: IpAddr,
    is_logging_in: bool,
}

impl Admission {
    /// Count a new connection from this address. Return an error for the client if a limit is reached.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> std::result::Result<Place, ErrPacket> {
        let address = network(address);
        let Limits { connections, connections_an_address, logins, .. } = self.limits;
        let mut counts = self.counts();
        let from_address = counts.by_address.get(&address).copied().unwrap_or_default();
        for (count, limit, description) in [
            (counts.connections, connections, "connections"),
            (from_address, connections_an_address, "connections from one address"),
            (counts.logins, logins, "connections that are not logged in"),
        ] {
            if count >= limit {
                let message = format!("Too many connections: the gateway accepts {limit} {description}");
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
    /// Count the connection as logged in from now on, so that it no longer counts towards the limit `logins`.
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

/// Return the address under which a connection is counted: the IPv4 address, or the /64 network of an IPv6 address.
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
    fn connection_limits_count_only_open_connections() {
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
        assert!(enter(&admission, "2001:db8::2").unwrap_err().contains("2 connections from one address"));
        assert!(enter(&admission, "192.0.2.1").unwrap_err().contains("2 connections that are not logged in"));
        first.logged_in();
        first.logged_in();
        second.logged_in();
        let third = enter(&admission, "::ffff:192.0.2.1").unwrap();
        assert!(enter(&admission, "192.0.2.1").unwrap_err().ends_with("accepts 3 connections"));
        drop(third);
        drop(enter(&admission, "2001:db8:0:1::1").unwrap());
        drop((first, second));
        let counts = admission.counts();
        assert_eq!((counts.connections, counts.logins, counts.by_address.len()), (0, 0, 0));
    }
}
