//! Login on a connected socket: TLS, start-up, and authentication.

use super::channel::Channel;
use super::message::{self, Reader, backend, frontend};
use super::{Negotiation, Settings};
use crate::scram::{Binding, Exchange, MECHANISM, MECHANISM_PLUS, Salted};
use base::error::{Class, Failure, Result};
use net::runtime::Reactor;
use net::transport::{Address, Stream, Transport};
use record::{Phase, Timeline};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The name of the protocol in ALPN, the TLS extension (PostgreSQL's documentation, "SSL Session Encryption").
pub const TLS_NAME: &str = "postgresql";
/// The answers to a TLS request.
const TLS_ACCEPTED: u8 = b'S';
const TLS_DENIED: u8 = b'N';
/// The kinds of AuthenticationRequest messages.
const OK: i32 = 0;
const SASL: i32 = 10;
const SASL_CONTINUE: i32 = 11;
const SASL_FINAL: i32 = 12;

/// The credentials and settings with which sessions begin. They include the password, so they are never printed.
pub struct Opening {
    username: String,
    password: Option<String>,
    database: String,
    pub session: BTreeMap<String, String>,
    negotiation: Negotiation,
    channel_binding: bool,
}

/// A session that is ready for queries.
pub struct LoggedIn {
    pub channel: Channel,
    pub process: i32,
    /// The authentication mechanism. None if the server required no authentication.
    pub mechanism: Option<&'static str>,
}

impl Opening {
    pub fn new(settings: &Settings) -> Self {
        Opening {
            username: settings.username.clone(),
            // As in libpq and the server, a password that SASLprep (RFC 4013) forbids is used unchanged.
            password: settings.password.as_ref().map(|password| {
                let plaintext = password.reveal();
                stringprep::saslprep(plaintext).map_or_else(|_| plaintext.into(), Into::into)
            }),
            database: settings.database.clone(),
            session: settings.session.clone(),
            negotiation: settings.negotiation,
            channel_binding: settings.channel_binding,
        }
    }

    pub async fn log_in(
        &self,
        reactor: &Rc<Reactor>,
        address: &Address,
        transport: &Transport,
        timeline: &mut Timeline,
    ) -> Result<LoggedIn> {
        let mut stream = Stream::connect(reactor, address, timeline).await?;
        if let Transport::Tls(_) = transport {
            stream = self.secure(stream, transport, address, timeline).await?;
        }
        let mut channel = Channel::new(stream);
        let result = self.introduce(&mut channel, timeline).await;
        let mechanism = result.map_err(|failure| refusal(failure, channel.io.stream().is_plain()))?;
        let process = read_ready(&mut channel).await?;
        channel.io.end_phase(Phase::Auth, timeline);
        Ok(LoggedIn { channel, process, mechanism })
    }

    async fn secure(
        &self,
        mut stream: Stream,
        transport: &Transport,
        address: &Address,
        timeline: &mut Timeline,
    ) -> Result<Stream> {
        if self.negotiation == Negotiation::Request {
            request_tls(&mut stream).await?;
            timeline.end_phase(Phase::TlsRequest, stream.traffic());
        }
        let stream = stream.secure(transport, address, timeline).await?;
        // Without this check, another protocol's server could be mistaken for PostgreSQL (documentation on direct TLS).
        if self.negotiation == Negotiation::Direct && stream.agreed_protocol() != Some(TLS_NAME.as_bytes()) {
            return Err(Failure::new(
                Class::TlsRefused,
                "the server accepts direct TLS, but does not identify itself as PostgreSQL (ALPN)",
            ));
        }
        Ok(stream)
    }

    async fn introduce(&self, channel: &mut Channel, timeline: &mut Timeline) -> Result<Option<&'static str>> {
        let login = [("user", self.username.as_str()), ("database", self.database.as_str())];
        let session = self.session.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        message::append_startup(channel.request(), login.into_iter().chain(session));
        channel.send().await?;
        let request = read_request(channel.receive().await?)?;
        channel.io.end_phase(Phase::Hello, timeline);
        match request {
            Request::Accepted if self.channel_binding => {
                Err(refused("the server requires no authentication, so channel binding is impossible"))
            }
            Request::Accepted => Ok(None),
            Request::Sasl { plain, plus } => {
                let exchange = self.exchange(channel.io.stream(), plain, plus)?;
                self.prove(channel, &exchange).await?;
                Ok(Some(exchange.mechanism()))
            }
            Request::Continue(_) | Request::Final(_) => Err(unexpected_message()),
        }
    }

    /// Begin SCRAM with the configured mechanism. `plain` and `plus` say whether the server offers the mechanism
    /// without and with channel binding. Errors: class `authentication` if the server does not offer the configured
    /// mechanism, or has no certificate for the channel binding.
    fn exchange(&self, stream: &Stream, plain: bool, plus: bool) -> Result<Exchange> {
        let binding = match (self.channel_binding, plain, plus) {
            (false, true, _) => Binding::None,
            (true, _, true) => {
                let hash = stream.server_end_point();
                Binding::ServerEndPoint(
                    hash.ok_or_else(|| refused("channel binding needs TLS with a server certificate"))?,
                )
            }
            (true, ..) => return Err(refused(format!("the server does not offer {MECHANISM_PLUS}"))),
            (false, ..) => return Err(refused(format!("the server does not offer {MECHANISM}"))),
        };
        // The user name in SCRAM is empty, because the server already has the name from the start-up message.
        Exchange::begin("", binding)
    }

    async fn prove(&self, channel: &mut Channel, exchange: &Exchange) -> Result<()> {
        let password = self.password.as_ref().ok_or_else(|| refused("the server requires a password"))?;
        let first = exchange.first_message();
        message::append(channel.request(), frontend::SASL, |out| {
            message::append_string(out, exchange.mechanism());
            message::append_value(out, |out| out.extend_from_slice(first.as_bytes()));
        });
        channel.send().await?;
        let Request::Continue(server_first) = read_request(channel.receive().await?)? else {
            return Err(unexpected_message());
        };
        // Like libpq, salt the password anew for each connection, so that the measurement includes this cost.
        let salted = |salt: &[u8], iterations| Salted::new(password, salt, iterations);
        let (proof, expected) = exchange.prove(&server_first, salted)?;
        message::append(channel.request(), frontend::SASL, |out| out.extend_from_slice(proof.as_bytes()));
        channel.send().await?;
        let Request::Final(server_final) = read_request(channel.receive().await?)? else {
            return Err(unexpected_message());
        };
        expected.verify(&server_final)?;
        match read_request(channel.receive().await?)? {
            Request::Accepted => Ok(()),
            _ => Err(unexpected_message()),
        }
    }
}

