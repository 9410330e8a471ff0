//! The address of a server.

use base::error::{Class, Failure, Result};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A server's host, by name or IP address, and its port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    host: String,
    port: u16,
    ip: Option<IpAddr>,
}

impl Address {
    /// Parse an address of the form `host`, `host:port`, `[v6]`, `[v6]:port`, or a bare IPv6 address.
    /// Errors: class `plan` (invalid configuration) for any other text.
    pub fn parse(text: &str, default_port: u16) -> Result<Self> {
        let invalid = || Failure::new(Class::Plan, format!("'{text}' is not an address such as host:port"));
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(invalid)?;
                (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(invalid)?) })
            }
            None => match text.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (text, None),
            },
        };
        let port = port.map_or(Ok(default_port), |port| port.parse().map_err(|_| invalid()))?;
        if host.is_empty() || port == 0 {
            return Err(invalid());
        }
        Ok(Address { host: host.into(), port, ip: host.parse().ok() })
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Return the host's IP address, or None if the host is given by a name.
    pub fn ip(&self) -> Option<IpAddr> {
        self.ip
    }

    pub fn literal(&self) -> Option<SocketAddr> {
        self.ip.map(|ip| SocketAddr::new(ip, self.port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            Some(IpAddr::V6(ip)) => write!(out, "[{ip}]:{}", self.port),
            _ => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn host_names_and_ipv4_and_ipv6_addresses_are_parsed() {
        let shown = |text| Address::parse(text, 27017).unwrap().to_string();
        assert_eq!(shown("db1"), "db1:27017");
        assert_eq!(shown("db1:1"), "db1:1");
        assert_eq!(shown("127.0.0.1:2"), "127.0.0.1:2");
        assert_eq!(shown("[::1]:3"), "[::1]:3");
        assert_eq!(shown("[::1]"), "[::1]:27017");
        assert_eq!(shown("::1"), "[::1]:27017");
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for text in ["", ":1", "h:", "h:x", "h:70000", "h:0", "[::1", "[::1]x"] {
            assert_eq!(Address::parse(text, 1).unwrap_err().class, Class::Plan, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsing_a_displayed_address_returns_the_same_port(text in ".{0,40}") {
            if let Ok(address) = Address::parse(&text, 1) {
                prop_assert_eq!(Address::parse(&address.to_string(), 1).ok().map(|read| read.port), Some(address.port));
            }
        }
    }
}
