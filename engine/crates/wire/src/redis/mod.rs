//! Redis's wire protocol, RESP2 and RESP3: AUTH, GET and SET (one at a time, or several in a pipeline), SET followed by
//! WAIT, and YCSB's operations on hashes. TLS has a separate port and begins with the connection.

mod channel;
mod login;
mod reply;
mod strings;
mod wait;
mod ycsb;

pub use strings::Strings;

use crate::one_server::{Client, OneServer, first_reached};
use crate::{Discovery, Facts, Protocol};
use base::error::{Class, Failure, Result};
use base::{Random, Secret};
use channel::{Channel, ok};
use login::{Opening, ServerSide};
use net::runtime::{Reactor, TaskId};
use net::settings;
use net::transport::{Address, Transport};
use record::{Connection, Phase, Timeline, Traffic};
use reply::{Element, Reader};
use serde::Deserialize;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use strings::is_size;
use wait::Wait;
use workload::ycsb::{Fields, Key, Shape, TablePlace, Values};
use workload::{Ask, CACHE, Job, KeyValue, Kind, Overwrite, Pipeline, Records};
use ycsb::{Hashes, ScannedKeys};

/// The location of a Redis service, and how to query it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The possible addresses of the server, such as `cache1:6379`. The first that accepts a TCP connection is used.
    pub addresses: Vec<String>,
    /// The addresses of the same servers with their TLS ports. If absent, TLS uses `addresses` too.
    pub tls_addresses: Option<Vec<String>>,
    /// The user. Null for the user `default`.
    pub username: Option<String>,
    pub password: Option<Secret>,
    /// The version of the protocol, 2 or 3. With 3 a session begins with `HELLO`.
    #[serde(default = "two")]
    pub resp: u8,
    #[serde(default)]
    pub key_prefix: String,
    /// The length of the strings to read and write: 100, 1024 or 102400 bytes.
    #[serde(default = "one_hundred")]
    pub value_bytes: usize,
    /// The number of replicas that must have the written record before an operation of workload `write` ends. Null to
    /// wait for no replica. Loading never waits.
    #[serde(default)]
    pub wait_replicas: Option<Wait>,
}

fn two() -> u8 {
    2
}

fn one_hundred() -> usize {
    100
}

/// The protocol of Redis and compatible servers, such as Valkey.
pub const PROTOCOL: Protocol = Protocol::of::<Settings>("redis", CACHE);

impl Settings {
    pub fn addresses_for(&self, transport: &settings::Transport) -> &[String] {
        match (transport, &self.tls_addresses) {
            (settings::Transport::Tls(_), Some(addresses)) => addresses,
            _ => &self.addresses,
        }
    }
}

impl crate::Settings for Settings {
    fn check(&self, kinds: &[Kind]) -> Result<()> {
        let refuse = |what: &str| Err(Failure::new(Class::Plan, what));
        if !matches!(self.resp, 2 | 3) {
            return refuse("resp must be 2 or 3");
        }
        if self.username.is_some() && self.password.is_none() {
            return refuse("username also needs password");
        }
        if !is_size(self.value_bytes) {
            return refuse("value_bytes must be 100, 1024 or 102400");
        }
        if self.wait_replicas.is_some() && kinds.contains(&Kind::Ycsb) {
            return refuse("YCSB's operations cannot wait for replicas (wait_replicas)");
        }
        Ok(())
    }

    fn table(&self) -> Option<TablePlace<'_>> {
        Some(TablePlace { addresses: &self.addresses, database: "0", table: &self.key_prefix })
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

const DEFAULT_PORT: u16 = 6379;

pub struct Service {
    transport: Transport,
    opening: Opening,
    settings: Settings,
    hashes: Hashes,
    address: Address,
    server_side: ServerSide,
}

impl Service {
    pub async fn discover(
        settings: &Settings,
        transport: &net::settings::Transport,
        reactor: &Rc<Reactor>,
        timeout_ns: u64,
    ) -> Result<Self> {
        let mut service = Service {
            transport: Transport::new(transport)?,
            opening: Opening::new(settings),
            settings: settings.clone(),
            hashes: Hashes::new(&settings.key_prefix),
            address: Address::parse("none", DEFAULT_PORT)?,
            server_side: ServerSide::default(),
        };
        let check_server = async |address: Address, timeline: &mut Timeline| {
            service.address = address;
            let result = service.check_server(reactor, timeline).await;
            result.map_err(|failure| service.refusal(failure, timeline))
        };
        service.server_side =
            first_reached(settings.addresses_for(transport), DEFAULT_PORT, reactor, timeout_ns, check_server).await?;
        Ok(service)
    }

