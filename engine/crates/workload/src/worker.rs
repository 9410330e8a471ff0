//! The worker: the loop that performs and measures operations, the same for all workloads. A worker exists
//! throughout the run, so its connection stays open while other variants of the experiment (arms) are measured.

use crate::Workload;
use crate::schedule::{Schedule, Think};
use base::clock;
use base::error::{Class, Failure};
use net::runtime::{Reactor, TaskId};
use record::{Evidence, SliceLog, Timeline};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

/// The time for which an operation may continue after its slice (a measured window) has closed. An operation that ends
/// within this time is counted, because leaving it out would favour short operations. A longer operation is abandoned,
/// which counts as an error of class `abandoned`. For an operation with several consecutive queries, the time is
/// multiplied by their number ([`Workload::in_a_row`]).
const GRACE_NS: u64 = 1_000_000_000;
/// The pause after a first failed operation. It doubles with each consecutive failure, to avoid a busy loop.
const FIRST_PAUSE_NS: u64 = 1_000_000;
const LONGEST_PAUSE_NS: u64 = 100_000_000;

/// Execute the commands that arrive in `slot`, one after the other. This never returns.
pub async fn work<W: Workload>(mut workload: W, slot: Rc<Slot>, mut think: Think) {
    loop {
        let mut evidence = Evidence::default();
        match slot.next_command().await {
            WorkerCommand::Prepare { reconnect } => {
                if reconnect {
                    workload.disconnect();
                }
                prepare(&mut workload, &slot, &mut evidence).await;
            }
            WorkerCommand::Disconnect => workload.disconnect(),
            WorkerCommand::Run(window) => run(&mut workload, &slot, &window, &mut think, &mut evidence).await,
        }
        let mut log = slot.log.borrow_mut();
        log.evidence.merge(evidence);
        workload.take_counts(&mut log.counts);
        slot.finish();
    }
}

async fn prepare<W: Workload>(workload: &mut W, slot: &Slot, evidence: &mut Evidence) {
    slot.reactor.set_deadline(clock::now() + slot.timeout_ns);
    if let Err(failure) = workload.prepare(evidence).await {
        slot.log.borrow_mut().failed(failure);
    }
}

async fn run<W: Workload>(workload: &mut W, slot: &Slot, window: &Window, think: &mut Think, evidence: &mut Evidence) {
    let mut timeline = Timeline::default();
    let mut pause = FIRST_PAUSE_NS;
    let mut now = wait_until_open(slot, window).await;
    let mut began = false;
    let in_a_row = workload.in_a_row();
    let grace_ends_at = window.closes_at() + GRACE_NS * in_a_row;
    loop {
        if window.rests() {
            now = rest(workload.rest_ns() + think.next_ns(), slot, now, window.closes_at()).await;
        }
        let Some(claimed) = window.claim(W::BATCH, now) else { return };
        if let Some(instant) = window.instant(claimed.start) {
            let Some(start) = wait_for(slot, instant, now, window.closes_at()).await else { return };
            if window.gives_up(start - instant) {
                return;
            }
            now = start;
            timeline.schedule(instant);
        }
        if !began {
            slot.log.borrow_mut().began(now);
            began = true;
        }
        let operations = claimed.end - claimed.start;
        let times_out_at = now + slot.timeout_ns * in_a_row;
        slot.reactor.set_deadline(times_out_at.min(grace_ends_at));
        match workload.operate(claimed, &mut timeline, evidence).await {
            Ok(()) => {
                let mut log = slot.log.borrow_mut();
                log.succeeded(operations, &timeline);
                workload.record_further(&mut log.recorder);
                now = timeline.at();
                pause = FIRST_PAUSE_NS;
            }
            Err(failure) if failure.class == Class::Timeout && grace_ends_at < times_out_at => {
                return fail(slot, abandoned(clock::now() - now));
            }
            Err(failure) => {
                fail(slot, failure);
                slot.reactor.sleep_until((clock::now() + pause).min(window.closes_at())).await;
                now = clock::now();
                pause = (pause * 2).min(LONGEST_PAUSE_NS);
            }
        }
    }
}

async fn wait_until_open(slot: &Slot, window: &Window) -> u64 {
    let now = clock::now();
    if now >= window.opens_at() {
        return now;
    }
    slot.reactor.sleep_until(window.opens_at()).await;
    clock::now()
}

/// Wait for `lasts` nanoseconds, but at most until the window closes (`closes_at`). Return the current time.
async fn rest(lasts: u64, slot: &Slot, now: u64, closes_at: u64) -> u64 {
    if lasts == 0 {
        return now;
    }
    slot.reactor.sleep_until((now + lasts).min(closes_at)).await;
    clock::now()
}

/// Wait for an operation's scheduled start and return the time, or None if the window closes before the start.
async fn wait_for(slot: &Slot, instant: u64, mut now: u64, closes_at: u64) -> Option<u64> {
    if instant >= closes_at {
        return None;
    }
    if instant > now {
        slot.reactor.sleep_until(instant).await;
        now = clock::now();
    }
    (now < closes_at).then_some(now)
}

fn abandoned(age_ns: u64) -> Failure {
    let age = age_ns as f64 / 1e9;
    Failure::new(Class::Abandoned, format!("no answer after {age:.1} s, when the slice had to end"))
}

fn fail(slot: &Slot, failure: Failure) {
    let mut log = slot.log.borrow_mut();
    log.failed(failure);
    log.ended(clock::now());
}

