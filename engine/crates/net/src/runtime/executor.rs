//! The loop of a thread: wait for events, poll the tasks that waited for them.

use super::events::Runtime;
use super::reactor::{Reactor, Task, TaskId};
use base::clock;
use slab::Slab;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::task::{Context, Waker};

/// How often deadlines are looked at, in nanoseconds; so a timeout comes late by this much at most.
const SWEEP_EVERY: u64 = 20_000_000;

/// One thread's tasks.
pub struct Executor {
    reactor: Rc<Reactor>,
    tasks: Slab<Task>,
    polling: Vec<TaskId>,
}

impl Executor {
    /// Errors: where the process may open no more descriptors.
    pub fn new(runtime: Runtime) -> io::Result<Self> {
        Ok(Executor { reactor: Reactor::new(runtime)?, tasks: Slab::new(), polling: Vec::new() })
    }

    pub fn reactor(&self) -> &Rc<Reactor> {
        &self.reactor
    }

    /// Add a task; it is first polled on the next turn.
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

    /// Run until no task is left.
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
        while self.reactor.has_woken() {
            self.reactor.take_woken(&mut self.polling);
            for &id in &self.polling {
                let Some(task) = self.tasks.get_mut(id) else { continue };
                self.reactor.enter(id);
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
