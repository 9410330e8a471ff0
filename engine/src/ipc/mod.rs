//! What goes in and out, exactly as `docs/ipc.md` states it: one JSON object a line, unknown fields refused.

mod answer;
mod plan;
mod sealed;

pub use answer::*;
pub use plan::*;
pub use sealed::*;

use serde::Deserialize;

/// A line in.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Once, first.
    Plan(Plan),
    /// Before a slice, where it is to open at an instant.
    Prepare(PrepareCommand),
    Slice(SliceCommand),
}

/// What precedes the window of the slice that comes next.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrepareCommand {
    /// The slice's; comes back in the answer.
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
