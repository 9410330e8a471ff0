//! hello and authentication, in the two round trips that drivers take: hello carries the first message of SCRAM
//! ("speculative authentication", MongoDB Handshake specification), so that `auth` is only the second. The password is
//! prepared with SASLprep, the user name is not (Authentication specification).

use super::Settings;
use super::message::{self, Channel};
use crate::scram::{Binding, Exchange, Expected, MECHANISM, Salted};
use base::error::{Class, Failure, Result};
use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{Binary, RawDocument, RawDocumentBuf, rawdoc};
use std::sync::{Mutex, PoisonError};

/// What came of hello.
pub struct Greeted {
    pub reply: RawDocumentBuf,
    /// The begun proof of who we are; None without a user.
    pub exchange: Option<Exchange>,
    /// The server's answer to its first message; None where the server did not take it up.
    pub speculative: Option<SaslReply>,
}

/// A server's part in a conversation.
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

/// Introduce ourselves, and begin to prove who we are.
pub async fn hello(channel: &mut Channel, credentials: Option<&Credentials>) -> Result<Greeted> {
    let mut command = hello_command();
    let mut exchange = None;
    if let Some(credentials) = credentials {
        let begun = credentials.begin()?;
        command.append(cstr!("saslSupportedMechs"), credentials.user_and_source());
        let mut start = start_command(&begun);
        start.append(cstr!("db"), credentials.source());
        command.append(cstr!("speculativeAuthenticate"), start);
        exchange = Some(begun);
    }
    let sent_plain = channel.io.stream().is_plain();
    let before = channel.io.stream().traffic().bytes_received;
    let outcome = channel.command(&command).await.map(RawDocument::to_owned);
    let silent = channel.io.stream().traffic().bytes_received == before;
    let reply = outcome.map_err(|failure| if sent_plain && silent { plain_refused(failure) } else { failure })?;
    message::check_ok(&reply)?;
    let speculative = reply.get_document("speculativeAuthenticate").ok().map(read_reply).transpose()?;
    Ok(Greeted { reply, exchange, speculative })
}

/// Finish the proof, and check the server's.
pub async fn authenticate(
    channel: &mut Channel,
    credentials: &Credentials,
    exchange: Exchange,
    speculative: Option<SaslReply>,
) -> Result<()> {
    let first = match speculative {
        Some(reply) => reply,
        // A server that does not know the user does not take the first message up in hello; asked directly it says so.
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
        // A server that does not know `skipEmptyExchange` wants one more message, with nothing in it.
        reply = converse(channel, &continue_command(&first, Vec::new(), credentials)).await?;
    }
    if reply.done { Ok(()) } else { Err(Failure::new(Class::Authentication, "the server does not end SCRAM")) }
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
    // Whatever a server says against a proof is about who we are.
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
            "the server ended the connection instead of answering a plain hello: it may require TLS",
        ),
        _ => failure,
    }
}

/// Holds the password; is never shown.
pub struct Credentials {
    username: String,
    prepared_password: String,
    source: String,
    /// The specification says to keep what the password and salt come to: it costs thousands of hashes, which no
    /// driver pays for a second connection, so none may be measured in one.
    kept: Mutex<Option<Kept>>,
}

/// What the password comes to with one server's salt.
struct Kept {
    salt: Vec<u8>,
    iterations: usize,
    salted: Salted,
}

impl Credentials {
    /// None without a user.
    pub fn new(settings: &Settings) -> Result<Option<Self>> {
        let (Some(username), Some(password)) = (&settings.username, &settings.password) else { return Ok(None) };
        Ok(Some(Credentials {
            username: username.clone(),
            prepared_password: prepared(password.reveal())?,
            source: settings.auth_source.clone(),
            kept: Mutex::new(None),
        }))
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// As hello's `saslSupportedMechs` asks.
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
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some(kept) if kept.salt == salt && kept.iterations == iterations => Ok(kept.salted.clone()),
            _ => {
                let salted = Salted::new(&self.prepared_password, salt, iterations)?;
                *kept = Some(Kept { salt: salt.to_vec(), iterations, salted: salted.clone() });
                Ok(salted)
            }
        }
    }
}

fn prepared(password: &str) -> Result<String> {
    let refused = |_| Failure::new(Class::Authentication, "the password holds a character that SASLprep forbids");
    stringprep::saslprep(password).map(Into::into).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_prepared() {
        // RFC 4013, 3: a soft hyphen is mapped to nothing.
        assert_eq!(prepared("I\u{ad}X").unwrap(), "IX");
        assert_eq!(prepared("\u{7}").unwrap_err().class, Class::Authentication);
    }
}
