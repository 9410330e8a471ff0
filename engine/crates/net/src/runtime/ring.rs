//! Waiting by io_uring (io_uring(7)): receives are requested beforehand, and the call that waits carries them out.
//!
//! A query is one `send` and a share of one `io_uring_enter`. Sends stay calls of their own: a request leaves when it is
//! ready, not when the thread has nothing else to do, and an answer's time would count the wait. Requests are collected and
//! handed over with the next wait, so a connection that ends before is never known to the ring.

use super::reactor::{Alarm, Sources, TaskId};
use super::watched::Source;
use io_uring::types::{BufRingEntry, Fd};
use io_uring::{EnterFlags, IoUring, Submitter, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

/// Requests that are handed over at once; more take a call more.
const REQUESTS: u32 = 256;
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
    pub(super) fn new(alarm: &Alarm) -> io::Result<Self> {
        // Work that a packet leaves is done in the call that waits and interrupts no other (IORING_SETUP_DEFER_TASKRUN).
        let mut ring =
            IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_cqsize(COMPLETIONS).build(REQUESTS)?;
        let buffers = Buffers::new(&ring.submitter())?;
        let alarm = alarm.fd().as_raw_fd();
        push(&mut ring, &watch_alarm(alarm))?;
        Ok(Ring { ring: RefCell::new(ring), buffers, soon: RefCell::default(), number: Cell::new(0), alarm })
    }

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

/// A batch that brings more than these is received by plain calls.
const COUNT: u16 = 256;
/// A page each, in bytes: most answers are shorter, and a longer one takes several.
const SIZE: usize = 4096;
const ENTRIES: usize = COUNT as usize * size_of::<BufRingEntry>();
const WHOLE: usize = ENTRIES + COUNT as usize * SIZE;

/// The only group of its ring.
pub(super) const GROUP: u16 = 0;

/// A ring of entries, each naming a buffer that the kernel may fill, and the buffers behind it.
pub(super) struct Buffers {
    memory: NonNull<c_void>,
    tail: Cell<u16>,
    filled: [Cell<Filled>; COUNT as usize],
}

/// What of a buffer no reader has had yet, and the buffer that follows it on its connection.
#[derive(Clone, Copy)]
struct Filled {
    from: usize,
    to: usize,
    next: u16,
}

/// The buffers of one connection that no reader has had yet, from the first to the last. Each knows its next: an answer
/// over many buffers is queued without an allocation.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    first: u16,
    last: u16,
}

impl Buffers {
    /// All of them the kernel's. They are to outlive the ring.
    pub(super) fn new(submitter: &Submitter<'_>) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses overlaps no other.
        let memory = unsafe { mmap_anonymous(ptr::null_mut(), WHOLE, protection, MapFlags::PRIVATE)? };
        let memory = NonNull::new(memory).expect("a mapping is not at 0");
        let buffers = Buffers {
            memory,
            tail: Cell::new(0),
            filled: [const { Cell::new(Filled { from: 0, to: 0, next: 0 }) }; COUNT as usize],
        };
        // SAFETY: the entries begin the mapping, on a page of their own, and live until the ring is gone.
        unsafe { submitter.register_buf_ring_with_flags(memory.as_ptr() as u64, COUNT, GROUP, 0)? };
        (0..COUNT).for_each(|id| buffers.give_back(id));
        Ok(buffers)
    }

    pub(super) fn push(&self, queue: &Cell<Option<Queue>>, id: u16, length: usize) {
        assert!(length <= SIZE);
        self.filled[id as usize].set(Filled { from: 0, to: length, next: id });
        let first = match queue.get() {
            None => id,
            Some(Queue { first, last }) => {
                let before = &self.filled[last as usize];
                before.set(Filled { next: id, ..before.get() });
                first
            }
        };
        queue.set(Some(Queue { first, last: id }));
    }

    pub(super) fn read(&self, queue: &Cell<Option<Queue>>, room: &mut [u8]) -> usize {
        let mut taken = 0;
        while let Some(Queue { first, .. }) = queue.get() {
            let Filled { from, to, next } = self.filled[first as usize].get();
            let length = (to - from).min(room.len() - taken);
            // SAFETY: within the mapping by `push`, within the room, and the kernel's no longer until it is given back.
            unsafe { ptr::copy_nonoverlapping(self.buffer(first).add(from), room[taken..].as_mut_ptr(), length) };
            taken += length;
            if from + length < to {
                self.filled[first as usize].set(Filled { from: from + length, to, next });
                break;
            }
            self.drop_first(queue);
        }
        taken
    }

    pub(super) fn discard(&self, queue: &Cell<Option<Queue>>) {
        while queue.get().is_some() {
            self.drop_first(queue);
        }
    }

    fn drop_first(&self, queue: &Cell<Option<Queue>>) {
        let Some(Queue { first, last }) = queue.get() else { return };
        queue.set((first != last).then(|| Queue { first: self.filled[first as usize].get().next, last }));
        self.give_back(first);
    }

    pub(super) fn give_back(&self, id: u16) {
        assert!(id < COUNT);
        let tail = self.tail.get();
        let entries = self.memory.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the entry lies within the ring of entries, and behind the tail the kernel reads none.
        let entry = unsafe { &mut *entries.add((tail % COUNT) as usize) };
        entry.set_addr(self.buffer(id) as u64);
        entry.set_len(SIZE as u32);
        entry.set_bid(id);
        self.tail.set(tail.wrapping_add(1));
        // SAFETY: the tail is two aligned bytes of the first entry, which only the kernel reads beside us.
        let shared = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        shared.store(self.tail.get(), Ordering::Release);
    }

    fn buffer(&self, id: u16) -> *mut u8 {
        // SAFETY: ids are below COUNT, so it is within the mapping.
        unsafe { self.memory.as_ptr().cast::<u8>().add(ENTRIES + id as usize * SIZE) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and the ring that knew of it is gone.
        let _ = unsafe { munmap(self.memory.as_ptr(), WHOLE) };
    }
}
