//! One way through a link: from one device into the queue, and at its due time out of the other device.

use super::plan::Counters;
use super::queue::Queue;
use super::shaper::{Loss, Shaper};
use super::tun;
use base::error::Result;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::time::{ClockId, clock_gettime};
use std::rc::Rc;

/// Packets handled before the other directions get their turn: about 0.1 ms of work.
const TURN_PACKETS: usize = 32;

/// A stream of packets is delivered in bursts at least this far apart, as a network card raises its interrupts: each
/// wake-up costs more than the packet does. It is at most this part of the delay, so that no packet is later than by
/// 2 % of it, and one that comes alone is not late at all.
const LONGEST_BETWEEN_BURSTS_NS: u64 = 100_000;
const DELAY_PER_BETWEEN_BURSTS: u64 = 50;

/// Both directions of a link share its devices.
pub struct Direction {
    from: Rc<OwnedFd>,
    to: Rc<OwnedFd>,
    shaper: Shaper,
    loss: Loss,
    queue: Queue,
    counters: Counters,
    between_bursts_ns: u64,
    last_delivery_ns: u64,
    /// For packets that go nowhere: they too must be taken from the device.
    nowhere: Box<[u8]>,
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
            nowhere: vec![0; tun::MTU].into_boxed_slice(),
        }
    }

    /// From here on with this delay and loss, and counters at 0.
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

    pub fn take_in(&mut self) -> Result<()> {
        for _ in 0..TURN_PACKETS {
            let lost = self.loss.strikes();
            let slot = if lost { None } else { self.queue.vacant_slot() };
            let goes_nowhere = slot.is_none();
            let Some(bytes) = tun::read(self.from.as_fd(), slot.unwrap_or(&mut self.nowhere))? else { break };
            self.counters.taken += 1;
            if lost {
                self.counters.lost += 1;
            } else if goes_nowhere {
                self.counters.dropped += 1;
            } else {
                let due_ns = self.shaper.due_ns(now_ns(), bytes);
                self.queue.push(bytes, due_ns);
            }
        }
        Ok(())
    }

    pub fn release(&mut self) -> Option<u64> {
        let next_ns = self.next_burst_ns()?;
        if now_ns() < next_ns {
            return Some(next_ns);
        }
        for _ in 0..TURN_PACKETS {
            let due_ns = self.queue.next_due_ns()?;
            let now_ns = now_ns();
            if now_ns < due_ns {
                return self.next_burst_ns();
            }
            self.last_delivery_ns = now_ns;
            self.deliver(now_ns - due_ns);
            self.queue.pop();
        }
        // The burst goes on after the others' turn.
        self.last_delivery_ns = 0;
        self.queue.next_due_ns()
    }

    fn next_burst_ns(&self) -> Option<u64> {
        Some(self.queue.next_due_ns()?.max(self.last_delivery_ns + self.between_bursts_ns))
    }

    fn deliver(&mut self, late_ns: u64) {
        let packet = self.queue.front().expect("only what is due is delivered");
        match rustix::io::write(&*self.to, packet) {
            Ok(bytes) => {
                self.counters.delivered += 1;
                self.counters.delivered_bytes += bytes as u64;
            }
            // A host may take its device down; its packets are lost then, as on a real link.
            Err(_) => self.counters.refused += 1,
        }
        self.counters.late_sum_ns += late_ns;
        self.counters.late_max_ns = self.counters.late_max_ns.max(late_ns);
    }
}

pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    const DELAY_NS: u64 = 2_000_000;

    /// Sockets of packets in place of devices: what is sent into `host` comes out at `peer`.
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
        let before = now_ns();
        for number in 0..packets {
            line.host.send(&[number; 20]).unwrap();
            line.direction.take_in().unwrap();
        }
        (before, now_ns())
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
        (numbers, now_ns())
    }

    #[test]
    fn packets_come_out_in_order_and_never_early() {
        let mut line = line(100, Loss::new(0.0, 0));
        let (before, _) = send(&mut line, 8);
        let (numbers, end) = drain(&mut line);
        assert_eq!(numbers, (0..8).collect::<Vec<_>>());
        assert!(end >= before + DELAY_NS);
        let counters = line.direction.counters();
        assert_eq!((counters.taken, counters.delivered, counters.delivered_bytes), (8, 8, 160));
    }

    #[test]
    fn it_comes_back_when_the_first_packet_is_due() {
        // Long enough for any machine to look before it is.
        const HOUR_NS: u64 = 3_600_000_000_000;
        let mut line = line(100, Loss::new(0.0, 0));
        line.direction.begin(Shaper::new(HOUR_NS, None), Loss::new(0.0, 0));
        let (before, after) = send(&mut line, 8);
        let next_ns = line.direction.release().unwrap();
        assert!((before + HOUR_NS..=after + HOUR_NS).contains(&next_ns));
        assert_eq!(line.direction.counters().delivered, 0);
    }

    #[test]
    fn a_full_queue_drops_the_last_and_counts_them() {
        let mut line = line(5, Loss::new(0.0, 0));
        send(&mut line, 8);
        assert_eq!(drain(&mut line).0, [0, 1, 2, 3, 4]);
        let counters = line.direction.counters();
        assert_eq!((counters.taken, counters.dropped, counters.delivered), (8, 3, 5));
    }

    #[test]
    fn lost_packets_are_counted_apart_and_need_no_room() {
        let mut line = line(5, Loss::new(0.999_999, 0));
        send(&mut line, 8);
        assert!(drain(&mut line).0.is_empty());
        let counters = line.direction.counters();
        assert_eq!((counters.taken, counters.lost, counters.dropped), (8, 8, 0));
    }

    #[test]
    fn a_device_that_is_down_refuses_and_the_rest_goes_on() {
        let mut line = line(5, Loss::new(0.0, 0));
        send(&mut line, 2);
        drop(std::mem::replace(&mut line.peer, UnixDatagram::unbound().unwrap()));
        line.peer.set_nonblocking(true).unwrap();
        assert!(drain(&mut line).0.is_empty());
        assert_eq!(line.direction.counters().refused, 2);
    }
}
