//! Workloads that use a persistent connection. When the connection breaks, a new one is opened outside the measured
//! time. `query`, `write`, `pipeline` and `tpcb` perform operations on records with uniformly distributed random keys.
//! `load` writes the table's records in batches to the server that accepts writes. It counts each record as an
//! operation, but measures the time of each batch as a whole.

use crate::Workload;
use crate::client::{AboutOf, Ask, Client, KeyValue, Overwrite, Pgbench, Pipeline, Session, TallyOf, Target};
use base::Random;
use base::error::{Class, Result};
use record::{Counts, Evidence, Phase, Tally, Timeline};
use std::marker::PhantomData;
use std::ops::Range;

/// The number of queries in a pipeline. All are sent before the first answer is awaited.
const PIPELINE_LENGTH: usize = 16;

/// The operation of a [`Query`] workload.
pub trait QueryKind<S: Ask>: 'static {
    async fn ask(session: &mut S, about: &S::About, random: &mut Random, tally: &mut S::Tally) -> Result<()>;
}

/// One query in each operation (workload `query`).
pub struct SingleQuery;

impl<S: Ask> QueryKind<S> for SingleQuery {
    async fn ask(session: &mut S, about: &S::About, random: &mut Random, tally: &mut S::Tally) -> Result<()> {
        session.ask(about, random, tally).await
    }
}

/// A write of one record (workload `write`).
pub struct Overwriting;

impl<S: Overwrite> QueryKind<S> for Overwriting {
    async fn ask(session: &mut S, about: &S::About, random: &mut Random, _tally: &mut S::Tally) -> Result<()> {
        session.overwrite(about, random).await
    }
}

/// Sixteen pipelined queries in each operation (workload `pipeline`).
pub struct Pipelining;

impl<S: Pipeline> QueryKind<S> for Pipelining {
    async fn ask(session: &mut S, about: &S::About, random: &mut Random, _tally: &mut S::Tally) -> Result<()> {
        session.ask_at_once(about, PIPELINE_LENGTH, random).await
    }
}

/// One of pgbench's transactions in each operation (workload `tpcb`).
pub struct PgbenchTransactions;

impl<S: Pgbench> QueryKind<S> for PgbenchTransactions {
    async fn ask(session: &mut S, about: &S::About, random: &mut Random, _tally: &mut S::Tally) -> Result<()> {
        session.transact(about, random).await
    }
}

/// One worker's part of a workload on a persistent session. `Q` defines the operation.
pub struct Query<C: Client<Session: Ask>, Q = SingleQuery> {
    session: Persistent<C>,
    table: AboutOf<C>,
    random: Random,
    tally: TallyOf<C>,
    kind: PhantomData<Q>,
}

impl<C: Client<Session: Ask>, Q> Query<C, Q> {
    pub fn new(client: C, target: Target, table: AboutOf<C>, random: Random) -> Self {
        let session = Persistent::new(client, target, SessionPreparation);
        Query { session, table, random, tally: TallyOf::<C>::default(), kind: PhantomData }
    }
}

impl<C: Client<Session: Ask>, Q: QueryKind<C::Session>> Workload for Query<C, Q> {
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

/// The work on a new session before its first operation. This work is not measured.
pub trait Preparation<S> {
    /// True to search for the primary again after a connection broke: another server may now be the primary.
    const REDISCOVERS: bool = false;

    async fn prepare(&self, session: &mut S) -> Result<()>;
}

/// The work that the protocol defines for a new session ([`Session::prepare`]).
pub struct SessionPreparation;

impl<S: Session> Preparation<S> for SessionPreparation {
    async fn prepare(&self, session: &mut S) -> Result<()> {
        session.prepare().await
    }
}

/// The persistent session of one worker. When a session breaks, a new session replaces it.
pub struct Persistent<C: Client, P = SessionPreparation> {
    client: C,
    target: Target,
    preparation: P,
    session: Option<C::Session>,
    broken: bool,
}

impl<C: Client, P: Preparation<C::Session>> Persistent<C, P> {
    pub fn new(client: C, target: Target, preparation: P) -> Self {
        Persistent { client, target, preparation, session: None, broken: false }
    }

    pub fn disconnect(&mut self) {
        if let Some(session) = self.session.take() {
            session.close();
        }
    }

    /// Open the session unless it is open, and add its server and TLS settings to the evidence (the record of what was
    /// measured). Errors: those of finding the server, of opening the session and of preparing it.
    pub async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        match &self.session {
            Some(session) => evidence.used(session.connection()),
            None => self.session = Some(self.open(evidence).await?),
        }
        Ok(())
    }

    /// Take the session for one operation. [`Persistent::settle`] puts it back, but not after an abandoned operation,
    /// whose late answer could be mistaken for the answer to the next operation.
    pub async fn take(&mut self, evidence: &mut Evidence) -> Result<C::Session> {
        match self.session.take() {
            Some(session) => Ok(session),
            None => self.open(evidence).await,
        }
    }

    /// Keep the session for the next operation, and return the outcome. After an error answer of the server (class
    /// `server`) the session is still usable. After any other error its state is unknown, so close it. If
    /// [`Preparation::REDISCOVERS`] is set, also close it when the server answered that it is no longer the primary.
    pub fn settle(&mut self, session: C::Session, outcome: Result<()>) -> Result<()> {
        match &outcome {
            Err(failure) if failure.class != Class::Server || P::REDISCOVERS && failure.moved => self.discard(session),
            _ => self.keep(session),
        }
        outcome
    }

    pub fn keep(&mut self, session: C::Session) {
        self.session = Some(session);
    }

    pub fn discard(&mut self, session: C::Session) {
        session.close();
        self.broken = true;
    }

    async fn open(&mut self, evidence: &mut Evidence) -> Result<C::Session> {
        if P::REDISCOVERS && self.broken {
            self.client.rediscover(self.target).await?;
        }
        self.broken = true;
        let mut session = self.client.open(self.target, &mut Timeline::default()).await?;
        evidence.opened(session.connection());
        if let Err(failure) = self.preparation.prepare(&mut session).await {
            session.close();
            return Err(failure);
        }
        self.broken = false;
        Ok(session)
    }
}

/// One worker's part of workload `load`, which writes batches of records.
pub struct Load<C: Client<Session: KeyValue>> {
    session: Persistent<C>,
    table: AboutOf<C>,
}

impl<C: Client<Session: KeyValue>> Load<C> {
    pub fn new(client: C, table: AboutOf<C>) -> Self {
        Load { session: Persistent::new(client, Target::Writer, SessionPreparation), table }
    }
}

impl<C: Client<Session: KeyValue>> Workload for Load<C> {
    /// The number of records in a batch: about 110 KB of YCSB's records or 20 KB of sysbench's. This is large enough
    /// that round trips take a small share of the time, and small enough to show progress.
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
