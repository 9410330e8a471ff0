//! Creation of workers. Each protocol calls a function of [`Job`] once for each worker. The functions are generic: the
//! compiler specializes the loop of operations for each pair of protocol and workload.

use crate::client::{AboutOf, Ask, Client, KeyValue, Overwrite, Pgbench, Pipeline, Records, Requests, Target};
use crate::connect::TrialOperations;
use crate::query::{Overwriting, PgbenchTransactions, Pipelining, QueryKind, SingleQuery};
use crate::schedule::Think;
use crate::settings::{Data, Kind, Settings};
use crate::sql::Sql;
use crate::tpcc::{self, TpccPhase};
use crate::worker::work;
use crate::ycsb::{self, Ycsb};
use crate::{Connect, Load, Query, Request, Slot, Workload};
use base::Random;
use net::runtime::{Executor, Reactor, Semaphore, TaskId};
use std::rc::Rc;

/// The maximum number of connections that a thread opens at the same time. More could overflow the server's listen
/// queue, which may be as short as nginx's 511. TCP would then retry with growing pauses until the connection times
/// out. Protocols observe this limit by waiting for [`Job::opening`]. This wait counts only in phase `delay`, the time
/// from an operation's scheduled start to its actual start.
pub const OPENING_AT_A_TIME: usize = 256;

/// The parameters for creating one worker.
pub struct Job<'a> {
    pub executor: &'a mut Executor,
    pub slot: Rc<Slot>,
    pub worker: usize,
    pub workload: &'a Settings,
    pub data: Data,
    pub seed: u64,
    /// The worker's random numbers, equal in every arm (variant of the experiment), so that all arms read the
    /// same keys.
    pub random: Random,
    pub opening: Rc<Semaphore>,
    pub ycsb: Option<(ycsb::Core, ycsb::Shared)>,
}

impl Job<'_> {
    pub fn reactor(&self) -> Rc<Reactor> {
        self.executor.reactor().clone()
    }

    pub fn queries<C: Client<Session: Ask>>(self, client: C, about: AboutOf<C>) -> TaskId {
        match self.workload.kind {
            Kind::Connect => self.connect(client, about),
            Kind::Query => self.query::<C, SingleQuery>(client, about),
            _ => unreachable!("plans with other kinds are rejected"),
        }
    }

    pub fn records<C>(self, client: C, table: AboutOf<C>) -> TaskId
    where
        C: Client<Session: KeyValue + Records> + Clone,
    {
        match self.workload.kind {
            Kind::Load => self.spawn(Load::new(client, table)),
            Kind::Ycsb => {
                let (core, shared) = self.ycsb.clone().expect("resolved before workers are spawned");
                let ycsb = Ycsb::new(client, self.worker, core, shared, self.random.clone());
                self.spawn(ycsb)
            }
            _ => self.queries(client, table),
        }
    }

    pub fn sql<C>(self, client: C, table: AboutOf<C>) -> TaskId
    where
        C: Client<Session: Overwrite + Records + Sql> + Clone,
    {
        match self.workload.kind {
            Kind::Tpcc => {}
            Kind::Write => return self.query::<C, Overwriting>(client, table),
            _ => return self.records(client, table),
        }
        let settings = self.workload.tpcc.clone().unwrap_or_default();
        match settings.phase {
            TpccPhase::Load => {
                let loader = tpcc::Loader::new(client, settings.warehouses, self.seed);
                self.spawn(loader)
            }
            TpccPhase::Run => {
                let place = tpcc::Place { worker: self.worker, seed: self.seed };
                let terminal = tpcc::Terminal::new(client, &settings, place, self.random.clone());
                self.spawn(terminal)
            }
        }
    }

    pub fn pgbench<C>(self, client: C, table: AboutOf<C>) -> TaskId
    where
        C: Client<Session: Pgbench + Records> + Clone,
    {
        match self.workload.kind {
            Kind::Pipeline => self.query::<C, Pipelining>(client, table),
            Kind::Tpcb => self.query::<C, PgbenchTransactions>(client, table),
            _ => self.records(client, table),
        }
    }

    pub fn cache<C>(self, client: C, table: AboutOf<C>) -> TaskId
    where
        C: Client<Session: Overwrite + Pipeline + Records> + Clone,
    {
        match self.workload.kind {
            Kind::Pipeline => self.query::<C, Pipelining>(client, table),
            Kind::Write => self.query::<C, Overwriting>(client, table),
            _ => self.records(client, table),
        }
    }

    pub fn requests<C>(self, client: C) -> TaskId
    where
        C: Client<Session: Ask<About = ()> + Requests>,
    {
        match self.workload.kind {
            Kind::Connect => self.connect(client, ()),
            Kind::Request => {
                let limit = client.requests_per_connection().filter(|_| !self.workload.keep_connections);
                let requests = Request::new(client, self.worker, limit);
                self.spawn(requests)
            }
            _ => unreachable!("plans with other kinds are rejected"),
        }
    }

    fn query<C: Client<Session: Ask>, Q: QueryKind<C::Session>>(self, client: C, about: AboutOf<C>) -> TaskId {
        let queries = Query::<C, Q>::new(client, Target::Reader(self.worker), about, self.random.clone());
        self.spawn(queries)
    }

    fn connect<C: Client<Session: Ask>>(self, client: C, about: AboutOf<C>) -> TaskId {
        let first = self.workload.first_operation.unwrap_or(true);
        let operations = TrialOperations { first, further: self.workload.further_operations };
        let target = Target::Reader(self.worker);
        let connect = Connect::new(client, target, about, self.random.clone(), operations);
        self.spawn(connect)
    }

    fn spawn(self, workload: impl Workload) -> TaskId {
        let think = Think::new(self.workload.think_ms, self.seed, self.worker);
        self.executor.spawn(work(workload, self.slot, think))
    }
}
