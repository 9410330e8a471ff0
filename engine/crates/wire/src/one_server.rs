//! Services that are one server: found among a plan's addresses, and sessions to it.

use crate::late::after_last_step;
use base::clock;
use base::error::{Class, Failure, Result};
use net::runtime::Reactor;
use net::transport::Address;
use record::{Phase, Timeline};
use std::rc::Rc;
use std::sync::Arc;
use workload::{Session, Target};

/// A service whose every session goes to one server.
pub trait OneServer: 'static {
    /// A connection that is ready for operations.
    type Session: Session;

    fn address(&self) -> &Address;

    /// Open a session, and mark each phase in the timeline.
    async fn open(self: &Arc<Self>, reactor: &Rc<Reactor>, timeline: &mut Timeline) -> Result<Self::Session>;
}

/// One worker's way to open sessions.
pub struct Client<S> {
    service: Arc<S>,
    reactor: Rc<Reactor>,
}

impl<S: OneServer> Client<S> {
    pub fn new(service: Arc<S>, reactor: Rc<Reactor>) -> Self {
        Client { service, reactor }
    }
}

impl<S> Clone for Client<S> {
    fn clone(&self) -> Self {
        Client { service: self.service.clone(), reactor: self.reactor.clone() }
    }
}

impl<S: OneServer> workload::Client for Client<S> {
    type Session = S::Session;

    async fn open(&self, _target: Target, timeline: &mut Timeline) -> Result<S::Session> {
        let opened = self.service.open(&self.reactor, timeline).await;
        opened.map_err(|failure| failure.of_a_known_server().with(self.service.address()))
    }
}

/// What `prove` makes of the first of these addresses that can be reached: that one is meant, whatever it says. Each may take
/// `timeout_ns` nanoseconds.
pub async fn first_reached<T>(
    addresses: &[String],
    default_port: u16,
    reactor: &Reactor,
    timeout_ns: u64,
    mut prove: impl AsyncFnMut(Address, &mut Timeline) -> Result<T>,
) -> Result<T> {
    let mut outcome = Err(Failure::new(Class::Plan, "the service has no address"));
    for text in addresses {
        let address = Address::parse(text, default_port)?;
        let mut timeline = Timeline::default();
        reactor.set_deadline(clock::now() + timeout_ns);
        let proven = prove(address.clone(), &mut timeline).await;
        outcome = proven.map_err(|failure| after_last_step(failure, &timeline, timeout_ns).with(&address));
        if timeline.spans().any(|span| span.phase == Phase::Tcp) {
            break;
        }
    }
    outcome
}
