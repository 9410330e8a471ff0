//! Login in two round trips, as in MongoDB's drivers: the command `hello`, and the authentication. The command already
//! contains the first message of SCRAM ("speculative authentication", MongoDB Handshake specification), so the
//! authentication needs only one more round trip.
//!
//! SASLprep is applied to the password, but not to the user name (Authentication specification).

use super::Settings;
use super::message::{self, Channel};
use crate::scram::{Binding, Exchange, Expected, MECHANISM, Salted};
use base::error::{Class, Failure, Result};
use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{Binary, RawDocument, RawDocumentBuf, rawdoc};
use std::sync::{Mutex, PoisonError};

/// The server's answer to the command `hello`, and the authentication that the command has begun.
pub struct HelloResult {
    pub reply: RawDocumentBuf,
    /// The authentication that the command `hello` has begun. None if no user is configured.
    pub exchange: Option<Exchange>,
    /// The server's answer to the first SCRAM message. None if the server ignored this message.
    pub speculative: Option<SaslReply>,
}

/// A message of the server in the SASL conversation.
pub struct SaslReply {
    conversation: i32,
    done: bool,
    payload: Vec<u8>,
}

fn hello_command() -> RawDocumentBuf {
    rawdoc! {
        "hello": 1,
        "helloOk": true,
        "client": {
            "application": { "name": "costof" },
            "driver": { "name": "costof-engine", "version": env!("CARGO_PKG_VERSION") },
            "os": { "type": "Linux" },
        },
        "$db": "admin",
    }
}

/// Send the command `hello`. If there is a user, the command contains the first message of the user's authentication.
pub async fn hello(channel: &mut Channel, credentials: Option<&Credentials>) -> Result<HelloResult> {
    let mut command = hello_command();
    let mut exchange = None;
    if let Some(credentials) = credentials {
        let exchange_begun = credentials.begin()?;
        command.append(cstr!("saslSupportedMechs"), credentials.user_and_source());
        let mut start = start_command(&exchange_begun);
        start.append(cstr!("db"), credentials.source());
        command.append(cstr!("speculativeAuthenticate"), start);
        exchange = Some(exchange_begun);
    }
    let sent_plain = channel.io.stream().is_plain();
    let before = channel.io.stream().traffic().bytes_received;
    let outcome = channel.command(&command).await.map(RawDocument::to_owned);
    let silent = channel.io.stream().traffic().bytes_received == before;
    let reply = outcome.map_err(|failure| if sent_plain && silent { plain_refused(failure) } else { failure })?;
    message::check_ok(&reply)?;
    let speculative = reply.get_document("speculativeAuthenticate").ok().map(read_reply).transpose()?;
    Ok(HelloResult { reply, exchange, speculative })
}

/// Finish the authentication, and verify the server's signature.
pub async fn authenticate(
    channel: &mut Channel,
    credentials: &Credentials,
    exchange: Exchange,
    speculative: Option<SaslReply>,
) -> Result<()> {
    let first = match speculative {
        Some(reply) => reply,
        // A server that does not know the user ignores the first SCRAM message in `hello`. Send the message again in a
        // separate command, to which the server answers with an error.
        None => {
            let mut start = start_command(&exchange);
            start.append(cstr!("$db"), credentials.source());
            converse(channel, &start).await?
        }
    };
    let (proof, expected) = credentials.prove(&exchange, &first.payload)?;
    let mut reply = converse(channel, &continue_command(&first, proof.into_bytes(), credentials)).await?;
    expected.verify(&reply.payload)?;
    if !reply.done {
        // A server that does not support `skipEmptyExchange` requires an additional message, which is empty.
        reply = converse(channel, &continue_command(&first, Vec::new(), credentials)).await?;
    }
    if reply.done { Ok(()) } else { Err(Failure::new(Class::Authentication, "the server does not finish SCRAM")) }
}

fn start_command(exchange: &Exchange) -> RawDocumentBuf {
    rawdoc! {
        "saslStart": 1,
        "mechanism": MECHANISM,
        "payload": binary(exchange.first_message().into_bytes()),
        "options": { "skipEmptyExchange": true },
    }
}

