//! PostgreSQL's wire protocol (3.0): TLS by request or directly, SCRAM-SHA-256 with and without channel binding,
//! simple, extended and prepared queries, pipelines, and COPY.
//!
//! The client behaves like libpq wherever this affects a measurement. It salts the password anew for each connection,
//! describes a statement at each execution, and ends a connection without waiting for an answer.

mod channel;
mod login;
mod message;
mod pgbench;
mod ycsb;

use crate::one_server::{Client, OneServer, first_reached};
use crate::{Discovery, Facts, Protocol};
use base::error::{Class, Failure, Result};
use base::{Random, Secret};
use channel::Channel;
use login::{LoggedIn, Opening};
use net::runtime::{Reactor, TaskId};
use net::settings;
use net::transport::{Address, Transport};
use pgbench::{Prepared, Scripts};
use record::{Connection, Timeline, Traffic};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use workload::pgbench::Bank;
use workload::ycsb::{Fields, Key, Shape, TablePlace, Values};
use workload::{Ask, Job, KeyValue, Kind, PGBENCH, Pgbench, Pipeline, Records};
use ycsb::Statements as RecordStatements;

/// The location of a PostgreSQL service, and how to query it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The possible addresses of the server, such as `db1:5432`. The first one that accepts a TCP connection is used.
    pub addresses: Vec<String>,
    pub username: String,
    pub password: Option<Secret>,
    pub database: String,
    /// Settings of each session by name, such as `synchronous_commit`. They are sent in the start-up message and do not
    /// change other sessions. Most poolers refuse them.
    #[serde(default)]
    pub session: BTreeMap<String, String>,
    /// The schema of all tables. If it is absent, the session's search path applies.
    pub table_schema: Option<String>,
    #[serde(default = "usertable")]
    pub table: String,
    /// pgbench's scale, which is the number of branches. There are ten tellers for each branch.
    #[serde(default = "one")]
    pub scale: u64,
    #[serde(default)]
    pub statements: Statements,
    /// The format of values in results. Simple queries always return text.
    #[serde(default)]
    pub results: Results,
    #[serde(default)]
    pub negotiation: Negotiation,
    #[serde(default)]
    pub channel_binding: bool,
}

fn usertable() -> String {
    "usertable".into()
}

fn one() -> u64 {
    1
}

/// The form in which queries are sent, as in pgbench's option `--protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statements {
    Simple,
    Extended,
    #[default]
    Prepared,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Results {
    #[default]
    Text,
    /// The server's binary format, in which integers have the high byte first.
    Binary,
}

/// The way in which TLS begins on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Negotiation {
    /// The client first requests TLS, and waits for the server's consent.
    #[default]
    Request,
    /// TLS begins with the first byte of the connection. Servers support this from version 17 on.
    Direct,
}

pub const PROTOCOL: Protocol = Protocol::of::<Settings>("postgres", PGBENCH);

impl crate::Settings for Settings {
    fn check(&self, _kinds: &[Kind]) -> Result<()> {
        if self.scale == 0 {
            return Err(Failure::new(Class::Plan, "scale must be at least 1"));
        }
        let session = self.session.iter().flat_map(|(name, value)| [name, value]);
        let mut strings = [&self.username, &self.database].into_iter().chain(&self.table_schema).chain(session);
        if strings.any(|text| text.contains('\0')) {
            return Err(Failure::new(Class::Plan, "a name or a setting must not contain a zero byte"));
        }
        if self.session.keys().any(|name| name.is_empty() || name == "user" || name == "database") {
            return Err(Failure::new(Class::Plan, "a setting of a session must have the name of a server's setting"));
        }
        // A question mark stands for a parameter in the texts of the statements.
        if self.table_schema.as_ref().is_some_and(|name| name.contains('?')) {
            return Err(Failure::new(Class::Plan, "a schema's name must not contain a question mark"));
        }
        Ok(())
    }

