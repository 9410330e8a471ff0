//! Services with a single server. This module finds the first reachable one of the configured addresses, opens
//! sessions, and writes the error message for a server that does not answer in time.

use base::clock;
use base::error::{Class, Failure, Result};
use net::runtime::Reactor;
use net::transport::Address;
use record::{Phase, Timeline};
use std::rc::Rc;
use std::sync::Arc;
use workload::{Session, Target};

/// A service in which all sessions go to the same server.
pub trait OneServer: 'static {
    /// A connection that is ready for operations.
    type Session: Session;

    fn address(&self) -> &Address;

    async fn open(self: &Arc<Self>, reactor: &Rc<Reactor>, timeline: &mut Timeline) -> Result<Self::Session>;
}

/// The client of one worker (a task that executes operations). It opens the worker's connections.
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
        let result = self.service.open(&self.reactor, timeline).await;
        result.map_err(|failure| failure.from_known_server().with(self.service.address()))
    }
}

/// Call `check` for the first of these addresses that accepts a TCP connection, and return the result of `check`, even
/// if this is an error. Each attempt may take `timeout_ns` nanoseconds.
pub async fn first_reached<T>(
    addresses: &[String],
    default_port: u16,
    reactor: &Reactor,
    timeout_ns: u64,
    mut check: impl AsyncFnMut(Address, &mut Timeline) -> Result<T>,
) -> Result<T> {
    let mut outcome = Err(Failure::new(Class::Plan, "the service has no address"));
    for text in addresses {
        let address = Address::parse(text, default_port)?;
        let mut timeline = Timeline::default();
        reactor.set_deadline(clock::now() + timeout_ns);
        let result = check(address.clone(), &mut timeline).await;
        outcome = result.map_err(|failure| after_last_step(failure, &timeline, timeout_ns).with(&address));
        if timeline.spans().any(|span| span.phase == Phase::Tcp) {
            break;
        }
    }
    outcome
}

/// Return a timeout error that states the time limit and the last completed step, such as `no answer within 1.5 s after
/// the TLS handshake`. Return other failures unchanged.
pub fn after_last_step(failure: Failure, timeline: &Timeline, timeout_ns: u64) -> Failure {
    if failure.class != Class::Timeout {
        return failure;
    }
    let seconds = timeout_ns as f64 / 1e9;
    let step = match timeline.spans().last().map(|span| span.phase) {
        None | Some(Phase::Delay | Phase::Resolve) => {
            return Failure::new(Class::Timeout, format!("no TCP connection within {seconds} s"));
        }
        Some(Phase::Tcp) => "the TCP handshake",
        Some(Phase::Greeting) => "its greeting",
        Some(Phase::TlsRequest) => "its acceptance of TLS",
        Some(Phase::Tls) => "the TLS handshake",
        Some(Phase::Hello) => "its hello",
        Some(_) => "the log-in",
    };
    Failure::new(Class::Timeout, format!("no answer within {seconds} s after {step}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Traffic;

    fn detail(phases: &[Phase]) -> String {
        let mut timeline = Timeline::default();
        timeline.start(Traffic::default());
        for phase in phases {
            timeline.end_phase(*phase, Traffic::default());
        }
        after_last_step(Failure::new(Class::Timeout, "late"), &timeline, 1_500_000_000).detail
    }

    #[test]
    fn timeout_error_names_the_last_completed_step_and_the_time_limit() {
        assert_eq!(detail(&[]), "no TCP connection within 1.5 s");
        assert_eq!(detail(&[Phase::Resolve]), "no TCP connection within 1.5 s");
        assert_eq!(detail(&[Phase::Tcp]), "no answer within 1.5 s after the TCP handshake");
        assert_eq!(detail(&[Phase::Tcp, Phase::Greeting]), "no answer within 1.5 s after its greeting");
        assert_eq!(detail(&[Phase::Tcp, Phase::Tls]), "no answer within 1.5 s after the TLS handshake");
    }

    #[test]
    fn error_that_is_not_a_timeout_is_returned_unchanged() {
        let refused = Failure::new(Class::Refused, "nothing listens there");
        assert_eq!(after_last_step(refused.clone(), &Timeline::default(), 1), refused);
    }
}
