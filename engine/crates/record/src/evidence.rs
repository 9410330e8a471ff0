//! What proves that an arm really was what it says, as this end of the connection saw it.

use serde::Serialize;

/// What one connection turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    pub server: String,
    /// None: plain.
    pub security: Option<Security>,
}

/// What a TLS handshake agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Security {
    pub protocol: &'static str,
    pub cipher: &'static str,
    pub key: String,
    pub verified: bool,
    /// The group of the key exchange; None for one that no setting asks for.
    pub group: Option<&'static str>,
    pub resumed: bool,
}

/// What the connections of a slice turned out to be.
#[derive(Debug, Default)]
pub struct Evidence {
    /// Every different connection that was seen: one, if the arm is what it says.
    seen: Vec<Connection>,
    opened: u64,
    handshakes: u64,
    resumed: u64,
}

/// What the connections of a slice really were. Where connections differ, their values are joined by commas.
#[derive(Debug, Serialize)]
pub struct EvidenceAnswer {
    pub connections: u64,
    /// As OpenSSL names it; null for plain.
    pub protocol: Option<String>,
    /// As OpenSSL names it; null for plain.
    pub cipher: Option<String>,
    /// The server's, such as `rsa-2048`; null for plain.
    pub key: Option<String>,
    /// Of the key exchange, as PostgreSQL names it; null for plain, and for one that no setting asks for.
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
        // Whether it resumed is counted, and no difference in kind.
        if let Some(security) = &mut connection.security {
            security.resumed = false;
        }
        if !self.seen.contains(&connection) {
            self.seen.push(connection);
        }
    }

    pub fn merge(&mut self, other: Evidence) {
        self.opened += other.opened;
        self.handshakes += other.handshakes;
        self.resumed += other.resumed;
        other.seen.into_iter().for_each(|connection| self.used(connection));
    }

    pub fn answer(&self) -> EvidenceAnswer {
        let securities = || self.seen.iter().map(|connection| connection.security.as_ref());
        let fact = |name: fn(&Security) -> &str| joined(securities().map(|found| found.map_or("plain", name)));
        let encrypted = securities().any(|found| found.is_some());
        EvidenceAnswer {
            connections: self.opened,
            protocol: fact(|security| security.protocol).filter(|_| encrypted),
            cipher: fact(|security| security.cipher).filter(|_| encrypted),
            key: fact(|security| &security.key).filter(|_| encrypted),
            group: joined(securities().filter_map(|found| found?.group)),
            verified: encrypted && securities().all(|found| found.is_some_and(|security| security.verified)),
            resumed: self.resumed,
            handshakes: self.handshakes,
            server: joined(self.seen.iter().map(|connection| connection.server.as_str())),
        }
    }
}

/// Different values, sorted, joined by commas: more than one is for the reader to see, not for us to choose from.
fn joined<'a>(values: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values.dedup();
    (!values.is_empty()).then(|| values.join(","))
}
