//! What a slice leaves: times of phases, errors by class, evidence.

mod errors;
mod evidence;
mod log;
mod phase;
mod recorder;
mod responses;
mod timeline;
mod transactions;

pub use errors::{ErrorCount, ErrorTally};
pub use evidence::{Connection, Evidence, EvidenceAnswer, Security};
pub use log::SliceLog;
pub use phase::Phase;
pub use recorder::{PhaseAnswer, Recorder};
pub use responses::{HttpAnswer, Response, Responses};
pub use timeline::{Timeline, Traffic};
pub use transactions::{TpccAnswer, Transactions};
