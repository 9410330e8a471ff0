//! Echo (RFC 862): the server sends back what it receives. With TLS the handshake begins with the first byte.

use crate::{Discovery, Protocol, discovery};
use base::Random;
use base::clock;
use base::error::{Class, Failure, Result};
use net::runtime::{Reactor, TaskId};
use net::transport::{Address, Stream, Transport};
use record::{Connection, Timeline, Traffic};
use serde::Deserialize;
use std::rc::Rc;
use std::sync::Arc;
use workload::{Ask, Job, QUERIES, Target};

/// The port used if an address has none.
const DEFAULT_PORT: u16 = 7;
const LINE: &[u8] = b"How much does TLS cost?\n";

/// The entry of this protocol in the list of protocols.
pub const PROTOCOL: Protocol = Protocol::of::<Settings>("echo", QUERIES);

/// The settings of an echo service in the plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Addresses as `host:port`. Only the first is measured.
    addresses: Vec<String>,
}

impl crate::Settings for Settings {
    fn discover<'a>(
        &'a self,
        transport: &'a net::settings::Transport,
        reactor: &'a Rc<Reactor>,
        timeout_ns: u64,
    ) -> Discovery<'a> {
        discovery(Service::discover(self, transport, reactor, timeout_ns))
    }
}

/// The server that an arm measures.
struct Service {
    transport: Transport,
    address: Address,
}

impl Service {
    /// Connect to the service and check that it echoes one line.
    async fn discover(
        settings: &Settings,
        transport: &net::settings::Transport,
        reactor: &Rc<Reactor>,
        timeout_ns: u64,
    ) -> Result<Self> {
        let first = settings.addresses.first();
        let first = first.ok_or_else(|| Failure::new(Class::Plan, "the service has no address"))?;
        let address = Address::parse(first, DEFAULT_PORT)?;
        let service = Service { transport: Transport::new(transport)?, address };
        reactor.set_deadline(clock::now() + timeout_ns);
        service.try_once(reactor).await.map_err(|failure| failure.with(&service.address))?;
        Ok(service)
    }

    async fn try_once(&self, reactor: &Rc<Reactor>) -> Result<()> {
        let mut stream = self.connect(reactor, &mut Timeline::default()).await?;
        echo(&mut stream).await?;
        stream.close();
        Ok(())
    }

    async fn connect(&self, reactor: &Rc<Reactor>, timeline: &mut Timeline) -> Result<Stream> {
        let stream = Stream::connect(reactor, &self.address, timeline).await?;
        match &self.transport {
            Transport::Plain => Ok(stream),
            Transport::Tls(_) => stream.secure(&self.transport, &self.address, timeline).await,
        }
    }
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

/// The client of one worker, which opens its connections.
struct Client {
    service: Arc<Service>,
    reactor: Rc<Reactor>,
}

impl workload::Client for Client {
    type Session = Session;

    async fn open(&self, _target: Target, timeline: &mut Timeline) -> Result<Session> {
        let service = self.service.clone();
        let connected = service.connect(&self.reactor, timeline).await;
        let stream = connected.map_err(|failure| failure.from_known_server().with(&service.address))?;
        Ok(Session { service, stream })
    }
}

/// A connection to the server.
struct Session {
    service: Arc<Service>,
    stream: Stream,
}

impl workload::Session for Session {
    type Tally = ();

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

    /// Send the same line each time, and wait for its echo.
    async fn ask(&mut self, _about: &(), _random: &mut Random, _tally: &mut ()) -> Result<()> {
        echo(&mut self.stream).await
    }
}

async fn echo(stream: &mut Stream) -> Result<()> {
    stream.send(LINE).await?;
    let mut came = [0; LINE.len()];
    let mut have = 0;
    while have < LINE.len() {
        match stream.receive(&mut came[have..]).await? {
            0 => return Err(Failure::closed()),
            received => have += received,
        }
    }
    if came == LINE { Ok(()) } else { Err(Failure::protocol("something else came back")) }
}
