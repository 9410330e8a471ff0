//! The reactor and the executor of a thread. Through the reactor, tasks wait for descriptors, instants and each other.
//! The executor is the loop that waits for events and then polls the tasks that waited for them.

use super::epoll::Epoll;
use super::watched::Source;
use base::clock;
use base::error::{Class, Failure, Result};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The index of a task in its executor.
pub type TaskId = usize;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The watched descriptors of a thread. The index is the key in epoll events.
pub(super) type Sources = Slab<Rc<Source>>;

/// The events, timers and deadlines for which the tasks of one thread wait.
pub struct Reactor {
    epoll: Epoll,
    alarm: Alarm,
    sources: RefCell<Sources>,
    timers: RefCell<BinaryHeap<Reverse<(u64, TaskId)>>>,
    deadlines: RefCell<Vec<Deadline>>,
    woken: RefCell<Vec<TaskId>>,
    spawned: RefCell<Vec<Task>>,
    current: Cell<TaskId>,
    alone: Cell<bool>,
}

/// The instant at which a task's current operation times out. Deadlines need no timers, because all of them are checked
/// every 20 ms. A timeout may therefore be slightly late.
#[derive(Clone, Copy)]
struct Deadline {
    at: u64,
    passed: bool,
}

const NO_DEADLINE: Deadline = Deadline { at: u64::MAX, passed: false };

impl Reactor {
    pub fn new() -> io::Result<Rc<Reactor>> {
        let alarm = Alarm::new()?;
        Ok(Rc::new(Reactor {
            epoll: Epoll::new(&alarm)?,
            alarm,
            sources: RefCell::default(),
            timers: RefCell::default(),
            deadlines: RefCell::default(),
            woken: RefCell::default(),
            spawned: RefCell::default(),
            current: Cell::new(0),
            alone: Cell::new(false),
        }))
    }

