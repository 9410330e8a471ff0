//! `tpcc` with phase `load`: the data, a unit an operation and a transaction.

use super::connection::Connection;
use super::rows::{MOST_STATEMENTS, Part, Rows};
use super::unit::Unit;
use crate::Workload;
use crate::client::{Client, Session};
use crate::sql::{DateTime, Sql};
use base::clock;
use base::error::{Class, Failure, Result};
use record::{Evidence, Phase, Timeline};
use std::ops::Range;

/// One worker's units, one after the other.
pub struct Loader<C: Client> {
    connection: Connection<C>,
    warehouses: u32,
    seed: u64,
}

impl<C: Client<Session: Sql>> Loader<C> {
    pub fn new(client: C, warehouses: u32, seed: u64) -> Self {
        Loader { connection: Connection::with(client, &[], vec!["SET autocommit = 0".into()]), warehouses, seed }
    }
}

impl<C: Client<Session: Sql>> Workload for Loader<C> {
    /// A busy server takes seconds for each statement, and has its time for each.
    fn in_a_row(&self) -> u64 {
        u64::from(MOST_STATEMENTS)
    }

    fn disconnect(&mut self) {
        self.connection.disconnect();
    }

    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        self.connection.prepare(evidence).await
    }

    async fn operate(&mut self, claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let unit = Unit::of(claimed.start, self.warehouses)
            .ok_or_else(|| Failure::new(Class::Plan, "the data has no more units than that"))?;
        let mut session = self.connection.take(evidence).await?;
        let rows = Rows::new(self.seed, claimed.start, DateTime::from_unix(clock::unix() / 1_000_000_000));
        timeline.start(session.traffic());
        let mut outcome = rows.each(unit, async |part| write(&mut session, part).await).await;
        if outcome.is_ok() {
            outcome = session.say("COMMIT").await;
        }
        timeline.end_phase(Phase::Operation, session.traffic());
        self.connection.settle_transaction(session, outcome).await
    }
}

async fn write(session: &mut impl Sql, Part { into, rows, count }: Part) -> Result<()> {
    let written = session.insert_rows(into, &rows).await?;
    if written == count {
        return Ok(());
    }
    Err(Failure::new(Class::Server, format!("{written} rows of {count} were written")))
}
