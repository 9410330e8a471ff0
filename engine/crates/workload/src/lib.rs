//! Workloads, independent of protocols, and the workers that run them.
//!
//! A workload defines its preparation and its operation. The worker, the same for all workloads, decides when
//! operations begin and how many there are, and handles failures. The traits in [`client`] and [`sql`] are what
//! workloads need of a protocol.

mod client;
mod connect;
mod job;
pub mod pgbench;
mod query;
mod request;
mod schedule;
mod settings;
mod share;
pub mod sql;
pub mod sysbench;
pub mod tpcc;
mod worker;
pub mod ycsb;

pub use client::{
    AboutOf, Ask, Client, KeyValue, Overwrite, Pgbench, Pipeline, Records, Requests, Session, TallyOf, Target,
};
pub use connect::{Connect, TrialOperations};
pub use job::{Job, OPENING_AT_A_TIME};
pub use query::{Load, Query};
pub use request::Request;
pub use schedule::Schedule;
pub use settings::{Arrivals, CACHE, Data, Kind, PGBENCH, Pace, QUERIES, RECORDS, REQUESTS, SQL, Settings};
pub use share::Share;
pub use worker::{Order, Slot, Window};

use base::error::Result;
use record::{Counts, Evidence, Recorder, Timeline};
use std::ops::Range;

/// One worker's part of a workload. It lives through the whole run and keeps its connection between slices until
/// [`Workload::disconnect`].
pub trait Workload: 'static {
    /// The number of operations in one call of [`Workload::operate`].
    const BATCH: u64 = 1;

    /// Return the number of consecutive server operations in one operation, by which its timeouts are multiplied.
    fn in_a_row(&self) -> u64 {
        1
    }

    /// Return the simulated user's pause before the next operation in nanoseconds. It counts in no phase.
    fn rest_ns(&mut self) -> u64 {
        0
    }

    /// End the connection that is kept between slices, if any.
    fn disconnect(&mut self) {}

    /// Prepare for a slice, unmeasured.
    /// Errors: the worker counts them and runs the slice nevertheless.
    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()>;

    /// Perform the operations with these numbers, counted from 0 in the slice, and put their phases into the timeline.
    /// Errors: the worker counts them and continues with the next operation.
    async fn operate(&mut self, claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()>;

    /// Record the operations that are not in the timeline.
    fn record_further(&mut self, _recorder: &mut Recorder) {}

    /// Move the counts since the last call into `into`. The worker calls it after each order.
    fn take_counts(&mut self, _into: &mut Counts) {}
}
