//! A descriptor that tasks wait for, and what is known of it meanwhile.

use super::reactor::{Reactor, TaskId};
use base::clock;
use base::error::Result;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::Poll;

/// What is known of one descriptor between two waits.
pub(super) struct Source {
    pub(super) readable: Cell<bool>,
    pub(super) writable: Cell<bool>,
    /// The peer has ended or broken the connection: no further edge will come, so reading must go on to its end.
    pub(super) hung_up: Cell<bool>,
    pub(super) waiter: Cell<Option<TaskId>>,
}

impl Source {
    fn new() -> Self {
        Source {
            readable: Cell::new(false),
            writable: Cell::new(false),
            hung_up: Cell::new(false),
            waiter: Cell::new(None),
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

/// A descriptor whose readiness is known; closed when dropped.
pub struct Watched {
    fd: OwnedFd,
    reactor: Rc<Reactor>,
    source: Rc<Source>,
    key: usize,
}

impl Watched {
    /// Errors: where the kernel cannot watch this descriptor.
    pub fn new(reactor: &Rc<Reactor>, fd: OwnedFd) -> io::Result<Self> {
        let source = Rc::new(Source::new());
        let key = reactor.add_source(source.clone());
        let watched = Watched { fd, reactor: reactor.clone(), source, key };
        watched.reactor.epoll().watch(watched.as_fd(), key)?;
        Ok(watched)
    }

    /// Receive what is there into `room`; 0 bytes are the end. After a request the answer is always still on its way, so
    /// what is known to be empty is not asked.
    /// Errors: `AGAIN` where nothing is there; those of a broken connection.
    pub fn receive(&self, room: &mut [u8]) -> rustix::io::Result<usize> {
        if !self.is_readable() {
            return Err(Errno::AGAIN);
        }
        let asked = room.len();
        let outcome = rustix::net::recv(&self.fd, room, RecvFlags::empty()).map(|(_, received)| received);
        // Fewer bytes than there was room for: that was all.
        if outcome.is_ok_and(|received| received < asked) || outcome == Err(Errno::AGAIN) {
            self.drained();
        }
        outcome
    }

    /// Send as much of it as there is room for.
    /// Errors: `AGAIN` where there is no room; those of a broken connection.
    pub fn send(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        if !self.source.writable.get() {
            return Err(Errno::AGAIN);
        }
        // A peer that is gone is an error to count, not a signal to die of.
        let outcome = rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL);
        if outcome.is_ok_and(|sent| sent < bytes.len()) || outcome == Err(Errno::AGAIN) {
            self.source.writable.set(false);
        }
        outcome
    }

    pub fn is_readable(&self) -> bool {
        self.source.readable.get()
    }

    pub fn is_over(&self) -> bool {
        self.source.hung_up.get()
    }

    /// A read found all there was: wait for the next edge. Not after a hang-up, which is the last edge there is.
    pub fn drained(&self) {
        self.source.readable.set(self.source.hung_up.get());
    }

    /// For the present task's next wait, a deadline in so many nanoseconds holds in place of its own.
    pub fn within(&self, timeout_ns: u64) -> Within<'_> {
        let before = self.reactor.deadline();
        self.reactor.set_deadline(clock::now().saturating_add(timeout_ns));
        Within { reactor: &self.reactor, before }
    }
    pub async fn readable(&self) -> Result<()> {
        self.ready(&self.source.readable).await
    }
    pub async fn writable(&self) -> Result<()> {
        self.ready(&self.source.writable).await
    }

    /// Wait until this holds. It is looked at whenever something has happened to one of these, which are of one reactor.
    pub async fn until(these: [&Watched; 2], holds: impl Fn() -> bool) -> Result<()> {
        poll_fn(|_| {
            if holds() {
                return Poll::Ready(Ok(()));
            }
            for watched in these {
                if let Err(failure) = watched.reactor.check_deadline() {
                    return Poll::Ready(Err(failure));
                }
                watched.wake_us();
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
            self.wake_us();
            Poll::Pending
        })
        .await
    }

    fn wake_us(&self) {
        self.source.waiter.set(Some(self.reactor.current()));
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Closing the descriptor takes it out of an epoll: it is never duplicated.
        self.reactor.remove_source(self.key);
    }
}
