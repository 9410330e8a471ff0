//! The timed parts of an operation.

/// In the order in which they happen; `Connect` and `ConnectAndFirstOperation` are derived from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Name to address; only where a name was given.
    Resolve,
    /// SYN to SYN-ACK.
    Tcp,
    /// A protocol in which the server speaks first.
    Greeting,
    /// The TLS handshake.
    Tls,
    /// The protocol's introduction.
    Hello,
    /// Proving who we are.
    Auth,
    /// The first operation of a connection.
    FirstOperation,
    /// A later operation.
    Operation,
    /// `Tcp` to `Auth`.
    Connect,
    /// `Tcp` to `FirstOperation`.
    ConnectAndFirstOperation,
}

impl Phase {
    /// All of them; a phase's place here is its number.
    pub const ALL: [Phase; 10] = [
        Phase::Resolve,
        Phase::Tcp,
        Phase::Greeting,
        Phase::Tls,
        Phase::Hello,
        Phase::Auth,
        Phase::FirstOperation,
        Phase::Operation,
        Phase::Connect,
        Phase::ConnectAndFirstOperation,
    ];

    /// As the border writes it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Resolve => "resolve",
            Phase::Tcp => "tcp",
            Phase::Greeting => "greeting",
            Phase::Tls => "tls",
            Phase::Hello => "hello",
            Phase::Auth => "auth",
            Phase::FirstOperation => "first_operation",
            Phase::Operation => "operation",
            Phase::Connect => "connect",
            Phase::ConnectAndFirstOperation => "connect_and_first_operation",
        }
    }

    /// Whether it is part of `connect`: what comes after the address is known and before the first operation.
    pub fn is_in_connect(self) -> bool {
        matches!(self, Phase::Tcp | Phase::Greeting | Phase::Tls | Phase::Hello | Phase::Auth)
    }
}
