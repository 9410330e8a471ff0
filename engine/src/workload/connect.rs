//! `connect`: what a client without a pool does. A trial is a new connection, its first query, and its end; the end is
//! not measured.

use super::Workload;
use super::ycsb::{Random, Table};
use crate::error::Result;
use crate::record::{Evidence, Phase, Trail};
use crate::wire::{Client, KeyValue, Session, Target};
use std::ops::Range;

/// One worker's trials, one after the other.
pub struct Connect<C: Client> {
    client: C,
    target: Target,
    table: Table,
    random: Random,
}

impl<C: Client<Session: KeyValue>> Connect<C> {
    /// `random` chooses the keys.
    pub fn new(client: C, target: Target, table: Table, random: Random) -> Self {
        Connect { client, target, table, random }
    }
}

impl<C: Client<Session: KeyValue>> Workload for Connect<C> {
    async fn prepare(&mut self, _evidence: &mut Evidence) -> Result<()> {
        Ok(())
    }

    async fn operate(&mut self, _claimed: Range<u64>, trail: &mut Trail, evidence: &mut Evidence) -> Result<()> {
        let record = self.random.below(self.table.records());
        let mut session = self.client.open(self.target, trail).await?;
        let first = session.read(&self.table, record).await;
        trail.lap(Phase::FirstOperation, session.traffic());
        evidence.opened(session.connection());
        session.close();
        first
    }
}