    fn table(&self) -> Option<TablePlace<'_>> {
        Some(TablePlace { addresses: &self.addresses, database: &self.database, table: &self.table })
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

const DEFAULT_PORT: u16 = 5432;

pub struct Service {
    transport: Transport,
    opening: Opening,
    scripts: Scripts,
    scale: u64,
    schema: Option<String>,
    table: String,
    address: Address,
    facts: Facts,
}

impl Service {
    pub async fn discover(
        settings: &Settings,
        transport: &net::settings::Transport,
        reactor: &Rc<Reactor>,
        timeout_ns: u64,
    ) -> Result<Self> {
        let mut service = Service {
            transport: Transport::speaking(transport, login::TLS_NAME)?,
            opening: Opening::new(settings),
            scripts: Scripts::new(settings.statements, settings.results, settings.table_schema.as_deref()),
            scale: settings.scale,
            schema: settings.table_schema.clone(),
            table: settings.table.clone(),
            address: Address::parse("none", DEFAULT_PORT)?,
            facts: Facts::new(),
        };
        let check_server = async |address: Address, timeline: &mut Timeline| {
            service.address = address;
            service.check_server(reactor, timeline).await
        };
        service.facts = first_reached(&settings.addresses, DEFAULT_PORT, reactor, timeout_ns, check_server).await?;
        Ok(service)
    }

    /// Log in once. Return the authentication mechanism, whether the server sees TLS on the connection, and the values
    /// that the session's settings have at the server.
    async fn check_server(&self, reactor: &Rc<Reactor>, timeline: &mut Timeline) -> Result<Facts> {
        let LoggedIn { mut channel, process, mechanism } = self.log_in(reactor, timeline).await?;
        let server_side = server_side(&mut channel, process).await?;
        let mut facts = Facts::from([("mechanism", mechanism.into()), ("server_side", server_side.into())]);
        let mut settings = Vec::new();
        for name in self.opening.session.keys() {
            let text = format!("SELECT current_setting({})", pgbench::literal(name));
            settings.push(format!("{name}={}", read_value(&mut channel, &text).await?.unwrap_or_default()));
        }
        if !settings.is_empty() {
            facts.insert("session_settings", settings.join(", ").into());
        }
        channel.close();
        Ok(facts)
    }

    async fn log_in(&self, reactor: &Rc<Reactor>, timeline: &mut Timeline) -> Result<LoggedIn> {
        self.opening.log_in(reactor, &self.address, &self.transport, timeline).await
    }
}

/// Return the session's TLS version in `pg_stat_ssl`, such as 'TLSv1.3', or 'none' without TLS. Return None if the
/// server has no process with the number that the client got at its login. In this case a program between client and
/// server, such as a pooler, has answered the login.
async fn server_side(channel: &mut Channel, process: i32) -> Result<Option<String>> {
    let text = format!("SELECT coalesce(version, 'none') FROM pg_catalog.pg_stat_ssl WHERE pid = {process}");
    read_value(channel, &text).await
}

/// Return the value of a query with one column. Return None if the result has no row.
async fn read_value(channel: &mut Channel, query: &str) -> Result<Option<String>> {
    pgbench::append_query(query, channel.request());
    let mut text = None;
    let read = |body: &[u8]| {
        let value = channel::row(body, 1)?.value()?.unwrap_or_default();
        text = Some(String::from_utf8_lossy(value).into_owned());
        Ok(())
    };
    channel.ask(read).await?;
    Ok(text)
}

impl crate::Service for Service {
    fn first_reader(&self) -> String {
        self.address.to_string()
    }

    fn spawn(self: Arc<Self>, job: Job<'_>) -> TaskId {
        let bank = Bank::new(job.data.records, self.scale);
        let client = Client::new(self, job.reactor());
        job.pgbench(client, bank)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}

impl OneServer for Service {
    type Session = Session;

    fn address(&self) -> &Address {
        &self.address
    }

