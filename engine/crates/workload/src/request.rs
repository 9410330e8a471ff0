//! Workload `request`: HTTP requests on connections that are opened when they are needed. The time for opening a
//! connection is a part of the time of the request that needs the connection.

use super::Workload;
use crate::client::{Client, Requests, Session, TallyOf, Target};
use base::error::Result;
use record::{Counts, Evidence, Phase, Tally, Timeline};
use std::num::NonZeroU64;
use std::ops::Range;

/// One worker's part of workload `request`.
pub struct Request<C: Client> {
    client: C,
    worker: usize,
    requests_per_connection: Option<NonZeroU64>,
    connection: Option<OpenConnection<C::Session>>,
    head_start: u64,
    tally: TallyOf<C>,
}

struct OpenConnection<S> {
    session: S,
    requests: u64,
}

impl<C: Client<Session: Requests>> Request<C> {
    /// Create a workload whose connections carry at most `requests_per_connection` requests. Worker w's first
    /// connection carries w modulo `requests_per_connection` requests fewer: otherwise the connections of all workers
    /// would end at the same time. With at most 10 requests, for example, worker 3's first connection carries 7.
    pub fn new(client: C, worker: usize, requests_per_connection: Option<NonZeroU64>) -> Self {
        let head_start = requests_per_connection.map_or(0, |limit| worker as u64 % limit);
        Request {
            client,
            worker,
            requests_per_connection,
            connection: None,
            head_start,
            tally: TallyOf::<C>::default(),
        }
    }

    async fn take_connection(&mut self) -> Option<OpenConnection<C::Session>> {
        let mut connection = self.connection.take()?;
        connection.session.is_still_open().await.then_some(connection)
    }
}

impl<C: Client<Session: Requests>> Workload for Request<C> {
    fn disconnect(&mut self) {
        if let Some(OpenConnection { session, .. }) = self.connection.take() {
            session.close();
        }
    }

    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        if let Some(mut connection) = self.connection.take()
            && connection.session.is_open().await
        {
            evidence.used(connection.session.connection());
            self.connection = Some(connection);
        }
        Ok(())
    }

    async fn operate(&mut self, _claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let connection = self.take_connection().await;
        let is_new = connection.is_none();
        let OpenConnection { mut session, requests } = match connection {
            Some(connection) => {
                timeline.start(connection.session.traffic());
                connection
            }
            None => {
                let session = self.client.open(Target::Reader(self.worker), timeline).await?;
                OpenConnection { session, requests: std::mem::take(&mut self.head_start) }
            }
        };
        let last = self.requests_per_connection.is_some_and(|limit| requests + 1 >= limit.get());
        let arrived = |traffic| timeline.end_phase(Phase::Waiting, traffic);
        let outcome = session.request(last, &mut self.tally, arrived).await;
        timeline.end_phase(Phase::Receiving, session.traffic());
        if is_new {
            evidence.opened(session.connection());
        }
        if session.may_go_on() {
            self.connection = Some(OpenConnection { session, requests: requests + 1 });
        } else {
            session.end().await;
        }
        outcome
    }

    fn take_counts(&mut self, into: &mut Counts) {
        std::mem::take(&mut self.tally).add_to(into);
    }
}
