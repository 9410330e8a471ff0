//! What has come from one side and is not done with. It may be what others must not read, so it is erased in the end, and
//! where that is asked for as soon as all of it is done with.

use zeroize::optimization_barrier;

/// A larger buffer is given back once it is empty.
const KEPT: usize = 1 << 20;

/// A buffer for received bytes that is used again and again.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    /// The usual size of the buffer.
    size: usize,
    start: usize,
    end: usize,
    /// No byte behind this one was ever written.
    used: usize,
    erases: bool,
}

impl Inbox {
    /// Create an empty inbox of this size.
    pub fn new(size: usize) -> Self {
        Inbox { bytes: vec![0; size], size, start: 0, end: 0, used: 0, erases: false }
    }

    /// From now on, erase processed bytes before more are received.
    pub fn erase_at_once(&mut self) {
        self.erases = true;
    }

    /// Return the free part of the buffer; never empty. The buffer grows with what has come, not with what a length field claims.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.erases || self.bytes.len() > KEPT {
                self.erase();
            }
            if self.bytes.len() > KEPT {
                self.bytes = vec![0; self.size];
            }
        } else if self.end == self.bytes.len() || self.start > self.bytes.len() / 2 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            self.grow();
        }
        &mut self.bytes[self.end..]
    }

    /// Record that so many bytes were received.
    pub fn received(&mut self, count: usize) {
        self.end += count;
        self.used = self.used.max(self.end);
    }

    /// Record that so many bytes are processed.
    pub fn done(&mut self, count: usize) {
        self.start += count;
    }

    /// Return the bytes that are not processed yet.
    pub fn come(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn grow(&mut self) {
        let mut larger = vec![0; 2 * self.bytes.len()];
        larger[..self.end].copy_from_slice(&self.bytes[..self.end]);
        let end = self.end;
        self.erase();
        (self.bytes, self.used) = (larger, end);
    }

    fn erase(&mut self) {
        // `fill` writes words; `zeroize` writes each byte by itself.
        self.bytes[..self.used].fill(0);
        optimization_barrier(&self.bytes[..]);
        self.used = 0;
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.erase();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_done_with_is_erased_before_more_comes() {
        let mut inbox = Inbox::new(16);
        inbox.erase_at_once();
        for round in 0..3 {
            // The buffer grows and moves the rest to its beginning.
            for _ in 0..10 {
                let room = inbox.room();
                let come = room.len().min(7);
                room[..come].fill(7);
                inbox.received(come);
                inbox.done(inbox.come().len() / 2);
            }
            let left = inbox.come().len();
            inbox.done(left);
            inbox.room();
            assert!(inbox.bytes.iter().all(|byte| *byte == 0), "{round}");
        }
    }

    proptest! {
        #[test]
        fn what_came_is_there_until_it_is_done_with(steps in prop::collection::vec((1..40_000_usize, 0..40_000_usize), 1..30)) {
            let (mut inbox, mut expected, mut next) = (Inbox::new(64), Vec::new(), 0_u32);
            for (come, done) in steps {
                let room = inbox.room();
                let come = come.min(room.len());
                for place in &mut room[..come] {
                    next = next.wrapping_mul(31).wrapping_add(7);
                    *place = next as u8;
                    expected.push(*place);
                }
                inbox.received(come);
                prop_assert_eq!(inbox.come(), &expected[..]);
                let done = done.min(expected.len());
                inbox.done(done);
                expected.drain(..done);
                prop_assert_eq!(inbox.come(), &expected[..]);
            }
        }
    }
}
