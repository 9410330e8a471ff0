//! What is done to a service. A workload says how to get ready and what one operation is; when operations begin, how
//! many there are and what becomes of a failed one is the worker's business ([`crate::drive`]) and the same for all.

mod connect;
mod load;
mod query;
mod random;
mod request;
mod standing;
pub mod sysbench;
pub mod tpcc;
pub mod ycsb;

pub use connect::Connect;
pub use load::Load;
pub use query::Query;
pub use random::Random;
pub use request::Request;

use crate::error::Result;
use crate::record::{Evidence, Trail};
use std::ops::Range;

/// One worker's part of a workload. It lives through the whole run and keeps its connection between slices.
pub trait Workload: 'static {
    /// So many operations are done at once: a batch.
    const BATCH: u64 = 1;

    /// So long its user takes before the next operation can begin, in nanoseconds and in no phase.
    fn rest_ns(&mut self) -> u64 {
        0
    }

    /// Get ready, unmeasured, before a slice begins.
    ///
    /// # Errors
    /// They are counted, and the slice is begun nevertheless.
    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()>;

    /// Do the operations of these numbers (of the slice, from 0) and leave their phases in the trail.
    ///
    /// # Errors
    /// They are counted; the next operation begins with whatever this one left.
    async fn operate(&mut self, claimed: Range<u64>, trail: &mut Trail, evidence: &mut Evidence) -> Result<()>;
}
