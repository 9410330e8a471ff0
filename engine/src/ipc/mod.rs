//! What goes in and out, exactly as `docs/ipc.md` states it: one JSON object a line, unknown fields refused.

mod plan;
mod sealed;

pub use plan::*;
pub use sealed::*;

use base::error::Failure;
use record::{Counts, ErrorCount, EvidenceAnswer, PhaseAnswer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::Facts;

/// A line in.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    Plan(Plan),
    /// Before a slice, where it is to open at an instant.
    Prepare(PrepareCommand),
    Slice(SliceCommand),
}

/// What precedes the window of the slice that comes next.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrepareCommand {
    pub id: u64,
    pub arm: String,
    pub workload: String,
    /// Standing connections are ended first, and opened anew as for the first slice.
    #[serde(default)]
    pub reconnect: bool,
}

/// A short measured window of one workload on one arm.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceCommand {
    pub id: u64,
    pub arm: String,
    pub workload: String,
    pub operations: u64,
    /// … or after so long, whichever comes first.
    pub seconds: f64,
    /// Standing connections are ended first, and opened anew as for the first slice; operations begin at once.
    #[serde(default)]
    pub reconnect: bool,
    /// It was prepared, and opens at this instant of the monotonic clock; where absent, it is prepared and opens at once.
    pub opens_ns: Option<u64>,
}

/// A line out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    PublicKey(String),
    Ready(Ready),
    Prepared(Prepared),
    Slice(Box<SliceAnswer>),
}

/// What the engine is and which arms can run.
#[derive(Debug, Serialize)]
pub struct Ready {
    pub instrument: String,
    pub versions: BTreeMap<&'static str, String>,
    pub self_cost_ns: SelfCost,
    pub arms: Vec<ArmReady>,
}

/// What measuring costs an operation, in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct SelfCost {
    /// One reading of the clock; an operation reads it twice.
    pub timer: f64,
    pub record: f64,
}

/// Whether an arm can run.
#[derive(Debug, Serialize)]
pub struct ArmReady {
    pub name: String,
    pub server: Option<String>,
    pub error: Option<Failure>,
}

/// What came of getting ready for a slice.
#[derive(Debug, Serialize)]
pub struct Prepared {
    pub id: u64,
    pub errors: Vec<ErrorCount>,
}

/// Instants of a slice that was told when to open, on the monotonic clock.
#[derive(Debug, Serialize)]
pub struct WindowAnswer {
    /// When it was told to, or later where that had passed.
    pub opened_ns: u64,
    /// The first beginning of an operation, whatever came of it.
    pub first_began_ns: Option<u64>,
    pub last_ended_ns: Option<u64>,
}

/// What a slice measured.
#[derive(Debug, Serialize)]
pub struct SliceAnswer {
    pub id: u64,
    pub arm: String,
    pub workload: String,
    pub started_unix_ns: u64,
    /// From the start to the end of its last operation, whatever came of it.
    pub elapsed_ns: u64,
    pub operations: u64,
    /// Those that did not, and failures to make a connection ready for one.
    pub errors: Vec<ErrorCount>,
    pub phases: BTreeMap<&'static str, PhaseAnswer>,
    /// By role; ours is `client`.
    pub cpu_ns: BTreeMap<&'static str, u64>,
    pub peak_memory_bytes: u64,
    pub counts: Counts,
    pub evidence: Evidence,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowAnswer>,
}

/// What the arm was found to be.
#[derive(Debug, Serialize)]
pub struct Evidence {
    #[serde(flatten)]
    pub connections: EvidenceAnswer,
    #[serde(flatten)]
    pub proof: Facts,
}
