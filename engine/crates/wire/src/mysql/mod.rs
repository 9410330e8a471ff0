//! MySQL's wire protocol (4.1), as MySQL and MariaDB use it: greeting, TLS on the same connection, authentication, and
//! the statements of the workloads, as text or prepared.
//!
//! The client behaves like common clients wherever this affects a measurement. After requesting TLS it begins the
//! handshake without waiting. It sends the first authentication data together with the user's name, prepares a
//! statement once for each connection, and ends a connection without waiting for an answer.

pub mod catalogue;
mod channel;
mod decryption;
mod login;
mod query;
mod statement;
mod ycsb;

pub use decryption::Decrypted;

use crate::one_server::{Client, OneServer, first_reached};
use crate::{Discovery, Protocol};
use base::error::{Class, Failure, Result};
use base::{Random, Secret};
use decryption::{Decryption, MasterKeys};
use encryption::{Demand, MasterKey};
use login::{Credentials, LoggedIn};
use mysql::command;
use net::runtime::{Reactor, TaskId};
use net::settings;
use net::transport::{Address, Transport};
use query::{BulkInsert, PointSelect, PointUpdate, Prepared};
use record::{Connection, Counts, Tally, Timeline, Traffic};
use serde::Deserialize;
use statement::{Parameters, PreparedSet, Row};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use workload::sql::{Fill, Sql, Statement};
use workload::sysbench::Table;
use workload::ycsb::{Fields, Key, Shape, TablePlace, Values};
use workload::{Ask, Job, KeyValue, Kind, Overwrite, Records, SQL};
use ycsb::Statements as RecordStatements;

/// The location of a MySQL service, and how to query it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The possible addresses of the server, such as `db1:3306`. The first one that accepts a TCP connection is used.
    pub addresses: Vec<String>,
    /// The user. Null for MySQL's anonymous user.
    pub username: Option<String>,
    pub password: Option<Secret>,
    pub database: String,
    /// The table that contains the records. The workload `tpcc` does not use this table, because it has its own tables.
    #[serde(default = "sbtest1")]
    pub table: String,
    #[serde(default)]
    pub statements: Statements,
    /// The keys with which the client decrypts columns that a gateway encrypted. Without keys, the client does not
    /// decrypt.
    pub decryption: Option<DecryptionSettings>,
}

/// A client's keys for columns that a gateway has encrypted.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecryptionSettings {
    pub master_keys: BTreeMap<String, MasterKey>,
    /// The columns that the gateway must encrypt. If an answer contains one of them in plaintext, the operation fails.
    #[serde(default)]
    pub must_be_encrypted: Vec<Demand>,
}

fn sbtest1() -> String {
    "sbtest1".into()
}

/// The form in which statements are sent: prepared, or as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statements {
    #[default]
    Prepared,
    Text,
}

/// The protocol of MySQL and MariaDB servers.
pub const PROTOCOL: Protocol = Protocol::of::<Settings>("mysql", SQL);

impl crate::Settings for Settings {
    fn check(&self, kinds: &[Kind]) -> Result<()> {
        if self.statements == Statements::Text && kinds.contains(&Kind::Ycsb) {
            let why = "YCSB's statements are prepared, so statements cannot be 'text'";
            return Err(Failure::new(Class::Plan, why));
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

const DEFAULT_PORT: u16 = 3306;

pub struct Service {
    transport: Transport,
    credentials: Credentials,
    /// The client's keys for encrypted columns. None if the client does not decrypt.
    master_keys: Option<Arc<MasterKeys>>,
    select: PointSelect,
    update: PointUpdate,
    insert: BulkInsert,
    table: String,
    address: Address,
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
            credentials: Credentials::new(settings)?,
            master_keys: settings.decryption.as_ref().map(|keys| Arc::new(MasterKeys::new(keys))),
            select: PointSelect::new(settings),
            update: PointUpdate::new(settings),
            insert: BulkInsert::new(settings),
            table: settings.table.clone(),
            address: Address::parse("none", DEFAULT_PORT)?,
        };
        let check_server = async |address: Address, timeline: &mut Timeline| {
            service.address = address;
            service.log_in(reactor, timeline).await
        };
        first_reached(&settings.addresses, DEFAULT_PORT, reactor, timeout_ns, check_server)
            .await?
            .channel
            .close_with(command::QUIT);
        Ok(service)
    }

    async fn log_in(&self, reactor: &Rc<Reactor>, timeline: &mut Timeline) -> Result<LoggedIn> {
        let mut logged_in = login::log_in(reactor, &self.address, &self.transport, &self.credentials, timeline).await?;
        logged_in.channel.decryption =
            self.master_keys.as_ref().zip(logged_in.salt).map(|(keys, salt)| Decryption::new(keys.clone(), salt));
        Ok(logged_in)
    }
}

impl crate::Service for Service {
    fn first_reader(&self) -> String {
        self.address.to_string()
    }

    fn spawn(self: Arc<Self>, job: Job<'_>) -> TaskId {
        let client = Client::new(self, job.reactor());
        let table = Table::new(job.data.records, job.seed);
        job.sql(client, table)
    }

    fn begin_slice(&self) {
        if let Some(keys) = &self.master_keys {
            keys.take_decrypted();
        }
    }

