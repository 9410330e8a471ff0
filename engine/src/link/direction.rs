//! One direction of a link. Packets are read from one device into a queue, and written to the other device when they
//! are due. The queue is allocated beforehand, so that packets cause no allocation and memory is bounded.

use super::plan::Counters;
use super::tun;
use base::error::Result;
use base::{Random, clock};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// The maximum number of packets before the other directions get their turn. This is about 0.1 ms of work.
const TURN_PACKETS: usize = 32;

/// The maximum time between two bursts, whatever the delay of the link. Packets in quick succession are delivered
/// together in a burst, because waking up for each packet would cost more CPU time than handling it. (Network cards
/// with interrupt moderation do the same.)
const LONGEST_BETWEEN_BURSTS_NS: u64 = 100_000;
/// The time between two bursts is at most the link's delay divided by this number. Waiting for a burst therefore makes
/// a packet late by at most 2 % of the delay. A packet that follows a pause does not wait.
const DELAY_PER_BETWEEN_BURSTS: u64 = 50;

/// One direction of a link, with its queue and counters. Both directions of a link share its two devices.
pub struct Direction {
    from: Rc<OwnedFd>,
    to: Rc<OwnedFd>,
    shaper: Shaper,
    loss: Loss,
    queue: Queue,
    counters: Counters,
    between_bursts_ns: u64,
    last_delivery_ns: u64,
    /// A buffer for packets that are lost or dropped, which must nevertheless be read from the device.
    discard_buffer: Box<[u8]>,
}

impl Direction {
    pub fn new(from: Rc<OwnedFd>, to: Rc<OwnedFd>, queue_packets: usize) -> Self {
        Direction {
            from,
            to,
            shaper: Shaper::new(0, None),
            loss: Loss::new(0.0, 0),
            queue: Queue::new(queue_packets),
            counters: Counters::default(),
            between_bursts_ns: 0,
            last_delivery_ns: 0,
            discard_buffer: vec![0; tun::MTU].into_boxed_slice(),
        }
    }

    /// Set bandwidth, delay and loss, and reset the counters.
    pub fn begin(&mut self, shaper: Shaper, loss: Loss) {
        self.between_bursts_ns = (shaper.delay_ns() / DELAY_PER_BETWEEN_BURSTS).min(LONGEST_BETWEEN_BURSTS_NS);
        (self.shaper, self.loss, self.counters) = (shaper, loss, Counters::default());
    }

    pub fn source(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }

    pub fn delay_ns(&self) -> u64 {
        self.shaper.delay_ns()
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Read the waiting packets from the device into the queue, at most [`TURN_PACKETS`].
    pub fn read_packets(&mut self) -> Result<()> {
        for _ in 0..TURN_PACKETS {
            let lost = self.loss.draw_loss();
            let slot = if lost { None } else { self.queue.vacant_slot() };
            let discarded = slot.is_none();
            let Some(bytes) = tun::read(self.from.as_fd(), slot.unwrap_or(&mut self.discard_buffer))? else { break };
            self.counters.sent += 1;
            if lost {
                self.counters.lost += 1;
            } else if discarded {
                self.counters.dropped += 1;
            } else {
                let due_ns = self.shaper.due_ns(clock::now(), bytes);
                self.queue.push(bytes, due_ns);
            }
        }
        Ok(())
    }

    /// Deliver at most [`TURN_PACKETS`] due packets. Return the instant in nanoseconds at which to call this function
    /// again. Return None if the queue is empty.
    pub fn release(&mut self) -> Option<u64> {
        let next_ns = self.next_burst_ns()?;
        if clock::now() < next_ns {
            return Some(next_ns);
        }
        for _ in 0..TURN_PACKETS {
            let due_ns = self.queue.next_due_ns()?;
            let now_ns = clock::now();
            if now_ns < due_ns {
                return self.next_burst_ns();
            }
            self.last_delivery_ns = now_ns;
            self.deliver(now_ns - due_ns);
            self.queue.pop();
        }
        // More packets are due, but the other directions have their turn first. Forget the time of the last delivery,
        // so that this burst continues directly afterwards instead of waiting for the time between bursts.
        self.last_delivery_ns = 0;
        self.queue.next_due_ns()
    }

    fn next_burst_ns(&self) -> Option<u64> {
        Some(self.queue.next_due_ns()?.max(self.last_delivery_ns + self.between_bursts_ns))
    }

    fn deliver(&mut self, late_ns: u64) {
        let packet = self.queue.front().expect("the queue has a due packet");
        match rustix::io::write(&*self.to, packet) {
            Ok(bytes) => {
                self.counters.delivered += 1;
                self.counters.delivered_bytes += bytes as u64;
            }
            // The receiving host has taken its device down, so the packet is lost, as on a real link.
            Err(_) => self.counters.refused += 1,
        }
        self.counters.late_sum_ns += late_ns;
        self.counters.late_max_ns = self.counters.late_max_ns.max(late_ns);
    }
}

/// The size of a packet's slot: the MTU rounded up to whole cache lines.
const SLOT_BYTES: usize = super::tun::MTU.next_multiple_of(64);

#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    due_ns: u64,
    length: usize,
}

