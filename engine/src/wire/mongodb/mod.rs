//! MongoDB's wire protocol: OP_MSG, hello, SCRAM-SHA-256, discovery of a replica set, and the commands of a key-value
//! workload. What drivers do and can be seen in a measurement, this does: hello carries a speculative authentication,
//! so a connection with a user takes one round trip for hello and one for auth; salted passwords are kept; a connection
//! is used for one operation at a time.

mod channel;
mod find;
mod handshake;
mod insert;
mod message;
mod scram;
mod topology;

use super::{Ask, KeyValue, Target};
use crate::border::{self, MongodbService};
use crate::clock;
use crate::error::{Class, Failure, Result};
use crate::record::{Connection, Evidence, Phase, Traffic, Trail};
use crate::runtime::Reactor;
use crate::transport::{Address, Stream, Transport};
use crate::workload::Random;
use crate::workload::ycsb::Table;
use channel::Channel;
use find::FindRequest;
use insert::InsertRequest;
use scram::Credentials;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use topology::{Members, Scout};

/// The port of an address that names none.
const DEFAULT_PORT: u16 = 27017;

/// An arm's replica set, or single server, as discovery found it.
pub struct Service {
    transport: Transport,
    credentials: Option<Credentials>,
    find: FindRequest,
    insert: InsertRequest,
    members: Members,
}

impl Service {
    /// Find the members through any seed that answers, and open one session to the first one to read.
    ///
    /// # Errors
    /// `no_member` and whatever keeps a session from being opened.
    pub async fn discover(
        settings: &MongodbService,
        transport: &border::Transport,
        reactor: &Rc<Reactor>,
        patience: u64,
    ) -> Result<Self> {
        let transport = Transport::new(transport)?;
        let credentials = Credentials::new(settings)?;
        let members = Scout { settings, transport: &transport, reactor, patience }.discover().await?;
        let service = Service {
            find: FindRequest::new(settings),
            insert: InsertRequest::new(settings),
            transport,
            credentials,
            members,
        };
        let address = service.reader(0);
        reactor.set_deadline(clock::now() + patience);
        let session = service.open(reactor, address, &mut Trail::default()).await;
        session.map_err(|failure| failure.with(address))?.close();
        Ok(service)
    }

    /// The member that this worker reads.
    pub fn reader(&self, worker: usize) -> &Address {
        &self.members.readers[worker % self.members.readers.len()]
    }

    async fn open(&self, reactor: &Rc<Reactor>, address: &Address, trail: &mut Trail) -> Result<Opened> {
        let stream = connect(reactor, address, &self.transport, trail).await?;
        let mut channel = Channel::new(stream);
        let greeted = handshake::hello(&mut channel, self.credentials.as_ref()).await?;
        trail.lap(Phase::Hello, channel.traffic());
        if let (Some(credentials), Some(exchange)) = (&self.credentials, greeted.exchange) {
            handshake::authenticate(&mut channel, credentials, exchange, greeted.speculative).await?;
            trail.lap(Phase::Auth, channel.traffic());
        }
        Ok(Opened { channel })
    }
}

/// A channel that is authenticated, before it is anybody's session.
struct Opened {
    channel: Channel,
}

impl Opened {
    fn close(self) {
        self.channel.close();
    }
}

/// TCP, and TLS where the transport says so: MongoDB has no greeting before it.
async fn connect(reactor: &Rc<Reactor>, address: &Address, transport: &Transport, trail: &mut Trail) -> Result<Stream> {
    let stream = Stream::connect(reactor, address, trail).await?;
    match transport {
        Transport::Plain => Ok(stream),
        Transport::Tls(_) => stream.secure(transport, address, trail).await,
    }
}

/// One worker's way to open sessions.
pub struct Client {
    service: Arc<Service>,
    reactor: Rc<Reactor>,
}

impl Client {
    /// For a worker on this reactor's thread.
    pub fn new(service: Arc<Service>, reactor: Rc<Reactor>) -> Self {
        Client { service, reactor }
    }

    fn address(&self, target: Target) -> Result<&Address> {
        match target {
            Target::Reader(worker) => Ok(self.service.reader(worker)),
            Target::Writer => {
                let writer = self.service.members.writer.as_ref();
                writer.ok_or_else(|| Failure::new(Class::NoMember, "the set has no primary to write to"))
            }
        }
    }
}

impl super::Client for Client {
    type Session = Session;

    async fn open(&self, target: Target, trail: &mut Trail) -> Result<Session> {
        let address = self.address(target)?;
        let opened = self.service.open(&self.reactor, address, trail).await;
        let Opened { channel } = opened.map_err(|failure| failure.of_a_known_server().with(address))?;
        Ok(Session { service: self.service.clone(), address: address.clone(), channel })
    }
}

/// An authenticated connection to one member.
pub struct Session {
    service: Arc<Service>,
    address: Address,
    channel: Channel,
}

impl super::Session for Session {
    fn traffic(&self) -> Traffic {
        self.channel.traffic()
    }

    fn connection(&self) -> Connection {
        Connection {
            server: self.address.to_string(),
            security: self.channel.stream().security(&self.service.transport),
        }
    }

    fn close(self) {
        self.channel.close();
    }
}

impl Ask for Session {
    type About = Table;

    /// Reads one record by its key. That there is none is an error: the record was loaded.
    async fn ask(&mut self, table: &Table, random: &mut Random, _evidence: &mut Evidence) -> Result<()> {
        let record = random.below(table.records());
        self.service.find.encode(self.channel.request(), &table.key(record));
        let reply = self.channel.exchange().await?;
        find::check_one_document(reply)
    }
}

impl KeyValue for Session {
    async fn insert(&mut self, table: &Table, records: Range<u64>) -> Result<()> {
        self.service.insert.encode(self.channel.request(), table, records);
        let reply = self.channel.exchange().await?;
        insert::check_written(reply)
    }
}
