//! `query`, `write`, `pipeline` and `tpcb`: one question after the other over a persistent connection, about records whose keys
//! are uniformly random.

use super::Workload;
use super::persistent::{AsPooled, Persistent};
use crate::client::{AboutOf, Ask, Client, Overwrite, Pgbench, Pipeline, Session, TallyOf, Target};
use base::Random;
use base::error::Result;
use record::{Counts, Evidence, Phase, Tally, Timeline};
use std::marker::PhantomData;
use std::ops::Range;

/// Queries that are sent before the first of them is answered.
const PIPELINED: usize = 16;

/// What one operation asks.
pub trait Question<S: Ask>: 'static {
    async fn ask(session: &mut S, about: &S::About, random: &mut Random, tally: &mut S::Tally) -> Result<()>;
}

/// One query.
pub struct OneByOne;

impl<S: Ask> Question<S> for OneByOne {
    async fn ask(session: &mut S, about: &S::About, random: &mut Random, tally: &mut S::Tally) -> Result<()> {
        session.ask(about, random, tally).await
    }
}

/// One record written anew.
pub struct Overwritten;

impl<S: Overwrite> Question<S> for Overwritten {
    async fn ask(session: &mut S, about: &S::About, random: &mut Random, _tally: &mut S::Tally) -> Result<()> {
        session.overwrite(about, random).await
    }
}

/// Sixteen queries at once.
pub struct Pipelined;

impl<S: Pipeline> Question<S> for Pipelined {
    async fn ask(session: &mut S, about: &S::About, random: &mut Random, _tally: &mut S::Tally) -> Result<()> {
        session.ask_at_once(about, PIPELINED, random).await
    }
}

/// One transaction of pgbench's.
pub struct Transactions;

impl<S: Pgbench> Question<S> for Transactions {
    async fn ask(session: &mut S, about: &S::About, random: &mut Random, _tally: &mut S::Tally) -> Result<()> {
        session.transact(about, random).await
    }
}

/// One worker's questions, one after the other.
pub struct Query<C: Client<Session: Ask>, Q = OneByOne> {
    session: Persistent<C>,
    table: AboutOf<C>,
    random: Random,
    tally: TallyOf<C>,
    question: PhantomData<Q>,
}

impl<C: Client<Session: Ask>, Q> Query<C, Q> {
    /// `random` chooses the keys.
    pub fn new(client: C, target: Target, table: AboutOf<C>, random: Random) -> Self {
        let session = Persistent::new(client, target, AsPooled);
        Query { session, table, random, tally: TallyOf::<C>::default(), question: PhantomData }
    }
}

impl<C: Client<Session: Ask>, Q: Question<C::Session>> Workload for Query<C, Q> {
    fn disconnect(&mut self) {
        self.session.disconnect();
    }

    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        self.session.prepare(evidence).await
    }

    async fn operate(&mut self, _claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let mut session = self.session.take(evidence).await?;
        timeline.start(session.traffic());
        let outcome = Q::ask(&mut session, &self.table, &mut self.random, &mut self.tally).await;
        timeline.end_phase(Phase::Operation, session.traffic());
        self.session.settle(session, outcome)
    }

    fn take_counts(&mut self, into: &mut Counts) {
        std::mem::take(&mut self.tally).add_to(into);
    }
}
