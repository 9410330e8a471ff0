//! What tasks wait for: descriptors that become ready, instants, and each other.

use super::alarm::Alarm;
use base::clock;
use base::error::{Class, Failure, Result};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// A task of the executor, by its place there.
pub type TaskId = usize;

/// A task itself.
pub(super) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Events taken from the kernel at once.
const EVENTS: usize = 256;
/// The alarm's place among the sources, which no source ever has.
const ALARM: u64 = u64::MAX;

/// One thread's epoll, its timers and its tasks' deadlines. Tasks reach it through an `Rc`.
pub struct Reactor {
    epoll: OwnedFd,
    alarm: Alarm,
    sources: RefCell<Slab<Rc<Source>>>,
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

/// What is known of one descriptor between edges.
#[derive(Default)]
struct Source {
    readable: Cell<bool>,
    writable: Cell<bool>,
    /// The peer has ended or broken the connection: no further edge will come, so reading must go on to its end.
    hung_up: Cell<bool>,
    waiter: Cell<Option<TaskId>>,
}

impl Reactor {
    /// # Errors
    /// Where the process may open no more descriptors.
    pub fn new() -> io::Result<Rc<Reactor>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let alarm = Alarm::new()?;
        epoll::add(&epoll, alarm.fd(), EventData::new_u64(ALARM), EventFlags::IN | EventFlags::ET)?;
        Ok(Rc::new(Reactor {
            epoll,
            alarm,
            sources: RefCell::default(),
            timers: RefCell::default(),
            deadlines: RefCell::default(),
            woken: RefCell::default(),
            spawned: RefCell::default(),
            current: Cell::new(0),
        }))
    }

    /// Poll this task on the next turn.
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

    /// The present task's.
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
    ///
    /// # Errors
    /// `timeout`, once the task's deadline has passed.
    pub async fn yield_now(&self) -> Result<()> {
        let now = clock::now();
        self.timers.borrow_mut().push(Reverse((now, self.current.get())));
        self.alarm.at_latest(now);
        let mut given = false;
        poll_fn(|_| if std::mem::replace(&mut given, true) { Poll::Ready(()) } else { Poll::Pending }).await;
        self.check_deadline()
    }

    /// # Errors
    /// `timeout`, once the present task's deadline has passed.
    pub(super) fn check_deadline(&self) -> Result<()> {
        if self.deadline_passed() { Err(Failure::new(Class::Timeout, "no answer in time")) } else { Ok(()) }
    }

    /// The present task.
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

    /// Wake the tasks whose timers are due.
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
    pub(super) fn wait(&self, buffer: &mut Vec<epoll::Event>) -> io::Result<bool> {
        buffer.clear();
        buffer.reserve(EVENTS);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(buffer), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut rang = false;
        let sources = self.sources.borrow();
        for event in buffer.iter() {
            let key = event.data.u64();
            if key == ALARM {
                self.alarm.rang();
                rang = true;
            } else if let Some(source) = sources.get(key as usize) {
                // A source may have gone in the same batch; its place may even hold a new one, for which a mistaken
                // edge costs one failing read and nothing else.
                source.take_edge(event.flags);
                if let Some(task) = source.waiter.take() {
                    self.wake(task);
                }
            }
        }
        Ok(rang)
    }

    fn deadline_passed(&self) -> bool {
        self.deadlines.borrow()[self.current.get()].passed
    }
}

impl Source {
    fn take_edge(&self, flags: EventFlags) {
        let over = flags.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP);
        if over {
            self.hung_up.set(true);
        }
        if over || flags.contains(EventFlags::IN) {
            self.readable.set(true);
        }
        if over || flags.contains(EventFlags::OUT) {
            self.writable.set(true);
        }
    }
}

/// While it lives, another deadline holds for the task that made it.
pub struct Within<'a> {
    reactor: &'a Reactor,
    before: u64,
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        self.reactor.set_deadline(self.before);
    }
}

/// A descriptor whose readiness is known. Registered once, edge-triggered; closed when dropped.
pub struct Watched {
    fd: OwnedFd,
    reactor: Rc<Reactor>,
    source: Rc<Source>,
    key: usize,
}

impl Watched {
    /// # Errors
    /// Where the kernel cannot watch this descriptor.
    pub fn new(reactor: &Rc<Reactor>, fd: OwnedFd) -> io::Result<Self> {
        let source = Rc::new(Source::default());
        let key = reactor.sources.borrow_mut().insert(source.clone());
        let watched = Watched { fd, reactor: reactor.clone(), source, key };
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&reactor.epoll, &watched.fd, EventData::new_u64(key as u64), flags)?;
        Ok(watched)
    }

    /// Whether a read may find something.
    pub fn is_readable(&self) -> bool {
        self.source.readable.get()
    }

    /// Whether a write may find room.
    pub fn is_writable(&self) -> bool {
        self.source.writable.get()
    }

    /// Whether the peer has ended or broken the connection.
    pub fn is_over(&self) -> bool {
        self.source.hung_up.get()
    }

    /// A read found all there was: wait for the next edge. Not after a hang-up, which is the last edge there is.
    pub fn drained(&self) {
        self.source.readable.set(self.source.hung_up.get());
    }

    /// A write found no room: wait for the next edge.
    pub fn filled(&self) {
        self.source.writable.set(false);
    }

    /// For the present task's next wait, a deadline in so many nanoseconds holds in place of its own.
    pub fn within(&self, timeout_ns: u64) -> Within<'_> {
        let before = self.reactor.deadline();
        self.reactor.set_deadline(clock::now().saturating_add(timeout_ns));
        Within { reactor: &self.reactor, before }
    }

    /// # Errors
    /// `timeout`, once the task's deadline has passed.
    pub async fn readable(&self) -> Result<()> {
        self.ready(&self.source.readable).await
    }

    /// # Errors
    /// `timeout`, once the task's deadline has passed.
    pub async fn writable(&self) -> Result<()> {
        self.ready(&self.source.writable).await
    }

    /// Wait until this holds. It is looked at whenever something has happened to one of these, which are of one reactor.
    ///
    /// # Errors
    /// `timeout`, once the task's deadline has passed.
    pub async fn until(these: [&Watched; 2], holds: impl Fn() -> bool) -> Result<()> {
        poll_fn(|_| {
            if holds() {
                return Poll::Ready(Ok(()));
            }
            for watched in these {
                if let Err(failure) = watched.reactor.check_deadline() {
                    return Poll::Ready(Err(failure));
                }
                watched.source.waiter.set(Some(watched.reactor.current.get()));
            }
            Poll::Pending
        })
        .await
    }

    async fn ready(&self, flag: &Cell<bool>) -> Result<()> {
        poll_fn(|_| {
            if flag.get() {
                return Poll::Ready(Ok(()));
            }
            if let Err(failure) = self.reactor.check_deadline() {
                return Poll::Ready(Err(failure));
            }
            self.source.waiter.set(Some(self.reactor.current.get()));
            Poll::Pending
        })
        .await
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Closing the descriptor takes it out of the epoll: it is never duplicated.
        self.reactor.sources.borrow_mut().remove(self.key);
    }
}
