//! What a plan says of a Redis service.

use super::strings::is_size;
use crate::{Discovery, Protocol};
use base::Secret;
use base::error::{Class, Failure, Result};
use net::runtime::Reactor;
use net::settings::Transport;
use serde::Deserialize;
use std::rc::Rc;
use workload::ycsb::TablePlace;
use workload::{CACHE, Kind};

/// Where a Redis service is and how it is asked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `host:port`; the first that can be reached is measured.
    pub addresses: Vec<String>,
    /// The same servers' where they take TLS, which has a port of its own; `addresses` where absent.
    pub tls_addresses: Option<Vec<String>>,
    /// Null: the user `default`.
    pub username: Option<String>,
    /// Null: none, for a server that asks for none.
    pub password: Option<Secret>,
    /// Version of the protocol: 2, or 3, which a session begins with `HELLO`.
    #[serde(default = "two")]
    pub resp: u8,
    #[serde(default)]
    pub key_prefix: String,
    /// Of the strings that are asked for: 100, 1,024 or 102,400.
    #[serde(default = "a_hundred")]
    pub value_bytes: usize,
}

fn two() -> u8 {
    2
}

fn a_hundred() -> usize {
    100
}

/// A Redis server, or one that speaks its protocol, such as Valkey.
pub const PROTOCOL: Protocol = Protocol::of::<Settings>("redis", CACHE);

impl Settings {
    pub fn addresses_for(&self, transport: &Transport) -> &[String] {
        match (transport, &self.tls_addresses) {
            (Transport::Tls(_), Some(addresses)) => addresses,
            _ => &self.addresses,
        }
    }
}

impl crate::Settings for Settings {
    fn check(&self, _kinds: &[Kind]) -> Result<()> {
        let refuse = |what: &str| Err(Failure::new(Class::Plan, what));
        if !matches!(self.resp, 2 | 3) {
            return refuse("resp is 2 or 3");
        }
        if self.username.is_some() && self.password.is_none() {
            return refuse("a user without a password");
        }
        if !is_size(self.value_bytes) {
            return refuse("value_bytes is 100, 1024 or 102400");
        }
        Ok(())
    }

    fn table(&self) -> Option<TablePlace<'_>> {
        Some(TablePlace { addresses: &self.addresses, database: "0", table: &self.key_prefix })
    }

    fn discover<'a>(&'a self, transport: &'a Transport, reactor: &'a Rc<Reactor>, timeout_ns: u64) -> Discovery<'a> {
        crate::discovery(super::Service::discover(self, transport, reactor, timeout_ns))
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
    fn reads_a_redis_service() {
        let settings: Settings = serde_json::from_str(SERVICE).unwrap();
        assert_eq!((settings.resp, settings.value_bytes, &settings.key_prefix[..]), (2, 100, ""));
        assert!(!format!("{settings:?}").contains("s3cret"));
        let asked = with(r#""resp": 3, "key_prefix": "costof:", "value_bytes": 1024"#).unwrap();
        assert_eq!((asked.resp, asked.value_bytes), (3, 1024));
        assert!(with(r#""database": 1"#).is_err());
    }

    #[test]
    fn tls_goes_to_its_own_port_where_there_is_one() {
        let tls: Transport = serde_json::from_str(r#"{"kind": "tls", "verify": "full", "resumption": false}"#).unwrap();
        let both = with(r#""tls_addresses": ["127.0.0.1:6380"]"#).unwrap();
        assert_eq!(both.addresses_for(&tls), ["127.0.0.1:6380"]);
        assert_eq!(both.addresses_for(&Transport::Plain {}), ["127.0.0.1:6379"]);
        assert_eq!(with(r#""resp": 2"#).unwrap().addresses_for(&tls), ["127.0.0.1:6379"]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_plan() {
        assert!(with(r#""resp": 3"#).unwrap().check(&[]).is_ok());
        for wrong in [r#""resp": 4"#, r#""value_bytes": 0"#, r#""value_bytes": 101"#] {
            assert_eq!(with(wrong).unwrap().check(&[]).unwrap_err().class, Class::Plan, "{wrong}");
        }
        let nobody: Settings = serde_json::from_str(r#"{"addresses": [], "username": "u", "password": null}"#).unwrap();
        assert_eq!(nobody.check(&[]).unwrap_err().class, Class::Plan);
    }
}
