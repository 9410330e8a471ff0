//! Errors of the engine: the classes by which they are counted, and the class of each system error.

use rustix::io::Errno;
use serde::Serialize;
use std::{fmt, io};

/// The class of an error. Results on disk and reports use the names in `docs/ipc.md`, such as `tls_refused`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The host name cannot be resolved to an address.
    Resolve,
    /// No process listens at the address.
    Refused,
    /// There is no route to the address, or no local port is free, or another system error occurred.
    Unreachable,
    /// No answer arrived within `operation_timeout_ms`, which the plan (the configuration of a run) sets.
    Timeout,
    /// The operation was still unfinished when the extra time after its slice (a measured window) ended.
    Abandoned,
    Reset,
    /// The server closed the connection.
    Closed,
    /// The server does not accept TLS.
    TlsRefused,
    /// The server closed a plain connection without an answer, because it accepts only TLS.
    PlainRefused,
    /// The certificate is for another name or address than the server's.
    TlsCertificateName,
    /// The certificate has expired or is not valid yet.
    TlsCertificateExpired,
    TlsCertificateUntrusted,
    /// The handshake failed, for instance because the peers share no cipher suite.
    TlsHandshake,
    /// The client's TLS settings cannot be used, for example a CA file without certificates.
    TlsConfiguration,
    /// The user or the password is wrong, or the server could not prove that it knows the password.
    Authentication,
    /// The read preference matches no member of the MongoDB replica set.
    NoMember,
    /// The server answered with an error.
    Server,
    /// A master key is missing or wrong, or a ciphertext was modified.
    Encryption,
    /// The HTTP status was not 2xx.
    Status,
    /// The connection ended before a response's body was complete.
    ShortBody,
    /// The peer violated the protocol.
    Protocol,
    /// Fatal: the plan (the configuration of a run) or a command is invalid.
    Plan,
    /// Fatal: the operating system refuses something that a simulated link needs, such as a device.
    Link,
    /// Fatal: there is a defect in the engine.
    Internal,
}

/// An error, with the class by which it is counted and a one-line description. It never contains credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub class: Class,
    pub detail: String,
    /// The phase (timed part) that failed, such as `read`. Only the workloads `ycsb` and `tpcc` set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<&'static str>,
    /// True if another server must execute the operation, such as MongoDB's primary or the owner of a Redis slot. The
    /// client must then search for this server again.
    #[serde(skip)]
    pub moved: bool,
    /// The server's error number, if it sent one.
    #[serde(skip)]
    pub code: Option<u16>,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(class: Class, detail: impl Into<String>) -> Self {
        Failure { class, detail: detail.into(), phase: None, moved: false, code: None }
    }

    pub fn protocol(detail: impl Into<String>) -> Self {
        Failure::new(Class::Protocol, detail)
    }

    /// Put `subject`, such as a server's address, in front of the error's description.
    pub fn with(mut self, subject: &impl fmt::Display) -> Self {
        self.detail = format!("{subject}: {}", self.detail);
        self
    }

    /// Set the phase (timed part) of the operation that failed, unless it is already set.
    pub fn during(mut self, phase: &'static str) -> Self {
        self.phase.get_or_insert(phase);
        self
    }

    /// Convert a system call's error. Its number determines the class: ECONNREFUSED becomes `refused`.
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

    /// Replace the classes `tls_refused` and `plain_refused` by `closed`. Call this only for a server that has accepted
    /// the same transport (plain or TLS) before: when it ends a connection, it is shutting down.
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
