//! What tasks wait for (descriptors that become ready, instants, and each other), and the loop of a thread: wait for events,
//! poll the tasks that waited for them.

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

/// A task of the executor, by its place there.
pub type TaskId = usize;

/// A task itself.
type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The descriptors of a thread, each by its key.
pub(super) type Sources = Slab<Rc<Source>>;

/// What a thread's tasks wait for: the kernel's events, timers and deadlines. Tasks reach it through an `Rc`.
pub struct Reactor {
    epoll: Epoll,
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
        }))
    }

    pub fn wake(&self, task: TaskId) {
        self.woken.borrow_mut().push(task);
    }

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

    /// Be woken at this instant at the latest, or at that of the earliest timer.
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

    /// Wake the tasks whose deadline has passed; their next wait fails.
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

/// A timer descriptor and the instant it is set to.
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

    /// Ring at this instant, unless it rings earlier. An instant in the past rings at once.
    pub(super) fn at_latest(&self, instant: u64) {
        if instant >= self.set_to.get() {
            return;
        }
        // Zero would mean never.
        let at = instant.max(1);
        let it_value = Timespec { tv_sec: (at / NANOS_PER_SECOND) as i64, tv_nsec: (at % NANOS_PER_SECOND) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        // It can only fail for a time that is none. Setting also forgets an earlier ring, so nothing has to be read.
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &once).expect("the instant is a valid time");
        self.set_to.set(instant);
    }
}

/// How often deadlines are looked at, in nanoseconds; so a timeout comes late by this much at most.
const SWEEP_EVERY: u64 = 20_000_000;

/// One thread's tasks.
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

    /// Run the tasks until `done` holds. It is looked at after every turn.
    /// Errors: where waiting for events fails, which it only does for a defect of this program.
    pub fn run_until(&mut self, done: impl Fn() -> bool) -> io::Result<()> {
        self.look_at_the_clock();
        loop {
            self.poll_woken();
            if done() {
                return Ok(());
            }
            self.turn()?;
        }
    }

    pub fn run_to_end(&mut self) -> io::Result<()> {
        self.look_at_the_clock();
        loop {
            self.poll_woken();
            if self.tasks.is_empty() {
                return Ok(());
            }
            self.turn()?;
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        if self.reactor.wait()? {
            self.look_at_the_clock();
        }
        Ok(())
    }

    /// Only when the alarm has rung: no operation pays for the timers of others.
    fn look_at_the_clock(&self) {
        let now = clock::now();
        self.reactor.sweep_deadlines(now);
        self.reactor.fire_timers(now);
        self.reactor.ring_at_latest(now + SWEEP_EVERY);
    }

    fn poll_woken(&mut self) {
        // Nothing here is woken through a `Waker`: a task is polled because the reactor saw what it waits for.
        let mut context = Context::from_waker(Waker::noop());
        while !self.reactor.woken.borrow().is_empty() {
            // The two vectors change places, so none is ever allocated.
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
