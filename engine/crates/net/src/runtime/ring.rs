//! Waiting by io_uring (io_uring(7)): receives are requested beforehand, and the call that waits carries them out.
//!
//! A query is one `send` and a share of one `io_uring_enter`. Sends stay calls of their own: a request leaves when it is
//! ready, not when the thread has nothing else to do, and an answer's time would count the wait. Requests are collected and
//! handed over with the next wait, so a connection that ends before is never known to the ring.

use super::alarm::Alarm;
use super::buffers::{Buffers, GROUP};
use super::reactor::{Sources, TaskId};
use super::watched::Source;
use io_uring::types::Fd;
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::AsRawFd;

/// Requests that are handed over at once; more take a call more.
const ENTRIES: u32 = 256;
/// Completions the kernel has room for. Beyond, it keeps them for the next call.
const COMPLETIONS: u32 = 4096;
/// What completions of no source are of: no source's number is that high.
const ALARM: u64 = u64::MAX;
const CANCELLED: u64 = u64::MAX - 1;

/// What a source can ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Read,
    Write,
}

/// How far such a request is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Requested {
    Not,
    Soon,
    As(u64),
}

/// One thread's.
pub(super) struct Ring {
    // Before the buffers: the kernel may fill those for as long as it lives.
    ring: RefCell<IoUring>,
    buffers: Buffers,
    soon: RefCell<Vec<(usize, Request)>>,
    /// Of the next request: one that was cancelled may still be answered when its source's place has another source.
    number: Cell<u32>,
    alarm: i32,
}

impl Ring {
    /// Errors: where the kernel is older than Linux 6.1, or this process may not have one.
    pub(super) fn new(alarm: &Alarm) -> io::Result<Self> {
        // Work that a packet leaves is done in the call that waits and interrupts no other (IORING_SETUP_DEFER_TASKRUN).
        let mut ring =
            IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_cqsize(COMPLETIONS).build(ENTRIES)?;
        let buffers = Buffers::new(&ring.submitter())?;
        let alarm = alarm.fd().as_raw_fd();
        push(&mut ring, &watch_alarm(alarm))?;
        Ok(Ring { ring: RefCell::new(ring), buffers, soon: RefCell::default(), number: Cell::new(0), alarm })
    }

    /// Ask for it at the next wait, unless it has been asked for already.
    pub(super) fn request(&self, key: usize, source: &Source, request: Request) {
        let requested = &source.requested[request as usize];
        if requested.get() == Requested::Not {
            requested.set(Requested::Soon);
            self.soon.borrow_mut().push((key, request));
        }
    }

    pub(super) fn read(&self, source: &Source, room: &mut [u8]) -> usize {
        self.buffers.read(&source.received, room)
    }

    /// A source is about to be closed. The kernel holds a socket open, unseen by its peer, while something is requested of it.
    pub(super) fn forget(&self, source: &Source) {
        self.buffers.discard(&source.received);
        let mut ring = self.ring.borrow_mut();
        let mut is_known = false;
        for requested in &source.requested {
            if let Requested::As(number) = requested.get() {
                is_known = true;
                let cancel = opcode::AsyncCancel::new(number).build().user_data(CANCELLED);
                // Without room for it the socket stays open until the ring ends, and nothing else is wrong.
                let _ = push(&mut ring, &cancel);
            }
        }
        if is_known {
            let queued = ring.submission().len() as u32;
            // SAFETY: no argument is handed over. Only a call that takes completions carries a cancellation out.
            let _ = unsafe { ring.submitter().enter::<()>(queued, 0, EnterFlags::GETEVENTS.bits(), None) };
        }
    }