/// A bounded FIFO queue of packets. Packets are read directly into a slot of the queue, and written directly from it.
pub struct Queue {
    slots: Box<[u8]>,
    waiting: Box<[Waiting]>,
    first: usize,
    length: usize,
}

impl Queue {
    /// Create a queue for `packets` packets, at least one. The kernel provides each page only when it is first used.
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

    /// Return the slot for the next packet, which [`Queue::push`] then appends. Return None if the queue is full.
    pub fn vacant_slot(&mut self) -> Option<&mut [u8]> {
        if self.is_full() {
            return None;
        }
        let index = self.index(self.length);
        Some(&mut self.slots[index * SLOT_BYTES..][..SLOT_BYTES])
    }

    /// Append the packet in the vacant slot, with `bytes` bytes and due at `due_ns`. Panics if the queue is full.
    pub fn push(&mut self, bytes: usize, due_ns: u64) {
        assert!(!self.is_full() && bytes <= SLOT_BYTES);
        let index = self.index(self.length);
        self.waiting[index] = Waiting { due_ns, length: bytes };
        self.length += 1;
    }

    pub fn next_due_ns(&self) -> Option<u64> {
        (self.length > 0).then(|| self.waiting[self.first].due_ns)
    }

    pub fn front(&self) -> Option<&[u8]> {
        (self.length > 0).then(|| &self.slots[self.first * SLOT_BYTES..][..self.waiting[self.first].length])
    }

    pub fn pop(&mut self) {
        assert!(self.length > 0);
        self.length -= 1;
        // An empty queue restarts at the first slot: a link with few packets uses few slots, which stay in the cache.
        self.first = if self.length == 0 { 0 } else { self.index(1) };
    }

    fn index(&self, offset: usize) -> usize {
        let index = self.first + offset;
        if index < self.waiting.len() { index } else { index - self.waiting.len() }
    }
}

/// The calculation of when packets arrive, from the delay and the bandwidth of one direction.
///
/// Packets are sent one by one at the bandwidth, and arrive after the delay. Due times never decrease, to keep order.
#[derive(Debug, Clone)]
pub struct Shaper {
    delay_ns: u64,
    ns_per_byte: f64,
    wire_free_at_ns: u64,
}

impl Shaper {
    /// Create the shaper of one direction. Without `bandwidth_mbit` the bandwidth is unlimited.
    pub fn new(delay_ns: u64, bandwidth_mbit: Option<f64>) -> Self {
        Shaper { delay_ns, ns_per_byte: bandwidth_mbit.map_or(0.0, |mbit| 8000.0 / mbit), wire_free_at_ns: 0 }
    }

    pub fn delay_ns(&self) -> u64 {
        self.delay_ns
    }

    /// Return when a packet of `bytes` bytes sent at `now_ns` arrives. Call this in the order of sending.
    pub fn due_ns(&mut self, now_ns: u64, bytes: usize) -> u64 {
        let on_the_wire_ns = (bytes as f64 * self.ns_per_byte).round() as u64;
        self.wire_free_at_ns = self.wire_free_at_ns.max(now_ns).saturating_add(on_the_wire_ns);
        self.wire_free_at_ns.saturating_add(self.delay_ns)
    }
}

