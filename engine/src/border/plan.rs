//! What is to be measured, as Python has resolved it.

use super::tpcc::Tpcc;
use super::ycsb::Ycsb;
use crate::encryption::{Demand, MasterKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// All that will be measured, resolved.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Everything random follows from it.
    pub seed: u64,
    /// At most this many threads carry workers.
    pub threads: usize,
    /// After this long without an end an operation has failed with `timeout`.
    pub operation_timeout_ms: u64,
    /// What is in the service.
    pub data: Data,
    /// What is compared.
    pub arms: Vec<Arm>,
    /// What is done to each arm.
    pub workloads: Vec<Workload>,
}

/// The size of the table: YCSB's `usertable`, or sysbench's, of which only the number of records is free.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Records; keys are made of the numbers below it.
    pub records: u64,
    /// Fields of one of YCSB's records.
    #[serde(default = "ten")]
    pub fields: u32,
    /// Bytes of one of YCSB's fields.
    #[serde(default = "a_hundred")]
    pub field_length: u32,
}

fn ten() -> u32 {
    10
}

fn a_hundred() -> u32 {
    100
}

/// One combination of levels.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// As slices name it.
    pub name: String,
    /// Where it is and who we are there.
    pub service: Service,
    /// How the bytes go.
    pub transport: Transport,
}

/// A service, by its protocol; a new protocol adds its variant here.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "protocol", rename_all = "snake_case")]
pub enum Service {
    /// A replica set or a single `mongod`.
    Mongodb(MongodbService),
    /// A MySQL or MariaDB server.
    Mysql(MysqlService),
    /// A server of HTTP/1.1, or a balancer before one.
    Http(HttpService),
}

impl Service {
    /// As a plan names its protocol.
    pub fn protocol(&self) -> &'static str {
        match self {
            Service::Mongodb(_) => "mongodb",
            Service::Mysql(_) => "mysql",
            Service::Http(_) => "http",
        }
    }

    /// Whether its protocol has this kind of workload.
    pub fn has(&self, kind: Kind) -> bool {
        match kind {
            Kind::Connect => true,
            Kind::Query | Kind::Load | Kind::Ycsb => !matches!(self, Service::Http(_)),
            Kind::Request => matches!(self, Service::Http(_)),
            Kind::Tpcc => matches!(self, Service::Mysql(_)),
        }
    }
}

/// Where a MongoDB service is and how it is read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MongodbService {
    /// Seeds, `host:port`; any one that answers is enough.
    pub addresses: Vec<String>,
    /// The set's name; a single server where null.
    pub replica_set: Option<String>,
    /// Which members are read.
    #[serde(default)]
    pub read_preference: ReadPreference,
    /// Null: no authentication.
    pub username: Option<String>,
    /// Null: no authentication.
    pub password: Option<Secret>,
    /// The database that knows the user.
    #[serde(default = "admin")]
    pub auth_source: String,
    /// The database of the records.
    pub database: String,
    /// The collection of the records.
    pub collection: String,
    /// Sent with every write; the server's default where absent.
    pub write_concern: Option<WriteConcern>,
}

/// How many members must have a write before it is answered (MongoDB's `w`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenConcern")]
pub enum WriteConcern {
    /// Most of those that vote.
    Majority,
    /// So many, the primary among them.
    Members(i32),
}

/// As a plan has it.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenConcern {
    Words(String),
    Members(i64),
    Other(serde::de::IgnoredAny),
}

impl TryFrom<WrittenConcern> for WriteConcern {
    type Error = &'static str;

    fn try_from(written: WrittenConcern) -> Result<Self, Self::Error> {
        match written {
            WrittenConcern::Words(words) if words == "majority" => Ok(WriteConcern::Majority),
            // Without acknowledgement there is nothing to measure.
            WrittenConcern::Members(members @ 1..=50) => Ok(WriteConcern::Members(members as i32)),
            _ => Err("write_concern is \"majority\" or a number of members from 1 to 50"),
        }
    }
}

fn admin() -> String {
    "admin".into()
}

/// Which members are read (MongoDB server selection specification, "Read preference").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ReadPreference {
    /// The primary alone.
    #[default]
    Primary,
    /// The primary, a secondary without one.
    PrimaryPreferred,
    /// Secondaries alone.
    Secondary,
    /// Secondaries, the primary without any.
    SecondaryPreferred,
    /// All of them.
    Nearest,
}

