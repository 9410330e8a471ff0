//! `query`: reading records by uniformly random keys over a persistent connection.

use super::Workload;
use super::persistent::{AsPooled, Persistent};
use crate::client::{AboutOf, Ask, Client, Session, TallyOf, Target};
use base::Random;
use base::error::Result;
use record::{Counts, Evidence, Phase, Tally, Timeline};
use std::ops::Range;

/// One worker's queries, one after the other.
pub struct Query<C: Client<Session: Ask>> {
    session: Persistent<C>,
    table: AboutOf<C>,
    random: Random,
    tally: TallyOf<C>,
}

impl<C: Client<Session: Ask>> Query<C> {
    /// `random` chooses the keys.
    pub fn new(client: C, target: Target, table: AboutOf<C>, random: Random) -> Self {
        Query { session: Persistent::new(client, target, AsPooled), table, random, tally: TallyOf::<C>::default() }
    }
}

impl<C: Client<Session: Ask>> Workload for Query<C> {
    fn disconnect(&mut self) {
        self.session.disconnect();
    }

    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        self.session.prepare(evidence).await
    }

    async fn operate(&mut self, _claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let mut session = self.session.take(evidence).await?;
        timeline.start(session.traffic());
        let outcome = session.ask(&self.table, &mut self.random, &mut self.tally).await;
        timeline.end_phase(Phase::Operation, session.traffic());
        self.session.settle(session, outcome)
    }

    fn take_counts(&mut self, into: &mut Counts) {
        std::mem::take(&mut self.tally).add_to(into);
    }
}
