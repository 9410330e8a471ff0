//! One thread and its workers: every arm's and workload's, for the whole run.

use super::seat::{Order, Seat};
use super::worker::work;
use super::ycsb::Resolved;
use crate::border::{self, Kind, Plan, TpccPhase};
use crate::error::Result;
use crate::record::SliceLog;
use crate::runtime::{Executor, Gate, TaskId};
use crate::wire::{AboutOf, Client, KeyValue, Records, Service, Target, http, mongodb, mysql};
use crate::workload::ycsb::{self, Ycsb};
use crate::workload::{Connect, Load, Query, Random, Request, sysbench, tpcc};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

/// An order for all workers of one workload on one arm, both by their place in the plan.
pub struct Assignment {
    /// Of the plan's arms.
    pub arm: usize,
    /// Of the plan's workloads.
    pub workload: usize,
    /// What to do.
    pub order: Order,
}

/// What a thread needs to know to hire its workers.
pub struct Employment {
    /// What is measured.
    pub plan: Arc<Plan>,
    /// The arms' services, in the plan's order; workers are hired for those that can run.
    pub services: Arc<Vec<Result<Service>>>,
    /// The plan's workloads of kind `ycsb`, resolved, by arm, then workload.
    pub ycsb: Arc<Resolved>,
    /// This thread's number, of so many.
    pub thread: usize,
    /// Worker w works on thread w modulo this.
    pub threads: usize,
}

/// A thread's end of the exchange with the one who commands.
pub struct Post {
    /// Orders come here; their end is the thread's.
    pub orders: Receiver<Assignment>,
    /// One message for each order that was followed.
    pub done: Sender<()>,
    /// What came of a `Run`, put here before it is said to be done.
    pub log: Arc<Mutex<SliceLog>>,
}

/// Follow orders until there are no more.
///
/// # Errors
/// Where this thread cannot wait for events.
pub fn follow(employment: &Employment, post: &Post) -> std::io::Result<()> {
    let mut crew = Crew::hire(employment)?;
    for assignment in &post.orders {
        crew.follow(&assignment)?;
        if matches!(assignment.order, Order::Run(_)) {
            let mut handed_over = post.log.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *handed_over, &mut *crew.log.borrow_mut());
        }
        if post.done.send(()).is_err() {
            break;
        }
    }
    Ok(())
}

struct Crew {
    executor: Executor,
    log: Rc<RefCell<SliceLog>>,
    busy: Rc<Cell<usize>>,
    /// Where new connections are opened by thousands.
    gate: Rc<Gate>,
    /// By arm, then workload.
    teams: Vec<Vec<Team>>,
}

type Team = Vec<(TaskId, Rc<Seat>)>;

impl Crew {
    fn hire(employment: &Employment) -> std::io::Result<Self> {
        let executor = Executor::new()?;
        let gate = http::gate(executor.reactor());
        let mut crew = Crew { executor, log: Rc::default(), busy: Rc::default(), gate, teams: Vec::new() };
        for (arm, service) in employment.services.iter().enumerate() {
            let teams = match service {
                Ok(service) => crew.hire_for(arm, service, employment),
                Err(_) => Vec::new(),
            };
            crew.teams.push(teams);
        }
        Ok(crew)
    }

    fn hire_for(&mut self, arm: usize, service: &Service, employment: &Employment) -> Vec<Team> {
        let plan = &employment.plan;
        let mut teams = Vec::new();
        for (place, workload) in plan.workloads.iter().enumerate() {
            let ours = (employment.thread..workload.workers).step_by(employment.threads);
            let hire = |worker| {
                let seat = Rc::new(Seat::new(
                    self.executor.reactor().clone(),
                    self.log.clone(),
                    self.busy.clone(),
                    plan.operation_timeout_ms * 1_000_000,
                ));
                // The same sequence of keys on every arm: arms must differ in nothing but the factor.
                let random = Random::for_stream(plan.seed, (place as u64) << 32 | worker as u64);
                let ycsb = employment.ycsb[arm][place].clone();
                let job = Job { plan, workload, worker, random, gate: &self.gate, ycsb };
                (job.start(service, &mut self.executor, seat.clone()), seat)
            };
            teams.push(ours.map(hire).collect());
        }
        teams
    }

