//! The runner: it finds the servers of all arms (variants of the experiment), owns the measuring threads, and executes
//! the commands to prepare and to measure slices (measured windows).

use super::pool::{self, Assignment, Mailbox, ThreadPlan};
use crate::ipc::{
    Arm, ArmReady, Evidence, Plan, PrepareCommand, Prepared, Ready, SelfCost, SliceAnswer, SliceCommand, WindowAnswer,
};
use base::error::{Class, Failure, Result};
use base::lines::invalid_command;
use base::{clock, process};
use net::runtime::Executor;
use record::SliceLog;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use wire::{Facts, Service};
use workload::{Kind, Pace, Schedule, Settings, Window, WorkerCommand, ycsb};

/// The maximum time from a command until its slice (measured window) opens. An instant further ahead is probably from
/// another machine's clock or from before a reboot.
const LONGEST_WAIT_NS: u64 = 60_000_000_000;
/// The maximum number of threads for workload `connect` with a pace (a fixed rate). More would only take memory.
const MAX_THREADS: usize = 128;

/// The runner of a plan (the configuration of a run). It owns all measuring threads and sends them assignments.
pub struct Runner {
    plan: Arc<Plan>,
    services: Arc<Vec<Result<Arc<dyn Service>>>>,
    self_cost: SelfCost,
    threads: Vec<Thread>,
    done: Receiver<()>,
    total: SliceLog,
    /// For each workload on each arm (variant of the experiment), the number of slices (measured windows) so far. The
    /// outer index is the arm.
    ordinals: Vec<Vec<u64>>,
    prepared: Option<PrepareCommand>,
}

struct Thread {
    assignments: Sender<Assignment>,
    log: Arc<Mutex<SliceLog>>,
}

impl Runner {
    /// Find the servers of all arms (variants of the experiment), and start the threads. [`Runner::ready`] reports an
    /// arm whose servers cannot be used. Errors: class `plan` for invalid YCSB settings; `internal` if the system has
    /// no threads or descriptors left.
    pub fn start(plan: Plan, self_cost: SelfCost) -> Result<Self> {
        let plan = Arc::new(plan);
        let tables = plan.arms.iter().map(|arm| arm.service.settings.table());
        let ycsb = Arc::new(ycsb::resolve(&plan.workloads, plan.share, tables)?);
        let services = Arc::new(discover(&plan)?);
        let most_workers = plan.workloads.iter().map(|workload| plan.share.workers(workload).len()).max().unwrap_or(1);
        let count = plan.threads.max(threads_of_arrivals(&plan.workloads)).min(most_workers);
        let (done_sender, done) = channel();
        let mut threads = Vec::new();
        for thread in 0..count {
            let thread_plan = ThreadPlan {
                plan: plan.clone(),
                services: services.clone(),
                ycsb: ycsb.clone(),
                thread,
                threads: count,
            };
            threads.push(start_thread(thread_plan, done_sender.clone())?);
        }
        let ordinals = vec![vec![0; plan.workloads.len()]; plan.arms.len()];
        let total = SliceLog::default();
        Ok(Runner { plan, services, self_cost, threads, done, total, ordinals, prepared: None })
    }

    pub fn ready(&self) -> Ready {
        let arms = self.plan.arms.iter().zip(self.services.iter());
        let (library, version) = net::transport::library();
        Ready {
            instrument: format!("costof-engine {}", env!("CARGO_PKG_VERSION")),
            versions: BTreeMap::from([(library, version.to_owned())]),
            self_cost_ns: self.self_cost,
            arms: arms
                .map(|(arm, service)| ArmReady {
                    name: arm.name.clone(),
                    server: service.as_ref().ok().map(|service| service.first_reader()),
                    error: service.as_ref().err().cloned(),
                })
                .collect(),
        }
    }

    pub fn prepare(&mut self, command: PrepareCommand) -> Result<Prepared> {
        let (arm, workload) = self.places(&command.arm, &command.workload)?;
        self.prepare_workers(arm, workload, command.reconnect);
        let prepared = Prepared { id: command.id, errors: self.total.errors.answer() };
        self.prepared = Some(command);
        Ok(prepared)
    }

