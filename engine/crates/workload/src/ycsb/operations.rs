//! Workload `ycsb`: the operations of a YCSB core workload over persistent connections.

use super::{Core, Key, Operation, Sequence, SequentialPosition, Shape};
use crate::Workload;
use crate::client::{Client, Records, Session, Target};
use crate::query::{Persistent, Preparation};
use base::Random;
use base::error::{Failure, Result};
use record::{Evidence, Phase, Timeline};
use std::ops::Range;
use std::sync::Arc;

/// The state that all workers share if they run the same workload on the same arm (variant of the experiment).
#[derive(Clone)]
pub struct Shared {
    /// The counter that gives each new record of the table its number. All workloads and all variants of the experiment
    /// with the same table share the counter.
    pub sequence: Arc<Sequence>,
    pub position: Arc<SequentialPosition>,
}

impl<S: Records> Preparation<S> for Shape {
    const REDISCOVERS: bool = true;

    async fn prepare(&self, session: &mut S) -> Result<()> {
        session.get_ready(self).await
    }
}

/// A worker's connection to one server of the service. A worker has one for reads and one for writes.
type Member<C> = Persistent<C, Shape>;

/// One worker's part of workload `ycsb`.
pub struct Ycsb<C: Client<Session: Records>> {
    client: C,
    reads_from: Target,
    writer: Member<C>,
    reader: Member<C>,
    one_server: bool,
    core: Core,
    shared: Shared,
    random: Random,
}

impl<C: Client<Session: Records> + Clone> Ycsb<C> {
    pub fn new(client: C, worker: usize, core: Core, shared: Shared, random: Random) -> Self {
        let (reads_from, shape) = (Target::Reader(worker), core.shape());
        Ycsb {
            writer: Member::new(client.clone(), Target::Writer, shape),
            reader: Member::new(client.clone(), reads_from, shape),
            one_server: client.is_one_server(reads_from, Target::Writer),
            client,
            reads_from,
            core,
            shared,
            random,
        }
    }
}

impl<C: Client<Session: Records>> Workload for Ycsb<C> {
    fn disconnect(&mut self) {
        self.writer.disconnect();
        self.reader.disconnect();
    }

    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        self.shared.sequence.begin_at_least(self.core.begins_at);
        let shape = self.core.shape();
        self.update_one_server();
        if shape.inserts || shape.updates || self.one_server {
            self.writer.prepare(evidence).await?;
        }
        if (shape.reads || shape.scans) && !self.one_server {
            self.reader.prepare(evidence).await?;
        }
        Ok(())
    }

    async fn operate(&mut self, _claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let (phase, outcome) = match self.core.mix.next(&mut self.random) {
            Operation::Insert => (Phase::Insert, self.insert(timeline, evidence).await),
            Operation::Read => (Phase::Read, self.read(timeline, evidence).await),
            Operation::Update => (Phase::Update, self.update(timeline, evidence).await),
            Operation::Scan => (Phase::Scan, self.scan(timeline, evidence).await),
            // If the read fails, the error gets phase `Read`. The error of a failed update already has phase `Update`.
            Operation::ReadModifyWrite => (Phase::Read, self.read_modify_write(timeline, evidence).await),
        };
        outcome.map_err(|failure| {
            self.update_one_server();
            failure.during(phase.name())
        })
    }
}

impl<C: Client<Session: Records>> Ycsb<C> {
    async fn insert(&mut self, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        // Connect before claiming a record number. Otherwise a failure to connect would waste a number.
        let mut session = self.writer.take(evidence).await?;
        let index = self.shared.sequence.claim();
        let key = self.core.keys.key(self.shared.sequence.record(index));
        timeline.start(session.traffic());
        let outcome = session.insert_record(&key, self.core.inserted(&mut self.random)).await;
        timeline.end_phase(Phase::Insert, session.traffic());
        self.shared.sequence.acknowledge(index);
        self.writer.settle(session, outcome)
    }

    async fn read(&mut self, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let key = self.next_key();
        let fields = self.core.read_fields(&mut self.random);
        let member = self.member_to_read();
        let mut session = member.take(evidence).await?;
        timeline.start(session.traffic());
        let outcome = session.read_record(&key, fields).await;
        timeline.end_phase(Phase::Read, session.traffic());
        member.settle(session, outcome)
    }

    async fn scan(&mut self, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let key = self.next_key();
        let count = self.core.scan_lengths.next(&mut self.random);
        let fields = self.core.read_fields(&mut self.random);
        let member = self.member_to_read();
        let mut session = member.take(evidence).await?;
        timeline.start(session.traffic());
        let outcome = session.scan_records(&key, count, fields).await;
        timeline.end_phase(Phase::Scan, session.traffic());
        member.settle(session, outcome)
    }

    async fn update(&mut self, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let key = self.next_key();
        let mut session = self.writer.take(evidence).await?;
        timeline.start(session.traffic());
        let outcome = session.update_record(&key, self.core.updated(&mut self.random)).await;
        timeline.end_phase(Phase::Update, session.traffic());
        self.writer.settle(session, outcome)
    }

    async fn read_modify_write(&mut self, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let key = self.next_key();
        let fields = self.core.read_fields(&mut self.random);
        if self.one_server {
            let mut session = self.writer.take(evidence).await?;
            timeline.start(session.traffic());
            let mut outcome = session.read_record(&key, fields).await;
            timeline.end_phase(Phase::Read, session.traffic());
            if outcome.is_ok() {
                outcome = session.update_record(&key, self.core.updated(&mut self.random)).await;
                timeline.end_phase(Phase::Update, session.traffic());
                outcome = outcome.map_err(during_update);
            }
            return self.writer.settle(session, outcome);
        }
        // Open both connections before the read, because the time for opening them must count in no phase.
        self.writer.prepare(evidence).await?;
        let mut session = self.reader.take(evidence).await?;
        timeline.start(session.traffic());
        let outcome = session.read_record(&key, fields).await;
        timeline.end_phase(Phase::Read, session.traffic());
        self.reader.settle(session, outcome)?;
        let mut session = self.writer.take(evidence).await.map_err(during_update)?;
        timeline.change(session.traffic());
        let outcome = session.update_record(&key, self.core.updated(&mut self.random)).await;
        timeline.end_phase(Phase::Update, session.traffic());
        self.writer.settle(session, outcome).map_err(during_update)
    }

    fn next_key(&mut self) -> Key {
        let Shared { sequence, position } = &self.shared;
        let index = self.core.requests.next(sequence.readable(), position, &mut self.random);
        self.core.keys.key(sequence.record(index))
    }

    /// Return the connection for reads. If the same server serves reads and writes, this is the connection for writes,
    /// because a client with a connection pool would also use one connection.
    fn member_to_read(&mut self) -> &mut Member<C> {
        if self.one_server { &mut self.writer } else { &mut self.reader }
    }

    /// Check again whether reads and writes use the same server, because the primary may have changed.
    fn update_one_server(&mut self) {
        self.one_server = self.client.is_one_server(self.reads_from, Target::Writer);
    }
}

fn during_update(failure: Failure) -> Failure {
    failure.during(Phase::Update.name())
}