fn continue_command(to: &SaslReply, payload: Vec<u8>, credentials: &Credentials) -> RawDocumentBuf {
    rawdoc! {
        "saslContinue": 1,
        "conversationId": to.conversation,
        "payload": binary(payload),
        "$db": credentials.source(),
    }
}

fn binary(bytes: Vec<u8>) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes }
}

async fn converse(channel: &mut Channel, command: &RawDocumentBuf) -> Result<SaslReply> {
    let reply = channel.command(command).await?;
    // Every error in a reply to saslStart or saslContinue concerns authentication.
    message::check_ok(reply).map_err(|failure| match failure.class {
        Class::Server => Failure { class: Class::Authentication, ..failure },
        _ => failure,
    })?;
    read_reply(reply)
}

fn read_reply(reply: &RawDocument) -> Result<SaslReply> {
    Ok(SaslReply {
        conversation: reply.get_i32("conversationId").map_err(message::malformed)?,
        done: reply.get_bool("done").map_err(message::malformed)?,
        payload: reply.get_binary("payload").map_err(message::malformed)?.bytes.to_vec(),
    })
}

fn plain_refused(failure: Failure) -> Failure {
    match failure.class {
        Class::Closed | Class::Reset => Failure::new(
            Class::PlainRefused,
            "the server closed the connection instead of answering a plain hello: it may require TLS",
        ),
        _ => failure,
    }
}

/// The user's credentials. They include the password, so they are never printed.
pub struct Credentials {
    username: String,
    prepared_password: String,
    source: String,
    /// The salted password of the last authentication. Salting costs thousands of hash operations. The specification
    /// requires drivers to cache the result, so that they salt only for the first connection. Measured connections must
    /// therefore not include this cost either.
    cached: Mutex<Option<CachedPassword>>,
}

/// A salted password, with the salt and the number of iterations for which it is valid.
struct CachedPassword {
    salt: Vec<u8>,
    iterations: usize,
    salted: Salted,
}

impl Credentials {
    /// Return the credentials in these settings. Return None if no user is configured.
    pub fn new(settings: &Settings) -> Result<Option<Self>> {
        let (Some(username), Some(password)) = (&settings.username, &settings.password) else { return Ok(None) };
        Ok(Some(Credentials {
            username: username.clone(),
            prepared_password: saslprep(password.reveal())?,
            source: settings.auth_source.clone(),
            cached: Mutex::new(None),
        }))
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// Return the value of the field `saslSupportedMechs` in `hello`, such as `admin.alice`.
    pub fn user_and_source(&self) -> String {
        format!("{}.{}", self.source, self.username)
    }

    pub fn begin(&self) -> Result<Exchange> {
        Exchange::begin(&self.username, Binding::None)
    }

    pub fn prove(&self, exchange: &Exchange, server_first: &[u8]) -> Result<(String, Expected)> {
        exchange.prove(server_first, |salt, iterations| self.salted(salt, iterations))
    }

    fn salted(&self, salt: &[u8], iterations: usize) -> Result<Salted> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cached {
            Some(cached) if cached.salt == salt && cached.iterations == iterations => Ok(cached.salted.clone()),
            _ => {
                let salted = Salted::new(&self.prepared_password, salt, iterations)?;
                *cached = Some(CachedPassword { salt: salt.to_vec(), iterations, salted: salted.clone() });
                Ok(salted)
            }
        }
    }
}

fn saslprep(password: &str) -> Result<String> {
    let refused = |_| Failure::new(Class::Authentication, "the password contains a character that SASLprep forbids");
    stringprep::saslprep(password).map(Into::into).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saslprep_is_applied_to_passwords() {
        // SASLprep removes a soft hyphen (RFC 4013, 3).
        assert_eq!(saslprep("I\u{ad}X").unwrap(), "IX");
        assert_eq!(saslprep("\u{7}").unwrap_err().class, Class::Authentication);
    }
}
