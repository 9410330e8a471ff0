//! One thread and its workers: every arm's and workload's, for the whole run.

use crate::ipc::Plan;
use base::Random;
use base::error::Result;
use net::runtime::{Executor, Semaphore, TaskId};
use record::SliceLog;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use wire::Service;
use workload::ycsb::Resolved;
use workload::{Job, OPENING_AT_A_TIME, Order, Settings, Slot};

/// An order for all workers of one workload on one arm, both by their place in the plan.
pub struct Assignment {
    pub arm: usize,
    pub workload: usize,
    pub order: Order,
}

/// What a thread needs to know to spawn its workers.
pub struct ThreadPlan {
    pub plan: Arc<Plan>,
    /// The arms' services, in the plan's order; workers are spawned for those that can run.
    pub services: Arc<Vec<Result<Arc<dyn Service>>>>,
    /// The plan's workloads of kind `ycsb`, resolved, by arm, then workload.
    pub ycsb: Arc<Resolved>,
    pub thread: usize,
    pub threads: usize,
}

/// A thread's end of the exchange with the one who commands.
pub struct Mailbox {
    pub orders: Receiver<Assignment>,
    pub done: Sender<()>,
    /// What came of an order, put here before it is said to be done.
    pub log: Arc<Mutex<SliceLog>>,
}

/// Follow orders until there are no more.
/// Errors: where this thread cannot wait for events.
pub fn follow(thread_plan: &ThreadPlan, mailbox: &Mailbox) -> std::io::Result<()> {
    let mut pool = Pool::spawn(thread_plan)?;
    for assignment in &mailbox.orders {
        pool.follow(&thread_plan.plan, &assignment)?;
        {
            let mut handed_over = mailbox.log.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *handed_over, &mut *pool.log.borrow_mut());
        }
        if mailbox.done.send(()).is_err() {
            break;
        }
    }
    Ok(())
}

struct Pool {
    executor: Executor,
    log: Rc<RefCell<SliceLog>>,
    busy: Rc<Cell<usize>>,
    opening: Rc<Semaphore>,
    workers: Vec<Vec<Workers>>,
}

type Workers = Vec<(TaskId, Rc<Slot>)>;

impl Pool {
    fn spawn(thread_plan: &ThreadPlan) -> std::io::Result<Self> {
        let executor = Executor::new()?;
        let opening = Rc::new(Semaphore::new(executor.reactor().clone(), OPENING_AT_A_TIME));
        let mut pool = Pool { executor, log: Rc::default(), busy: Rc::default(), opening, workers: Vec::new() };
        for (arm, service) in thread_plan.services.iter().enumerate() {
            let workers = match service {
                Ok(service) => pool.spawn_for(arm, service, thread_plan),
                Err(_) => Vec::new(),
            };
            pool.workers.push(workers);
        }
        Ok(pool)
    }

    fn spawn_for(&mut self, arm: usize, service: &Arc<dyn Service>, thread_plan: &ThreadPlan) -> Vec<Workers> {
        let plan = &thread_plan.plan;
        let mut workers = Vec::new();
        for (place, workload) in plan.workloads.iter().enumerate() {
            let ours = plan.share.workers(workload).skip(thread_plan.thread).step_by(thread_plan.threads);
            let spawn = |worker| {
                let slot = Rc::new(Slot::new(
                    self.executor.reactor().clone(),
                    self.log.clone(),
                    self.busy.clone(),
                    plan.operation_timeout_ms * 1_000_000,
                ));
                // The same sequence of keys on every arm: arms must differ in nothing but the factor.
                let random = Random::for_stream(plan.seed, (place as u64) << 32 | worker as u64);
                let task = service.clone().spawn(Job {
                    executor: &mut self.executor,
                    slot: slot.clone(),
                    worker,
                    workload,
                    data: plan.data,
                    seed: plan.seed,
                    random,
                    opening: self.opening.clone(),
                    ycsb: thread_plan.ycsb[arm][place].clone(),
                });
                (task, slot)
            };
            workers.push(ours.map(spawn).collect());
        }
        workers
    }

    fn follow(&mut self, plan: &Plan, assignment: &Assignment) -> std::io::Result<()> {
        let workers = &self.workers[assignment.arm][assignment.workload];
        treat_as_batch(is_batch(&plan.workloads[assignment.workload], workers.len()));
        for (task, slot) in workers {
            slot.give(*task, assignment.order.clone());
        }
        let busy = self.busy.clone();
        self.executor.run_until(|| busy.get() == 0)
    }
}

/// Whether the thread has several operations under way, each begun when another ends.
///
/// Such a thread should not interrupt the server for each answer, which halves what the two do together: woken as a
/// `SCHED_BATCH` thread (sched(7)) it waits for its turn and takes all that has come. One operation at a time has nothing
/// to gain, and where operations begin by a schedule an answer's time must not hold a wait for the server's next ones.
pub fn is_batch(workload: &Settings, workers_of_thread: usize) -> bool {
    workers_of_thread > 1 && workload.pace.is_none() && workload.think_ms.is_none()
}

/// Have this thread scheduled so, or as any other. A policy that somebody chose for it stays, such as a real-time one; a
/// sandbox that refuses costs speed and nothing else.
pub fn treat_as_batch(batch: bool) {
    let wanted = if batch { libc::SCHED_BATCH } else { libc::SCHED_OTHER };
    // SAFETY: it takes and gives numbers; 0 is this thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    if policy != wanted && [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&policy) {
        // SAFETY: the parameter outlives the call, and any thread may change between these two.
        unsafe { libc::sched_setscheduler(0, wanted, &libc::sched_param { sched_priority: 0 }) };
    }
}