    /// Measure one slice: a time window of one workload on one arm (variant of the experiment). The answer contains the
    /// errors of operations. Errors: class `plan` for an unknown arm or workload, or an invalid duration, rate or
    /// opening time.
    pub fn measure(&mut self, slice: &SliceCommand) -> Result<SliceAnswer> {
        let (arm, workload) = self.places(&slice.arm, &slice.workload)?;
        if !(0.0..=1e9).contains(&slice.seconds) {
            return Err(invalid_command("seconds must be a number from 0 to 1e9"));
        }
        self.check_pace(workload, slice)?;
        let schedule = self.schedule(arm, workload, slice)?;
        let prepared = self.prepared.take();
        match slice.opens_ns {
            Some(opens_ns) => check_opening(prepared, slice, opens_ns)?,
            None => self.prepare_workers(arm, workload, slice.reconnect),
        }
        if self.services[arm].is_err() {
            return Ok(self.answer(arm, slice, Measured::nothing()));
        }
        let scheduled =
            schedule.as_ref().map(|schedule| schedule.count(slice.operations, clock::from_seconds(slice.seconds)));
        let measured = self.run(arm, workload, slice, schedule);
        if slice.disconnect {
            self.command(arm, workload, &WorkerCommand::Disconnect);
        }
        if let Some(count) = scheduled {
            self.total.counts.add("pace.scheduled", count);
        }
        Ok(self.answer(arm, slice, measured))
    }

    fn places(&self, arm: &str, workload: &str) -> Result<(usize, usize)> {
        let arms = self.plan.arms.iter().position(|known| known.name == arm);
        let arm = arms.ok_or_else(|| invalid_command(&format!("the plan has no arm '{arm}'")))?;
        let workloads = self.plan.workloads.iter().position(|known| known.name == workload);
        Ok((arm, workloads.ok_or_else(|| invalid_command(&format!("the plan has no workload '{workload}'")))?))
    }

    /// Let the workers prepare for the next slice (measured window). The answer to that slice contains the errors of
    /// the preparation and the evidence from it (servers and TLS settings).
    fn prepare_workers(&mut self, arm: usize, workload: usize, reconnect: bool) {
        self.total.clear();
        match &self.services[arm] {
            Ok(_) => self.command(arm, workload, &WorkerCommand::Prepare { reconnect }),
            Err(failure) => self.total.failed(failure.clone()),
        }
        self.collect();
    }

    /// Check `per_second` and `give_up_ms` of a slice (measured window). Errors: class `plan` (invalid command) if the
    /// workload has no pace (fixed rate), or if a number is not above 0.
    fn check_pace(&self, workload: usize, slice: &SliceCommand) -> Result<()> {
        for (field, value) in [("per_second", slice.per_second), ("give_up_ms", slice.give_up_ms)] {
            let Some(value) = value else { continue };
            if self.plan.workloads[workload].pace.is_none() {
                return Err(invalid_command(&format!("{field} needs a workload with a pace")));
            }
            if !(value.is_finite() && value > 0.0) {
                return Err(invalid_command(&format!("{field} must be a number above 0")));
            }
        }
        Ok(())
    }

    /// Return the start times of the operations in the next slice (measured window). Return None if the workload has no
    /// pace (fixed rate), if `reconnect` starts all operations at once, or if this host has no part of the workload.
    fn schedule(&mut self, arm: usize, workload: usize, slice: &SliceCommand) -> Result<Option<Schedule>> {
        if slice.reconnect {
            return Ok(None);
        }
        let ordinal = &mut self.ordinals[arm][workload];
        let stream = (workload as u64) << 32 | *ordinal;
        *ordinal += 1;
        let settings = &self.plan.workloads[workload];
        let (Some(pace), Some(share)) = (settings.pace, self.plan.share.for_workload(settings)) else {
            return Ok(None);
        };
        let pace = Pace { per_second: slice.per_second.unwrap_or(pace.per_second), ..pace };
        let lasts_ns = clock::from_seconds(slice.seconds);
        Schedule::new(pace, share, slice.operations, lasts_ns, (self.plan.seed, stream)).map(Some)
    }

    fn run(&mut self, arm: usize, workload: usize, slice: &SliceCommand, schedule: Option<Schedule>) -> Measured {
        if let Ok(service) = &self.services[arm] {
            service.begin_slice();
        }
        let share = self.plan.share.for_workload(&self.plan.workloads[workload]);
        let operations = share.map_or(0, |share| share.count(slice.operations));
        let cpu = clock::process_cpu();
        let now = clock::now();
        let opened = slice.opens_ns.map_or(now, |instant| instant.max(now));
        let started_unix_ns = clock::unix() + (opened - now);
        let mut window = Window::new(operations, opened, opened + clock::from_seconds(slice.seconds));
        if let Some(schedule) = schedule {
            window = window.paced(schedule);
        }
        if let Some(milliseconds) = slice.give_up_ms {
            window = window.giving_up_after(clock::from_seconds(milliseconds / 1e3));
        }
        if slice.reconnect {
            window = window.at_once();
        }
        self.command(arm, workload, &WorkerCommand::Run(Arc::new(window)));
        let ended = clock::now();
        let cpu_ns = clock::process_cpu() - cpu;
        self.collect();
        let last_ended_ns = Some(self.total.last_end).filter(|last_end| *last_end > 0);
        // The slice (measured window) ends with its last operation, or, if no operation ended, when all workers have
        // finished.
        let elapsed_ns = last_ended_ns.unwrap_or(ended).saturating_sub(opened);
        let first_began_ns = self.total.first_began;
        let window = slice.opens_ns.map(|_| WindowAnswer { opened_ns: opened, first_began_ns, last_ended_ns });
        Measured { started_unix_ns, elapsed_ns, cpu_ns, window }
    }

