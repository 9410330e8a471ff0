//! What a plan says of a PostgreSQL service.

use crate::{Discovery, Protocol};
use base::Secret;
use base::error::{Class, Failure, Result};
use net::runtime::Reactor;
use net::settings::Transport;
use serde::Deserialize;
use std::rc::Rc;
use workload::ycsb::TablePlace;
use workload::{Kind, PGBENCH};

/// Where a PostgreSQL service is and how it is asked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `host:port`; the first that can be reached is measured.
    pub addresses: Vec<String>,
    pub username: String,
    /// Null: none, for a server that asks for none.
    pub password: Option<Secret>,
    pub database: String,
    /// The session's; the server's holds where absent. A pooler does not take it.
    pub search_path: Option<String>,
    /// Where pgbench's tables are, whatever the session's `search_path`.
    pub table_schema: Option<String>,
    /// YCSB's table; pgbench's have names of their own.
    #[serde(default = "usertable")]
    pub table: String,
    /// pgbench's scale: so many branches, and ten times as many tellers.
    #[serde(default = "one")]
    pub scale: u64,
    #[serde(default)]
    pub statements: Statements,
    /// How values come: a simple query's always as text.
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

/// How queries are asked, by pgbench's names for its `--protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statements {
    Simple,
    Extended,
    /// Parsed once a connection.
    #[default]
    Prepared,
}

/// How values come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Results {
    #[default]
    Text,
    /// As the server has them, integers with the high byte first.
    Binary,
}

/// How TLS begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Negotiation {
    #[default]
    Request,
    /// With the connection's first byte: servers from 17 on.
    Direct,
}

/// A PostgreSQL server.
pub const PROTOCOL: Protocol = Protocol::of::<Settings>("postgres", PGBENCH);

impl crate::Settings for Settings {
    fn check(&self, _kinds: &[Kind]) -> Result<()> {
        if self.scale == 0 {
            return Err(Failure::new(Class::Plan, "scale is at least 1"));
        }
        let strings =
            [Some(&self.username), Some(&self.database), self.search_path.as_ref(), self.table_schema.as_ref()];
        if strings.into_iter().flatten().any(|text| text.contains('\0')) {
            return Err(Failure::new(Class::Plan, "a name holds a zero, which ends it"));
        }
        // It stands for a parameter in our statements.
        if self.table_schema.as_ref().is_some_and(|name| name.contains('?')) {
            return Err(Failure::new(Class::Plan, "a schema's name holds a question mark"));
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
    use crate::Settings as _;

    const SERVICE: &str =
        r#"{"addresses": ["127.0.0.1:5432"], "username": "u", "password": "s3cret", "database": "d"}"#;

    fn with(more: &str) -> serde_json::Result<Settings> {
        serde_json::from_str(&SERVICE.replace('}', &format!(", {more}}}")))
    }

    #[test]
    fn reads_a_postgres_service() {
        let settings: Settings = serde_json::from_str(SERVICE).unwrap();
        assert_eq!((settings.statements, settings.results), (Statements::Prepared, Results::Text));
        assert_eq!((settings.negotiation, settings.channel_binding), (Negotiation::Request, false));
        assert_eq!((&settings.table[..], settings.scale), ("usertable", 1));
        assert!(!format!("{settings:?}").contains("s3cret"));
        let asked =
            with(r#""statements": "extended", "results": "binary", "negotiation": "direct", "scale": 8"#).unwrap();
        assert_eq!((asked.statements, asked.negotiation, asked.scale), (Statements::Extended, Negotiation::Direct, 8));
        assert!(with(r#""statements": "text""#).is_err() && with(r#""tables": "x""#).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_plan() {
        assert!(with(r#""scale": 8"#).unwrap().check(&[]).is_ok());
        assert_eq!(with(r#""scale": 0"#).unwrap().check(&[]).unwrap_err().class, Class::Plan);
        for name in ["search_path", "table_schema"] {
            let refused = with(&format!(r#""{name}": "a\u0000b""#)).unwrap().check(&[]).unwrap_err();
            assert_eq!(refused.class, Class::Plan, "{name}");
        }
    }
}
