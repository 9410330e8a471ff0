//! Memory that the kernel receives into, by buffers of its own choice (io_uring_register_buf_ring(3)).

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

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

    /// The kernel has put so many bytes into a buffer.
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
