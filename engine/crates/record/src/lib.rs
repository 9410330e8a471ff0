//! The record of a slice: times of phases, errors by class, counts and evidence.

mod evidence;
mod log;
mod recorder;
mod timeline;

pub use evidence::{Connection, Evidence, EvidenceAnswer, Security};
pub use log::{Counts, ErrorCount, ErrorTally, Name, SliceLog, Tally};
pub use recorder::{PhaseAnswer, Recorder};
pub use timeline::{Phase, Span, Timeline, Traffic};
