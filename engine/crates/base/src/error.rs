//! What can go wrong, as one list: the classes by which errors are counted, and the mapping into them.

use rustix::io::Errno;
use serde::Serialize;
use std::{fmt, io};

/// The words of `docs/ipc.md`; the same everywhere in a run, its ledger and its reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The host's name has no address.
    Resolve,
    /// Nothing listens there.
    Refused,
    /// No route, or no local port or address left.
    Unreachable,
    /// No answer within the plan's `operation_timeout_ms`.
    Timeout,
    /// An operation without an end by the time that its slice had to be closed.
    Abandoned,
    /// The connection was reset.
    Reset,
    /// The server closed the connection.
    Closed,
    /// The other side does not speak TLS.
    TlsRefused,
    /// The other side closes on plain.
    PlainRefused,
    /// The certificate is for another name or address.
    TlsCertificateName,
    /// The certificate is past its date, or before it.
    TlsCertificateExpired,
    /// The certificate does not lead to a trusted authority.
    TlsCertificateUntrusted,
    /// The two ends found no common ground.
    TlsHandshake,
    /// Our own TLS settings do not work, such as a CA file that is none.
    TlsConfiguration,
    /// The user or the password is wrong, or the server could not prove that it knows the password.
    Authentication,
    /// No member of the service fits the read preference.
    NoMember,
    /// The server answered with an error.
    Server,
    /// A master key is missing or wrong, or a ciphertext was changed.
    Encryption,
    /// An HTTP status that is no 2xx.
    Status,
    /// The connection ended within a response's body.
    ShortBody,
    /// Bytes that are not the protocol.
    Protocol,
    /// Fatal: the plan or a command cannot be followed.
    Plan,
    /// Fatal: the machine refuses what a link needs.
    Link,
    /// Fatal: a defect of the engine.
    Internal,
}

/// An error as it is counted and shown: its class, and what happened in words. Never holds credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// By what it is counted.
    pub class: Class,
    /// For people, one line.
    pub detail: String,
    /// What was being done, by its phase's name, where an operation is one of several kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<&'static str>,
    /// The server says that it is not, or not any more, the one to ask.
    #[serde(skip)]
    pub moved: bool,
    /// The server's own number for it, where it has one.
    #[serde(skip)]
    pub code: Option<u16>,
}

/// What everything on the path of a measured byte returns.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure of this class, with what happened in words.
    pub fn new(class: Class, detail: impl Into<String>) -> Self {
        Failure { class, detail: detail.into(), phase: None, moved: false, code: None }
    }

    /// The answer is not what the protocol allows.
    pub fn protocol(detail: impl Into<String>) -> Self {
        Failure::new(Class::Protocol, detail)
    }

    /// The same failure, said to have happened with `whom` (a server's address).
    pub fn with(mut self, whom: &impl fmt::Display) -> Self {
        self.detail = format!("{whom}: {}", self.detail);
        self
    }

    /// The same failure, of this phase, where it is not known to be of another.
    pub fn during(mut self, phase: &'static str) -> Self {
        self.phase.get_or_insert(phase);
        self
    }

    /// A failing system call on a connection, by its error number.
    pub fn from_io(error: &io::Error) -> Self {
        let class = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::CONNREFUSED) => Class::Refused,
            Some(Errno::TIMEDOUT) => Class::Timeout,
            Some(Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED) => Class::Reset,
            Some(_) => Class::Unreachable,
            None if error.kind() == io::ErrorKind::UnexpectedEof => Class::Closed,
            None => Class::Reset,
        };
        Failure::new(class, in_words(class, error))
    }

    /// The same failure, of a server that has accepted this transport before: when it ends a connection it refuses
    /// nothing, it goes away.
    pub fn of_a_known_server(self) -> Self {
        match self.class {
            Class::TlsRefused | Class::PlainRefused => Failure::closed(),
            _ => self,
        }
    }

    /// The server ended the connection where an answer was due.
    pub fn closed() -> Self {
        Failure::new(Class::Closed, "the server closed the connection")
    }
}

/// The system's own text says less than the class does, except for a missing route.
fn in_words(class: Class, error: &io::Error) -> String {
    match class {
        Class::Refused => "nothing listens there (connection refused)".into(),
        Class::Reset => "the connection was reset".into(),
        Class::Closed => "the server closed the connection".into(),
        Class::Timeout => "the connection timed out".into(),
        _ => error.to_string(),
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::from_io(&error)
    }
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        Failure::from_io(&error.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.detail)
    }
}

impl std::error::Error for Failure {}