/// Request TLS. Read only one byte of the answer. An attacker could append plaintext bytes to the answer, and the
/// client must not mistake them for bytes that TLS protected.
async fn request_tls(stream: &mut Stream) -> Result<()> {
    let mut request = Vec::new();
    message::append_tls_request(&mut request);
    stream.send(&request).await?;
    let mut answer = [0; 1];
    match (stream.receive(&mut answer).await?, answer[0]) {
        (0, _) => Err(Failure::new(Class::TlsRefused, "the server closed the connection after the TLS request")),
        (_, TLS_ACCEPTED) => Ok(()),
        (_, TLS_DENIED) => Err(Failure::new(Class::TlsRefused, "the server does not offer TLS")),
        // The error's text is not printed, because it was not protected: an attacker could have written it.
        (_, backend::ERROR_RESPONSE) => {
            Err(Failure::new(Class::Server, "the server answered the TLS request with an error"))
        }
        _ => Err(Failure::protocol("the answer to the TLS request is not PostgreSQL's")),
    }
}

/// A server's authentication message.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Accepted,
    Sasl { plain: bool, plus: bool },
    Continue(Vec<u8>),
    Final(Vec<u8>),
}

fn read_request((kind, body): (u8, &[u8])) -> Result<Request> {
    match kind {
        backend::AUTHENTICATION => {}
        backend::ERROR_RESPONSE => return Err(message::failure(body)),
        _ => return Err(unexpected_message()),
    }
    let mut reader = Reader::new(body);
    match reader.i32()? {
        OK => Ok(Request::Accepted),
        SASL => read_mechanisms(reader),
        SASL_CONTINUE => Ok(Request::Continue(reader.rest().to_vec())),
        SASL_FINAL => Ok(Request::Final(reader.rest().to_vec())),
        3 => Err(refused("the server requests the password in plaintext, which is not supported")),
        5 => Err(refused(
            "the server requests an MD5 hash of the password: set the password again with password_encryption = scram-sha-256",
        )),
        other => Err(refused(format!("the server requests authentication of kind {other}, which is not supported"))),
    }
}

