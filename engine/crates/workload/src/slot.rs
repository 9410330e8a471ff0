//! Where a worker sits between slices: it is given orders here, and writes here what came of them.

use super::schedule::Schedule;
use net::runtime::{Reactor, TaskId};
use record::SliceLog;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

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

    /// Wait for an order.
    pub async fn order(&self) -> Order {
        poll_fn(|_| self.order.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// The order has been followed.
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
