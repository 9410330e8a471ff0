//! Which of the kernel's two ways to wait a thread has.

use super::alarm::Alarm;
use super::epoll::Epoll;
use super::reactor::{Sources, TaskId};
use super::ring::Ring;
use base::error::Result;
use base::lines::wrong;
use std::io;
use std::os::fd::BorrowedFd;

/// How threads wait for the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    Epoll,
    /// Receives that the kernel carries out as bytes come, for all connections in the call that waits.
    IoUring,
}

impl Runtime {
    /// io_uring where this kernel, and what confines this process, allow it: it needs Linux 6.1, and many sandboxes
    /// refuse it. `COSTOF_RUNTIME` says otherwise, for those who compare the two.
    /// Errors: `plan`, where that names none, or one that is not allowed.
    pub fn chosen() -> Result<Self> {
        let is_allowed = Alarm::new().is_ok_and(|alarm| Ring::new(&alarm).is_ok());
        let allowed = if is_allowed { Runtime::IoUring } else { Runtime::Epoll };
        match std::env::var_os("COSTOF_RUNTIME") {
            None => Ok(allowed),
            Some(asked) => [Runtime::Epoll, allowed]
                .into_iter()
                .find(|runtime| asked == runtime.name())
                .ok_or_else(|| wrong("COSTOF_RUNTIME is epoll, or io_uring where this machine allows it")),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Runtime::Epoll => "epoll",
            Runtime::IoUring => "io_uring",
        }
    }
}

/// A thread's end of it.
pub(super) enum Events {
    Epoll(Epoll),
    IoUring(Box<Ring>),
}

impl Events {
    pub(super) fn new(runtime: Runtime, alarm: &Alarm) -> io::Result<Self> {
        Ok(match runtime {
            Runtime::Epoll => Events::Epoll(Epoll::new(alarm)?),
            Runtime::IoUring => Events::IoUring(Box::new(Ring::new(alarm)?)),
        })
    }

    pub(super) fn ring(&self) -> Option<&Ring> {
        match self {
            Events::Epoll(_) => None,
            Events::IoUring(ring) => Some(ring),
        }
    }

    pub(super) fn watch(&self, fd: BorrowedFd<'_>, key: usize) -> io::Result<()> {
        match self {
            Events::Epoll(epoll) => epoll.watch(fd, key),
            // It is told of a descriptor when something is wanted of it.
            Events::IoUring(_) => Ok(()),
        }
    }

    /// Wait for something to happen, and tell of each task that waited for it. Whether the alarm rang.
    pub(super) fn wait(&self, sources: &Sources, wake: impl Fn(TaskId)) -> io::Result<bool> {
        match self {
            Events::Epoll(epoll) => epoll.wait(sources, wake),
            Events::IoUring(ring) => ring.wait(sources, wake),
        }
    }
}