    async fn check_server(&self, reactor: &Rc<Reactor>, timeline: &mut Timeline) -> Result<ServerSide> {
        let mut channel = self.log_in(reactor, timeline).await?;
        let server_side = ServerSide::ask(&mut channel).await?;
        channel.io.close();
        Ok(server_side)
    }

    async fn log_in(&self, reactor: &Rc<Reactor>, timeline: &mut Timeline) -> Result<Channel> {
        self.opening.log_in(reactor, &self.address, &self.transport, timeline).await
    }

    /// Return a more precise failure if the first connection reached the wrong port. A TLS port closes a plain
    /// connection without an answer. A plain port takes a TLS client's first message for an incomplete line, and waits.
    fn refusal(&self, failure: Failure, timeline: &Timeline) -> Failure {
        let has_ended = |phase| timeline.spans().any(|span| span.phase == phase);
        match (&self.transport, failure.class) {
            (Transport::Plain, Class::Closed | Class::Reset) if has_ended(Phase::Tcp) => {
                let detail = "the server closed the plain connection instead of answering: it may require TLS";
                Failure::new(Class::PlainRefused, detail)
            }
            (Transport::Tls(_), Class::Timeout) if has_ended(Phase::Tcp) && !has_ended(Phase::Tls) => {
                let detail = "the server did not answer the TLS handshake: this may be its plain port";
                Failure::new(Class::TlsRefused, detail)
            }
            _ => failure,
        }
    }
}

impl crate::Service for Service {
    fn first_reader(&self) -> String {
        self.address.to_string()
    }

    fn spawn(self: Arc<Self>, job: Job<'_>) -> TaskId {
        let Settings { key_prefix, value_bytes, .. } = &self.settings;
        let strings = Strings::new(key_prefix, job.data.records, *value_bytes);
        let client = Client::new(self, job.reactor());
        job.cache(client, strings)
    }

    fn facts(&self) -> Facts {
        // If the server did not report the version of the RESP protocol, report the configured version. The connection
        // uses this version: the answer to `HELLO 3` has confirmed RESP3, and RESP2 is every server's default.
        let resp = self.server_side.resp.clone().unwrap_or_else(|| self.settings.resp.to_string());
        Facts::from([("resp", resp.into()), ("server_side", self.server_side.address.clone().into())])
    }
}

impl OneServer for Service {
    type Session = Session;

    fn address(&self) -> &Address {
        &self.address
    }

    async fn open(self: &Arc<Self>, reactor: &Rc<Reactor>, timeline: &mut Timeline) -> Result<Session> {
        let channel = self.log_in(reactor, timeline).await?;
        Ok(Session { service: self.clone(), channel, fields: 0, keys: ScannedKeys::default() })
    }
}

pub struct Session {
    service: Arc<Service>,
    channel: Channel,
    fields: u32,
    keys: ScannedKeys,
}

impl workload::Session for Session {
    type Tally = ();

    fn traffic(&self) -> Traffic {
        self.channel.io.stream().traffic()
    }

    fn connection(&self) -> Connection {
        Connection {
            server: self.service.address.to_string(),
            security: self.channel.io.stream().security(&self.service.transport),
        }
    }

    fn close(self) {
        self.channel.io.close();
    }
}

impl Ask for Session {
    type About = Strings;

