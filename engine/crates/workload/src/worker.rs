//! A worker: one loop for every workload. It follows orders through the whole run, so that its connection stands while
//! other arms have their turn.

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
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

/// An operation that is under way when its slice closes may still end, within this time, and is counted: leaving it
/// out would favour short ones. What takes longer is abandoned: an error of a class of its own, with its age. An
/// operation of several in a row has as many times as long.
const GRACE_NS: u64 = 1_000_000_000;
/// After a failure a worker waits, twice as long after each further one: a dead server must not make it spin.
const FIRST_PAUSE_NS: u64 = 1_000_000;
const LONGEST_PAUSE_NS: u64 = 100_000_000;

pub async fn work<W: Workload>(mut workload: W, slot: Rc<Slot>, mut think: Think) {
    loop {
        let mut evidence = Evidence::default();
        match slot.order().await {
            Order::Prepare { reconnect } => {
                if reconnect {
                    workload.disconnect();
                }
                prepare(&mut workload, &slot, &mut evidence).await;
            }
            Order::Run(window) => run(&mut workload, &slot, &window, &mut think, &mut evidence).await,
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
    let mut now = opened(slot, window).await;
    let mut began = false;
    let in_a_row = workload.in_a_row();
    let last_call = window.closes_at() + GRACE_NS * in_a_row;
    loop {
        if window.rests() {
            now = rest(workload.rest_ns() + think.next_ns(), slot, now, window.closes_at()).await;
        }
        let Some(claimed) = window.claim(W::BATCH, now) else { return };
        if let Some(instant) = window.instant(claimed.start) {
            let Some(begun) = wait_for(slot, instant, now, window.closes_at()).await else { return };
            now = begun;
            timeline.schedule(instant);
        }
        if !began {
            slot.log.borrow_mut().began(now);
            began = true;
        }
        let operations = claimed.end - claimed.start;
        let times_out_at = now + slot.timeout_ns * in_a_row;
        slot.reactor.set_deadline(times_out_at.min(last_call));
        match workload.operate(claimed, &mut timeline, evidence).await {
            Ok(()) => {
                let mut log = slot.log.borrow_mut();
                log.succeeded(operations, &timeline);
                workload.record_further(&mut log.recorder);
                now = timeline.at();
                pause = FIRST_PAUSE_NS;
            }
            Err(failure) if failure.class == Class::Timeout && last_call < times_out_at => {
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

/// Wait until the window has opened; when that was seen.
async fn opened(slot: &Slot, window: &Window) -> u64 {
    let now = clock::now();
    if now >= window.opens_at() {
        return now;
    }
    slot.reactor.sleep_until(window.opens_at()).await;
    clock::now()
}

/// Let the user take this long, at most until the window has closed; when that was.
async fn rest(lasts: u64, slot: &Slot, now: u64, closes_at: u64) -> u64 {
    if lasts == 0 {
        return now;
    }
    slot.reactor.sleep_until((now + lasts).min(closes_at)).await;
    clock::now()
}

/// Wait for an operation's instant; when it begins. None where that would be when the window has closed.
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
    Failure::new(Class::Abandoned, format!("no answer after {age:.1} s, when its slice had to be closed"))
}

fn fail(slot: &Slot, failure: Failure) {
    let mut log = slot.log.borrow_mut();
    log.failed(failure);
    log.ended(clock::now());
}

/// What a worker is told.
#[derive(Clone)]
pub enum Order {
    Prepare { reconnect: bool },
    Run(Arc<Window>),
}

/// How long a slice lasts, and how much of it is left: shared by all its workers.
pub struct Window {
    claimed: AtomicU64,
    operations: u64,
    opens_at: u64,
    closes_at: u64,
    schedule: Option<Schedule>,
    at_once: bool,
}

impl Window {
    /// So many operations, none begun before the first of these instants, or at or after the second.
    pub fn new(operations: u64, opens_at: u64, closes_at: u64) -> Self {
        Window { claimed: AtomicU64::new(0), operations, opens_at, closes_at, schedule: None, at_once: false }
    }

    /// The same, its operations at the instants of this schedule, counted from its opening.
    pub fn paced(self, schedule: Schedule) -> Self {
        Window { schedule: Some(schedule), ..self }
    }

    /// The same, whose users do not rest before an operation.
    pub fn at_once(self) -> Self {
        Window { at_once: true, ..self }
    }

    /// Whether users rest before an operation.
    pub fn rests(&self) -> bool {
        !self.at_once
    }

    /// When this operation is to begin: at this instant, or not at all in this window; None without a pace.
    pub fn instant(&self, operation: u64) -> Option<u64> {
        let schedule = self.schedule.as_ref()?;
        Some(schedule.offset(operation).map_or(u64::MAX, |offset| self.opens_at.saturating_add(offset)))
    }

    /// The next operations, at most `batch`; None once the window is closed or all are taken. A failed operation was
    /// taken all the same: a slice on a dead server ends too.
    pub fn claim(&self, batch: u64, now: u64) -> Option<Range<u64>> {
        if now >= self.closes_at {
            return None;
        }
        // Only the number counts, nothing is published by it.
        let first = self.claimed.fetch_add(batch, Ordering::Relaxed);
        (first < self.operations).then(|| first..self.operations.min(first + batch))
    }

    /// On the monotonic clock; it may have passed.
    pub fn opens_at(&self) -> u64 {
        self.opens_at
    }

    pub fn closes_at(&self) -> u64 {
        self.closes_at
    }
}

/// One worker's slot; the thread holds the other end.
pub struct Slot {
    pub reactor: Rc<Reactor>,
    pub log: Rc<RefCell<SliceLog>>,
    /// After so many nanoseconds an operation has failed.
    pub timeout_ns: u64,
    order: RefCell<Option<Order>>,
    busy: Rc<Cell<usize>>,
}

impl Slot {
    /// `busy` is the thread's count of workers that have not finished their order.
    pub fn new(reactor: Rc<Reactor>, log: Rc<RefCell<SliceLog>>, busy: Rc<Cell<usize>>, timeout_ns: u64) -> Self {
        Slot { reactor, log, timeout_ns, order: RefCell::default(), busy }
    }

    pub fn give(&self, task: TaskId, order: Order) {
        *self.order.borrow_mut() = Some(order);
        self.busy.set(self.busy.get() + 1);
        self.reactor.wake(task);
    }

    pub async fn order(&self) -> Order {
        poll_fn(|_| self.order.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)).await
    }

    pub fn finish(&self) {
        self.busy.set(self.busy.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_gives_out_every_operation_once() {
        let window = Window::new(250, 0, 10);
        let claims: Vec<_> = std::iter::from_fn(|| window.claim(100, 9)).collect();
        assert_eq!(claims, [0..100, 100..200, 200..250]);
    }

    #[test]
    fn a_closed_window_gives_out_nothing() {
        assert_eq!(Window::new(250, 0, 10).claim(1, 10), None);
    }
}
