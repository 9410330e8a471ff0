//! The event loop of all links. It runs on one thread and sleeps until a packet arrives or is due.
//!
//! One thread suffices; a second one would take CPU time from the measured programs. The thread wakes by a timerfd and
//! not by epoll's timeout. The kernel may extend epoll's timeout by a thousandth (`select_estimate_accuracy`), which is
//! 85 µs for a delay of 85 ms. The thread never waits in a busy loop.

use super::direction::{Direction, Loss, Shaper};
use super::plan::{AllCounters, LinkCounters, LinkPlan, Plan, Ready};
use super::{link_failure, tun};
use base::clock;
use base::error::Result;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime, timerfd_create,
    timerfd_settime,
};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const TIMER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

/// The forwarder of all links of this process. In `directions`, index 2n is the direction of link n from end `a` to end
/// `b`, and index 2n + 1 is the opposite direction.
pub struct Forwarder {
    names: Vec<String>,
    directions: Vec<Direction>,
    epoll: OwnedFd,
    timer: OwnedFd,
    armed_for_ns: Option<u64>,
    events: Vec<epoll::Event>,
}

impl Forwarder {
    /// Create the devices of all links. Packets are forwarded only while [`Forwarder::forward_until_readable`] runs.
    pub fn new(plan: &Plan) -> Result<Self> {
        let failed = |error: Errno| link_failure("epoll or timerfd", error);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).map_err(failed)?;
        // The event is edge-triggered: each expiry wakes this thread once, and the timer need not be read.
        let wake_once = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), wake_once).map_err(failed)?;
        let mut directions = Vec::new();
        for link in &plan.links {
            directions.extend(both_directions(link)?);
        }
        for (index, direction) in (0..).zip(&directions) {
            let data = epoll::EventData::new_u64(index);
            epoll::add(&epoll, direction.source(), data, epoll::EventFlags::IN).map_err(failed)?;
        }
        let names = plan.links.iter().map(|link| link.name.clone()).collect();
        let events = Vec::with_capacity(directions.len() + 2);
        Ok(Forwarder { names, directions, epoll, timer, armed_for_ns: None, events })
    }

    /// Set the round-trip delay of each link to its configured round-trip time minus the path cost (the latency without
    /// configured delay), and reset the counters.
    pub fn begin(&mut self, plan: &Plan, path_cost: Duration) {
        for (index, direction) in self.directions.iter_mut().enumerate() {
            let link = &plan.links[index / 2];
            let round_trip = Duration::from_secs_f64(link.round_trip_ms / 1000.0).saturating_sub(path_cost);
            let shaper = Shaper::new((round_trip / 2).as_nanos() as u64, link.bandwidth_mbit);
            // The generator counts up from its seed. With close seeds, two directions would soon use the same numbers.
            let seed = plan.seed.wrapping_add(index as u64 * 0x1_0000_0000);
            direction.begin(shaper, Loss::new(link.loss, seed));
        }
    }

    pub fn begin_calibration(&mut self, delay: Duration) {
        for direction in &mut self.directions[..2] {
            direction.begin(Shaper::new(delay.as_nanos() as u64, None), Loss::new(0.0, 0));
        }
    }

    pub fn ready(&self, path_cost: Duration, preferred: bool) -> Ready {
        let held = self.directions.chunks(2).map(|link| link[0].delay_ns() as f64 / 1000.0);
        let held_us: BTreeMap<_, _> = self.names.iter().cloned().zip(held).collect();
        Ready { path_cost_us: path_cost.as_nanos() as f64 / 1000.0, held_us, preferred }
    }

    pub fn counters(&self) -> AllCounters {
        let counters = |link: &[Direction]| LinkCounters { a_to_b: link[0].counters(), b_to_a: link[1].counters() };
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        AllCounters {
            cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
            links: self.names.iter().cloned().zip(self.directions.chunks(2).map(counters)).collect(),
        }
    }

    pub fn forward_until_readable(&mut self, stop: BorrowedFd<'_>) -> Result<()> {
        let failed = |error: Errno| link_failure("epoll", error);
        epoll::add(&self.epoll, stop, epoll::EventData::new_u64(STOP), epoll::EventFlags::IN).map_err(failed)?;
        let outcome = loop {
            match self.handle_events() {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(failure) => break Err(failure),
            }
        };
        epoll::delete(&self.epoll, stop).map_err(failed)?;
        outcome
    }

    /// Deliver due packets, wait for events, and read packets. Return whether the stop descriptor is readable.
    fn handle_events(&mut self) -> Result<bool> {
        let next_due_ns = self.directions.iter_mut().filter_map(Direction::release).min();
        self.sleep_until(next_due_ns)?;
        let mut stop = false;
        for event in self.events.drain(..) {
            match event.data.u64() {
                TIMER => self.armed_for_ns = None,
                STOP => stop = true,
                index => self.directions[index as usize].read_packets()?,
            }
        }
        Ok(stop)
    }

    fn sleep_until(&mut self, due_ns: Option<u64>) -> Result<()> {
        let overdue = due_ns.is_some_and(|due_ns| due_ns <= clock::now());
        if !overdue && due_ns != self.armed_for_ns {
            self.arm(due_ns)?;
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), overdue.then_some(&at_once)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(link_failure("epoll", error)),
        }
    }

    fn arm(&mut self, due_ns: Option<u64>) -> Result<()> {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = due_ns.map_or(never, |due_ns| Timespec {
            tv_sec: (due_ns / 1_000_000_000) as i64,
            tv_nsec: (due_ns % 1_000_000_000) as i64,
        });
        let setting = Itimerspec { it_interval: never, it_value: at };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)
            .map_err(|error| link_failure("timerfd", error))?;
        self.armed_for_ns = due_ns;
        Ok(())
    }
}

fn both_directions(link: &LinkPlan) -> Result<[Direction; 2]> {
    let a = Rc::new(tun::create(&link.a)?);
    let b = Rc::new(tun::create(&link.b)?);
    let packets = link.queue_packets;
    Ok([Direction::new(a.clone(), b.clone(), packets), Direction::new(b, a, packets)])
}
