//! MongoDB's wire protocol: OP_MSG, `hello`, SCRAM-SHA-256, discovery of a replica set, and key-value commands.
//!
//! The client behaves like drivers wherever this affects a measurement. It sends the first authentication message in
//! `hello`, so a connection with a user takes one round trip for `hello` and one for authentication. It caches salted
//! passwords, and uses a connection for one operation at a time.

mod commands;
mod login;
mod message;
mod topology;

use crate::one_server::after_last_step;
use crate::{Discovery, Protocol};
use base::error::{Class, Failure, Result};
use base::{Random, Secret, clock};
use commands::Commands;
use login::Credentials;
use message::Channel;
use net::runtime::{Reactor, TaskId};
use net::settings;
use net::transport::{Address, Stream, Transport};
use record::{Connection, Phase, Timeline, Traffic};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, PoisonError, RwLock};
use topology::{Members, Scout};
use workload::ycsb::{Fields, Key, Table, TablePlace, Values};
use workload::{Ask, Job, KeyValue, RECORDS, Records, Target};

/// The location of a MongoDB service, and how to read it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The addresses of some members, such as `db1:27017`. One member that answers is enough to find all members.
    pub addresses: Vec<String>,
    /// The name of the replica set. Null for a single server.
    pub replica_set: Option<String>,
    #[serde(default)]
    pub read_preference: ReadPreference,
    /// The user. Null for a service without authentication.
    pub username: Option<String>,
    pub password: Option<Secret>,
    #[serde(default = "admin")]
    pub auth_source: String,
    pub database: String,
    pub collection: String,
    /// The write concern of every write. If it is absent, the server's default applies.
    pub write_concern: Option<WriteConcern>,
    /// True if a write is acknowledged only after the members of `write_concern` have flushed it to their journals
    /// (MongoDB's `j`). If absent, the server's default applies.
    pub journal: Option<bool>,
}

/// The number of members that must have stored a write before the server acknowledges it (MongoDB's `w`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WriteConcernValue")]
pub enum WriteConcern {
    Majority,
    Members(i32),
}

/// A write concern in the configuration, such as `"majority"` or `2`.
#[derive(Deserialize)]
#[serde(untagged)]
enum WriteConcernValue {
    Words(String),
    Members(i64),
    Other(serde::de::IgnoredAny),
}

impl TryFrom<WriteConcernValue> for WriteConcern {
    type Error = &'static str;

    fn try_from(value: WriteConcernValue) -> std::result::Result<Self, Self::Error> {
        match value {
            WriteConcernValue::Words(words) if words == "majority" => Ok(WriteConcern::Majority),
            // A write concern of 0 is not allowed, because unacknowledged writes cannot be measured.
            WriteConcernValue::Members(members @ 1..=50) => Ok(WriteConcern::Members(members as i32)),
            _ => Err("write_concern must be \"majority\" or a number of members from 1 to 50"),
        }
    }
}

fn admin() -> String {
    "admin".into()
}

/// The members from which clients read (MongoDB server selection specification, "Read preference").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ReadPreference {
    #[default]
    Primary,
    PrimaryPreferred,
    Secondary,
    SecondaryPreferred,
    Nearest,
}

/// The protocol of MongoDB replica sets and of single `mongod` servers.
pub const PROTOCOL: Protocol = Protocol::of::<Settings>("mongodb", RECORDS);

impl crate::Settings for Settings {
    fn table(&self) -> Option<TablePlace<'_>> {
        Some(TablePlace { addresses: &self.addresses, database: &self.database, table: &self.collection })
    }

    fn discover<'a>(
        &'a self,
        transport: &'a settings::Transport,
        reactor: &'a Rc<Reactor>,
        timeout_ns: u64,
    ) -> Discovery<'a> {
        crate::discovery(Service::discover(self, transport, reactor, timeout_ns))
    }
}

