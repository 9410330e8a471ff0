//! `costof-engine link`: distance between two network namespaces, for kernels without netem.
//!
//! Each link is a pair of TUN devices, one in each namespace, and a queue for each direction that releases a packet
//! when half the round trip has passed since it was read. Read it in this order: [`plan`] is what is asked for,
//! [`tun`] makes the devices, [`forwarder`] is the loop, [`direction`] one way through a link, made of a [`shaper`]
//! (when is a packet due, is it lost) and a [`queue`] (where it waits), and [`calibrate`] measures what the path
//! itself costs, which is taken off what is asked for.
//!
//! One JSON object a line. In: `{"links": [...]}` once, then any number of `{"counters": {}}`. Out: `{"ready": ...}`
//! and a `{"counters": ...}` for each question; `{"error": {"class", "detail"}}` is fatal. The end of standard input
//! ends the process, and with it its devices.

mod calibrate;
mod direction;
mod forwarder;
mod plan;
mod tun;

use base::error::{Class, Failure, Result};
use base::lines::{self, Lines, Question, say};
use base::process;
use forwarder::Forwarder;
use plan::{Answer, Plan};
use std::fmt::Display;
use std::process::ExitCode;

pub fn run() -> ExitCode {
    process::follow(serve)
}

fn serve() -> Result<()> {
    let mut commands = Lines::of_standard_input();
    let Some(line) = commands.next() else { return Ok(()) };
    let plan = Plan::parse(&line)?;
    let mut forwarder = Forwarder::new(&plan)?;
    let preferred = prefer_this_thread();
    let path_cost = calibrate::path_cost(&mut forwarder, &plan.links[0])?;
    forwarder.begin(&plan, path_cost);
    say(&Answer::Ready(forwarder.ready(path_cost, preferred)));
    loop {
        forwarder.forward_until_readable(commands.source())?;
        let open = commands.receive()?;
        while let Some(line) = commands.next_line() {
            match lines::parse(&line)? {
                Question::Counters {} => say(&Answer::Counters(forwarder.counters())),
            }
        }
        if !open {
            return Ok(());
        }
    }
}

fn refused(what: impl Display, error: impl Display) -> Failure {
    Failure::new(Class::Link, format!("{what}: {error}"))
}

/// Run before ordinary programs; false when that is refused, which on an idle machine makes no difference.
///
/// netem works in the kernel's timers, which no program holds up. Behind busy programs this thread would wait for its
/// turn, milliseconds long, and the link would be further than was asked for. The kernel keeps the last 5 % of each
/// second for the others (sched_rt_runtime_us), so that a link that uses a core up stands still for 50 ms.
fn prefer_this_thread() -> bool {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread, and the parameters live through the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &lowest) == 0 }
}
