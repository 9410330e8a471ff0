//! A descriptor for which tasks can wait, with its last known readiness (readable, writable).

use super::reactor::{Reactor, TaskId};
use base::clock;
use base::error::Result;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// The last known readiness of one descriptor, and the task that waits for it.
pub(super) struct Source {
    pub(super) readable: Cell<bool>,
    pub(super) writable: Cell<bool>,
    /// True if the peer has ended or reset the connection. epoll then reports no further event, so the descriptor stays
    /// marked as readable.
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

/// A temporary deadline of a task. Dropping it restores the previous deadline.
pub struct TemporaryDeadline<'a> {
    reactor: &'a Reactor,
    before: u64,
}

impl Drop for TemporaryDeadline<'_> {
    fn drop(&mut self) {
        self.reactor.set_deadline(self.before);
    }
}

/// The longest wait in `recv`. After it the task waits by epoll, which also checks its deadline.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// A descriptor for which tasks can wait. It remembers its last known readiness and is closed when dropped.
pub struct Watched {
    fd: OwnedFd,
    reactor: Rc<Reactor>,
    source: Rc<Source>,
    key: usize,
    /// Whether the task has already waited for this descriptor. The first wait uses epoll, because a wait in `recv` needs
    /// two system calls to prepare the descriptor. Those would not pay for a connection that carries only one answer.
    has_waited: Cell<bool>,
    /// Whether the descriptor blocks: `recv` then waits for bytes, for at most `LONGEST_WAIT`. Calls that must return at
    /// once therefore pass the flag `DONTWAIT`.
    blocking: Cell<bool>,
}

impl Watched {
    /// Register `fd` with the thread's epoll instance. Errors: the kernel cannot watch this descriptor.
    pub fn new(reactor: &Rc<Reactor>, fd: OwnedFd) -> io::Result<Self> {
        let source = Rc::new(Source::new());
        let key = reactor.add_source(source.clone());
        let watched = Watched {
            fd,
            reactor: reactor.clone(),
            source,
            key,
            has_waited: Cell::new(false),
            blocking: Cell::new(false),
        };
        watched.reactor.epoll().watch(watched.as_fd(), key)?;
        Ok(watched)
    }

    /// Receive the bytes that have arrived and return their number. Return 0 at the end of the stream. If no event has
    /// reported arrived bytes, return `AGAIN` without a system call. This saves a call after each request, when the
    /// answer cannot have arrived yet. Errors: `AGAIN` if nothing has arrived, and the errors of a broken connection.
    pub fn receive(&self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        if !self.is_readable() {
            return Err(Errno::AGAIN);
        }
        self.receive_with(buffer, RecvFlags::DONTWAIT)
    }

    /// Receive bytes like `receive`, but wait for them if no other task of this thread has work. A wait in `recv` saves
    /// the call of `epoll_wait`. Errors: like `receive`, and `AGAIN` after `LONGEST_WAIT` or the task's deadline.
    pub fn receive_or_wait(&self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        if self.is_readable() || !self.reactor.is_alone() || !self.has_waited.replace(true) {
            return self.receive(buffer);
        }
        // The reactor checks deadlines only when a task waits by epoll.
        if clock::now() >= self.reactor.deadline() {
            return Err(Errno::AGAIN);
        }
        if !self.blocking.get() {
            sockopt::set_socket_timeout(&self.fd, sockopt::Timeout::Recv, Some(LONGEST_WAIT))?;
            rustix::io::ioctl_fionbio(&self.fd, false)?;
            self.blocking.set(true);
        }
        match self.receive_with(buffer, RecvFlags::empty()) {
            Err(Errno::INTR) => Err(Errno::AGAIN),
            outcome => outcome,
        }
    }

    fn receive_with(&self, buffer: &mut [u8], flags: RecvFlags) -> rustix::io::Result<usize> {
        let capacity = buffer.len();
        let outcome = rustix::net::recv(&self.fd, buffer, flags).map(|(_, received)| received);
        // A read that did not fill the buffer has emptied the socket, so the next read must wait for an event.
        match outcome {
            Ok(received) if received == capacity => self.source.readable.set(true),
            Ok(_) | Err(Errno::AGAIN) => self.drained(),
            Err(_) => {}
        }
        outcome
    }

    /// Send as many of the bytes as the kernel accepts, and return their number.
    /// Errors: `AGAIN` if the kernel accepts no byte, and the errors of a broken connection.
    pub fn send(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        if !self.source.writable.get() {
            return Err(Errno::AGAIN);
        }
        // Sending on a closed connection must return an error and not raise SIGPIPE.
        let outcome = rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        if outcome.is_ok_and(|sent| sent < bytes.len()) || outcome == Err(Errno::AGAIN) {
            self.source.writable.set(false);
        }
        outcome
    }

    pub fn is_readable(&self) -> bool {
        self.source.readable.get()
    }

    /// Return whether no event has reported new bytes or the end of the stream since the last read. Return false where
    /// this is unknown, because the task may have waited in `recv` since the last events.
    pub fn is_quiet(&self) -> bool {
        !self.is_readable() && !self.reactor.is_alone()
    }

    /// Return whether an epoll event has reported that the peer has ended or reset the connection.
    pub fn is_over(&self) -> bool {
        self.source.hung_up.get()
    }

    /// Mark the descriptor as unreadable until the next event. Call this after a read that emptied it. After a hang-up
    /// no event follows, so the descriptor then stays marked as readable.
    pub fn drained(&self) {
        self.source.readable.set(self.source.hung_up.get());
    }

    /// Set the task's deadline to `timeout_ns` nanoseconds from now. Dropping the result restores the previous
    /// deadline.
    pub fn with_timeout(&self, timeout_ns: u64) -> TemporaryDeadline<'_> {
        let before = self.reactor.deadline();
        self.reactor.set_deadline(clock::now().saturating_add(timeout_ns));
        TemporaryDeadline { reactor: &self.reactor, before }
    }

    pub async fn readable(&self) -> Result<()> {
        self.ready(&self.source.readable).await
    }

    pub async fn writable(&self) -> Result<()> {
        self.ready(&self.source.writable).await
    }

    /// Wait until `done`, called after each event on one of two descriptors of the same reactor, returns true.
    pub async fn wait_for_either(pair: [&Watched; 2], done: impl Fn() -> bool) -> Result<()> {
        poll_fn(|_| {
            if done() {
                return Poll::Ready(Ok(()));
            }
            for watched in pair {
                if let Err(failure) = watched.reactor.check_deadline() {
                    return Poll::Ready(Err(failure));
                }
                watched.register_waiter();
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
            self.register_waiter();
            Poll::Pending
        })
        .await
    }

    fn register_waiter(&self) {
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
        // Closing the descriptor also removes it from epoll, since it is never duplicated.
        self.reactor.remove_source(self.key);
    }
}
