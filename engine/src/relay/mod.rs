//! `costof-engine relay`: a relay in front of a server. It adds a known delay to requests, so that the result of a run
//! can be compared with the true cost.
//!
//! All of its entrances (listening addresses) lead to the same server. [`cost`] defines which requests are delayed and
//! for how long. [`forward`] forwards the bytes of connections. The relay ends at the end of its standard input.

mod cost;
mod forward;

use base::error::{Class, Failure};
use base::lines::{self, CountersCommand, Lines};
use base::{Random, process};
use cost::{Cost, DelayTotals, Entrance, Warmth};
use serde::{Deserialize, Serialize};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

pub fn run() -> ExitCode {
    process::run(|| {
        let mut lines = Lines::from_standard_input();
        let Some(line) = lines.next() else { return Ok(()) };
        let plan: Plan = lines::parse(&line)?;
        let mut entrances = Vec::new();
        let mut addresses = Vec::new();
        let warmth = Arc::new(Warmth::new());
        for each in &plan.entrances {
            let listener = TcpListener::bind(each.address).map_err(cannot_listen)?;
            addresses.push(listener.local_addr().map_err(cannot_listen)?);
            entrances.push((listener, Arc::new(Entrance::new(each.cost, each.state, Arc::clone(&warmth)))));
        }
        let counted: Vec<_> = entrances.iter().map(|(_, entrance)| Arc::clone(entrance)).collect();
        thread::spawn(move || {
            let ended = forward::forward_all(&entrances, plan.server, Random::new(plan.seed));
            ended.expect("this thread can wait for sockets");
        });
        lines::write(&Answer::Ready(Ready { entrances: addresses }));
        for line in lines {
            match lines::parse(&line)? {
                CountersCommand::Counters {} => {
                    lines::write(&Answer::Counters(counted.iter().map(|each| each.totals()).collect()))
                }
            }
        }
        Ok(())
    })
}

fn cannot_listen(error: std::io::Error) -> Failure {
    Failure::new(Class::Plan, format!("cannot listen: {error}"))
}

/// The first line of input: server and entrances (listening addresses). `seed` determines which requests are delayed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub server: SocketAddr,
    pub seed: u64,
    pub entrances: Vec<EntrancePlan>,
}

/// An entrance (listening address) of the relay. The simulated caches hold data for only one `state`: a request finds
/// cold caches if the relay's last request was to an entrance with another `state` ([`Cost::warming`]).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntrancePlan {
    pub address: SocketAddr,
    pub cost: Cost,
    #[serde(default)]
    pub state: u64,
}

/// A line of output. The first line contains the addresses of the entrances (listening addresses). Each further line
/// answers a command with the totals of each entrance. Addresses and totals are in the plan's order.
pub type Answer = lines::Answer<Ready, Vec<DelayTotals>>;

#[derive(Debug, Serialize)]
pub struct Ready {
    pub entrances: Vec<SocketAddr>,
}