/// A command to a worker: to prepare for a slice (measured window), to run it, or to close its persistent connection.
#[derive(Clone)]
pub enum WorkerCommand {
    Prepare { reconnect: bool },
    Run(Arc<Window>),
    Disconnect,
}

/// A slice (a measured window): when it opens and closes, and its claimed operations. All workers share it.
pub struct Window {
    claimed: AtomicU64,
    operations: u64,
    opens_at: u64,
    closes_at: u64,
    schedule: Option<Schedule>,
    /// The maximum delay of an operation in nanoseconds. A longer delay ends the measured window early.
    most_delay: u64,
    given_up: AtomicBool,
    at_once: bool,
}

impl Window {
    /// Create a window for at most `operations` operations, which begin from `opens_at` to just before `closes_at`.
    pub fn new(operations: u64, opens_at: u64, closes_at: u64) -> Self {
        Window {
            claimed: AtomicU64::new(0),
            operations,
            opens_at,
            closes_at,
            schedule: None,
            most_delay: u64::MAX,
            given_up: AtomicBool::new(false),
            at_once: false,
        }
    }

    /// Let operations begin at the times of this schedule, counted from the opening of the window.
    pub fn paced(self, schedule: Schedule) -> Self {
        Window { schedule: Some(schedule), ..self }
    }

    /// End the slice (measured window) when an operation begins more than `most_delay` nanoseconds too late.
    pub fn giving_up_after(self, most_delay: u64) -> Self {
        Window { most_delay, ..self }
    }

    /// Let operations begin without think times.
    pub fn at_once(self) -> Self {
        Window { at_once: true, ..self }
    }

    /// Return whether workers wait for think times between operations.
    pub fn rests(&self) -> bool {
        !self.at_once
    }

    /// Return when this operation is scheduled to begin. Return `u64::MAX` if the schedule does not contain the
    /// operation, and None if the window has no schedule.
    pub fn instant(&self, operation: u64) -> Option<u64> {
        let schedule = self.schedule.as_ref()?;
        Some(schedule.offset(operation).map_or(u64::MAX, |offset| self.opens_at.saturating_add(offset)))
    }

    /// Return whether the slice (measured window) ends early because an operation is too late. `delay` is the time in
    /// nanoseconds by which the calling worker's next operation is late. If `delay` exceeds the maximum, this function
    /// returns true, and from then on returns true to all workers.
    pub fn gives_up(&self, delay: u64) -> bool {
        // Relaxed ordering suffices: an old value makes a worker begin one more operation, which does no harm.
        if delay > self.most_delay {
            self.given_up.store(true, Ordering::Relaxed);
        }
        self.given_up.load(Ordering::Relaxed)
    }

    /// Claim at most `batch` operations for a worker, and return their numbers. Return None if the window has closed or
    /// all operations are claimed. Failed operations stay claimed, so that a slice ends even if the server is dead.
    pub fn claim(&self, batch: u64, now: u64) -> Option<Range<u64>> {
        if now >= self.closes_at {
            return None;
        }
        // Relaxed ordering suffices, because no other data depends on the counter.
        let first = self.claimed.fetch_add(batch, Ordering::Relaxed);
        (first < self.operations).then(|| first..self.operations.min(first + batch))
    }

    /// Return the instant on the monotonic clock at which the window opens. This may be in the past.
    pub fn opens_at(&self) -> u64 {
        self.opens_at
    }

    pub fn closes_at(&self) -> u64 {
        self.closes_at
    }
}

/// The place where a thread puts the next command for one of its workers.
pub struct Slot {
    pub reactor: Rc<Reactor>,
    pub log: Rc<RefCell<SliceLog>>,
    /// The timeout of one operation in nanoseconds.
    pub timeout_ns: u64,
    command: RefCell<Option<WorkerCommand>>,
    busy: Rc<Cell<usize>>,
}

impl Slot {
    /// Create a slot. `busy` is the number of the thread's workers that have not finished their command.
    pub fn new(reactor: Rc<Reactor>, log: Rc<RefCell<SliceLog>>, busy: Rc<Cell<usize>>, timeout_ns: u64) -> Self {
        Slot { reactor, log, timeout_ns, command: RefCell::default(), busy }
    }

    pub fn give(&self, task: TaskId, command: WorkerCommand) {
        *self.command.borrow_mut() = Some(command);
        self.busy.set(self.busy.get() + 1);
        self.reactor.wake(task);
    }

    pub async fn next_command(&self) -> WorkerCommand {
        poll_fn(|_| self.command.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)).await
    }

    pub fn finish(&self) {
        self.busy.set(self.busy.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_claim_every_operation_of_a_measurement_exactly_once() {
        let window = Window::new(250, 0, 10);
        let claims: Vec<_> = std::iter::from_fn(|| window.claim(100, 9)).collect();
        assert_eq!(claims, [0..100, 100..200, 200..250]);
    }

    #[test]
    fn all_workers_stop_once_an_operation_was_delayed_longer_than_allowed() {
        let window = Window::new(250, 0, 1_000).giving_up_after(100);
        assert!(!window.gives_up(100));
        assert!(window.gives_up(101));
        assert!(window.gives_up(0));
        assert!(!Window::new(250, 0, 1_000).gives_up(u64::MAX));
    }

    #[test]
    fn operations_cannot_be_claimed_after_the_measurement_ended() {
        assert_eq!(Window::new(250, 0, 10).claim(1, 10), None);
    }
}
