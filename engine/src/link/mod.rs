//! `costof-engine link`: simulated distance between two network namespaces, for kernels without netem.
//!
//! Each link is a pair of TUN devices, one in each namespace, and a queue for each direction. A queue releases a packet
//! after half the round-trip time. Read the modules in this order:
//!
//! - [`plan`] defines the messages.
//! - [`tun`] creates the devices.
//! - [`forwarder`] is the event loop.
//! - [`direction`] is one direction of a link with its queue, delay and loss.
//! - [`calibrate`] measures the latency of the path itself, which is subtracted from the configured delay.
//!
//! Messages are one JSON object a line. The input is `{"links": [...]}` once, then any number of `{"counters": {}}`.
//! The output is `{"ready": ...}`, then a `{"counters": ...}` for each command. `{"error": {"class", "detail"}}` is
//! fatal. The end of standard input ends the process and removes its devices.

mod calibrate;
mod direction;
mod forwarder;
mod plan;
mod tun;

use base::error::{Class, Failure, Result};
use base::lines::{self, CountersCommand, Lines, write};
use base::process;
use forwarder::Forwarder;
use plan::{Answer, Plan};
use std::fmt::Display;
use std::process::ExitCode;

pub fn run() -> ExitCode {
    process::run(serve)
}

fn serve() -> Result<()> {
    let mut commands = Lines::from_standard_input();
    let Some(line) = commands.next() else { return Ok(()) };
    let plan = Plan::parse(&line)?;
    let mut forwarder = Forwarder::new(&plan)?;
    let preferred = request_real_time_priority();
    let path_cost = calibrate::path_cost(&mut forwarder, &plan.links[0])?;
    forwarder.begin(&plan, path_cost);
    write(&Answer::Ready(forwarder.ready(path_cost, preferred)));
    loop {
        forwarder.forward_until_readable(commands.source())?;
        let open = commands.receive()?;
        while let Some(line) = commands.next_line() {
            match lines::parse(&line)? {
                CountersCommand::Counters {} => write(&Answer::Counters(forwarder.counters())),
            }
        }
        if !open {
            return Ok(());
        }
    }
}

fn link_failure(what: impl Display, error: impl Display) -> Failure {
    Failure::new(Class::Link, format!("{what}: {error}"))
}

/// Give this thread real-time priority, and return whether the system allows it. The priority helps only on a
/// busy machine.
///
/// Without this priority, the thread could wait for milliseconds behind busy programs, and the link's delay would then
/// be longer than configured. (netem does not have this problem: it runs in kernel timers, which programs cannot
/// delay.) The kernel reserves 5 % of each second for programs without real-time priority (sched_rt_runtime_us), so a
/// link that uses a whole core pauses for 50 ms in each second.
fn request_real_time_priority() -> bool {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread, and the parameters live through the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &lowest) == 0 }
}
