//! What was measured, as Python reads it.

use crate::error::Failure;
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// What the responses were; of an arm of HTTP alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpAnswer>,
    /// What the transactions were; of kind `tpcc` with phase `run` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpcc: Option<TpccAnswer>,
    /// What its client has decrypted; of an arm with `decryption` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decrypted: Option<Decrypted>,
}

/// What TPC-C's transactions of a slice were.
#[derive(Debug, Serialize)]
pub struct TpccAnswer {
    /// By name; those that did not happen too.
    pub committed: BTreeMap<&'static str, u64>,
    /// New-Orders that end so by intent (clause 2.4.1.4).
    pub rolled_back: u64,
    /// Round trips with a statement, those of failed and retried transactions too.
    pub statements: u64,
    /// Met, rolled back and retried.
    pub deadlocks: u64,
    /// Met, rolled back and retried.
    pub lock_timeouts: u64,
}

/// What was decrypted in a slice, failed operations included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Decrypted {
    /// Without NULLs, which are not encrypted.
    pub values: u64,
    /// Of their plaintext.
    pub bytes: u64,
}

/// What the responses of a slice were, failed ones included that came whole. Bytes are those inside TLS.
#[derive(Debug, Serialize)]
pub struct HttpAnswer {
    /// Responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Those on a connection that had carried another before.
    pub reused: u64,
    /// With headers and framing.
    pub response_bytes: u64,
    /// Without either.
    pub body_bytes: u64,
    /// Of the response that proved the arm; null where none did.
    pub body_length: Option<u64>,
    /// Responses with a body of another length.
    pub other_length: u64,
    /// What the server calls itself.
    pub software: Option<String>,
}

/// Errors of one class, and of one phase where that is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// The first.
    #[serde(flatten)]
    pub first: Failure,
    /// How many there were.
    pub count: u64,
}

/// One phase's times, exact and as a histogram.
#[derive(Debug, Serialize)]
pub struct PhaseAnswer {
    /// How many were recorded.
    pub count: u64,
    /// Their sum, exact.
    pub sum_ns: u64,
    /// The sum of their squares.
    pub sum_squares_ns2: f64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Times that bytes arrived after bytes were sent since the last arrival.
    pub round_trips: u64,
    /// On the wire: with TLS, its records.
    pub bytes_sent: u64,
    /// On the wire: with TLS, its records.
    pub bytes_received: u64,
    /// HdrHistogram V2, compressed, base64; nanoseconds, three significant digits.
    pub histogram: String,
}

/// What the connections of a slice really were. Where connections differ, their values are joined by commas.
#[derive(Debug, Serialize)]
pub struct EvidenceAnswer {
    /// Connections opened in the slice, measured or not.
    pub connections: u64,
    /// As OpenSSL names it; null for plain.
    pub protocol: Option<String>,
    /// As OpenSSL names it; null for plain.
    pub cipher: Option<String>,
    /// The server's, such as `rsa-2048`; null for plain.
    pub key: Option<String>,
    /// Whether the certificate's chain was asked for and held.
    pub verified: bool,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
    /// TLS handshakes of the connections opened in the slice.
    pub handshakes: u64,
    /// The member that was measured.
    pub server: Option<String>,
}
