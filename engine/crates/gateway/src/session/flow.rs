//! The bytes of one direction.

use super::LOOK;
use mysql::packet::{self, HEADER};

/// A packet of this length is continued in the next one.
pub const CONTINUED: usize = 0xFF_FFFF;
/// Packets up to this length are passed on when they are complete, so that an error can follow if their sender is lost.
const HELD: usize = 8 * 1024;

/// The input from one side and what is passed on of it. As long as nothing is changed, nothing is copied.
pub struct Flow<'a> {
    input: &'a [u8],
    taken: usize,
    passed: usize,
    out: &'a mut Vec<u8>,
}

/// What was done with the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// So many bytes of the input are processed.
    pub taken: usize,
    /// So many of them are passed on unchanged; if none are, what was written is sent.
    pub passed: usize,
}

/// The beginning of a packet, as far as it has come.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The length of its payload.
    pub length: usize,
    /// Its sequence number.
    pub sequence: u8,
    /// As much of the payload as is there, to its end at most; at least [`LOOK`] bytes, or all.
    pub payload: &'a [u8],
}

impl Head<'_> {
    /// Return whether the whole packet is there.
    pub fn is_whole(&self) -> bool {
        self.payload.len() == self.length
    }

    /// Return its size with its header.
    pub fn size(&self) -> usize {
        HEADER + self.length
    }
}

impl<'a> Flow<'a> {
    /// Create a flow. `out` must be empty; it is written to once something is changed.
    pub fn new(input: &'a [u8], out: &'a mut Vec<u8>) -> Self {
        Flow { input, taken: 0, passed: 0, out }
    }

    /// Return the next packet once enough of it is there.
    pub fn head(&self) -> Option<Head<'a>> {
        let rest = &self.input[self.taken..];
        let (length, sequence) = packet::split_header(rest)?;
        let payload = &rest[HEADER..rest.len().min(HEADER + length)];
        let enough = if length <= HELD { length } else { LOOK };
        (payload.len() >= enough).then_some(Head { length, sequence, payload })
    }

    /// Return how many bytes are not processed yet.
    pub fn left(&self) -> usize {
        self.input.len() - self.taken
    }

    /// Pass on so many bytes unchanged.
    pub fn pass(&mut self, count: usize) {
        if self.passed == self.taken && self.out.is_empty() {
            self.passed += count;
        } else {
            self.spill();
            self.out.extend_from_slice(&self.input[self.taken..self.taken + count]);
        }
        self.taken += count;
    }

    /// Drop so many bytes.
    pub fn drop(&mut self, count: usize) {
        self.taken += count;
    }

    /// Drop so many bytes, and return the buffer for what takes their place.
    pub fn replace(&mut self, count: usize) -> &mut Vec<u8> {
        self.spill();
        self.taken += count;
        self.out
    }

    /// Return what was done with the input.
    pub fn progress(self) -> Progress {
        Progress { taken: self.taken, passed: self.passed }
    }

    /// Copy what was passed on unchanged in front of what will be written.
    fn spill(&mut self) {
        if self.passed > 0 {
            self.out.extend_from_slice(&self.input[..self.passed]);
            self.passed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(input: &[u8], out: &[u8], progress: Progress) -> Vec<u8> {
        assert!(progress.passed == 0 || out.is_empty(), "one or the other");
        [&input[..progress.passed], out].concat()
    }

    #[test]
    fn a_packet_is_seen_once_enough_of_it_is_there() {
        let head = |input: &[u8]| Flow::new(input, &mut Vec::new()).head().map(|head| (head.length, head.is_whole()));
        assert_eq!((head(&[]), head(&[1, 0, 0]), head(&[2, 0, 0, 0, 7])), (None, None, None));
        assert_eq!(head(&[1, 0, 0, 0, 7, 9]), Some((1, true)));
        let long = [&[0, 0, 1, 0][..], &[0; LOOK]].concat();
        assert_eq!((head(&long), head(&long[..long.len() - 1])), (Some((1 << 16, false)), None));
    }

    proptest! {
        /// Whatever passes, is dropped and replaced, comes out in order.
        #[test]
        fn order_is_kept(steps in prop::collection::vec((0..3_u8, 1..5_usize), 0..12)) {
            let input: Vec<u8> = (0..steps.iter().map(|step| step.1 as u8).sum()).collect();
            let (mut out, mut expected, mut at) = (Vec::new(), Vec::new(), 0);
            let mut flow = Flow::new(&input, &mut out);
            for (what, count) in steps {
                match what {
                    0 => {
                        flow.pass(count);
                        expected.extend_from_slice(&input[at..at + count]);
                    }
                    1 => flow.drop(count),
                    _ => {
                        flow.replace(count).extend_from_slice(b"new");
                        expected.extend_from_slice(b"new");
                    }
                }
                at += count;
            }
            let progress = flow.progress();
            prop_assert_eq!(progress.taken, input.len());
            prop_assert_eq!(sent(&input, &out, progress), expected);
        }
    }
}
