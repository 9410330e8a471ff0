//! What tasks wait for: descriptors that become ready, instants, and each other.

use super::alarm::Alarm;
use super::events::{Events, Runtime};
use super::watched::Source;
use base::clock;
use base::error::{Class, Failure, Result};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// A task of the executor, by its place there.
pub type TaskId = usize;

/// A task itself.
pub(super) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The descriptors of a thread, each by its key.
pub(super) type Sources = Slab<Rc<Source>>;

/// What a thread's tasks wait for: the kernel's events, timers and deadlines. Tasks reach it through an `Rc`.
pub struct Reactor {
    events: Events,
    alarm: Alarm,
    sources: RefCell<Sources>,
    timers: RefCell<BinaryHeap<Reverse<(u64, TaskId)>>>,
    deadlines: RefCell<Vec<Deadline>>,
    woken: RefCell<Vec<TaskId>>,
    spawned: RefCell<Vec<Task>>,
    current: Cell<TaskId>,
}

/// Until when a task's present operation may take. It is checked by a coarse sweep, not by a timer each: setting it
/// costs an operation nothing, and a timeout need not be exact.
#[derive(Clone, Copy)]
struct Deadline {
    at: u64,
    passed: bool,
}

const NO_DEADLINE: Deadline = Deadline { at: u64::MAX, passed: false };

impl Reactor {
    /// Errors: where the process may open no more descriptors.
    pub fn new(runtime: Runtime) -> io::Result<Rc<Reactor>> {
        let alarm = Alarm::new()?;
        Ok(Rc::new(Reactor {
            events: Events::new(runtime, &alarm)?,
            alarm,
            sources: RefCell::default(),
            timers: RefCell::default(),
            deadlines: RefCell::default(),
            woken: RefCell::default(),
            spawned: RefCell::default(),
            current: Cell::new(0),
        }))
    }

    pub fn wake(&self, task: TaskId) {
        self.woken.borrow_mut().push(task);
    }

    /// Add a task from within another; it is first polled in this turn.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.spawned.borrow_mut().push(Box::pin(task));
    }

    /// The present task's waits end with `timeout` once this instant has passed.
    pub fn set_deadline(&self, at: u64) {
        self.deadlines.borrow_mut()[self.current.get()] = Deadline { at, passed: false };
    }

    pub fn deadline(&self) -> u64 {
        self.deadlines.borrow()[self.current.get()].at
    }

    /// The present task waits until this instant.
    pub async fn sleep_until(&self, instant: u64) {
        self.timers.borrow_mut().push(Reverse((instant, self.current.get())));
        self.alarm.at_latest(instant);
        poll_fn(|_| if clock::now() >= instant { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Let the others have their turn and the deadlines be looked at: for a task that always finds something to do.
    pub async fn yield_now(&self) -> Result<()> {
        let now = clock::now();
        self.timers.borrow_mut().push(Reverse((now, self.current.get())));
        self.alarm.at_latest(now);
        let mut given = false;
        poll_fn(|_| if std::mem::replace(&mut given, true) { Poll::Ready(()) } else { Poll::Pending }).await;
        self.check_deadline()
    }
    pub(super) fn check_deadline(&self) -> Result<()> {
        if self.deadline_passed() { Err(Failure::new(Class::Timeout, "no answer in time")) } else { Ok(()) }
    }

    pub(super) fn current(&self) -> TaskId {
        self.current.get()
    }

    pub(super) fn enter(&self, task: TaskId) {
        self.current.set(task);
    }

    pub(super) fn add_task(&self, task: TaskId) {
        let mut deadlines = self.deadlines.borrow_mut();
        if deadlines.len() <= task {
            deadlines.resize(task + 1, NO_DEADLINE);
        }
        deadlines[task] = NO_DEADLINE;
        self.wake(task);
    }

    /// Move the tasks to poll into `into`, which is empty: the two vectors change places, so none is ever allocated.
    pub(super) fn take_woken(&self, into: &mut Vec<TaskId>) {
        std::mem::swap(&mut *self.woken.borrow_mut(), into);
    }

    pub(super) fn take_spawned(&self) -> Option<Task> {
        self.spawned.borrow_mut().pop()
    }

    pub(super) fn has_woken(&self) -> bool {
        !self.woken.borrow().is_empty()
    }

    /// Be woken at this instant at the latest, or at that of the earliest timer.
    pub(super) fn ring_at_latest(&self, instant: u64) {
        let timer = self.timers.borrow().peek().map_or(u64::MAX, |Reverse((instant, _))| *instant);
        self.alarm.at_latest(instant.min(timer));
    }

    pub(super) fn fire_timers(&self, now: u64) {
        let mut timers = self.timers.borrow_mut();
        while let Some(&Reverse((instant, task))) = timers.peek()
            && instant <= now
        {
            timers.pop();
            self.wake(task);
        }
    }

    /// Wake the tasks whose deadline has passed; their next wait fails.
    pub(super) fn sweep_deadlines(&self, now: u64) {
        for (task, deadline) in self.deadlines.borrow_mut().iter_mut().enumerate() {
            if deadline.at <= now && !deadline.passed {
                deadline.passed = true;
                self.wake(task);
            }
        }
    }

    /// Wait for events, and wake the tasks that waited for them. Whether the alarm was among them.
    pub(super) fn wait(&self) -> io::Result<bool> {
        let rang = self.events.wait(&self.sources.borrow(), |task| self.wake(task))?;
        if rang {
            self.alarm.rang();
        }
        Ok(rang)
    }

    pub(super) fn events(&self) -> &Events {
        &self.events
    }

    pub(super) fn add_source(&self, source: Rc<Source>) -> usize {
        self.sources.borrow_mut().insert(source)
    }

    pub(super) fn remove_source(&self, key: usize) {
        self.sources.borrow_mut().remove(key);
    }

    fn deadline_passed(&self) -> bool {
        self.deadlines.borrow()[self.current.get()].passed
    }
}