    fn collect(&mut self) {
        for thread in &self.threads {
            self.total.absorb(&mut thread.log.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn command(&self, arm: usize, workload: usize, command: &WorkerCommand) {
        for thread in &self.threads {
            let assignment = Assignment { arm, workload, command: command.clone() };
            thread.assignments.send(assignment).expect("a thread ends only with the process");
        }
        for _ in &self.threads {
            self.done.recv().expect("a thread ends only with the process");
        }
    }

    fn answer(&mut self, arm: usize, slice: &SliceCommand, measured: Measured) -> SliceAnswer {
        let mut counts = std::mem::take(&mut self.total.counts);
        let mut evidence = Evidence { connections: self.total.evidence.answer(), facts: Facts::new() };
        if let Ok(service) = &self.services[arm] {
            service.take_counts(&mut counts);
            evidence.facts = service.facts();
        }
        let answer = SliceAnswer {
            id: slice.id,
            arm: slice.arm.clone(),
            workload: slice.workload.clone(),
            started_unix_ns: measured.started_unix_ns,
            elapsed_ns: measured.elapsed_ns,
            operations: self.total.operations,
            errors: self.total.errors.answer(),
            phases: self.total.recorder.answer(),
            cpu_ns: BTreeMap::from([("client", measured.cpu_ns)]),
            peak_memory_bytes: process::peak_memory_bytes(),
            counts,
            evidence,
            window: measured.window,
        };
        self.total.clear();
        answer
    }
}

struct Measured {
    started_unix_ns: u64,
    elapsed_ns: u64,
    cpu_ns: u64,
    window: Option<WindowAnswer>,
}

impl Measured {
    fn nothing() -> Self {
        Measured { started_unix_ns: clock::unix(), elapsed_ns: 0, cpu_ns: 0, window: None }
    }
}

fn check_opening(prepared: Option<PrepareCommand>, slice: &SliceCommand, opens_ns: u64) -> Result<()> {
    let SliceCommand { id, arm, workload, reconnect, .. } = slice.clone();
    if prepared != Some(PrepareCommand { id, arm, workload, reconnect }) {
        return Err(invalid_command(
            "a slice with opens_ns must follow directly after a prepare with the same id, arm, workload and reconnect",
        ));
    }
    if opens_ns > clock::now() + LONGEST_WAIT_NS {
        return Err(invalid_command(
            "opens_ns must be an instant of this host's CLOCK_MONOTONIC, at most a minute ahead",
        ));
    }
    Ok(())
}

/// Return the number of threads for workloads `connect` with a pace (a fixed rate), up to [`MAX_THREADS`].
///
/// Each worker simulates independent clients and gets a thread. On a shared thread, one client's answer would wait for
/// milliseconds during another client's handshake. TLS would then appear to slow down queries.
fn threads_of_arrivals(workloads: &[Settings]) -> usize {
    let arriving = workloads.iter().filter(|each| each.kind == Kind::Connect && each.pace.is_some());
    arriving.map(|each| each.workers.min(MAX_THREADS)).max().unwrap_or(0)
}

/// Find the servers of all arms (variants of the experiment) concurrently, so that silent servers delay only their arm.
fn discover(plan: &Arc<Plan>) -> Result<Vec<Result<Arc<dyn Service>>>> {
    let mut executor = Executor::new()?;
    let services = Rc::new(RefCell::new(vec![None; plan.arms.len()]));
    for arm in 0..plan.arms.len() {
        let (plan, services, reactor) = (plan.clone(), services.clone(), executor.reactor().clone());
        executor.spawn(async move {
            let timeout_ns = plan.operation_timeout_ms * 1_000_000;
            let Arm { service, transport, .. } = &plan.arms[arm];
            let service = service.settings.discover(transport, &reactor, timeout_ns).await;
            services.borrow_mut()[arm] = Some(service);
        });
    }
    executor.run_to_end()?;
    Ok(services.take().into_iter().flatten().collect())
}

fn start_thread(thread_plan: ThreadPlan, done: Sender<()>) -> Result<Thread> {
    let (assignments, receiver) = channel();
    let log = Arc::new(Mutex::new(SliceLog::default()));
    let mailbox = Mailbox { assignments: receiver, done, log: log.clone() };
    let name = format!("pool-{}", thread_plan.thread);
    let body = move || pool::execute_assignments(&thread_plan, &mailbox).expect("this thread can wait for events");
    let started = std::thread::Builder::new().name(name).spawn(body);
    started.map_err(|error| Failure::new(Class::Internal, format!("cannot start a thread: {error}")))?;
    Ok(Thread { assignments, log })
}
