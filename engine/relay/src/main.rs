//! Stands before a server and adds a cost to requests that is known to the nanosecond.
//!
//! Each of its entrances leads to the same server. [`plan`] is what goes in and out on its standard streams, [`cost`] says which
//! requests pay how much, [`carry`] carries connections. It ends with its standard input.

mod carry;
mod cost;
mod plan;

use base::error::{Class, Failure};
use base::lines::{self, Lines, Question};
use base::{Random, process};
use cost::Entrance;
use plan::{Answer, Plan, Ready};
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

fn main() -> ExitCode {
    process::report_panics_as_fatal_errors();
    process::follow(|| {
        let mut lines = Lines::of_standard_input();
        let Some(line) = lines.next() else { return Ok(()) };
        let plan: Plan = lines::parse(&line)?;
        let mut entrances = Vec::new();
        let mut addresses = Vec::new();
        for each in &plan.entrances {
            let listener = TcpListener::bind(each.address).map_err(cannot_listen)?;
            addresses.push(listener.local_addr().map_err(cannot_listen)?);
            entrances.push((listener, Arc::new(Entrance::new(each.cost))));
        }
        let counted: Vec<_> = entrances.iter().map(|(_, entrance)| Arc::clone(entrance)).collect();
        thread::spawn(move || {
            let ended = carry::carry_all(&entrances, plan.server, Random::new(plan.seed));
            ended.expect("this thread can wait for sockets");
        });
        lines::say(&Answer::Ready(Ready { entrances: addresses }));
        for line in lines {
            match lines::parse(&line)? {
                Question::Counters {} => {
                    lines::say(&Answer::Counters(counted.iter().map(|each| each.paid()).collect()))
                }
            }
        }
        Ok(())
    })
}

fn cannot_listen(error: std::io::Error) -> Failure {
    Failure::new(Class::Plan, format!("cannot listen: {error}"))
}
