//! Evidence of the connections that a client really used, such as their TLS version. It proves that an arm (a
//! combination of settings to compare) was measured with these settings.

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
    /// The group of the key exchange: `prime256v1`, `x25519` or `X25519MLKEM768`. None for any other group.
    pub group: Option<&'static str>,
    pub resumed: bool,
}

/// The evidence of the connections that were used in one slice (a measured window).
#[derive(Debug, Default)]
pub struct Evidence {
    /// The distinct connections, by server and TLS properties. Whether a TLS session was resumed makes no difference.
    kinds: Vec<Connection>,
    opened: u64,
    handshakes: u64,
    resumed: u64,
}

/// The evidence of a slice (a measured window), as the engine sends it to Python. If the connections differ in a
/// property, its field contains all distinct values, joined by commas: `TLSv1.2,TLSv1.3`.
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
    /// The group of the key exchange: `prime256v1`, `x25519` or `X25519MLKEM768`. Null for plain connections and for
    /// any other group.
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
        // Resumption is counted separately. A resumed connection must not count as another kind of connection.
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

/// Return the distinct values, sorted and joined by commas. Return None if there are no values.
fn joined<'a>(values: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values.dedup();
    (!values.is_empty()).then(|| values.join(","))
}
