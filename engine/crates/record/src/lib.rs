//! What a slice leaves: times of phases, errors by class, counts, evidence.

mod counts;
mod errors;
mod evidence;
mod log;
mod phase;
mod recorder;
mod timeline;

pub use counts::{Counts, Name, Tally};
pub use errors::{ErrorCount, ErrorTally};
pub use evidence::{Connection, Evidence, EvidenceAnswer, Security};
pub use log::SliceLog;
pub use phase::Phase;
pub use recorder::{PhaseAnswer, Recorder};
pub use timeline::{Span, Timeline, Traffic};
