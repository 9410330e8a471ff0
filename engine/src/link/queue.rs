//! Where packets wait: a ring of buffers made once, so that no packet costs an allocation and memory is bounded.

/// A packet's room: the MTU, rounded up to whole cache lines.
const SLOT_BYTES: usize = super::tun::MTU.next_multiple_of(64);

#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    due_ns: u64,
    length: usize,
}

/// First in, first out. Packets are read straight into their slot and written straight from it.
pub struct Queue {
    slots: Box<[u8]>,
    waiting: Box<[Waiting]>,
    first: usize,
    length: usize,
}

impl Queue {
    /// Room for `packets`, at least one. The kernel gives the memory page by page as it is first used.
    pub fn new(packets: usize) -> Self {
        Queue {
            slots: vec![0; packets * SLOT_BYTES].into_boxed_slice(),
            waiting: vec![Waiting::default(); packets].into_boxed_slice(),
            first: 0,
            length: 0,
        }
    }

    pub fn is_full(&self) -> bool {
        self.length == self.waiting.len()
    }

    /// Where the next packet is to be written before `push`; none when the queue is full.
    pub fn vacant_slot(&mut self) -> Option<&mut [u8]> {
        if self.is_full() {
            return None;
        }
        let index = self.index(self.length);
        Some(&mut self.slots[index * SLOT_BYTES..][..SLOT_BYTES])
    }

    /// The `bytes` in the vacant slot are a packet that is due at `due_ns`. There must be a vacant slot.
    pub fn push(&mut self, bytes: usize, due_ns: u64) {
        assert!(!self.is_full() && bytes <= SLOT_BYTES);
        let index = self.index(self.length);
        self.waiting[index] = Waiting { due_ns, length: bytes };
        self.length += 1;
    }

    /// When the first packet is due.
    pub fn next_due_ns(&self) -> Option<u64> {
        (self.length > 0).then(|| self.waiting[self.first].due_ns)
    }

    /// The first packet.
    pub fn front(&self) -> Option<&[u8]> {
        (self.length > 0).then(|| &self.slots[self.first * SLOT_BYTES..][..self.waiting[self.first].length])
    }

    /// Forget the first packet.
    pub fn pop(&mut self) {
        assert!(self.length > 0);
        self.length -= 1;
        // An empty queue starts over: a link with little on its way stays within a few slots, warm in the cache.
        self.first = if self.length == 0 { 0 } else { self.index(1) };
    }

    fn index(&self, offset: usize) -> usize {
        let index = self.first + offset;
        if index < self.waiting.len() { index } else { index - self.waiting.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn push(queue: &mut Queue, packet: &[u8], due_ns: u64) -> bool {
        let Some(slot) = queue.vacant_slot() else { return false };
        slot[..packet.len()].copy_from_slice(packet);
        queue.push(packet.len(), due_ns);
        true
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push(Vec<u8>),
        Pop,
    }

    proptest! {
        #[test]
        fn behaves_as_a_bounded_queue(
            capacity in 1usize..20,
            steps in prop::collection::vec(
                prop_oneof![prop::collection::vec(any::<u8>(), 0..1500).prop_map(Step::Push), Just(Step::Pop)], 0..100),
        ) {
            let mut queue = Queue::new(capacity);
            let mut model: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
            for (due, step) in (0..).zip(steps) {
                match step {
                    Step::Push(packet) => {
                        let taken = push(&mut queue, &packet, due);
                        prop_assert_eq!(taken, model.len() < capacity);
                        if taken {
                            model.push_back((due, packet));
                        }
                    }
                    Step::Pop => {
                        if model.pop_front().is_some() {
                            queue.pop();
                        }
                    }
                }
                prop_assert_eq!(queue.next_due_ns(), model.front().map(|(due, _)| *due));
                prop_assert_eq!(queue.front(), model.front().map(|(_, packet)| packet.as_slice()));
                prop_assert_eq!(queue.is_full(), model.len() == capacity);
            }
        }
    }
}
