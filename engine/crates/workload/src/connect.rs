//! `connect`: what a client without a pool does. A trial is a new connection, its first operation unless it goes without, any
//! further ones, and its end. The end is in the slice's time and in no phase.

use super::Workload;
use crate::client::{AboutOf, Ask, Client, Session, TallyOf, Target};
use base::Random;
use base::error::Result;
use record::{Counts, Evidence, Phase, Recorder, Span, Tally, Timeline};
use std::ops::Range;

/// One worker's trials, one after the other.
pub struct Connect<C: Client<Session: Ask>> {
    client: C,
    target: Target,
    about: AboutOf<C>,
    random: Random,
    asks: Asks,
    further: Vec<Span>,
    tally: TallyOf<C>,
}

/// What a trial asks of its connection.
#[derive(Debug, Clone, Copy)]
pub struct Asks {
    /// Whether anything; a connection is else ended as soon as it is ready.
    pub first: bool,
    pub further: u32,
}

impl<C: Client<Session: Ask>> Connect<C> {
    pub fn new(client: C, target: Target, about: AboutOf<C>, random: Random, asks: Asks) -> Self {
        let further = Vec::with_capacity(asks.further as usize);
        Connect { client, target, about, random, asks, further, tally: TallyOf::<C>::default() }
    }

    async fn ask(&mut self, session: &mut C::Session, timeline: &mut Timeline) -> Result<()> {
        for number in 0..=self.asks.further {
            if number == self.asks.further {
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
        1 + u64::from(self.asks.further)
    }

    async fn prepare(&mut self, _evidence: &mut Evidence) -> Result<()> {
        Ok(())
    }

    async fn operate(&mut self, _claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        self.further.clear();
        let mut session = self.client.open(self.target, timeline).await?;
        let asked = if self.asks.first { self.ask(&mut session, timeline).await } else { Ok(()) };
        evidence.opened(session.connection());
        session.end().await;
        asked
    }

    fn record_further(&mut self, recorder: &mut Recorder) {
        self.further.drain(..).for_each(|span| recorder.record_operation(span));
    }

    fn take_counts(&mut self, into: &mut Counts) {
        std::mem::take(&mut self.tally).add_to(into);
    }
}