fn read_mechanisms(mut reader: Reader<'_>) -> Result<Request> {
    let (mut plain, mut plus) = (false, false);
    loop {
        match reader.string()? {
            b"" => return Ok(Request::Sasl { plain, plus }),
            name => {
                plain |= name == MECHANISM.as_bytes();
                plus |= name == MECHANISM_PLUS.as_bytes();
            }
        }
    }
}

async fn read_ready(channel: &mut Channel) -> Result<i32> {
    let mut process = 0;
    loop {
        match channel.receive().await? {
            (backend::BACKEND_KEY_DATA, body) => process = Reader::new(body).i32()?,
            (backend::READY_FOR_QUERY, _) => break,
            (backend::ERROR_RESPONSE, body) => return Err(message::failure(body)),
            _ => return Err(unexpected_message()),
        }
    }
    channel.check_idle()?;
    Ok(process)
}

/// Convert a failure to `PlainRefused` if the server refuses a plaintext client because `pg_hba.conf` requires TLS
/// (auth.c, `ClientAuthentication`). Return other failures unchanged.
fn refusal(failure: Failure, plain: bool) -> Failure {
    let refuses_plain = ["no encryption", "SSL off"].iter().any(|message| failure.detail.contains(message));
    match failure.class {
        Class::Authentication if plain && refuses_plain => Failure::new(Class::PlainRefused, failure.detail),
        _ => failure,
    }
}

fn unexpected_message() -> Failure {
    Failure::protocol("the server sent an unexpected message during the login")
}

fn refused(why: impl Into<String>) -> Failure {
    Failure::new(Class::Authentication, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body: &[u8]) -> std::result::Result<Request, Class> {
        read_request((b'R', body)).map_err(|failure| failure.class)
    }

    #[test]
    fn login_acceptance_and_offered_sasl_mechanisms_are_parsed() {
        assert_eq!(request(b"\0\0\0\0"), Ok(Request::Accepted));
        let both = b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
        assert_eq!(request(both), Ok(Request::Sasl { plain: true, plus: true }));
        assert_eq!(request(b"\0\0\0\x0aSCRAM-SHA-256\0\0"), Ok(Request::Sasl { plain: true, plus: false }));
        assert_eq!(request(b"\0\0\0\x0bmore"), Ok(Request::Continue(b"more".to_vec())));
    }

    /// A server that an attacker runs must not get the password, or an MD5 hash of it.
    #[test]
    fn plaintext_and_weakly_hashed_passwords_are_refused() {
        for body in [&b"\0\0\0\x03"[..], b"\0\0\0\x05salt", b"\0\0\0\x07"] {
            assert_eq!(request(body), Err(Class::Authentication), "{body:?}");
        }
    }

    #[test]
    fn invalid_authentication_requests_are_refused() {
        assert_eq!(request(b"\0\0"), Err(Class::Protocol));
        assert_eq!(request(b"\0\0\0\x0aSCRAM-SHA-256"), Err(Class::Protocol));
        assert_eq!(read_request((b'Z', b"I")).unwrap_err().class, Class::Protocol);
        assert_eq!(read_request((b'E', b"C28P01\0Mno\0\0")).unwrap_err().class, Class::Authentication);
    }

    #[test]
    fn login_refused_for_lack_of_encryption_has_error_class_plain_refused() {
        let message = "28000: no pg_hba.conf entry for host \"127.0.0.1\", user \"u\", database \"d\", no encryption";
        let failure = Failure::new(Class::Authentication, message);
        assert_eq!(refusal(failure.clone(), true).class, Class::PlainRefused);
        assert_eq!(refusal(failure, false).class, Class::Authentication);
        let wrong = Failure::new(Class::Authentication, "28P01: password authentication failed for user \"u\"");
        assert_eq!(refusal(wrong, true).class, Class::Authentication);
    }

    #[test]
    fn reading_authentication_requests_from_arbitrary_bytes_never_panics() {
        bolero::check!().with_iterations(2000).for_each(|bytes: &[u8]| {
            let _ = read_request((b'R', bytes));
            let _ = read_request((b'R', &[b"\0\0\0\x0a", bytes].concat()));
        });
    }
}
