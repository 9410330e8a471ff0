//! `query`: reading records by uniformly random keys over a standing connection.

use super::standing::Standing;
use super::{Random, Records, Workload};
use crate::error::Result;
use crate::record::{Evidence, Phase, Trail};
use crate::wire::{Client, KeyValue, Session, TableOf, Target};
use std::ops::Range;

/// One worker's queries, one after the other.
pub struct Query<C: Client<Session: KeyValue>> {
    standing: Standing<C>,
    table: TableOf<C>,
    random: Random,
}

impl<C: Client<Session: KeyValue>> Query<C> {
    /// `random` chooses the keys.
    pub fn new(client: C, target: Target, table: TableOf<C>, random: Random) -> Self {
        Query { standing: Standing::new(client, target), table, random }
    }
}

impl<C: Client<Session: KeyValue>> Workload for Query<C> {
    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        self.standing.prepare(evidence).await
    }

    async fn operate(&mut self, _claimed: Range<u64>, trail: &mut Trail, evidence: &mut Evidence) -> Result<()> {
        let record = self.random.below(self.table.records());
        let mut session = self.standing.take(evidence).await?;
        trail.start(session.traffic());
        let outcome = session.read(&self.table, record).await;
        trail.lap(Phase::Operation, session.traffic());
        self.standing.settle(session, outcome)
    }
}
