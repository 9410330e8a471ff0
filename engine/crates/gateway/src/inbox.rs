//! What has come from one side and is not done with. It may be what others must not read, so it is erased in the end, and
//! where that is asked for as soon as all of it is done with.

use zeroize::optimization_barrier;

/// What a long packet has made larger is given back.
const KEPT: usize = 1 << 20;

/// Bytes in a buffer that is used again.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    /// What it has when nothing long is on its way.
    size: usize,
    start: usize,
    end: usize,
    /// Nothing is behind this.
    used: usize,
    erases: bool,
}

impl Inbox {
    /// With nothing in it, and room for so many bytes.
    pub fn new(size: usize) -> Self {
        Inbox { bytes: vec![0; size], size, start: 0, end: 0, used: 0, erases: false }
    }

    /// From now on what is done with is erased, before more comes.
    pub fn erase_at_once(&mut self) {
        self.erases = true;
    }

    /// Where more can be received; never empty. It grows with what has come, not with what a length claims will.
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

    /// So many bytes came.
    pub fn received(&mut self, count: usize) {
        self.end += count;
        self.used = self.used.max(self.end);
    }

    /// So many are done with.
    pub fn done(&mut self, count: usize) {
        self.start += count;
    }

    /// All that is not done with.
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
        // By words, as `fill` does: `zeroize` writes each byte by itself.
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
            // It grows, and moves what is left to its beginning.
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
