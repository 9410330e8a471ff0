//! One thread and its workers: every arm's and workload's, for the whole run.

use crate::ipc::Plan;
use base::Random;
use base::error::Result;
use net::runtime::{Executor, Gate, TaskId};
use record::SliceLog;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use wire::Service;
use workload::ycsb::Resolved;
use workload::{Job, OPENING_AT_A_TIME, Order, Seat};

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
    pub services: Arc<Vec<Result<Arc<dyn Service>>>>,
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
        let gate = Rc::new(Gate::new(executor.reactor().clone(), OPENING_AT_A_TIME));
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

    fn hire_for(&mut self, arm: usize, service: &Arc<dyn Service>, employment: &Employment) -> Vec<Team> {
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
                let task = service.clone().spawn(Job {
                    executor: &mut self.executor,
                    seat: seat.clone(),
                    worker,
                    workload,
                    data: plan.data,
                    seed: plan.seed,
                    random,
                    gate: self.gate.clone(),
                    ycsb: employment.ycsb[arm][place].clone(),
                });
                (task, seat)
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
