//! Memory that the kernel receives into, by buffers of its own choice (io_uring_register_buf_ring(3)).

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::ops::Range;
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
}

impl Buffers {
    /// All of them the kernel's. They are to outlive the ring.
    pub(super) fn new(submitter: &Submitter<'_>) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses overlaps no other.
        let memory = unsafe { mmap_anonymous(ptr::null_mut(), WHOLE, protection, MapFlags::PRIVATE)? };
        let memory = NonNull::new(memory).expect("a mapping is not at 0");
        let buffers = Buffers { memory, tail: Cell::new(0) };
        // SAFETY: the entries begin the mapping, on a page of their own, and live until the ring is gone.
        unsafe { submitter.register_buf_ring_with_flags(memory.as_ptr() as u64, COUNT, GROUP, 0)? };
        (0..COUNT).for_each(|id| buffers.give_back(id));
        Ok(buffers)
    }

    /// Copy what fits of these bytes of a buffer that the kernel has filled.
    pub(super) fn copy(&self, id: u16, bytes: Range<usize>, room: &mut [u8]) -> usize {
        assert!(id < COUNT && bytes.end <= SIZE);
        let length = bytes.len().min(room.len());
        // SAFETY: within the mapping by the line above, and the kernel's no longer until it is given back.
        unsafe { ptr::copy_nonoverlapping(self.buffer(id).add(bytes.start), room.as_mut_ptr(), length) };
        length
    }

    /// It may be filled again.
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
