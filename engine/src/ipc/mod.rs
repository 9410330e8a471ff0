//! The messages of subcommand `drive` (`docs/ipc.md`), one JSON object a line. Unknown fields are rejected.

mod plan;
mod sealed;

pub use plan::*;
pub use sealed::*;

use base::error::Failure;
use record::{Counts, ErrorCount, EvidenceAnswer, PhaseAnswer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::Facts;

/// A command, read from one line of standard input.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    Plan(Plan),
    /// Prepare for a slice (measured window). The command [`Command::Slice`] with `opens_ns` follows.
    Prepare(PrepareCommand),
    Slice(SliceCommand),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrepareCommand {
    pub id: u64,
    pub arm: String,
    pub workload: String,
    /// True to replace all persistent connections before the measurement.
    #[serde(default)]
    pub reconnect: bool,
}

/// A command to measure a slice: a time window of one workload on one arm (variant of the experiment). The slice ends
/// after `operations` or `seconds`, whichever comes first.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceCommand {
    pub id: u64,
    pub arm: String,
    pub workload: String,
    pub operations: u64,
    pub seconds: f64,
    /// The rate at which operations begin in this slice (measured window). If absent, the workload's own rate applies.
    pub per_second: Option<f64>,
    /// End the slice (measured window) as soon as an operation would begin this many milliseconds after its scheduled
    /// time, because the server then cannot keep up with the rate. If absent, the slice lasts its whole time.
    pub give_up_ms: Option<f64>,
    /// True to replace all persistent connections before the slice (measured window). Operations then begin at once,
    /// even if the workload has a pace (a fixed rate) or think times.
    #[serde(default)]
    pub reconnect: bool,
    /// True to close all persistent connections after the slice (measured window), because some servers count a
    /// connection's work only when the connection ends.
    #[serde(default)]
    pub disconnect: bool,
    /// The instant on the monotonic clock at which the slice (measured window) opens. If present, a command `prepare`
    /// for the same slice must come directly before. If absent, the engine prepares the slice and opens it at once.
    pub opens_ns: Option<u64>,
}

/// An answer, written as one line of standard output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    PublicKey(String),
    Ready(Ready),
    Prepared(Prepared),
    Slice(Box<SliceAnswer>),
}

/// The answer to the plan (the configuration of a run): the engine's version, the engine's own time for measuring an
/// operation, and the state of each arm (variant of the experiment).
#[derive(Debug, Serialize)]
pub struct Ready {
    pub instrument: String,
    pub versions: BTreeMap<&'static str, String>,
    pub self_cost_ns: SelfCost,
    pub arms: Vec<ArmReady>,
}

/// The engine's own time for measuring an operation, in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct SelfCost {
    /// The time to read the clock once. To measure an operation, the engine reads the clock twice.
    pub timer: f64,
    /// The time to store the measured durations of one operation.
    pub record: f64,
}

/// The state of an arm (a variant of the experiment): its server, or the error that prevents it from running.
#[derive(Debug, Serialize)]
pub struct ArmReady {
    pub name: String,
    pub server: Option<String>,
    pub error: Option<Failure>,
}

/// The answer to [`PrepareCommand`], with the errors of the preparation by class.
#[derive(Debug, Serialize)]
pub struct Prepared {
    pub id: u64,
    pub errors: Vec<ErrorCount>,
}

/// The instants at which a slice (measured window) opened, its first operation began, and its last operation ended, on
/// the monotonic clock. The answer contains them only if the command contained `opens_ns`.
#[derive(Debug, Serialize)]
pub struct WindowAnswer {
    /// The instant at which the slice (measured window) opened: `opens_ns`, or later if the command arrived after that
    /// instant.
    pub opened_ns: u64,
    /// The start of the first operation, successful or not. None if no operation began.
    pub first_began_ns: Option<u64>,
    pub last_ended_ns: Option<u64>,
}

/// The answer to [`SliceCommand`]: the measurements in a slice (a time window).
#[derive(Debug, Serialize)]
pub struct SliceAnswer {
    pub id: u64,
    pub arm: String,
    pub workload: String,
    pub started_unix_ns: u64,
    /// The time from the start of the slice (measured window) to the end of its last operation, successful or not.
    pub elapsed_ns: u64,
    /// The number of successful operations.
    pub operations: u64,
    /// The errors of failed operations and of preparing connections, counted by class and phase.
    pub errors: Vec<ErrorCount>,
    pub phases: BTreeMap<&'static str, PhaseAnswer>,
    /// The CPU time of this process during the slice (measured window), under the key `client`.
    pub cpu_ns: BTreeMap<&'static str, u64>,
    pub peak_memory_bytes: u64,
    pub counts: Counts,
    pub evidence: Evidence,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowAnswer>,
}

/// The evidence that the arm (variant of the experiment) was measured with its configured settings: the connections'
/// servers and TLS settings, and facts that the protocol reports.
#[derive(Debug, Serialize)]
pub struct Evidence {
    #[serde(flatten)]
    pub connections: EvidenceAnswer,
    #[serde(flatten)]
    pub facts: Facts,
}
