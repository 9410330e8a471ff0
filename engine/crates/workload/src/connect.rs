//! `connect`: what a client without a pool does. A trial is a new connection, its first operation unless it goes without, and its
//! end. The end is in the slice's time and in no phase.

use super::Workload;
use crate::client::{AboutOf, Ask, Client, Session, TallyOf, Target};
use base::Random;
use base::error::Result;
use record::{Counts, Evidence, Phase, Tally, Timeline};
use std::ops::Range;

/// One worker's trials, one after the other.
pub struct Connect<C: Client<Session: Ask>> {
    client: C,
    target: Target,
    about: AboutOf<C>,
    random: Random,
    first_operation: bool,
    tally: TallyOf<C>,
}

impl<C: Client<Session: Ask>> Connect<C> {
    /// `random` chooses the questions. Without `first_operation` a connection is ended as soon as it is ready for one.
    pub fn new(client: C, target: Target, about: AboutOf<C>, random: Random, first_operation: bool) -> Self {
        Connect { client, target, about, random, first_operation, tally: TallyOf::<C>::default() }
    }
}

impl<C: Client<Session: Ask>> Workload for Connect<C> {
    async fn prepare(&mut self, _evidence: &mut Evidence) -> Result<()> {
        Ok(())
    }

    async fn operate(&mut self, _claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let mut session = self.client.open(self.target, timeline).await?;
        let mut first = Ok(());
        if self.first_operation {
            first = session.ask(&self.about, &mut self.random, &mut self.tally).await;
            timeline.end_phase(Phase::FirstOperation, session.traffic());
        }
        evidence.opened(session.connection());
        session.end().await;
        first
    }

    fn take_counts(&mut self, into: &mut Counts) {
        std::mem::take(&mut self.tally).add_to(into);
    }
}
