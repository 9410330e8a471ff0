//! `load`: writing the table's records in batches, to the server that takes writes. An operation is a record; the phase
//! `operation` is a batch.

use super::Workload;
use super::persistent::{AsPooled, Persistent};
use crate::client::{AboutOf, Client, KeyValue, Session, Target};
use base::error::Result;
use record::{Evidence, Phase, Timeline};
use std::ops::Range;

/// One worker's batches, one after the other.
pub struct Load<C: Client<Session: KeyValue>> {
    session: Persistent<C>,
    table: AboutOf<C>,
}

impl<C: Client<Session: KeyValue>> Load<C> {
    pub fn new(client: C, table: AboutOf<C>) -> Self {
        Load { session: Persistent::new(client, Target::Writer, AsPooled), table }
    }
}

impl<C: Client<Session: KeyValue>> Workload for Load<C> {
    /// About 110 KB of YCSB's records, 20 KB of sysbench's: enough to make a round trip's share small, little enough to show progress.
    const BATCH: u64 = 100;

    fn disconnect(&mut self) {
        self.session.disconnect();
    }

    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        self.session.prepare(evidence).await
    }

    async fn operate(&mut self, claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let mut session = self.session.take(evidence).await?;
        timeline.start(session.traffic());
        let outcome = session.insert(&self.table, claimed).await;
        timeline.end_phase(Phase::Operation, session.traffic());
        self.session.settle(session, outcome)
    }
}
