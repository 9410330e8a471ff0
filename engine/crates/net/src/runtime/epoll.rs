//! Waiting by epoll: a descriptor is registered once and edge-triggered, and costs nothing more.

use super::reactor::{Alarm, Sources, TaskId};
use super::watched::Source;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::cell::RefCell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

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
