//! `query`: reading records by uniformly random keys over a standing connection.

use super::Workload;
use super::persistent::Standing;
use crate::client::{AboutOf, Ask, Client, Session, Target};
use base::Random;
use base::error::Result;
use record::{Evidence, Phase, Trail};
use std::ops::Range;

/// One worker's queries, one after the other.
pub struct Query<C: Client<Session: Ask>> {
    standing: Standing<C>,
    table: AboutOf<C>,
    random: Random,
}

impl<C: Client<Session: Ask>> Query<C> {
    /// `random` chooses the keys.
    pub fn new(client: C, target: Target, table: AboutOf<C>, random: Random) -> Self {
        Query { standing: Standing::new(client, target), table, random }
    }
}

impl<C: Client<Session: Ask>> Workload for Query<C> {
    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        self.standing.prepare(evidence).await
    }

    async fn operate(&mut self, _claimed: Range<u64>, trail: &mut Trail, evidence: &mut Evidence) -> Result<()> {
        let mut session = self.standing.take(evidence).await?;
        trail.start(session.traffic());
        let outcome = session.ask(&self.table, &mut self.random, evidence).await;
        trail.lap(Phase::Operation, session.traffic());
        self.standing.settle(session, outcome)
    }
}
