//! What goes in and out of the relay, one JSON object a line.

use crate::cost::{Cost, Paid};
use base::lines;
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

/// What goes out; counters by entrance, in the plan's order.
pub type Answer = lines::Answer<Ready, Vec<Paid>>;

#[derive(Debug, Serialize)]
pub struct Ready {
    pub entrances: Vec<SocketAddr>,
}
