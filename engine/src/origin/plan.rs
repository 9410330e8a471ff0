//! What goes in and out of `costof-engine origin`.

use super::counters::ListenerCounters;
use base::error::Result;
use base::lines::{self, wrong};
use net::serve::{AllCounters, TlsFiles};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The first line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub threads: usize,
    pub listeners: Vec<ListenerPlan>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerPlan {
    /// Port 0 is any that is free.
    pub address: SocketAddr,
    /// Plain without.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
}

/// What goes out.
pub type Answer = lines::Answer<Ready, AllCounters<ListenerCounters>>;

/// Connections are being taken on all of these, in the plan's order, with the ports that were free.
#[derive(Debug, Serialize)]
pub struct Ready {
    pub listeners: Vec<SocketAddr>,
}

impl Plan {
    pub fn parse(line: &[u8]) -> Result<Plan> {
        let plan: Plan = lines::parse(line)?;
        if plan.threads == 0 {
            return Err(wrong("threads is at least 1"));
        }
        if plan.listeners.is_empty() {
            return Err(wrong("there is no listener in it"));
        }
        Ok(plan)
    }
}