    /// As `Events::wait`.
    pub(super) fn wait(&self, sources: &Sources, wake: impl Fn(TaskId)) -> io::Result<bool> {
        let mut ring = self.ring.borrow_mut();
        for (key, request) in self.soon.borrow_mut().drain(..) {
            // Its place may have another source by now, which has asked by itself, or not.
            if let Some(source) = sources.get(key)
                && source.requested[request as usize].get() == Requested::Soon
            {
                self.hand_over(&mut ring, key, source, request)?;
            }
        }
        match ring.submit_and_wait(1) {
            // Busy: completions that found no room are to be taken first.
            Err(error) if !matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ResourceBusy) => {
                return Err(error);
            }
            _ => {}
        }
        let mut rang = false;
        let mut is_watched = true;
        for completion in ring.completion() {
            match completion.user_data() {
                CANCELLED => {}
                ALARM => {
                    rang = true;
                    is_watched = cqueue::more(completion.flags());
                }
                number => self.take(sources, number, completion.result(), completion.flags(), &wake),
            }
        }
        if !is_watched {
            push(&mut ring, &watch_alarm(self.alarm))?;
        }
        Ok(rang)
    }

    fn hand_over(&self, ring: &mut IoUring, key: usize, source: &Source, request: Request) -> io::Result<()> {
        let number = self.next_number(key, request);
        let fd = Fd(source.fd);
        let entry = match request {
            Request::Read if source.is_socket => opcode::RecvMulti::new(fd, GROUP).build(),
            Request::Read => opcode::PollAdd::new(fd, PollFlags::IN.bits().into()).build(),
            Request::Write => opcode::PollAdd::new(fd, PollFlags::OUT.bits().into()).build(),
        };
        push(ring, &entry.user_data(number))?;
        source.requested[request as usize].set(Requested::As(number));
        Ok(())
    }

    /// Of 31 bits of a count, one of the request, and 32 of the source's place.
    fn next_number(&self, key: usize, request: Request) -> u64 {
        let count = self.number.get();
        // The highest are the alarm's and cancellations'.
        self.number.set((count + 1) % (1 << 30));
        u64::from(count) << 33 | (request as u64) << 32 | key as u64
    }

    fn take(&self, sources: &Sources, number: u64, result: i32, flags: u32, wake: impl Fn(TaskId)) {
        let request = if number >> 32 & 1 == Request::Read as u64 { Request::Read } else { Request::Write };
        let source = sources.get(number as u32 as usize);
        let source = source.filter(|source| source.requested[request as usize].get() == Requested::As(number));
        let buffer = cqueue::buffer_select(flags);
        if let Some(empty) = buffer.filter(|_| source.is_none() || result <= 0) {
            self.buffers.give_back(empty);
        }
        let Some(source) = source else { return };
        if !cqueue::more(flags) {
            source.requested[request as usize].set(Requested::Not);
        }
        match request {
            Request::Write => source.writable.set(true),
            Request::Read => self.take_received(source, result, buffer.filter(|_| result > 0)),
        }
        source.waiter.take().map(wake);
    }

    fn take_received(&self, source: &Source, result: i32, buffer: Option<u16>) {
        source.readable.set(true);
        let failure = (result < 0).then(|| Errno::from_raw_os_error(-result));
        match (buffer, failure) {
            (Some(buffer), _) => self.buffers.push(&source.received, buffer, result as usize),
            // All buffers are full: the rest is received by plain calls.
            (None, Some(Errno::NOBUFS)) => source.left.set(true),
            (None, failure) => {
                // The end of what a socket receives; of anything else it says what poll(2) does.
                source.hung_up.set(source.is_socket);
                source.failure.set(failure);
            }
        }
    }
}

fn watch_alarm(alarm: i32) -> squeue::Entry {
    opcode::PollAdd::new(Fd(alarm), PollFlags::IN.bits().into()).multi(true).build().user_data(ALARM)
}

/// Where the queue is full it is handed over first.
fn push(ring: &mut IoUring, entry: &squeue::Entry) -> io::Result<()> {
    // SAFETY: descriptors live until `forget`, and the only memory that an entry speaks of is the buffers'.
    while unsafe { ring.submission().push(entry) }.is_err() {
        ring.submit()?;
    }
    Ok(())
}
