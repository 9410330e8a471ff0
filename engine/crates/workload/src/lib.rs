//! What is done to a service, whatever protocol it speaks, and the workers that do it.
//!
//! A workload says how to get ready and what one operation is; when operations begin, how many there are and what becomes of a
//! failed one is the worker's business and the same for all. What a protocol must be able to do for a workload are the
//! traits of [`client`] and [`sql`].

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
pub use connect::{Asks, Connect};
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

/// One worker's part of a workload. It lives through the whole run and keeps its connection between slices
/// until it is told to end it.
pub trait Workload: 'static {
    /// So many operations are done at once: a batch.
    const BATCH: u64 = 1;

    fn in_a_row(&self) -> u64 {
        1
    }

    /// So long its user takes before the next operation can begin, in nanoseconds and in no phase.
    fn rest_ns(&mut self) -> u64 {
        0
    }

    /// End the connection that stands between slices, where one does.
    fn disconnect(&mut self) {}

    /// Get ready, unmeasured, before a slice begins.
    /// Errors: they are counted, and the slice is begun nevertheless.
    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()>;

    /// Do the operations of these numbers (of the slice, from 0) and leave their phases in the timeline.
    /// Errors: they are counted; the next operation begins with whatever this one left.
    async fn operate(&mut self, claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()>;

    fn record_further(&mut self, _recorder: &mut Recorder) {}

    /// Hand over what was counted since this was called last, once an order has been followed.
    fn take_counts(&mut self, _into: &mut Counts) {}
}
