//! The one timer of a thread's epoll, exact to the kernel's nanoseconds.
//!
//! Why not `epoll_wait`'s own timeout: it sets up and tears down a kernel timer at every wait, which on a virtual
//! machine costs an operation microseconds. This one is set only when the next instant changes.

use rustix::io::Result;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::cell::Cell;
use std::os::fd::OwnedFd;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A timer descriptor and the instant it is set to.
pub(super) struct Alarm {
    fd: OwnedFd,
    set_to: Cell<u64>,
}

impl Alarm {
    pub(super) fn new() -> Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Alarm { fd, set_to: Cell::new(u64::MAX) })
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// It has rung: it is set to nothing.
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
