//! The border with Python, exactly as `docs/architecture.md` states it: one JSON object a line, unknown fields refused.

mod ycsb;

pub use ycsb::{FieldLengthDistribution, InsertOrder, RequestDistribution, ScanLengthDistribution, Ycsb, YcsbPhase};

use crate::error::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// A line in.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Once, first.
    Plan(Plan),
    /// Any number, one after the other.
    Slice(SliceCommand),
}

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
    /// The table of the records, with sysbench's columns.
    pub table: String,
    /// How queries are asked.
    #[serde(default)]
    pub statements: Statements,
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

/// A password: read from a plan, and shown nowhere.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The password itself, for the one who proves to know it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(password: &str) -> Self {
        Secret(password.into())
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
}

/// A short measured window of one workload on one arm.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceCommand {
    /// Comes back in the answer.
    pub id: u64,
    /// By name.
    pub arm: String,
    /// By name.
    pub workload: String,
    /// The slice ends after so many, …
    pub operations: u64,
    /// … or after so long, whichever comes first.
    pub seconds: f64,
}

/// A line out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Once, to the plan.
    Ready(Ready),
    /// One to each slice.
    Slice(Box<SliceAnswer>),
    /// Fatal; the last line.
    Error(Failure),
}

/// What the engine is and which arms can run.
#[derive(Debug, Serialize)]
pub struct Ready {
    /// Name and version.
    pub instrument: String,
    /// Of the libraries whose speed is measured with ours.
    pub versions: BTreeMap<&'static str, String>,
    /// What measuring itself costs.
    pub self_cost_ns: SelfCost,
    /// In the plan's order.
    pub arms: Vec<ArmReady>,
}

/// What measuring costs an operation, in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct SelfCost {
    /// One reading of the clock; an operation reads it twice.
    pub timer: f64,
    /// One record of a phase.
    pub record: f64,
}

/// Whether an arm can run.
#[derive(Debug, Serialize)]
pub struct ArmReady {
    /// The arm's.
    pub name: String,
    /// The member that the first worker reads.
    pub server: Option<String>,
    /// Why it cannot run.
    pub error: Option<Failure>,
}

/// What a slice measured.
#[derive(Debug, Serialize)]
pub struct SliceAnswer {
    /// The command's.
    pub id: u64,
    /// The command's.
    pub arm: String,
    /// The command's.
    pub workload: String,
    /// When it was.
    pub started_unix_ns: u64,
    /// From the start to the end of its last operation, whatever came of it.
    pub elapsed_ns: u64,
    /// Those that succeeded; of a load, records.
    pub operations: u64,
    /// Those that did not, and failures to make a connection ready for one.
    pub errors: Vec<ErrorCount>,
    /// By name; only those that happened.
    pub phases: BTreeMap<&'static str, PhaseAnswer>,
    /// By role; ours is `client`.
    pub cpu_ns: BTreeMap<&'static str, u64>,
    /// Of this process, so far.
    pub peak_memory_bytes: u64,
    /// That the arm was what it says.
    pub evidence: EvidenceAnswer,
}

/// Errors of one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// Class and detail of the first.
    #[serde(flatten)]
    pub first: Failure,
    /// How many of that class.
    pub count: u64,
}

/// One phase's times, exact and as a histogram.
#[derive(Debug, Serialize)]
pub struct PhaseAnswer {
    /// How many were recorded.
    pub count: u64,
    /// Their sum, exact.
    pub sum_ns: u64,
    /// The sum of their squares.
    pub sum_squares_ns2: f64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Times that bytes arrived after bytes were sent since the last arrival.
    pub round_trips: u64,
    /// On the wire: with TLS, its records.
    pub bytes_sent: u64,
    /// On the wire: with TLS, its records.
    pub bytes_received: u64,
    /// HdrHistogram V2, compressed, base64; nanoseconds, three significant digits.
    pub histogram: String,
}

/// What the connections of a slice really were. Where connections differ, their values are joined by commas.
#[derive(Debug, Serialize)]
pub struct EvidenceAnswer {
    /// Connections opened in the slice, measured or not.
    pub connections: u64,
    /// As OpenSSL names it; null for plain.
    pub protocol: Option<String>,
    /// As OpenSSL names it; null for plain.
    pub cipher: Option<String>,
    /// The server's, such as `rsa-2048`; null for plain.
    pub key: Option<String>,
    /// Whether the certificate's chain was asked for and held.
    pub verified: bool,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
    /// TLS handshakes of the connections opened in the slice.
    pub handshakes: u64,
    /// The member that was measured.
    pub server: Option<String>,
}

#[cfg(test)]
mod tests {
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
        let unknown = service.replace(r#""table": "sbtest1""#, r#""table": "sbtest1", "schema": "x""#);
        assert!(serde_json::from_str::<Service>(&unknown).is_err());
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