    async fn open(self: &Arc<Self>, reactor: &Rc<Reactor>, timeline: &mut Timeline) -> Result<Session> {
        let logged_in = self.log_in(reactor, timeline).await?;
        Ok(Session {
            service: self.clone(),
            channel: logged_in.channel,
            prepared: Prepared::default(),
            records: None,
            last_key: Vec::new(),
        })
    }
}

pub struct Session {
    service: Arc<Service>,
    channel: Channel,
    prepared: Prepared,
    records: Option<RecordStatements>,
    last_key: Vec<u8>,
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

    async fn prepare(&mut self) -> Result<()> {
        self.service.scripts.prepare_all(&mut self.channel, &mut self.prepared).await
    }

    fn close(self) {
        self.channel.close();
    }
}

impl Ask for Session {
    type About = Bank;

    async fn ask(&mut self, bank: &Bank, random: &mut Random, _tally: &mut ()) -> Result<()> {
        self.ask_at_once(bank, 1, random).await
    }
}

impl KeyValue for Session {
    async fn insert(&mut self, bank: &Bank, records: Range<u64>) -> Result<()> {
        self.service.scripts.copy(&mut self.channel, bank, records).await
    }
}

impl Pipeline for Session {
    async fn ask_at_once(&mut self, bank: &Bank, count: usize, random: &mut Random) -> Result<()> {
        let Session { service, channel, prepared, .. } = self;
        service.scripts.select(channel, prepared, count, || bank.account(random)).await
    }
}

impl Pgbench for Session {
    async fn transact(&mut self, bank: &Bank, random: &mut Random) -> Result<()> {
        let Session { service, channel, prepared, .. } = self;
        service.scripts.transact(channel, prepared, bank.transfer(random)).await
    }
}

impl Records for Session {
    async fn get_ready(&mut self, shape: &Shape) -> Result<()> {
        if self.records.is_none() {
            let Service { schema, table, .. } = &*self.service;
            let statements = RecordStatements::prepare(&mut self.channel, schema.as_deref(), table, shape).await?;
            self.records = Some(statements);
        }
        Ok(())
    }

    async fn insert_record(&mut self, key: &Key, values: Values<'_>) -> Result<()> {
        let (records, channel) = self.ready()?;
        records.insert(channel, key, values).await
    }

    async fn read_record(&mut self, key: &Key, fields: Fields) -> Result<()> {
        let (records, channel) = self.ready()?;
        records.read(channel, key, fields).await
    }

    async fn update_record(&mut self, key: &Key, values: Values<'_>) -> Result<()> {
        let (records, channel) = self.ready()?;
        records.update(channel, key, values).await
    }

    async fn scan_records(&mut self, from: &Key, count: u64, fields: Fields) -> Result<()> {
        let mut last_key = std::mem::take(&mut self.last_key);
        let (records, channel) = self.ready()?;
        let outcome = records.scan(channel, from, count, fields, &mut last_key).await;
        self.last_key = last_key;
        outcome
    }
}

impl Session {
    fn ready(&mut self) -> Result<(&RecordStatements, &mut Channel)> {
        let unprepared = || Failure::new(Class::Internal, "an operation was started before its statement was prepared");
        Ok((self.records.as_ref().ok_or_else(unprepared)?, &mut self.channel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings as _;

    const SERVICE: &str =
        r#"{"addresses": ["127.0.0.1:5432"], "username": "u", "password": "s3cret", "database": "d"}"#;

    fn with(more: &str) -> serde_json::Result<Settings> {
        serde_json::from_str(&SERVICE.replace('}', &format!(", {more}}}")))
    }

    #[test]
    fn invalid_settings_are_refused_before_connecting() {
        assert!(with(r#""scale": 8"#).unwrap().check(&[]).is_ok());
        assert_eq!(with(r#""scale": 0"#).unwrap().check(&[]).unwrap_err().class, Class::Plan);
        for invalid in [
            r#""table_schema": "a\u0000b""#,
            r#""session": {"search_path": "a\u0000b"}"#,
            r#""session": {"": "a"}"#,
            r#""session": {"user": "another"}"#,
        ] {
            assert_eq!(with(invalid).unwrap().check(&[]).unwrap_err().class, Class::Plan, "{invalid}");
        }
    }
}
