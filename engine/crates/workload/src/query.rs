//! Workloads over a persistent connection, which is opened again, unmeasured, when it broke. `query`, `write`, `pipeline` and
//! `tpcb` ask one question after the other, about records whose keys are uniformly random. `load` writes the table's records in
//! batches, to the server that takes writes: an operation is a record, and the phase `operation` is a batch.

use crate::Workload;
use crate::client::{AboutOf, Ask, Client, KeyValue, Overwrite, Pgbench, Pipeline, Session, TallyOf, Target};
use base::Random;
use base::error::{Class, Result};
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

/// What a new session needs before its first operation, unmeasured.
pub trait Preparation<S> {
    /// Whether a connection that broke may have to go to another server: to the new primary, where one was elected.
    const REDISCOVERS: bool = false;

    async fn prepare(&self, session: &mut S) -> Result<()>;
}

/// As a pool does it when it opens a connection.
pub struct AsPooled;

impl<S: Session> Preparation<S> for AsPooled {
    async fn prepare(&self, session: &mut S) -> Result<()> {
        session.prepare().await
    }
}

/// One worker's persistent session.
pub struct Persistent<C: Client, P = AsPooled> {
    client: C,
    target: Target,
    preparation: P,
    session: Option<C::Session>,
    lost: bool,
}

impl<C: Client, P: Preparation<C::Session>> Persistent<C, P> {
    pub fn new(client: C, target: Target, preparation: P) -> Self {
        Persistent { client, target, preparation, session: None, lost: false }
    }

    pub fn disconnect(&mut self) {
        if let Some(session) = self.session.take() {
            session.close();
        }
    }

    /// See that it is open, and note what it is.
    /// Errors: those of looking for the server, of opening a session and of its preparation.
    pub async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        match &self.session {
            Some(session) => evidence.used(session.connection()),
            None => self.session = Some(self.open(evidence).await?),
        }
        Ok(())
    }

    /// Take the session for one operation; [`Persistent::settle`] gets it back. So an operation that is abandoned half-way
    /// can never leave its answer to the next one.
    pub async fn take(&mut self, evidence: &mut Evidence) -> Result<C::Session> {
        match self.session.take() {
            Some(session) => Ok(session),
            None => self.open(evidence).await,
        }
    }

    /// The operation has ended, well or not. The session is kept, unless it is not known what comes next on it (an error
    /// that the server answered is an answer), or its server says that another is to be asked.
    pub fn settle(&mut self, session: C::Session, outcome: Result<()>) -> Result<()> {
        match &outcome {
            Err(failure) if failure.class != Class::Server || P::REDISCOVERS && failure.moved => self.lose(session),
            _ => self.keep(session),
        }
        outcome
    }

    pub fn keep(&mut self, session: C::Session) {
        self.session = Some(session);
    }

    pub fn lose(&mut self, session: C::Session) {
        session.close();
        self.lost = true;
    }

    async fn open(&mut self, evidence: &mut Evidence) -> Result<C::Session> {
        if P::REDISCOVERS && self.lost {
            self.client.rediscover(self.target).await?;
        }
        self.lost = true;
        let mut session = self.client.open(self.target, &mut Timeline::default()).await?;
        evidence.opened(session.connection());
        if let Err(failure) = self.preparation.prepare(&mut session).await {
            session.close();
            return Err(failure);
        }
        self.lost = false;
        Ok(session)
    }
}

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
