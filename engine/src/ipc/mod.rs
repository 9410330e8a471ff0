//! The messages of `drive` as specified in `docs/ipc.md`: one JSON object a line, without unknown fields.

mod plan;
mod sealed;

pub use plan::*;
pub use sealed::*;

use base::error::Failure;
use record::{Counts, ErrorCount, EvidenceAnswer, PhaseAnswer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::Facts;

/// A line of input.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    Plan(Plan),
    /// Sent before a slice that opens at a given instant.
    Prepare(PrepareCommand),
    Slice(SliceCommand),
}

/// The preparation of the next slice.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrepareCommand {
    pub id: u64,
    pub arm: String,
    pub workload: String,
    /// Close persistent connections and open new ones, as for the first slice.
    #[serde(default)]
    pub reconnect: bool,
}

/// A measured window of one workload on one arm. It ends after `operations` or `seconds`, whichever comes first.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceCommand {
    pub id: u64,
    pub arm: String,
    pub workload: String,
    pub operations: u64,
    pub seconds: f64,
    /// Close persistent connections and open new ones, as for the first slice. Operations begin at once, without pace
    /// and think times.
    #[serde(default)]
    pub reconnect: bool,
    /// The opening on the monotonic clock of a prepared slice. If absent, the slice is prepared and opens at once.
    pub opens_ns: Option<u64>,
}

/// A line of output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    PublicKey(String),
    Ready(Ready),
    Prepared(Prepared),
    Slice(Box<SliceAnswer>),
}

/// The engine's version and cost, and the state of each arm.
#[derive(Debug, Serialize)]
pub struct Ready {
    pub instrument: String,
    pub versions: BTreeMap<&'static str, String>,
    pub self_cost_ns: SelfCost,
    pub arms: Vec<ArmReady>,
}

/// The cost of measuring an operation in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct SelfCost {
    /// Reading the clock once; an operation reads it twice.
    pub timer: f64,
    /// Recording an operation.
    pub record: f64,
}

/// The state of an arm: its server, or the error for which it cannot run.
#[derive(Debug, Serialize)]
pub struct ArmReady {
    pub name: String,
    pub server: Option<String>,
    pub error: Option<Failure>,
}

/// The outcome of preparing a slice.
#[derive(Debug, Serialize)]
pub struct Prepared {
    pub id: u64,
    pub errors: Vec<ErrorCount>,
}

/// Instants of a slice with a given opening, on the monotonic clock.
#[derive(Debug, Serialize)]
pub struct WindowAnswer {
    /// The given opening, or later if that had passed.
    pub opened_ns: u64,
    /// The start of the first operation, successful or not.
    pub first_began_ns: Option<u64>,
    pub last_ended_ns: Option<u64>,
}

/// The measurements of a slice.
#[derive(Debug, Serialize)]
pub struct SliceAnswer {
    pub id: u64,
    pub arm: String,
    pub workload: String,
    pub started_unix_ns: u64,
    /// From the start of the slice to the end of its last operation, successful or not.
    pub elapsed_ns: u64,
    /// Successful operations.
    pub operations: u64,
    /// Failed operations, and failures to prepare a connection.
    pub errors: Vec<ErrorCount>,
    pub phases: BTreeMap<&'static str, PhaseAnswer>,
    /// CPU time by role; the engine's role is `client`.
    pub cpu_ns: BTreeMap<&'static str, u64>,
    pub peak_memory_bytes: u64,
    pub counts: Counts,
    pub evidence: Evidence,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowAnswer>,
}

/// The evidence of what the arm was.
#[derive(Debug, Serialize)]
pub struct Evidence {
    #[serde(flatten)]
    pub connections: EvidenceAnswer,
    #[serde(flatten)]
    pub proof: Facts,
}
