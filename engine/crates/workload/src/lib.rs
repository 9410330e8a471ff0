//! Workloads, which do not depend on the protocol, and the workers that run them.
//!
//! A workload defines its preparation and its operation. The worker, the same for all workloads, begins operations and
//! handles failures. A workload uses a protocol only through the traits in [`client`] and [`sql`].

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
pub use worker::{Slot, Window, WorkerCommand};

use base::error::Result;
use record::{Counts, Evidence, Recorder, Timeline};
use std::ops::Range;

/// The part of a workload that one worker performs. It exists throughout the run and keeps its connection between
/// slices (measured windows), until [`Workload::disconnect`].
pub trait Workload: 'static {
    /// The maximum number of operations that one call of [`Workload::operate`] performs.
    const BATCH: u64 = 1;

    /// Return the maximum number of queries or statements that one operation performs one after the other. The timeout
    /// of the operation is multiplied by this number.
    fn in_a_row(&self) -> u64 {
        1
    }

    /// Return the simulated user's pause before the next operation in nanoseconds. The pause counts in no phase.
    fn rest_ns(&mut self) -> u64 {
        0
    }

    /// End the connection that is kept between slices (measured windows), if there is one.
    fn disconnect(&mut self) {}

    /// Prepare for a slice (a measured window), for example open the connection. The preparation is not measured. Add
    /// the connection to the evidence (servers and TLS settings). Errors: the worker counts them and still runs the
    /// slice.
    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()>;

    /// Perform the operations with the numbers `claimed`, counted from 0 in each slice (measured window). Put their
    /// phases (timed parts) into the timeline. Errors: the worker counts them and continues.
    async fn operate(&mut self, claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()>;

    /// Record additional operations that the last call of [`Workload::operate`] performed and timed separately, such as
    /// the further queries of workload `connect`.
    fn record_further(&mut self, _recorder: &mut Recorder) {}

    /// Add the workload's own counts, such as HTTP responses by status, to `into`, and reset them. The worker calls
    /// this after each preparation and each slice (measured window).
    fn take_counts(&mut self, _into: &mut Counts) {}
}
