//! Waiting for events with epoll. Each descriptor is registered once, edge-triggered. A task that waits for a
//! descriptor therefore needs no `epoll_ctl` call.

use super::reactor::{Alarm, Sources, TaskId};
use super::watched::Source;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::cell::RefCell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The maximum number of events that one call of `epoll_wait` returns.
const EVENTS: usize = 256;
/// The key of the alarm (the thread's timer) in epoll events. No source (watched descriptor) has this key.
const ALARM: u64 = u64::MAX;

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

    /// Watch a descriptor until it is closed. Its events contain `key`.
    pub(super) fn watch(&self, fd: BorrowedFd<'_>, key: usize) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(key as u64), flags)?)
    }

    /// Wait for events, record which sources (watched descriptors) are ready, and wake the tasks that wait for them.
    /// Return whether the alarm (the thread's timer) rang.
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
                // The event may be for a removed source that had the same key. This only costs one failing read.
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
