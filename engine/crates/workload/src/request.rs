//! `request`: requests of HTTP, one after the other, on connections that are opened as they are needed. Opening one is
//! measured with the request that needed it.

use super::Workload;
use crate::client::{Client, Requests, Session, Target};
use base::error::Result;
use record::{Evidence, Phase, Trail};
use std::ops::Range;

/// One worker's requests.
pub struct Request<C: Client> {
    client: C,
    worker: usize,
    standing: Option<Standing<C::Session>>,
    /// What the next connection begins with as carried.
    head_start: u64,
}

struct Standing<S> {
    session: S,
    carried: u64,
}

impl<C: Client<Session: Requests>> Request<C> {
    /// Worker w's first connection counts as if it had carried w requests already, modulo how many one may carry:
    /// otherwise those of all workers would end at once.
    pub fn new(client: C, worker: usize) -> Self {
        let head_start = client.requests_per_connection().map_or(0, |most| worker as u64 % most);
        Request { client, worker, standing: None, head_start }
    }

    fn is_last(&self, carried: u64) -> bool {
        self.client.requests_per_connection().is_some_and(|most| carried + 1 >= most.get())
    }

    /// The standing connection, unless the server has ended it meanwhile.
    async fn take_standing(&mut self) -> Option<Standing<C::Session>> {
        let mut standing = self.standing.take()?;
        standing.session.still_stands().await.then_some(standing)
    }
}

impl<C: Client<Session: Requests>> Workload for Request<C> {
    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        if let Some(mut standing) = self.standing.take()
            && standing.session.stands().await
        {
            evidence.used(standing.session.connection());
            self.standing = Some(standing);
        }
        Ok(())
    }

    async fn operate(&mut self, _claimed: Range<u64>, trail: &mut Trail, evidence: &mut Evidence) -> Result<()> {
        let standing = self.take_standing().await;
        let is_new = standing.is_none();
        let Standing { mut session, carried } = match standing {
            Some(standing) => {
                trail.start(standing.session.traffic());
                standing
            }
            None => {
                let session = self.client.open(Target::Reader(self.worker), trail).await?;
                Standing { session, carried: std::mem::take(&mut self.head_start) }
            }
        };
        let last = self.is_last(carried);
        let outcome = session.request(last, evidence, |traffic| trail.lap(Phase::Waiting, traffic)).await;
        trail.lap(Phase::Receiving, session.traffic());
        if is_new {
            evidence.opened(session.connection());
        }
        if session.may_go_on() {
            self.standing = Some(Standing { session, carried: carried + 1 });
        } else {
            session.end().await;
        }
        outcome
    }
}