const DEFAULT_PORT: u16 = 27017;
/// The time in nanoseconds between two searches for the members during an election.
const LOOK_EVERY_NS: u64 = 50_000_000;
/// The timeout in nanoseconds for the answer of one member, in a search during an election.
const LOOK_TIMEOUT_NS: u64 = 1_000_000_000;

/// A replica set or a single server whose members have been found, and the settings of its clients.
pub struct Service {
    settings: Settings,
    transport: Transport,
    credentials: Option<Credentials>,
    commands: Commands,
    /// The members that the last discovery found. They change if another member becomes the primary.
    members: RwLock<Arc<Members>>,
}

impl Service {
    /// Find the members through the first configured address that answers. Then open one session to the first member
    /// from which clients will read, to verify that the login works.
    pub async fn discover(
        settings: &Settings,
        transport: &net::settings::Transport,
        reactor: &Rc<Reactor>,
        timeout_ns: u64,
    ) -> Result<Self> {
        let transport = Transport::new(transport)?;
        let credentials = Credentials::new(settings)?;
        let members = Scout { settings, transport: &transport, reactor, timeout_ns }.discover().await?;
        let service = Service {
            commands: Commands::new(settings),
            settings: settings.clone(),
            transport,
            credentials,
            members: RwLock::new(Arc::new(members)),
        };
        let address = service.reader(0);
        reactor.set_deadline(clock::now() + timeout_ns);
        let mut timeline = Timeline::default();
        let session = service.open(reactor, &address, &mut timeline).await;
        session.map_err(|failure| after_last_step(failure, &timeline, timeout_ns).with(&address))?.io.close();
        Ok(service)
    }

    /// Return the member that this worker reads from. Workers are distributed evenly over the members.
    pub fn reader(&self, worker: usize) -> Address {
        let members = self.members();
        members.readers[worker % members.readers.len()].clone()
    }

    fn members(&self) -> Arc<Members> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn rediscover_once(&self, reactor: &Rc<Reactor>, target: Target) -> Result<()> {
        let scout =
            Scout { settings: &self.settings, transport: &self.transport, reactor, timeout_ns: LOOK_TIMEOUT_NS };
        let members = scout.discover().await?;
        if matches!(target, Target::Writer) && members.writer.is_none() {
            return Err(no_primary());
        }
        *self.members.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(members);
        Ok(())
    }

    async fn open(&self, reactor: &Rc<Reactor>, address: &Address, timeline: &mut Timeline) -> Result<Channel> {
        let stream = connect(reactor, address, &self.transport, timeline).await?;
        let mut channel = Channel::new(stream);
        let greeted = login::hello(&mut channel, self.credentials.as_ref()).await?;
        timeline.end_phase(Phase::Hello, channel.io.stream().traffic());
        if let (Some(credentials), Some(exchange)) = (&self.credentials, greeted.exchange) {
            login::authenticate(&mut channel, credentials, exchange, greeted.speculative).await?;
            timeline.end_phase(Phase::Auth, channel.io.stream().traffic());
        }
        Ok(channel)
    }
}

impl crate::Service for Service {
    fn first_reader(&self) -> String {
        self.reader(0).to_string()
    }

    fn spawn(self: Arc<Self>, job: Job<'_>) -> TaskId {
        let client = Client::new(self, job.reactor());
        let table = Table::new(job.data, job.seed);
        job.records(client, table)
    }
}

/// Connect by TCP. If TLS is configured, begin the handshake at once.
async fn connect(
    reactor: &Rc<Reactor>,
    address: &Address,
    transport: &Transport,
    timeline: &mut Timeline,
) -> Result<Stream> {
    let stream = Stream::connect(reactor, address, timeline).await?;
    match transport {
        Transport::Plain => Ok(stream),
        Transport::Tls(_) => stream.secure(transport, address, timeline).await,
    }
}

fn no_primary() -> Failure {
    Failure::new(Class::NoMember, "the set has no primary to write to")
}

/// The client of one worker (a task that executes operations). It opens the worker's connections.
#[derive(Clone)]
pub struct Client {
    service: Arc<Service>,
    reactor: Rc<Reactor>,
}