/// Where a MySQL service is and how it is asked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MysqlService {
    /// `host:port`; the first that can be reached is measured.
    pub addresses: Vec<String>,
    /// Null: MySQL's anonymous user.
    pub username: Option<String>,
    /// Null: none.
    pub password: Option<Secret>,
    /// The database of the table.
    pub database: String,
    /// The table of the records; of no use to `tpcc`, which has its own.
    #[serde(default = "sbtest1")]
    pub table: String,
    /// How queries are asked.
    #[serde(default)]
    pub statements: Statements,
    /// How its client decrypts what a gateway before the server has encrypted; it does not, where absent.
    pub decryption: Option<Decryption>,
}

/// What a client must have to decrypt a gateway's columns.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decryption {
    /// By their names in the gateway's rules.
    pub master_keys: BTreeMap<String, MasterKey>,
    /// Columns that come encrypted or are an error.
    #[serde(default)]
    pub must_be_encrypted: Vec<Demand>,
}

fn sbtest1() -> String {
    "sbtest1".into()
}

/// How queries are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statements {
    /// Prepared once a connection, then executed with the binary protocol.
    #[default]
    Prepared,
    /// As text, each time anew.
    Text,
}

/// Where an HTTP service is and what it is asked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpService {
    /// `host:port`; the first that takes a TCP connection is measured.
    pub addresses: Vec<String>,
    /// The Host header; the address where absent.
    pub host: Option<String>,
    /// With the query, from the first slash on.
    pub path: String,
    /// Further header lines, `Name: value`.
    #[serde(default)]
    pub headers: Vec<Secret>,
    /// After so many a connection is ended; where absent, when the server ends it.
    pub requests_per_connection: Option<NonZeroU64>,
    /// Whether a response of another status than 2xx is a success too.
    #[serde(default)]
    pub any_status: bool,
}

/// A password, or a header that may hold one: read from a plan, shown nowhere, and erased when dropped.
#[derive(Clone, Deserialize)]
#[serde(from = "String")]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The secret itself, for the one who must say it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(secret: String) -> Self {
        Secret(Zeroizing::new(secret))
    }
}

impl From<&str> for Secret {
    fn from(secret: &str) -> Self {
        Secret(Zeroizing::new(secret.into()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

/// How the bytes of an arm go.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Transport {
    /// As they are.
    Plain {},
    /// Under TLS.
    Tls(Tls),
}

/// The settings of a TLS arm.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM; the system's authorities where absent.
    pub ca_file: Option<PathBuf>,
    /// What both ends agree on where absent.
    pub version: Option<TlsVersion>,
    /// What of the certificate is checked.
    pub verify: Verify,
    /// Whether a new connection may resume an earlier one's session.
    pub resumption: bool,
    /// The one suite that is offered, by OpenSSL's name, with TLS 1.2 at most; OpenSSL's own choice where absent.
    pub cipher: Option<String>,
    /// OpenSSL's: what it refuses as too weak. Where absent 0 with a `cipher`, else the library's.
    pub security_level: Option<SecurityLevel>,
}

/// OpenSSL's security levels that still meet servers of today (SSL_CTX_set_security_level(3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u32")]
pub struct SecurityLevel(u32);

impl SecurityLevel {
    /// Nothing is refused.
    pub const ANYTHING: SecurityLevel = SecurityLevel(0);

    /// As OpenSSL counts them.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for SecurityLevel {
    type Error = &'static str;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        if number <= 2 { Ok(SecurityLevel(number)) } else { Err("security_level is 0, 1 or 2") }
    }
}

/// A version that is pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum TlsVersion {
    /// RFC 5246.
    #[serde(rename = "1.2")]
    V1_2,
    /// RFC 8446.
    #[serde(rename = "1.3")]
    V1_3,
}

/// What of the server's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Chain and name.
    Full,
    /// Chain, not name.
    CaOnly,
    /// Nothing.
    None,
}

/// What a slice does.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// As slices name it.
    pub name: String,
    /// What one operation is.
    pub kind: Kind,
    /// Operations under way at the same time, each on a connection of its own.
    #[serde(default = "one")]
    pub workers: usize,
    /// Of `connect` alone: whether a new connection is asked a query; it is where absent.
    pub first_operation: Option<bool>,
    /// When operations begin; where absent, each as soon as its worker is free.
    pub pace: Option<Pace>,
    /// Of kind `ycsb` alone: its settings.
    pub ycsb: Option<Ycsb>,
    /// Of kind `tpcc` alone: its settings.
    pub tpcc: Option<Tpcc>,
}

/// When the operations of a slice begin, whichever worker is free.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Of all workers together, on average.
    pub per_second: f64,
    /// How they lie between each other.
    pub arrivals: Arrivals,
}

/// How the instants of a pace lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// As independent clients come: exponentially distributed gaps.
    Poisson,
}

fn one() -> usize {
    1
}

