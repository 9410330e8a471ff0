//! The record of a slice (a measured window of one workload).
//!
//! The record contains times of phases, errors by class, counts by name, and evidence of the connections.

mod evidence;
mod log;
mod recorder;
mod timeline;

pub use evidence::{Connection, Evidence, EvidenceAnswer, Security};
pub use log::{Counts, ErrorCount, ErrorTally, Name, SliceLog, Tally};
pub use recorder::{PhaseAnswer, Recorder};
pub use timeline::{Phase, Span, Timeline, Traffic};