    fn take_counts(&self, into: &mut Counts) {
        if let Some(keys) = &self.master_keys {
            keys.take_decrypted().add_to(into);
        }
    }
}

impl OneServer for Service {
    type Session = Session;

    fn address(&self) -> &Address {
        &self.address
    }

    async fn open(self: &Arc<Self>, reactor: &Rc<Reactor>, timeline: &mut Timeline) -> Result<Session> {
        let LoggedIn { channel, without_eof, .. } = self.log_in(reactor, timeline).await?;
        Ok(Session {
            service: self.clone(),
            channel,
            without_eof,
            prepared: None,
            records: None,
            set: None,
            last_key: Vec::new(),
        })
    }
}

pub struct Session {
    service: Arc<Service>,
    channel: channel::Channel,
    without_eof: bool,
    prepared: Option<Prepared>,
    records: Option<RecordStatements>,
    set: Option<PreparedSet>,
    last_key: Vec<u8>,
}

impl Sql for Session {
    type Parameters = Parameters;
    type Row<'a> = Row<'a>;

    async fn prepare_all(&mut self, statements: &'static [Statement]) -> Result<()> {
        self.set = Some(PreparedSet::prepare(&mut self.channel, statements, self.without_eof).await?);
        Ok(())
    }

    fn statements_sent(&self) -> u64 {
        self.set.as_ref().map_or(0, PreparedSet::sent)
    }

    async fn execute(&mut self, text: &str) -> Result<()> {
        ready(&mut self.set)?.execute(&mut self.channel, text).await
    }

    async fn insert_rows(&mut self, into: &str, rows: &[u8]) -> Result<u64> {
        query::write_rows(&mut self.channel, into.as_bytes(), rows).await
    }

    async fn change(&mut self, index: usize, fill: impl Fill<Self>) -> Result<u64> {
        ready(&mut self.set)?.change(&mut self.channel, index, fill).await
    }

    async fn select(
        &mut self,
        index: usize,
        fill: impl Fill<Self>,
        each: impl FnMut(&mut Row<'_>) -> Result<()>,
    ) -> Result<u64> {
        ready(&mut self.set)?.select(&mut self.channel, index, fill, each).await
    }
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
        if self.service.select.is_prepared() && self.prepared.is_none() {
            self.prepared = Some(self.service.select.prepare(&mut self.channel, self.without_eof).await?);
        }
        Ok(())
    }

    fn close(self) {
        self.channel.close_with(command::QUIT);
    }
}

impl Ask for Session {
    type About = Table;

    async fn ask(&mut self, table: &Table, random: &mut Random, _tally: &mut ()) -> Result<()> {
        let record = random.below(table.records());
        workload::Session::prepare(self).await?;
        self.service.select.read(&mut self.channel, table.id(record), self.prepared, self.without_eof).await
    }
}

impl KeyValue for Session {
    async fn insert(&mut self, table: &Table, records: Range<u64>) -> Result<()> {
        self.service.insert.write(&mut self.channel, table, records).await
    }
}

impl Overwrite for Session {
    async fn overwrite(&mut self, table: &Table, random: &mut Random) -> Result<()> {
        let record = random.below(table.records());
        self.service.update.write(&mut self.channel, table.id(record), random).await
    }
}

impl Records for Session {
    async fn get_ready(&mut self, shape: &Shape) -> Result<()> {
        if self.records.is_none() {
            let statements =
                RecordStatements::prepare(&mut self.channel, &self.service.table, shape, self.without_eof).await?;
            self.records = Some(statements);
        }
        Ok(())
    }

    async fn insert_record(&mut self, key: &Key, values: Values<'_>) -> Result<()> {
        ready(&mut self.records)?.insert(&mut self.channel, key, values).await
    }

    async fn read_record(&mut self, key: &Key, fields: Fields) -> Result<()> {
        ready(&mut self.records)?.read(&mut self.channel, key, fields).await
    }

    async fn update_record(&mut self, key: &Key, values: Values<'_>) -> Result<()> {
        ready(&mut self.records)?.update(&mut self.channel, key, values).await
    }

    async fn scan_records(&mut self, from: &Key, count: u64, fields: Fields) -> Result<()> {
        ready(&mut self.records)?.scan(&mut self.channel, from, count, fields, &mut self.last_key).await
    }
}

fn ready<T>(statements: &mut Option<T>) -> Result<&mut T> {
    statements
        .as_mut()
        .ok_or_else(|| Failure::new(Class::Internal, "an operation was started before its statement was prepared"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn master_keys_are_parsed_and_never_shown() {
        let service = r#"{"addresses": [], "database": "d", "table": "t", "decryption":
            {"master_keys": {"app": "00112233445566778899aabbccddeeff"}}}"#;
        let settings: Settings = serde_json::from_str(service).unwrap();
        assert!(settings.decryption.as_ref().unwrap().master_keys.contains_key("app"));
        assert!(!format!("{settings:?}").contains("00112233"));
        let short = serde_json::from_str::<Settings>(&service.replace("00112233", "")).unwrap_err().to_string();
        assert!(short.contains("16 bytes in hexadecimal") && !short.contains("44556677"), "{short}");
        assert!(serde_json::from_str::<Settings>(&service.replace("master_keys", "keys")).is_err());
    }
}