/// What one operation of a workload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A new connection, its first query unless the workload goes without, and its end.
    Connect,
    /// A query over a standing connection.
    Query,
    /// Writing the records, in batches.
    Load,
    /// A request of HTTP, with the connection it needs.
    Request,
    /// An operation of a core workload of YCSB.
    Ycsb,
    /// A transaction of TPC-C, or a part of its data.
    Tpcc,
}

impl Kind {
    /// As a plan names it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Connect => "connect",
            Kind::Query => "query",
            Kind::Load => "load",
            Kind::Request => "request",
            Kind::Ycsb => "ycsb",
            Kind::Tpcc => "tpcc",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Isolation, TpccPhase, YcsbPhase};
    use super::*;

    const PLAN: &str = r#"{"plan": {
        "seed": 42, "threads": 2, "operation_timeout_ms": 10000,
        "data": {"records": 10000, "fields": 10, "field_length": 100},
        "arms": [
          {"name": "tls",
           "service": {"protocol": "mongodb", "addresses": ["127.83.12.1:27017"], "replica_set": "costof",
                       "read_preference": "secondary", "username": "u", "password": "s3cret", "auth_source": "admin",
                       "database": "ycsb", "collection": "usertable"},
           "transport": {"kind": "tls", "ca_file": "/ca.pem", "version": "1.3", "verify": "full", "resumption": false}},
          {"name": "plain",
           "service": {"protocol": "mongodb", "addresses": [], "replica_set": null, "username": null, "password": null,
                       "database": "ycsb", "collection": "usertable"},
           "transport": {"kind": "plain"}}],
        "workloads": [{"name": "connect", "kind": "connect", "workers": 1}, {"name": "q", "kind": "query"}]}}"#;

    #[test]
    fn reads_the_plan_of_the_architecture() {
        let Command::Plan(plan) = serde_json::from_str(PLAN).unwrap() else { panic!("a plan") };
        let Transport::Tls(tls) = &plan.arms[0].transport else { panic!("TLS") };
        assert_eq!((tls.version, tls.verify, tls.resumption), (Some(TlsVersion::V1_3), Verify::Full, false));
        assert_eq!((&tls.cipher, tls.security_level), (&None, None));
        assert_eq!(plan.workloads[1].workers, 1);
        assert!(!format!("{plan:?}").contains("s3cret"));
    }

    #[test]
    fn reads_a_mysql_service() {
        let service = r#"{"protocol": "mysql", "addresses": ["127.0.0.1:3306"], "username": "u", "password": "s3cret",
            "database": "sbtest", "table": "sbtest1"}"#;
        let Service::Mysql(settings) = serde_json::from_str(service).unwrap() else { panic!("MySQL") };
        assert_eq!(settings.statements, Statements::Prepared);
        assert!(!format!("{settings:?}").contains("s3cret"));
        let without = service.replace(r#", "table": "sbtest1""#, "");
        assert!(without != service && serde_json::from_str::<Service>(&without).is_ok());
        let unknown = service.replace(r#""table": "sbtest1""#, r#""table": "sbtest1", "schema": "x""#);
        assert!(serde_json::from_str::<Service>(&unknown).is_err());
    }

    #[test]
    fn reads_the_keys_of_a_driver_and_shows_none() {
        let service = r#"{"protocol": "mysql", "addresses": [], "database": "d", "table": "t", "decryption":
            {"master_keys": {"app": "00112233445566778899aabbccddeeff"}}}"#;
        let Service::Mysql(settings) = serde_json::from_str(service).unwrap() else { panic!("MySQL") };
        assert!(settings.decryption.as_ref().unwrap().master_keys.contains_key("app"));
        assert!(!format!("{settings:?}").contains("00112233"));
        let short = serde_json::from_str::<Service>(&service.replace("00112233", "")).unwrap_err().to_string();
        assert!(short.contains("16 bytes in hexadecimal") && !short.contains("44556677"), "{short}");
        for (known, unknown) in [("master_keys", "keys"), ("\"mysql\"", "\"http\""), ("\"mysql\"", "\"mongodb\"")] {
            assert!(serde_json::from_str::<Service>(&service.replace(known, unknown)).is_err(), "{unknown}");
        }
    }

    #[test]
    fn reads_a_write_concern() {
        let service =
            r#"{"protocol": "mongodb", "addresses": [], "database": "d", "collection": "c", "write_concern": X}"#;
        let read = |concern: &str| serde_json::from_str::<Service>(&service.replace('X', concern));
        for (concern, expected) in
            [("\"majority\"", Some(WriteConcern::Majority)), ("2", Some(WriteConcern::Members(2))), ("null", None)]
        {
            let Service::Mongodb(settings) = read(concern).unwrap() else { panic!("MongoDB") };
            assert_eq!(settings.write_concern, expected);
        }
        for refused in ["0", "51", "-1", "1.5", "\"most\"", "true", "{\"w\": 1}"] {
            assert!(read(refused).unwrap_err().to_string().contains("write_concern is"), "{refused}");
        }
    }

    #[test]
    fn reads_a_workload_of_ycsb() {
        let text = r#"{"name": "y", "kind": "ycsb", "ycsb": {"phase": "load", "record_count": 5}}"#;
        let workload: Workload = serde_json::from_str(text).unwrap();
        let settings = workload.ycsb.unwrap();
        assert_eq!((settings.phase, settings.record_count, settings.field_count), (YcsbPhase::Load, 5, 10));
        assert!(serde_json::from_str::<Workload>(&text.replace("record_count", "recordcount")).is_err());
    }

    #[test]
    fn reads_a_workload_of_tpcc() {
        let settings = |text: &str| serde_json::from_str::<Tpcc>(text);
        let least = settings("{}").unwrap();
        assert_eq!((least.phase, least.warehouses, least.keying), (TpccPhase::Run, 1, false));
        assert_eq!(least.isolation, Isolation::Serializable);
        let all = r#"{"phase": "load", "warehouses": 3, "isolation": "read-committed", "keying": true}"#;
        assert_eq!(settings(all).unwrap().isolation, Isolation::ReadCommitted);
        for (known, unknown) in [("read-committed", "snapshot"), ("keying", "thinking"), ("load", "check")] {
            assert!(settings(&all.replace(known, unknown)).is_err(), "{unknown}");
        }
    }

    const HTTP: &str = r#"{"protocol": "http", "addresses": ["10.205.0.6:8443"], "host": "shop.example",
        "path": "/?wait=200", "headers": ["Cookie: s3cret"], "requests_per_connection": 1, "any_status": false}"#;

    #[test]
    fn reads_an_http_service() {
        let Service::Http(settings) = serde_json::from_str(HTTP).unwrap() else { panic!("HTTP") };
        assert_eq!(settings.requests_per_connection, NonZeroU64::new(1));
        assert!(!format!("{settings:?}").contains("s3cret"));
        let least = r#"{"protocol": "http", "addresses": [], "path": "/"}"#;
        let Service::Http(least) = serde_json::from_str(least).unwrap() else { panic!("HTTP") };
        assert!(least.host.is_none() && least.headers.is_empty() && !least.any_status);
        assert_eq!(least.requests_per_connection, None);
        for (known, unknown) in [
            (r#""any_status": false"#, r#""any_status": false, "method": "POST""#),
            (r#""requests_per_connection": 1"#, r#""requests_per_connection": 0"#),
            (r#""headers": ["Cookie: s3cret"]"#, r#""headers": {"Cookie": "s3cret"}"#),
        ] {
            assert!(HTTP.contains(known));
            assert!(serde_json::from_str::<Service>(&HTTP.replace(known, unknown)).is_err(), "{unknown}");
        }
    }

    #[test]
    fn reads_a_pace() {
        let paced =
            r#"{"name": "r", "kind": "request", "workers": 2, "pace": {"per_second": 5.5, "arrivals": "poisson"}}"#;
        let workload: Workload = serde_json::from_str(paced).unwrap();
        assert_eq!(workload.pace, Some(Pace { per_second: 5.5, arrivals: Arrivals::Poisson }));
        for wrong in [
            paced.replace("poisson", "bursts"),
            paced.replace("5.5,", r#"5.5, "burst": 1,"#),
            paced.replace(r#", "arrivals": "poisson""#, ""),
        ] {
            assert!(wrong != paced && serde_json::from_str::<Workload>(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn refuses_what_it_does_not_know_at_every_depth() {
        for (known, unknown) in [
            (r#""seed": 42"#, r#""seed": 42, "sed": 1"#),
            (r#""fields": 10"#, r#""fields": 10, "f": 1"#),
            (r#""database": "ycsb""#, r#""database": "ycsb", "db": 1"#),
            (r#""kind": "plain""#, r#""kind": "plain", "verify": "full""#),
            (r#""verify": "full""#, r#""verify": "full", "shiny": 1"#),
            (r#""verify": "full""#, r#""verify": "full", "security_level": 3"#),
            (r#""kind": "query""#, r#""kind": "query", "pace": 1"#),
            (r#""protocol": "mongodb""#, r#""protocol": "smtp""#),
        ] {
            assert!(PLAN.contains(known));
            assert!(serde_json::from_str::<Command>(&PLAN.replace(known, unknown)).is_err(), "{unknown}");
        }
    }
}