    async fn ask(&mut self, strings: &Strings, random: &mut Random, _tally: &mut ()) -> Result<()> {
        strings.append_get(strings.any(random), self.channel.request());
        self.channel.ask(|element, rest| strings.check(element, rest)).await
    }
}

impl Pipeline for Session {
    async fn ask_at_once(&mut self, strings: &Strings, count: usize, random: &mut Random) -> Result<()> {
        let request = self.channel.request();
        (0..count).for_each(|_| strings.append_get(strings.any(random), request));
        self.channel.ask_all(count, |element, rest| strings.check(element, rest)).await
    }
}

impl KeyValue for Session {
    async fn insert(&mut self, strings: &Strings, records: Range<u64>) -> Result<()> {
        let request = self.channel.request();
        let count = records.clone().count();
        records.for_each(|record| strings.append_set(record, request));
        self.channel.ask_all(count, ok).await
    }
}

impl Overwrite for Session {
    async fn overwrite(&mut self, strings: &Strings, random: &mut Random) -> Result<()> {
        let request = self.channel.request();
        strings.append_set(strings.any(random), request);
        let Some(wait) = self.service.settings.wait_replicas else { return self.channel.ask(ok).await };
        wait.append(request);
        let mut written = false;
        let check = |element: Element<'_>, rest: Reader<'_>| match std::mem::replace(&mut written, true) {
            false => ok(element, rest),
            true => wait.check(element, rest),
        };
        self.channel.ask_all(2, check).await
    }
}

impl Records for Session {
    async fn get_ready(&mut self, shape: &Shape) -> Result<()> {
        self.fields = shape.fields;
        Ok(())
    }

    async fn insert_record(&mut self, key: &Key, values: Values<'_>) -> Result<()> {
        self.service.hashes.insert(&mut self.channel, key, values).await
    }

    async fn read_record(&mut self, key: &Key, fields: Fields) -> Result<()> {
        self.service.hashes.read(&mut self.channel, key.as_bytes(), fields, self.fields).await
    }

    async fn update_record(&mut self, key: &Key, values: Values<'_>) -> Result<()> {
        self.service.hashes.update(&mut self.channel, key, values).await
    }

    async fn scan_records(&mut self, from: &Key, count: u64, fields: Fields) -> Result<()> {
        let Session { service, channel, fields: record_fields, keys } = self;
        service.hashes.scan(channel, from, count, fields, *record_fields, keys).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings as _;

    const SERVICE: &str = r#"{"addresses": ["127.0.0.1:6379"], "username": null, "password": "s3cret"}"#;

    fn with(more: &str) -> serde_json::Result<Settings> {
        serde_json::from_str(&SERVICE.replace('}', &format!(", {more}}}")))
    }

    #[test]
    fn tls_connections_use_the_separate_tls_addresses_if_configured() {
        let tls: settings::Transport =
            serde_json::from_str(r#"{"kind": "tls", "verify": "full", "resumption": false}"#).unwrap();
        let both = with(r#""tls_addresses": ["127.0.0.1:6380"]"#).unwrap();
        assert_eq!(both.addresses_for(&tls), ["127.0.0.1:6380"]);
        assert_eq!(both.addresses_for(&settings::Transport::Plain {}), ["127.0.0.1:6379"]);
        assert_eq!(with(r#""resp": 2"#).unwrap().addresses_for(&tls), ["127.0.0.1:6379"]);
    }

    #[test]
    fn invalid_settings_are_refused_before_connecting() {
        assert!(with(r#""resp": 3"#).unwrap().check(&[]).is_ok());
        assert!(with(r#""wait_replicas": 0"#).is_err());
        let waits = with(r#""wait_replicas": 1"#).unwrap();
        assert!(waits.check(&[Kind::Load, Kind::Write]).is_ok());
        assert_eq!(waits.check(&[Kind::Write, Kind::Ycsb]).unwrap_err().class, Class::Plan);
        for wrong in [r#""resp": 4"#, r#""value_bytes": 0"#, r#""value_bytes": 101"#] {
            assert_eq!(with(wrong).unwrap().check(&[]).unwrap_err().class, Class::Plan, "{wrong}");
        }
        let without_password: Settings =
            serde_json::from_str(r#"{"addresses": [], "username": "u", "password": null}"#).unwrap();
        assert_eq!(without_password.check(&[]).unwrap_err().class, Class::Plan);
    }
}
