//! One measuring thread, which holds its workers for all arms (variants of the experiment) during the whole run.

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
use workload::{Job, OPENING_AT_A_TIME, Settings, Slot, WorkerCommand};

/// A command for all workers of one workload on one arm (a variant of the experiment). The runner sends it to each
/// thread. `arm` and `workload` are indices in the plan (the configuration of the run).
pub struct Assignment {
    pub arm: usize,
    pub workload: usize,
    pub command: WorkerCommand,
}

/// The data that a thread needs to spawn its workers. `thread` is the thread's number, from 0 to `threads` - 1.
pub struct ThreadPlan {
    pub plan: Arc<Plan>,
    /// The services of the arms (variants of the experiment) in the plan's order. For an arm whose servers cannot be
    /// used, the list contains the error instead, and the thread spawns no workers.
    pub services: Arc<Vec<Result<Arc<dyn Service>>>>,
    /// The YCSB workloads with their validated settings. The outer index is the arm (variant of the experiment), the
    /// inner one the workload.
    pub ycsb: Arc<Resolved>,
    pub thread: usize,
    pub threads: usize,
}

/// A thread's ends of its channels to and from the runner, which controls all threads.
pub struct Mailbox {
    pub assignments: Receiver<Assignment>,
    pub done: Sender<()>,
    /// The log (counts and times) of the last assignment. The thread stores the log here before it sends `done`.
    pub log: Arc<Mutex<SliceLog>>,
}

/// Execute the assignments until the runner, which sends them, ends its side of the channel.
pub fn execute_assignments(thread_plan: &ThreadPlan, mailbox: &Mailbox) -> std::io::Result<()> {
    let mut pool = Pool::spawn(thread_plan)?;
    for assignment in &mailbox.assignments {
        pool.execute(&thread_plan.plan, &assignment)?;
        {
            let mut log = mailbox.log.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *log, &mut *pool.log.borrow_mut());
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
                // The seed does not depend on the arm (variant of the experiment), so a worker draws the same keys on
                // every arm.
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

    fn execute(&mut self, plan: &Plan, assignment: &Assignment) -> std::io::Result<()> {
        let workers = &self.workers[assignment.arm][assignment.workload];
        treat_as_batch(is_batch(&plan.workloads[assignment.workload], workers.len()));
        // All other tasks of this thread wait for a command.
        self.executor.reactor().set_alone(workers.len() == 1);
        for (task, slot) in workers {
            slot.give(*task, assignment.command.clone());
        }
        let busy = self.busy.clone();
        self.executor.run_until(|| busy.get() == 0)
    }
}

/// Return whether the thread should be scheduled as `SCHED_BATCH` (sched(7)). Return true if the thread has several
/// workers in a closed loop. In a closed loop, a worker begins its next operation as soon as its last operation ends,
/// without a pace (a fixed rate) or think times.
///
/// An ordinary thread would be woken by each answer and preempt the server, which would halve the throughput. A batch
/// thread does not preempt the server, and handles several answers each time it runs. With a single worker there is
/// only one answer at a time, so nothing is gained. With a pace or think times, a batch thread would be harmful: it
/// would handle an answer only after the server's work on the next operations, and this wait would be measured.
pub fn is_batch(workload: &Settings, workers_of_thread: usize) -> bool {
    workers_of_thread > 1 && workload.pace.is_none() && workload.think_ms.is_none()
}

/// Schedule the calling thread as a batch thread (`SCHED_BATCH`) or as an ordinary one. Any other policy, such as a
/// real-time policy that the user chose, is kept. If a sandbox forbids the change, only speed is lost.
pub fn treat_as_batch(batch: bool) {
    let new_policy = if batch { libc::SCHED_BATCH } else { libc::SCHED_OTHER };
    // SAFETY: the call takes and returns numbers; 0 is this thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    if policy != new_policy && [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&policy) {
        // SAFETY: the parameter outlives the call, and any thread may change between these two policies.
        unsafe { libc::sched_setscheduler(0, new_policy, &libc::sched_param { sched_priority: 0 }) };
    }
}
