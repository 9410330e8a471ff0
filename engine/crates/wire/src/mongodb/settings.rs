//! What a plan says of a MongoDB service.

use crate::{Discovery, Protocol};
use base::Secret;
use net::runtime::Reactor;
use net::settings::Transport;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use workload::RECORDS;
use workload::ycsb::TablePlace;

/// Where a MongoDB service is and how it is read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Seeds, `host:port`; any one that answers is enough.
    pub addresses: Vec<String>,
    /// The set's name; a single server where null.
    pub replica_set: Option<String>,
    #[serde(default)]
    pub read_preference: ReadPreference,
    /// Null: no authentication.
    pub username: Option<String>,
    /// Null: no authentication.
    pub password: Option<Secret>,
    #[serde(default = "admin")]
    pub auth_source: String,
    pub database: String,
    pub collection: String,
    /// Sent with every write; the server's default where absent.
    pub write_concern: Option<WriteConcern>,
}

/// How many members must have a write before it is answered (MongoDB's `w`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenConcern")]
pub enum WriteConcern {
    Majority,
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

    fn try_from(written: WrittenConcern) -> std::result::Result<Self, Self::Error> {
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
    Nearest,
}

/// A replica set or a single `mongod`.
pub const PROTOCOL: Protocol = Protocol::of::<Settings>("mongodb", RECORDS);

impl crate::Settings for Settings {
    fn table(&self) -> Option<TablePlace<'_>> {
        Some(TablePlace { addresses: &self.addresses, database: &self.database, table: &self.collection })
    }

    fn discover<'a>(&'a self, transport: &'a Transport, reactor: &'a Rc<Reactor>, timeout_ns: u64) -> Discovery<'a> {
        crate::discovery(super::Service::discover(self, transport, reactor, timeout_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_write_concern() {
        let service = r#"{"addresses": [], "database": "d", "collection": "c", "write_concern": X}"#;
        let read = |concern: &str| serde_json::from_str::<Settings>(&service.replace('X', concern));
        for (concern, expected) in
            [("\"majority\"", Some(WriteConcern::Majority)), ("2", Some(WriteConcern::Members(2))), ("null", None)]
        {
            assert_eq!(read(concern).unwrap().write_concern, expected);
        }
        for refused in ["0", "51", "-1", "1.5", "\"most\"", "true", "{\"w\": 1}"] {
            assert!(read(refused).unwrap_err().to_string().contains("write_concern is"), "{refused}");
        }
    }
}
