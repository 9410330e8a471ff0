//! What was measured, as Python reads it.

use base::error::Failure;
use record::{ErrorCount, EvidenceAnswer, PhaseAnswer};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use wire::Detail;

/// A line out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Once, to the plan.
    Ready(Ready),
    /// One to each slice.
    Slice(Box<SliceAnswer>),
    /// Fatal; the last line.
    Error(Failure),
}

/// What the engine is and which arms can run.
#[derive(Debug, Serialize)]
pub struct Ready {
    /// Name and version.
    pub instrument: String,
    /// Of the libraries whose speed is measured with ours.
    pub versions: BTreeMap<&'static str, String>,
    /// What measuring itself costs.
    pub self_cost_ns: SelfCost,
    /// In the plan's order.
    pub arms: Vec<ArmReady>,
}

/// What measuring costs an operation, in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct SelfCost {
    /// One reading of the clock; an operation reads it twice.
    pub timer: f64,
    /// One record of a phase.
    pub record: f64,
}

/// Whether an arm can run.
#[derive(Debug, Serialize)]
pub struct ArmReady {
    /// The arm's.
    pub name: String,
    /// The member that the first worker reads.
    pub server: Option<String>,
    /// Why it cannot run.
    pub error: Option<Failure>,
}

/// What a slice measured.
#[derive(Debug, Serialize)]
pub struct SliceAnswer {
    /// The command's.
    pub id: u64,
    /// The command's.
    pub arm: String,
    /// The command's.
    pub workload: String,
    /// When it was.
    pub started_unix_ns: u64,
    /// From the start to the end of its last operation, whatever came of it.
    pub elapsed_ns: u64,
    /// Those that succeeded; of a load, records.
    pub operations: u64,
    /// Those that did not, and failures to make a connection ready for one.
    pub errors: Vec<ErrorCount>,
    /// By name; only those that happened.
    pub phases: BTreeMap<&'static str, PhaseAnswer>,
    /// By role; ours is `client`.
    pub cpu_ns: BTreeMap<&'static str, u64>,
    /// Of this process, so far.
    pub peak_memory_bytes: u64,
    /// That the arm was what it says.
    pub evidence: EvidenceAnswer,
    /// What its workload and its protocol say beside.
    #[serde(flatten)]
    pub details: Details,
}

/// By name, in this order.
#[derive(Debug)]
pub struct Details(pub Vec<Detail>);

impl Serialize for Details {
    fn serialize<S: Serializer>(&self, out: S) -> std::result::Result<S::Ok, S::Error> {
        out.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