/// Random loss: each packet is lost independently with the same probability.
#[derive(Debug, Clone)]
pub struct Loss {
    /// A packet is lost if its random number is below this threshold. None if no packets are lost.
    threshold: Option<u64>,
    random: Random,
}

impl Loss {
    /// Create the loss of one direction. `probability` is at least 0 and below 1. Equal seeds give equal losses.
    pub fn new(probability: f64, seed: u64) -> Self {
        let threshold = (probability * u64::MAX as f64) as u64;
        Loss { threshold: (threshold > 0).then_some(threshold), random: Random::new(seed) }
    }

    /// Return whether the next packet is lost, and advance the random numbers.
    pub fn draw_loss(&mut self) -> bool {
        match self.threshold {
            None => false,
            Some(threshold) => self.random.bits() < threshold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::os::unix::net::UnixDatagram;

    const DELAY_NS: u64 = 2_000_000;

    /// A test direction with datagram sockets instead of devices: packets sent by `host` arrive at `peer`.
    struct Line {
        host: UnixDatagram,
        direction: Direction,
        peer: UnixDatagram,
    }

    fn line(queue_packets: usize, loss: Loss) -> Line {
        let (host, from) = UnixDatagram::pair().unwrap();
        let (to, peer) = UnixDatagram::pair().unwrap();
        for socket in [&from, &to, &peer] {
            socket.set_nonblocking(true).unwrap();
        }
        let mut direction = Direction::new(Rc::new(from.into()), Rc::new(to.into()), queue_packets);
        direction.begin(Shaper::new(DELAY_NS, None), loss);
        Line { host, direction, peer }
    }

    fn send(line: &mut Line, packets: u8) -> (u64, u64) {
        let before = clock::now();
        for number in 0..packets {
            line.host.send(&[number; 20]).unwrap();
            line.direction.read_packets().unwrap();
        }
        (before, clock::now())
    }

    fn drain(line: &mut Line) -> (Vec<u8>, u64) {
        let (mut numbers, mut buffer) = (Vec::new(), [0; 64]);
        while line.direction.release().is_some() {
            while let Ok(bytes) = line.peer.recv(&mut buffer) {
                assert_eq!(buffer[..bytes], [buffer[0]; 20]);
                numbers.push(buffer[0]);
            }
        }
        while line.peer.recv(&mut buffer).is_ok() {
            numbers.push(buffer[0]);
        }
        (numbers, clock::now())
    }

    #[test]
    fn packets_arrive_in_order_and_not_before_the_delay() {
        let mut line = line(100, Loss::new(0.0, 0));
        let (before, _) = send(&mut line, 8);
        let (numbers, end) = drain(&mut line);
        assert_eq!(numbers, (0..8).collect::<Vec<_>>());
        assert!(end >= before + DELAY_NS);
        let counters = line.direction.counters();
        assert_eq!((counters.sent, counters.delivered, counters.delivered_bytes), (8, 8, 160));
    }

    #[test]
    fn function_release_returns_the_due_time_of_the_first_waiting_packet() {
        // One hour: any machine calls `release` before the packets are due.
        const HOUR_NS: u64 = 3_600_000_000_000;
        let mut line = line(100, Loss::new(0.0, 0));
        line.direction.begin(Shaper::new(HOUR_NS, None), Loss::new(0.0, 0));
        let (before, after) = send(&mut line, 8);
        let next_ns = line.direction.release().unwrap();
        assert!((before + HOUR_NS..=after + HOUR_NS).contains(&next_ns));
        assert_eq!(line.direction.counters().delivered, 0);
    }

    #[test]
    fn full_queue_drops_and_counts_the_last_packets() {
        let mut line = line(5, Loss::new(0.0, 0));
        send(&mut line, 8);
        assert_eq!(drain(&mut line).0, [0, 1, 2, 3, 4]);
        let counters = line.direction.counters();
        assert_eq!((counters.sent, counters.dropped, counters.delivered), (8, 3, 5));
    }

    #[test]
    fn lost_packets_are_counted_and_take_no_slot_of_the_queue() {
        let mut line = line(5, Loss::new(0.999_999, 0));
        send(&mut line, 8);
        assert!(drain(&mut line).0.is_empty());
        let counters = line.direction.counters();
        assert_eq!((counters.sent, counters.lost, counters.dropped), (8, 8, 0));
    }

    #[test]
    fn packets_to_a_device_that_is_down_are_counted_as_refused() {
        let mut line = line(5, Loss::new(0.0, 0));
        send(&mut line, 2);
        drop(std::mem::replace(&mut line.peer, UnixDatagram::unbound().unwrap()));
        line.peer.set_nonblocking(true).unwrap();
        assert!(drain(&mut line).0.is_empty());
        assert_eq!(line.direction.counters().refused, 2);
    }

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
        fn queue_behaves_like_a_bounded_fifo(
            capacity in 1usize..20,
            steps in prop::collection::vec(
                prop_oneof![(any::<u8>(), 0..1500_usize).prop_map(|(byte, length)| Step::Push(vec![byte; length])), Just(Step::Pop)], 0..100),
        ) {
            let mut queue = Queue::new(capacity);
            let mut model: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
            for (due, step) in (0..).zip(steps) {
                match step {
                    Step::Push(packet) => {
                        let pushed = push(&mut queue, &packet, due);
                        prop_assert_eq!(pushed, model.len() < capacity);
                        if pushed {
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

    #[test]
    fn packet_without_a_bandwidth_limit_is_due_after_the_delay() {
        let mut shaper = Shaper::new(85_063_000, None);
        assert_eq!(shaper.due_ns(1_000, 1500), 85_064_000);
        assert_eq!(shaper.due_ns(1_001, 40), 85_064_001);
    }

    #[test]
    fn packet_waits_for_bandwidth_only_while_another_packet_is_sent() {
        // 1500 bytes at 12 Mbit/s take 1 ms.
        let mut shaper = Shaper::new(5_000_000, Some(12.0));
        assert_eq!(shaper.due_ns(0, 1500), 6_000_000);
        assert_eq!(shaper.due_ns(0, 1500), 7_000_000);
        assert_eq!(shaper.due_ns(10_000_000, 1500), 16_000_000);
    }

    #[test]
    fn packet_losses_have_the_configured_probability_and_depend_on_the_seed() {
        let losses =
            |seed| (0..100_000).scan(Loss::new(0.02, seed), |loss, _| Some(loss.draw_loss())).collect::<Vec<_>>();
        let lost = losses(7).iter().filter(|&&lost| lost).count();
        // Five standard deviations of a binomial are 221.
        assert!((1779..=2221).contains(&lost), "{lost} of 100000");
        assert_eq!(losses(7), losses(7));
        assert_ne!(losses(7), losses(8));
        assert!(!(0..1000).any(|_| Loss::new(0.0, 7).draw_loss()));
    }

    proptest! {
        #[test]
        fn packets_are_due_in_order_and_not_before_the_delay(
            delay in 0u64..400_000_000,
            mbit in proptest::option::of(0.1f64..10_000.0),
            gaps in prop::collection::vec((0u64..10_000_000, 20usize..1500), 1..200),
        ) {
            let mut shaper = Shaper::new(delay, mbit);
            let (mut now, mut last) = (0, 0);
            for (gap, bytes) in gaps {
                now += gap;
                let due = shaper.due_ns(now, bytes);
                prop_assert!(due >= last, "out of order");
                prop_assert!(due >= now + delay, "early");
                if mbit.is_none() {
                    prop_assert_eq!(due, now + delay);
                }
                last = due;
            }
        }

        #[test]
        fn waiting_packets_are_sent_at_the_configured_bandwidth(mbit in 0.1f64..10_000.0, sizes in prop::collection::vec(20usize..1500, 2..300)) {
            let mut shaper = Shaper::new(1_000_000, Some(mbit));
            let last = sizes.iter().map(|&bytes| shaper.due_ns(0, bytes)).last().unwrap();
            let expected = sizes.iter().sum::<usize>() as f64 * 8000.0 / mbit;
            // The time of each packet is rounded to a nanosecond.
            prop_assert!(((last - 1_000_000) as f64 - expected).abs() <= sizes.len() as f64);
        }
    }
}
