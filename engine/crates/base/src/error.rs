//! Errors: the classes by which they are counted, and the mapping of system errors to classes.

use rustix::io::Errno;
use serde::Serialize;
use std::{fmt, io};

/// An error class, spelt as in `docs/ipc.md`. Results on disk and reports use the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The host name has no address.
    Resolve,
    /// No process listens at the address.
    Refused,
    /// There is no route to the address, or no local port is free.
    Unreachable,
    /// The answer did not arrive within the plan's `operation_timeout_ms`.
    Timeout,
    /// The operation was still in flight when its slice had to close.
    Abandoned,
    /// The connection was reset.
    Reset,
    /// The server closed the connection.
    Closed,
    /// The peer does not speak TLS.
    TlsRefused,
    /// The peer closes plain connections.
    PlainRefused,
    /// The certificate is for another name or address.
    TlsCertificateName,
    /// The certificate has expired or is not valid yet.
    TlsCertificateExpired,
    /// The certificate does not chain to a trusted authority.
    TlsCertificateUntrusted,
    /// The handshake failed, for instance because the peers share no cipher suite.
    TlsHandshake,
    /// The client's TLS settings are unusable, for instance a CA file without certificates.
    TlsConfiguration,
    /// The user or the password is wrong, or the server could not prove that it knows the password.
    Authentication,
    /// No member of the service fits the read preference.
    NoMember,
    /// The server answered with an error.
    Server,
    /// A master key is missing or wrong, or a ciphertext was changed.
    Encryption,
    /// The HTTP status was not 2xx.
    Status,
    /// The connection ended within a response's body.
    ShortBody,
    /// The peer violated the protocol.
    Protocol,
    /// Fatal: the plan or a command is invalid.
    Plan,
    /// Fatal: the operating system refuses what a link needs.
    Link,
    /// Fatal: a defect of the engine.
    Internal,
}

/// An error as it is counted and shown. It never holds credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub class: Class,
    /// One line for people.
    pub detail: String,
    /// The name of the phase that failed, in workloads with several kinds of operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<&'static str>,
    /// The server answered that another server is responsible (it is not, or no longer, the primary).
    #[serde(skip)]
    pub moved: bool,
    /// The server's error number, if it sent one.
    #[serde(skip)]
    pub code: Option<u16>,
}

/// A result whose error is a [`Failure`].
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(class: Class, detail: impl Into<String>) -> Self {
        Failure { class, detail: detail.into(), phase: None, moved: false, code: None }
    }

    pub fn protocol(detail: impl Into<String>) -> Self {
        Failure::new(Class::Protocol, detail)
    }

    /// Put `subject` (such as a server's address) in front of the detail.
    pub fn with(mut self, subject: &impl fmt::Display) -> Self {
        self.detail = format!("{subject}: {}", self.detail);
        self
    }

    /// Set the failed phase, unless one is set already.
    pub fn during(mut self, phase: &'static str) -> Self {
        self.phase.get_or_insert(phase);
        self
    }

    /// Map an error of a system call on a connection, by its error number.
    pub fn from_io(error: &io::Error) -> Self {
        let class = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::CONNREFUSED) => Class::Refused,
            Some(Errno::TIMEDOUT) => Class::Timeout,
            Some(Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED) => Class::Reset,
            Some(_) => Class::Unreachable,
            None if error.kind() == io::ErrorKind::UnexpectedEof => Class::Closed,
            None => Class::Reset,
        };
        Failure::new(class, describe(class, error))
    }

    /// Replace a refusal of TLS or plain by `closed`, for a server that has accepted this transport before: when such a
    /// server ends a connection, it is shutting down rather than refusing the transport.
    pub fn from_known_server(self) -> Self {
        match self.class {
            Class::TlsRefused | Class::PlainRefused => Failure::closed(),
            _ => self,
        }
    }

    pub fn closed() -> Self {
        Failure::new(Class::Closed, "the server closed the connection")
    }
}

/// Describe an error by its class, which is clearer than the system's text except for unreachable addresses.
fn describe(class: Class, error: &io::Error) -> String {
    match class {
        Class::Refused => "nothing listens at this address (connection refused)".into(),
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