    fn follow(&mut self, assignment: &Assignment) -> std::io::Result<()> {
        for (task, seat) in &self.teams[assignment.arm][assignment.workload] {
            seat.give(*task, assignment.order.clone());
        }
        let busy = self.busy.clone();
        self.executor.run_until(|| busy.get() == 0)
    }
}

/// What one worker is hired for.
struct Job<'a> {
    plan: &'a Plan,
    workload: &'a border::Workload,
    worker: usize,
    random: Random,
    gate: &'a Rc<Gate>,
    ycsb: Option<(ycsb::Core, ycsb::Shared)>,
}

impl Job<'_> {
    fn start(self, service: &Service, executor: &mut Executor, seat: Rc<Seat>) -> TaskId {
        let Plan { data, seed, .. } = *self.plan;
        let reactor = executor.reactor().clone();
        match service {
            Service::Mongodb(service) => {
                let client = mongodb::Client::new(service.clone(), reactor);
                self.start_key_value(client, ycsb::Table::new(data, seed), executor, seat)
            }
            Service::Mysql(service) => {
                let client = mysql::Client::new(service.clone(), reactor);
                if self.workload.kind == Kind::Tpcc {
                    return self.start_tpcc(client, executor, seat);
                }
                self.start_key_value(client, sysbench::Table::new(data.records, seed), executor, seat)
            }
            Service::Http(service) => {
                let client = http::Client::new(service.clone(), reactor, self.gate.clone());
                self.start_http(client, executor, seat)
            }
        }
    }

    fn start_key_value<C>(self, client: C, table: AboutOf<C>, executor: &mut Executor, seat: Rc<Seat>) -> TaskId
    where
        C: Client<Session: KeyValue + Records> + Clone,
    {
        let Job { workload, worker, random, .. } = self;
        let reader = Target::Reader(worker);
        match workload.kind {
            Kind::Connect => {
                let first_operation = workload.first_operation.unwrap_or(true);
                executor.spawn(work(Connect::new(client, reader, table, random, first_operation), seat))
            }
            Kind::Query => executor.spawn(work(Query::new(client, reader, table, random), seat)),
            Kind::Load => executor.spawn(work(Load::new(client, table), seat)),
            Kind::Ycsb => {
                let (core, shared) = self.ycsb.expect("resolved with the plan");
                executor.spawn(work(Ycsb::new(client, worker, core, shared, random), seat))
            }
            Kind::Request | Kind::Tpcc => unreachable!("refused with the plan"),
        }
    }

    fn start_tpcc(self, client: mysql::Client, executor: &mut Executor, seat: Rc<Seat>) -> TaskId {
        let Job { plan: Plan { seed, .. }, workload, worker, random, .. } = self;
        let settings = workload.tpcc.clone().unwrap_or_default();
        match settings.phase {
            TpccPhase::Load => executor.spawn(work(tpcc::Loader::new(client, settings.warehouses, *seed), seat)),
            TpccPhase::Run => {
                let place = tpcc::Place { worker, seed: *seed };
                executor.spawn(work(tpcc::Terminal::new(client, &settings, place, random), seat))
            }
        }
    }

    fn start_http(self, client: http::Client, executor: &mut Executor, seat: Rc<Seat>) -> TaskId {
        let Job { workload, worker, random, .. } = self;
        match workload.kind {
            Kind::Connect => {
                let first_operation = workload.first_operation.unwrap_or(true);
                executor.spawn(work(Connect::new(client, Target::Reader(worker), (), random, first_operation), seat))
            }
            Kind::Request => executor.spawn(work(Request::new(client, worker), seat)),
            Kind::Query | Kind::Load | Kind::Ycsb | Kind::Tpcc => unreachable!("refused with the plan"),
        }
    }
}
