//! Which of the kernel's two ways to wait a thread has, and epoll: a descriptor is registered once and edge-triggered, and
//! costs nothing more.

use super::reactor::{Alarm, Sources, TaskId};
use super::ring::Ring;
use super::watched::Source;
use base::error::Result;
use base::lines::wrong;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::cell::RefCell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

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

    pub(super) fn wait(&self, sources: &Sources, wake: impl Fn(TaskId)) -> io::Result<bool> {
        match self {
            Events::Epoll(epoll) => epoll.wait(sources, wake),
            Events::IoUring(ring) => ring.wait(sources, wake),
        }
    }
}

/// Events taken from the kernel at once.
const EVENTS: usize = 256;
/// The alarm's place among the sources, which no source ever has.
const ALARM: u64 = u64::MAX;

/// One thread's.
pub(super) struct Epoll {
    fd: OwnedFd,
    events: RefCell<Vec<Event>>,
}

impl Epoll {
    pub(super) fn new(alarm: &Alarm) -> io::Result<Self> {
        let fd = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&fd, alarm.fd(), EventData::new_u64(ALARM), EventFlags::IN | EventFlags::ET)?;
        Ok(Epoll { fd, events: RefCell::new(Vec::with_capacity(EVENTS)) })
    }

    /// Closing the descriptor ends it.
    pub(super) fn watch(&self, fd: BorrowedFd<'_>, key: usize) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(key as u64), flags)?)
    }

    pub(super) fn wait(&self, sources: &Sources, wake: impl Fn(TaskId)) -> io::Result<bool> {
        let mut events = self.events.borrow_mut();
        events.clear();
        match epoll::wait(&self.fd, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut rang = false;
        for event in events.iter() {
            let key = event.data.u64();
            if key == ALARM {
                rang = true;
            } else if let Some(source) = sources.get(key as usize) {
                // A source may have gone in the same batch; its place may even hold a new one, for which a mistaken
                // edge costs one failing read and nothing else.
                source.take_edge(event.flags);
                source.waiter.take().map(&wake);
            }
        }
        Ok(rang)
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
