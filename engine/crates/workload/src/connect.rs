//! Workload `connect`, which simulates a client without a connection pool. An operation opens a connection, performs a
//! first query (unless disabled) and any further queries on it, and ends it. The time for ending the connection counts
//! in no phase (timed part) of the operation.

use super::Workload;
use crate::client::{AboutOf, Ask, Client, Session, TallyOf, Target};
use base::Random;
use base::error::Result;
use record::{Counts, Evidence, Phase, Recorder, Span, Tally, Timeline};
use std::ops::Range;

/// One worker's part of workload `connect`.
pub struct Connect<C: Client<Session: Ask>> {
    client: C,
    target: Target,
    about: AboutOf<C>,
    random: Random,
    operations: TrialOperations,
    further: Vec<Span>,
    tally: TallyOf<C>,
}

/// The queries that one operation performs on its connection.
#[derive(Debug, Clone, Copy)]
pub struct TrialOperations {
    /// True to perform a first query. Otherwise the connection ends as soon as it is ready.
    pub first: bool,
    pub further: u32,
}

impl<C: Client<Session: Ask>> Connect<C> {
    pub fn new(client: C, target: Target, about: AboutOf<C>, random: Random, operations: TrialOperations) -> Self {
        let further = Vec::with_capacity(operations.further as usize);
        Connect { client, target, about, random, operations, further, tally: TallyOf::<C>::default() }
    }

    async fn query(&mut self, session: &mut C::Session, timeline: &mut Timeline) -> Result<()> {
        for number in 0..=self.operations.further {
            if number == self.operations.further {
                session.ask(&self.about, &mut self.random, &mut self.tally).await?;
            } else {
                session.ask_and_go_on(&self.about, &mut self.random, &mut self.tally).await?;
            }
            if number == 0 {
                timeline.end_phase(Phase::FirstOperation, session.traffic());
            } else {
                self.further.push(timeline.lap(Phase::Operation, session.traffic()));
            }
        }
        Ok(())
    }
}

impl<C: Client<Session: Ask>> Workload for Connect<C> {
    fn in_a_row(&self) -> u64 {
        1 + u64::from(self.operations.further)
    }

    async fn prepare(&mut self, _evidence: &mut Evidence) -> Result<()> {
        Ok(())
    }

    async fn operate(&mut self, _claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        self.further.clear();
        let mut session = self.client.open(self.target, timeline).await?;
        let outcome = if self.operations.first { self.query(&mut session, timeline).await } else { Ok(()) };
        evidence.opened(session.connection());
        session.end().await;
        outcome
    }

    fn record_further(&mut self, recorder: &mut Recorder) {
        self.further.drain(..).for_each(|span| recorder.record_operation(span));
    }

    fn take_counts(&mut self, into: &mut Counts) {
        std::mem::take(&mut self.tally).add_to(into);
    }
}
