//! Echo (RFC 862): what is sent comes back. TLS, where an arm asks for it, begins with the connection's first byte.

use crate::Discovery;
use base::Random;
use base::clock;
use base::error::{Class, Failure, Result};
use net::runtime::{Reactor, TaskId};
use net::transport::{Address, Stream, Transport};
use record::{Connection, Evidence, Timeline, Traffic};
use serde::Deserialize;
use serde_json::Value;
use std::rc::Rc;
use std::sync::Arc;
use workload::{Ask, Job, Kind, QUERIES, Target};

/// The port of an address that names none.
const DEFAULT_PORT: u16 = 7;
const LINE: &[u8] = b"How much does TLS cost?\n";

/// Servers that say what they are told.
pub struct Echo;

impl crate::Protocol for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn kinds(&self) -> &'static [Kind] {
        QUERIES
    }

    fn read(&self, written: Value) -> serde_json::Result<Arc<dyn crate::Settings>> {
        Ok(Arc::new(Settings::deserialize(written)?))
    }
}

/// What a plan says of an echo service.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `host:port`; the first is measured.
    pub addresses: Vec<String>,
}

impl crate::Settings for Settings {
    fn discover<'a>(
        &'a self,
        transport: &'a net::settings::Transport,
        reactor: &'a Rc<Reactor>,
        timeout_ns: u64,
    ) -> Discovery<'a> {
        Box::pin(async move {
            let Some(address) = self.addresses.first() else {
                return Err(Failure::new(Class::Plan, "the service has no address"));
            };
            let address = Address::parse(address, DEFAULT_PORT)?;
            let service = Arc::new(Service { transport: Transport::new(transport)?, address });
            reactor.set_deadline(clock::now() + timeout_ns);
            let client = Client { service: service.clone(), reactor: reactor.clone() };
            let mut session = workload::Client::open(&client, Target::Reader(0), &mut Timeline::default()).await?;
            session.echo().await.map_err(|failure| failure.with(&service.address))?;
            workload::Session::close(session);
            Ok(service as Arc<dyn crate::Service>)
        })
    }
}

/// An arm's server.
struct Service {
    transport: Transport,
    address: Address,
}

impl crate::Service for Service {
    fn first_reader(&self) -> String {
        self.address.to_string()
    }

    fn spawn(self: Arc<Self>, job: Job<'_>) -> TaskId {
        let client = Client { service: self, reactor: job.reactor() };
        job.queries(client, ())
    }
}

/// One worker's way to open sessions.
struct Client {
    service: Arc<Service>,
    reactor: Rc<Reactor>,
}

impl workload::Client for Client {
    type Session = Session;

    async fn open(&self, _target: Target, timeline: &mut Timeline) -> Result<Session> {
        let Service { transport, address } = &*self.service;
        let opened = async {
            let stream = Stream::connect(&self.reactor, address, timeline).await?;
            match transport {
                Transport::Plain => Ok(stream),
                Transport::Tls(_) => stream.secure(transport, address, timeline).await,
            }
        };
        let stream = opened.await.map_err(|failure: Failure| failure.with(address))?;
        Ok(Session { service: self.service.clone(), stream, room: [0; LINE.len()] })
    }
}

/// A connection to the server.
struct Session {
    service: Arc<Service>,
    stream: Stream,
    room: [u8; LINE.len()],
}

impl Session {
    async fn echo(&mut self) -> Result<()> {
        self.stream.send(LINE).await?;
        let mut have = 0;
        while have < LINE.len() {
            match self.stream.receive(&mut self.room[have..]).await? {
                0 => return Err(Failure::closed()),
                received => have += received,
            }
        }
        if self.room == LINE { Ok(()) } else { Err(Failure::protocol("something else came back")) }
    }
}

impl workload::Session for Session {
    fn traffic(&self) -> Traffic {
        self.stream.traffic()
    }

    fn connection(&self) -> Connection {
        Connection { server: self.service.address.to_string(), security: self.stream.security(&self.service.transport) }
    }

    fn close(self) {
        self.stream.close();
    }
}

impl Ask for Session {
    type About = ();

    /// The same line each time.
    async fn ask(&mut self, _about: &(), _random: &mut Random, _evidence: &mut Evidence) -> Result<()> {
        self.echo().await
    }
}