impl Client {
    pub fn new(service: Arc<Service>, reactor: Rc<Reactor>) -> Self {
        Client { service, reactor }
    }

    fn address(&self, target: Target) -> Result<Address> {
        match target {
            Target::Reader(worker) => Ok(self.service.reader(worker)),
            Target::Writer => self.service.members().writer.clone().ok_or_else(no_primary),
        }
    }
}

impl workload::Client for Client {
    type Session = Session;

    async fn open(&self, target: Target, timeline: &mut Timeline) -> Result<Session> {
        let address = self.address(target)?;
        let result = self.service.open(&self.reactor, &address, timeline).await;
        let channel = result.map_err(|failure| failure.from_known_server().with(&address))?;
        Ok(Session { service: self.service.clone(), address, channel, last_key: Vec::new() })
    }

    fn is_one_server(&self, one: Target, other: Target) -> bool {
        matches!((self.address(one), self.address(other)), (Ok(one), Ok(other)) if one == other)
    }

    async fn rediscover(&self, target: Target) -> Result<()> {
        let deadline = self.reactor.deadline();
        loop {
            let result = self.service.rediscover_once(&self.reactor, target).await;
            // The search has set deadlines of its own, so restore the operation's deadline.
            self.reactor.set_deadline(deadline);
            let next = clock::now() + LOOK_EVERY_NS;
            if result.is_ok() || next >= deadline {
                return result;
            }
            self.reactor.sleep_until(next).await;
        }
    }
}

/// An authenticated connection to one member.
pub struct Session {
    service: Arc<Service>,
    address: Address,
    channel: Channel,
    last_key: Vec<u8>,
}

impl workload::Session for Session {
    type Tally = ();

    fn traffic(&self) -> Traffic {
        self.channel.io.stream().traffic()
    }

    fn connection(&self) -> Connection {
        Connection {
            server: self.address.to_string(),
            security: self.channel.io.stream().security(&self.service.transport),
        }
    }

    fn close(self) {
        self.channel.io.close();
    }
}

impl Ask for Session {
    type About = Table;

    async fn ask(&mut self, table: &Table, random: &mut Random, _tally: &mut ()) -> Result<()> {
        let record = random.below(table.records());
        self.service.commands.read(&mut self.channel, &table.key(record), Fields::All).await
    }
}

impl KeyValue for Session {
    async fn insert(&mut self, table: &Table, records: Range<u64>) -> Result<()> {
        self.service.commands.insert_batch(&mut self.channel, table, records).await
    }
}

impl Records for Session {
    async fn insert_record(&mut self, key: &Key, values: Values<'_>) -> Result<()> {
        self.service.commands.insert(&mut self.channel, key, values).await
    }

    async fn read_record(&mut self, key: &Key, fields: Fields) -> Result<()> {
        self.service.commands.read(&mut self.channel, key, fields).await
    }

    async fn update_record(&mut self, key: &Key, values: Values<'_>) -> Result<()> {
        self.service.commands.update(&mut self.channel, key, values).await
    }

    async fn scan_records(&mut self, from: &Key, count: u64, fields: Fields) -> Result<()> {
        self.service.commands.scan(&mut self.channel, from, count, fields, &mut self.last_key).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_concern_is_parsed() {
        let service = r#"{"addresses": [], "database": "d", "collection": "c", "write_concern": X}"#;
        let read = |concern: &str| serde_json::from_str::<Settings>(&service.replace('X', concern));
        for (concern, expected) in
            [("\"majority\"", Some(WriteConcern::Majority)), ("2", Some(WriteConcern::Members(2))), ("null", None)]
        {
            assert_eq!(read(concern).unwrap().write_concern, expected);
        }
        for refused in ["0", "51", "-1", "1.5", "\"most\"", "true", "{\"w\": 1}"] {
            assert!(read(refused).unwrap_err().to_string().contains("write_concern must be"), "{refused}");
        }
    }
}
