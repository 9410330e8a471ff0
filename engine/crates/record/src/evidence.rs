//! Evidence of what an arm's connections really were, such as their TLS version, as the client observed it.

use serde::Serialize;

/// The server of one connection, and the outcome of its TLS handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    pub server: String,
    /// None for a plain connection.
    pub security: Option<Security>,
}

/// The outcome of a TLS handshake, as the client observed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Security {
    pub protocol: &'static str,
    pub cipher: &'static str,
    pub key: String,
    /// The number of certificates that the server sent.
    pub chain: usize,
    pub verified: bool,
    /// The group of the key exchange. None if the group is none of those that an arm's TLS settings can select.
    pub group: Option<&'static str>,
    pub resumed: bool,
}

/// The evidence of a slice's connections, as it is collected.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The distinct connections, by server and TLS properties. An arm that works as planned has exactly one.
    kinds: Vec<Connection>,
    opened: u64,
    handshakes: u64,
    resumed: u64,
}

/// The evidence of a slice, as it is sent to Python. If connections differ in a value, all values are joined by commas.
#[derive(Debug, Serialize)]
pub struct EvidenceAnswer {
    pub connections: u64,
    /// The TLS version by OpenSSL's name. Null for plain connections.
    pub protocol: Option<String>,
    /// The cipher suite by OpenSSL's name. Null for plain connections.
    pub cipher: Option<String>,
    /// The type of the server's key, such as `rsa-2048`. Null for plain connections.
    pub key: Option<String>,
    /// The number of certificates that the server sent. Null for plain connections.
    pub chain: Option<String>,
    /// The group of the key exchange by PostgreSQL's name. Null for plain connections and for groups that an arm's TLS
    /// settings cannot select.
    pub group: Option<String>,
    pub verified: bool,
    pub resumed: u64,
    pub handshakes: u64,
    pub server: Option<String>,
}

impl Evidence {
    pub fn opened(&mut self, connection: Connection) {
        self.opened += 1;
        if let Some(security) = &connection.security {
            self.handshakes += 1;
            self.resumed += u64::from(security.resumed);
        }
        self.used(connection);
    }

    pub fn used(&mut self, mut connection: Connection) {
        // Resumption is counted separately: a resumed connection is not a different kind of connection.
        if let Some(security) = &mut connection.security {
            security.resumed = false;
        }
        if !self.kinds.contains(&connection) {
            self.kinds.push(connection);
        }
    }

    pub fn merge(&mut self, other: Evidence) {
        self.opened += other.opened;
        self.handshakes += other.handshakes;
        self.resumed += other.resumed;
        other.kinds.into_iter().for_each(|connection| self.used(connection));
    }

    pub fn answer(&self) -> EvidenceAnswer {
        let securities = || self.kinds.iter().map(|connection| connection.security.as_ref());
        let values = |name: fn(&Security) -> &str| joined(securities().map(|security| security.map_or("plain", name)));
        let chains: Vec<_> = securities().flatten().map(|security| security.chain.to_string()).collect();
        let encrypted = securities().any(|security| security.is_some());
        EvidenceAnswer {
            connections: self.opened,
            protocol: values(|security| security.protocol).filter(|_| encrypted),
            cipher: values(|security| security.cipher).filter(|_| encrypted),
            key: values(|security| &security.key).filter(|_| encrypted),
            chain: joined(chains.iter().map(String::as_str)),
            group: joined(securities().filter_map(|security| security?.group)),
            verified: encrypted && securities().all(|security| security.is_some_and(|tls| tls.verified)),
            resumed: self.resumed,
            handshakes: self.handshakes,
            server: joined(self.kinds.iter().map(|connection| connection.server.as_str())),
        }
    }
}

/// Return the distinct values, sorted and joined by commas, or None if there are none.
fn joined<'a>(values: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values.dedup();
    (!values.is_empty()).then(|| values.join(","))
}
