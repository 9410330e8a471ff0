//! What goes in and out of the relay, one JSON object a line.

use crate::cost::{Cost, Paid};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The first line. `seed` chooses the requests that pay.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub server: SocketAddr,
    pub seed: u64,
    pub entrances: Vec<EntrancePlan>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntrancePlan {
    /// Port 0 is any that is free.
    pub address: SocketAddr,
    pub cost: Cost,
}

/// A later line.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    Counters {},
}

/// By entrance, in the plan's order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Ready(Ready),
    Counters(Vec<Paid>),
}

#[derive(Debug, Serialize)]
pub struct Ready {
    pub entrances: Vec<SocketAddr>,
}
