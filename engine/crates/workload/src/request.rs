//! `request`: requests of HTTP, one after the other, on connections that are opened as they are needed. Opening one is
//! measured with the request that needed it.

use super::Workload;
use crate::client::{Client, Requests, Session, TallyOf, Target};
use base::error::Result;
use record::{Counts, Evidence, Phase, Tally, Timeline};
use std::num::NonZeroU64;
use std::ops::Range;

/// One worker's requests.
pub struct Request<C: Client> {
    client: C,
    worker: usize,
    requests_per_connection: Option<NonZeroU64>,
    carrier: Option<Carrier<C::Session>>,
    head_start: u64,
    tally: TallyOf<C>,
}

struct Carrier<S> {
    session: S,
    carried: u64,
}

impl<C: Client<Session: Requests>> Request<C> {
    /// Worker w's first connection counts as if it had carried w requests already, modulo how many one may carry:
    /// otherwise those of all workers would end at once.
    pub fn new(client: C, worker: usize, requests_per_connection: Option<NonZeroU64>) -> Self {
        let head_start = requests_per_connection.map_or(0, |most| worker as u64 % most);
        Request { client, worker, requests_per_connection, carrier: None, head_start, tally: TallyOf::<C>::default() }
    }

    fn is_last(&self, carried: u64) -> bool {
        self.requests_per_connection.is_some_and(|most| carried + 1 >= most.get())
    }

    async fn take_carrier(&mut self) -> Option<Carrier<C::Session>> {
        let mut carrier = self.carrier.take()?;
        carrier.session.is_still_open().await.then_some(carrier)
    }
}

impl<C: Client<Session: Requests>> Workload for Request<C> {
    fn disconnect(&mut self) {
        if let Some(Carrier { session, .. }) = self.carrier.take() {
            session.close();
        }
    }

    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        if let Some(mut carrier) = self.carrier.take()
            && carrier.session.is_open().await
        {
            evidence.used(carrier.session.connection());
            self.carrier = Some(carrier);
        }
        Ok(())
    }

    async fn operate(&mut self, _claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let carrier = self.take_carrier().await;
        let is_new = carrier.is_none();
        let Carrier { mut session, carried } = match carrier {
            Some(carrier) => {
                timeline.start(carrier.session.traffic());
                carrier
            }
            None => {
                let session = self.client.open(Target::Reader(self.worker), timeline).await?;
                Carrier { session, carried: std::mem::take(&mut self.head_start) }
            }
        };
        let last = self.is_last(carried);
        let arrived = |traffic| timeline.end_phase(Phase::Waiting, traffic);
        let outcome = session.request(last, &mut self.tally, arrived).await;
        timeline.end_phase(Phase::Receiving, session.traffic());
        if is_new {
            evidence.opened(session.connection());
        }
        if session.may_go_on() {
            self.carrier = Some(Carrier { session, carried: carried + 1 });
        } else {
            session.end().await;
        }
        outcome
    }

    fn take_counts(&mut self, into: &mut Counts) {
        std::mem::take(&mut self.tally).add_to(into);
    }
}
