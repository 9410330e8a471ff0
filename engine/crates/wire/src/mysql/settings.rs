//! What a plan says of a MySQL service.

use crate::{Discovery, Protocol};
use base::Secret;
use base::error::{Class, Failure, Result};
use encryption::{Demand, MasterKey};
use net::runtime::Reactor;
use net::settings::Transport;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::rc::Rc;
use workload::ycsb::TablePlace;
use workload::{Kind, SQL};

/// Where a MySQL service is and how it is asked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `host:port`; the first that can be reached is measured.
    pub addresses: Vec<String>,
    /// Null: MySQL's anonymous user.
    pub username: Option<String>,
    /// Null: none.
    pub password: Option<Secret>,
    pub database: String,
    /// The table of the records; of no use to `tpcc`, which has its own.
    #[serde(default = "sbtest1")]
    pub table: String,
    #[serde(default)]
    pub statements: Statements,
    /// How its client decrypts what a gateway before the server has encrypted; it does not, where absent.
    pub decryption: Option<DecryptionSettings>,
}

/// What a client must have to decrypt a gateway's columns.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecryptionSettings {
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
    Text,
}

/// A MySQL or MariaDB server.
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

    fn discover<'a>(&'a self, transport: &'a Transport, reactor: &'a Rc<Reactor>, timeout_ns: u64) -> Discovery<'a> {
        crate::discovery(super::Service::discover(self, transport, reactor, timeout_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_mysql_service() {
        let service = r#"{"addresses": ["127.0.0.1:3306"], "username": "u", "password": "s3cret",
            "database": "sbtest", "table": "sbtest1"}"#;
        let settings: Settings = serde_json::from_str(service).unwrap();
        assert_eq!(settings.statements, Statements::Prepared);
        assert!(!format!("{settings:?}").contains("s3cret"));
        let without = service.replace(r#", "table": "sbtest1""#, "");
        assert!(without != service && serde_json::from_str::<Settings>(&without).is_ok());
        let unknown = service.replace(r#""table": "sbtest1""#, r#""table": "sbtest1", "schema": "x""#);
        assert!(serde_json::from_str::<Settings>(&unknown).is_err());
    }

    #[test]
    fn reads_the_keys_of_a_driver_and_shows_none() {
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