    pub fn wake(&self, task: TaskId) {
        self.woken.borrow_mut().push(task);
    }

    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.spawned.borrow_mut().push(Box::pin(task));
    }

    /// Set the current task's deadline, in nanoseconds of [`clock::now`]. From this instant on, each wait of the task
    /// fails with the error class `timeout`.
    pub fn set_deadline(&self, at: u64) {
        self.deadlines.borrow_mut()[self.current.get()] = Deadline { at, passed: false };
    }

    pub fn deadline(&self) -> u64 {
        self.deadlines.borrow()[self.current.get()].at
    }

    pub async fn sleep_until(&self, instant: u64) {
        self.timers.borrow_mut().push(Reverse((instant, self.current.get())));
        self.alarm.at_latest(instant);
        poll_fn(|_| if clock::now() >= instant { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Let other tasks run. A task that otherwise never waits must call this, so that other tasks progress and
    /// deadlines are checked. Errors: class `timeout` if the task's deadline has passed.
    pub async fn yield_now(&self) -> Result<()> {
        let now = clock::now();
        self.timers.borrow_mut().push(Reverse((now, self.current.get())));
        self.alarm.at_latest(now);
        let mut yielded = false;
        poll_fn(|_| if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }).await;
        self.check_deadline()
    }

    /// Set whether only one task of this thread has work. Such a task may wait in `recv` instead of in `epoll_wait`.
    pub fn set_alone(&self, alone: bool) {
        self.alone.set(alone);
    }

    pub(super) fn is_alone(&self) -> bool {
        self.alone.get()
    }

    pub(super) fn check_deadline(&self) -> Result<()> {
        if self.deadlines.borrow()[self.current.get()].passed {
            Err(Failure::new(Class::Timeout, "no answer in time"))
        } else {
            Ok(())
        }
    }

    pub(super) fn current(&self) -> TaskId {
        self.current.get()
    }

    fn add_task(&self, task: TaskId) {
        let mut deadlines = self.deadlines.borrow_mut();
        if deadlines.len() <= task {
            deadlines.resize(task + 1, NO_DEADLINE);
        }
        deadlines[task] = NO_DEADLINE;
        self.wake(task);
    }

    fn take_spawned(&self) -> Option<Task> {
        self.spawned.borrow_mut().pop()
    }

    /// Set the alarm (the thread's timer) to `instant`, or to the first instant in `timers` if that is earlier.
    fn ring_at_latest(&self, instant: u64) {
        let timer = self.timers.borrow().peek().map_or(u64::MAX, |Reverse((instant, _))| *instant);
        self.alarm.at_latest(instant.min(timer));
    }

    fn fire_timers(&self, now: u64) {
        let mut timers = self.timers.borrow_mut();
        while let Some(&Reverse((instant, task))) = timers.peek()
            && instant <= now
        {
            timers.pop();
            self.wake(task);
        }
    }

    /// Wake the tasks whose deadline has passed. Their current wait then fails with the error class `timeout`.
    fn sweep_deadlines(&self, now: u64) {
        for (task, deadline) in self.deadlines.borrow_mut().iter_mut().enumerate() {
            if deadline.at <= now && !deadline.passed {
                deadline.passed = true;
                self.wake(task);
            }
        }
    }

    fn wait(&self) -> io::Result<bool> {
        let rang = self.epoll.wait(&self.sources.borrow(), |task| self.wake(task))?;
        if rang {
            self.alarm.rang();
        }
        Ok(rang)
    }

    pub(super) fn epoll(&self) -> &Epoll {
        &self.epoll
    }

    pub(super) fn add_source(&self, source: Rc<Source>) -> usize {
        self.sources.borrow_mut().insert(source)
    }

    pub(super) fn remove_source(&self, key: usize) {
        self.sources.borrow_mut().remove(key);
    }
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The alarm, which is a thread's only timer: a timer descriptor, and the instant to which it is set.
pub(super) struct Alarm {
    fd: OwnedFd,
    set_to: Cell<u64>,
}

impl Alarm {
    pub(super) fn new() -> rustix::io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Alarm { fd, set_to: Cell::new(u64::MAX) })
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    pub(super) fn rang(&self) {
        self.set_to.set(u64::MAX);
    }

    /// Set the alarm to this instant, unless it is set to an earlier one. It rings at once if the instant has passed.
    pub(super) fn at_latest(&self, instant: u64) {
        if instant >= self.set_to.get() {
            return;
        }
        // Zero would disarm the timer.
        let at = instant.max(1);
        let it_value = Timespec { tv_sec: (at / NANOS_PER_SECOND) as i64, tv_nsec: (at % NANOS_PER_SECOND) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        // This call also clears the timer's count of earlier expiries, so the descriptor need not be read.
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &once).expect("the instant is a valid time");
        self.set_to.set(instant);
    }
}

/// The interval in nanoseconds at which deadlines are checked. A timeout can be late by at most this interval.
const SWEEP_EVERY: u64 = 20_000_000;

/// The loop that runs the tasks of one thread.
pub struct Executor {
    reactor: Rc<Reactor>,
    tasks: Slab<Task>,
    polling: Vec<TaskId>,
}

impl Executor {
    pub fn new() -> io::Result<Self> {
        Ok(Executor { reactor: Reactor::new()?, tasks: Slab::new(), polling: Vec::new() })
    }

    pub fn reactor(&self) -> &Rc<Reactor> {
        &self.reactor
    }

    pub fn spawn(&mut self, task: impl Future<Output = ()> + 'static) -> TaskId {
        self.adopt(Box::pin(task))
    }

    fn adopt(&mut self, task: Task) -> TaskId {
        let id = self.tasks.insert(task);
        self.reactor.add_task(id);
        id
    }

    /// Run the tasks until `done`, called after each batch of events, returns true. Errors: those of `epoll_wait`,
    /// which only a defect of this program can cause.
    pub fn run_until(&mut self, done: impl Fn() -> bool) -> io::Result<()> {
        self.check_clock();
        loop {
            self.poll_woken();
            if done() {
                return Ok(());
            }
            self.handle_events()?;
        }
    }

    pub fn run_to_end(&mut self) -> io::Result<()> {
        self.check_clock();
        loop {
            self.poll_woken();
            if self.tasks.is_empty() {
                return Ok(());
            }
            self.handle_events()?;
        }
    }

    fn handle_events(&mut self) -> io::Result<()> {
        if self.reactor.wait()? {
            self.check_clock();
        }
        Ok(())
    }

    /// Wake the tasks whose deadline or timer has expired. Call this only when the alarm has rung: checks take time.
    fn check_clock(&self) {
        let now = clock::now();
        self.reactor.sweep_deadlines(now);
        self.reactor.fire_timers(now);
        self.reactor.ring_at_latest(now + SWEEP_EVERY);
    }

    fn poll_woken(&mut self) {
        // The reactor wakes tasks by their index and never through a `Waker`, so a waker that does nothing is enough.
        let mut context = Context::from_waker(Waker::noop());
        while !self.reactor.woken.borrow().is_empty() {
            // Swapping the two vectors reuses their allocations.
            std::mem::swap(&mut *self.reactor.woken.borrow_mut(), &mut self.polling);
            for &id in &self.polling {
                let Some(task) = self.tasks.get_mut(id) else { continue };
                self.reactor.current.set(id);
                if task.as_mut().poll(&mut context).is_ready() {
                    drop(self.tasks.remove(id));
                }
            }
            self.polling.clear();
            while let Some(task) = self.reactor.take_spawned() {
                self.adopt(task);
            }
        }
    }
}
