//! A fair semaphore: permits are granted in the order of requests.

use super::{Reactor, TaskId};
use base::error::Result;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// A semaphore for the tasks of one thread, with a limited number of permits.
pub struct Semaphore {
    reactor: Rc<Reactor>,
    free: Cell<usize>,
    waiting: RefCell<VecDeque<TaskId>>,
}

/// A permit of the semaphore. Dropping the permit returns it to the semaphore.
pub struct Permit<'a>(&'a Semaphore);

impl Semaphore {
    pub fn new(reactor: Rc<Reactor>, permits: usize) -> Self {
        Semaphore { reactor, free: Cell::new(permits), waiting: RefCell::default() }
    }

    /// Wait for a permit. Errors: class `timeout` at the task's deadline.
    pub async fn acquire(&self) -> Result<Permit<'_>> {
        let task = self.reactor.current();
        let mut queued = false;
        poll_fn(|_| {
            let mut waiting = self.waiting.borrow_mut();
            let is_next = waiting.front().is_none_or(|&next| next == task);
            if self.free.get() > 0 && is_next {
                waiting.pop_front();
                self.free.set(self.free.get() - 1);
                return Poll::Ready(Ok(()));
            }
            if let Err(failure) = self.reactor.check_deadline() {
                waiting.retain(|&waiter| waiter != task);
                return Poll::Ready(Err(failure));
            }
            if !std::mem::replace(&mut queued, true) {
                waiting.push_back(task);
            }
            Poll::Pending
        })
        .await
        .inspect_err(|_| self.wake_next())?;
        // If several permits became free at once, only the first waiting task was woken, so wake the next one.
        self.wake_next();
        Ok(Permit(self))
    }

    fn wake_next(&self) {
        if self.free.get() > 0
            && let Some(&next) = self.waiting.borrow().front()
        {
            self.reactor.wake(next);
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.free.set(self.0.free.get() + 1);
        self.0.wake_next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Executor;
    use base::clock;
    use base::error::Class;

    #[test]
    fn permits_are_limited_and_granted_in_the_order_of_requests() {
        let mut executor = Executor::new().unwrap();
        let reactor = executor.reactor().clone();
        let semaphore = Rc::new(Semaphore::new(reactor.clone(), 3));
        let (inside, most, passed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
        for number in 0..20 {
            let (semaphore, reactor) = (semaphore.clone(), reactor.clone());
            let (inside, most, passed) = (inside.clone(), most.clone(), passed.clone());
            executor.spawn(async move {
                let permit = semaphore.acquire().await.unwrap();
                inside.set(inside.get() + 1);
                most.set(inside.get().max(most.get()));
                reactor.yield_now().await.unwrap();
                inside.set(inside.get() - 1);
                passed.borrow_mut().push(number);
                drop(permit);
            });
        }
        executor.run_to_end().unwrap();
        assert_eq!((most.get(), passed.take()), (3, (0..20).collect::<Vec<_>>()));
    }

    #[test]
    fn waiter_that_times_out_leaves_the_queue() {
        let mut executor = Executor::new().unwrap();
        let reactor = executor.reactor().clone();
        let semaphore = Rc::new(Semaphore::new(reactor.clone(), 1));
        let outcomes = Rc::new(RefCell::new(Vec::new()));
        for (number, stays) in [(0, true), (1, false), (2, true)] {
            let (semaphore, reactor, outcomes) = (semaphore.clone(), reactor.clone(), outcomes.clone());
            executor.spawn(async move {
                reactor.set_deadline(if stays { u64::MAX } else { clock::now() + 1 });
                let outcome = semaphore.acquire().await;
                outcomes.borrow_mut().push((number, outcome.as_ref().err().map(|failure| failure.class)));
                if number == 0 {
                    // Keep the permit until task 1 has timed out while it waits for the permit.
                    while outcomes.borrow().len() < 2 {
                        reactor.yield_now().await.unwrap();
                    }
                }
            });
        }
        executor.run_to_end().unwrap();
        assert_eq!(outcomes.take(), [(0, None), (1, Some(Class::Timeout)), (2, None)]);
    }
}
