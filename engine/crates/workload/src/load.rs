//! `load`: writing the table's records in batches, to the server that takes writes. An operation is a record; the phase
//! `operation` is a batch.

use super::Workload;
use super::persistent::Standing;
use crate::client::{AboutOf, Client, KeyValue, Session, Target};
use base::error::Result;
use record::{Evidence, Phase, Trail};
use std::ops::Range;

/// One worker's batches, one after the other.
pub struct Load<C: Client<Session: KeyValue>> {
    standing: Standing<C>,
    table: AboutOf<C>,
}

impl<C: Client<Session: KeyValue>> Load<C> {
    /// The records of this table.
    pub fn new(client: C, table: AboutOf<C>) -> Self {
        Load { standing: Standing::new(client, Target::Writer), table }
    }
}

impl<C: Client<Session: KeyValue>> Workload for Load<C> {
    /// About 110 KB of YCSB's records, 20 KB of sysbench's: enough to make a round trip's share small, little enough to show progress.
    const BATCH: u64 = 100;

    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        self.standing.prepare(evidence).await
    }

    async fn operate(&mut self, claimed: Range<u64>, trail: &mut Trail, evidence: &mut Evidence) -> Result<()> {
        let mut session = self.standing.take(evidence).await?;
        trail.start(session.traffic());
        let outcome = session.insert(&self.table, claimed).await;
        trail.lap(Phase::Operation, session.traffic());
        self.standing.settle(session, outcome)
    }
}
