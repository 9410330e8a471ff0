//! The plan: the complete configuration of a run. The Python part of `costof` writes it.

use net::settings::Transport;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use wire::Protocol;
use workload::{Data, Share};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub seed: u64,
    /// The maximum number of threads with workers; more may run for workloads `connect` with a pace (a fixed rate).
    pub threads: usize,
    /// The time in milliseconds after which an operation fails with `timeout`.
    pub operation_timeout_ms: u64,
    pub data: Data,
    #[serde(default)]
    pub share: Share,
    pub arms: Vec<Arm>,
    pub workloads: Vec<workload::Settings>,
}

/// An arm: one variant of the experiment, such as TLS 1.3 with an ECDSA certificate.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    pub name: String,
    pub service: Service,
    pub transport: Transport,
}

/// The service that an arm (variant of the experiment) uses. The protocol defines which settings exist, and parses
/// them.
#[derive(Clone)]
pub struct Service {
    pub protocol: &'static Protocol,
    pub settings: Arc<dyn wire::Settings>,
}

impl<'de> Deserialize<'de> for Service {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const TAG: &str = "protocol";
        let mut fields = Map::deserialize(deserializer)?;
        let tag = fields.remove(TAG).ok_or_else(|| D::Error::missing_field(TAG))?;
        let name = String::deserialize(tag).map_err(D::Error::custom)?;
        let protocol = wire::protocol(&name).ok_or_else(|| D::Error::custom(unknown(&name)))?;
        let settings = (protocol.read)(Value::Object(fields)).map_err(D::Error::custom)?;
        Ok(Service { protocol, settings })
    }
}

fn unknown(name: &str) -> String {
    let known: Vec<_> = wire::PROTOCOLS.iter().map(|protocol| format!("`{}`", protocol.name)).collect();
    format!("unknown variant `{name}`, expected one of {}", known.join(", "))
}

impl fmt::Debug for Service {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::*;
    use net::settings::{TlsVersion, Verify};

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
    fn example_plan_in_the_documentation_is_parsed() {
        let Command::Plan(plan) = serde_json::from_str(PLAN).unwrap() else { panic!("a plan") };
        let Transport::Tls(tls) = &plan.arms[0].transport else { panic!("TLS") };
        assert_eq!((tls.version, tls.verify, tls.resumption), (Some(TlsVersion::V1_3), Verify::Full, false));
        assert_eq!((&tls.cipher, tls.security_level), (&None, None));
        assert_eq!(plan.workloads[1].workers, 1);
        assert!(!format!("{plan:?}").contains("s3cret"));
    }

    #[test]
    fn error_for_an_unknown_protocol_lists_known_protocols() {
        let unknown = PLAN.replacen("mongodb", "smtp", 1);
        let error = serde_json::from_str::<Command>(&unknown).unwrap_err().to_string();
        let known: Vec<_> = wire::PROTOCOLS.iter().map(|protocol| format!("`{}`", protocol.name)).collect();
        let expected = format!("unknown variant `smtp`, expected one of {}", known.join(", "));
        assert!(error.starts_with(&expected), "{error}");
        let without = PLAN.replacen(r#""protocol": "mongodb", "#, "", 1);
        let error = serde_json::from_str::<Command>(&without).unwrap_err().to_string();
        assert!(error.starts_with("missing field `protocol`"), "{error}");
    }

    #[test]
    fn unknown_fields_are_rejected_at_every_depth() {
        for (known, unknown) in [
            (r#""seed": 42"#, r#""seed": 42, "sed": 1"#),
            (r#""fields": 10"#, r#""fields": 10, "f": 1"#),
            (r#""database": "ycsb""#, r#""database": "ycsb", "db": 1"#),
            (r#""kind": "plain""#, r#""kind": "plain", "verify": "full""#),
            (r#""verify": "full""#, r#""verify": "full", "shiny": 1"#),
            (r#""verify": "full""#, r#""verify": "full", "security_level": 3"#),
            (r#""kind": "query""#, r#""kind": "query", "pace": 1"#),
            (r#""protocol": "mongodb""#, r#""protocol": "mysql""#),
        ] {
            assert!(PLAN.contains(known));
            assert!(serde_json::from_str::<Command>(&PLAN.replace(known, unknown)).is_err(), "{unknown}");
        }
    }
}
