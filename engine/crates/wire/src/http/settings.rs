//! What a plan says of an HTTP service.

use super::request::check;
use crate::{Discovery, Protocol};
use base::Secret;
use base::error::Result;
use net::runtime::Reactor;
use net::settings::Transport;
use serde::Deserialize;
use std::num::NonZeroU64;
use std::rc::Rc;
use workload::{Kind, REQUESTS};

/// Where an HTTP service is and what it is asked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
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

/// A server of HTTP/1.1, or a balancer before one.
pub const PROTOCOL: Protocol = Protocol::of::<Settings>("http", REQUESTS);

impl crate::Settings for Settings {
    fn check(&self, _kinds: &[Kind]) -> Result<()> {
        check(self)
    }

    fn is_persistent(&self, kind: Kind) -> bool {
        kind != Kind::Connect && self.requests_per_connection.is_none_or(|most| most.get() > 1)
    }

    fn discover<'a>(&'a self, transport: &'a Transport, reactor: &'a Rc<Reactor>, timeout_ns: u64) -> Discovery<'a> {
        crate::discovery(super::Service::discover(self, transport, reactor, timeout_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HTTP: &str = r#"{"addresses": ["10.205.0.6:8443"], "host": "shop.example",
        "path": "/?wait=200", "headers": ["Cookie: s3cret"], "requests_per_connection": 1, "any_status": false}"#;

    #[test]
    fn reads_an_http_service() {
        let settings: Settings = serde_json::from_str(HTTP).unwrap();
        assert_eq!(settings.requests_per_connection, NonZeroU64::new(1));
        assert!(!format!("{settings:?}").contains("s3cret"));
        let least = r#"{"addresses": [], "path": "/"}"#;
        let least: Settings = serde_json::from_str(least).unwrap();
        assert!(least.host.is_none() && least.headers.is_empty() && !least.any_status);
        assert_eq!(least.requests_per_connection, None);
        for (known, unknown) in [
            (r#""any_status": false"#, r#""any_status": false, "method": "POST""#),
            (r#""requests_per_connection": 1"#, r#""requests_per_connection": 0"#),
            (r#""headers": ["Cookie: s3cret"]"#, r#""headers": {"Cookie": "s3cret"}"#),
        ] {
            assert!(HTTP.contains(known));
            assert!(serde_json::from_str::<Settings>(&HTTP.replace(known, unknown)).is_err(), "{unknown}");
        }
    }
}
