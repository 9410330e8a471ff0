//! From a connected socket to an accepted user: greeting, TLS, and the proof, which may take several steps.

use super::auth::{Credentials, Plugin};
use super::channel::Channel;
use base::error::{Class, Failure, Result};
use encryption::{ClientNonce, SessionSalt};
use encryption::{DECRYPTS_ATTRIBUTE, NONCE_ATTRIBUTE};
use mysql::handshake::{AuthSwitch, Greeting, Response};
use mysql::packet;
use net::runtime::Reactor;
use net::transport::{Address, Stream, Transport};
use record::{Phase, Timeline};
use std::rc::Rc;

/// First bytes of what a server says to a proof.
const ACCEPTED: u8 = 0x00;
const MORE_DATA: u8 = 0x01;
/// What `caching_sha2_password` says in such data, …
const FAST_AUTH_SUCCEEDED: u8 = 3;
const FULL_AUTH_WANTED: u8 = 4;
/// … and how it is asked for its public key.
const PUBLIC_KEY_WANTED: u8 = 2;
/// Another proof, full authentication, a key, an OK: what takes longer is no server that will accept us.
const MOST_STEPS: usize = 8;

/// A connection whose user was accepted.
pub struct LoggedIn {
    pub channel: Channel,
    /// Lists end without an EOF of their own.
    pub without_eof: bool,
    /// What a gateway's keys are bound to, where we decrypt.
    pub salt: Option<SessionSalt>,
}

pub async fn log_in(
    reactor: &Rc<Reactor>,
    address: &Address,
    transport: &Transport,
    user: &Credentials,
    timeline: &mut Timeline,
) -> Result<LoggedIn> {
    let mut channel = Channel::new(Stream::connect(reactor, address, timeline).await?);
    let greeting = Greeting::parse(channel.receive().await?)?;
    channel.io.end_phase(Phase::Greeting, timeline);
    if let Transport::Tls(_) = transport {
        if !greeting.offers_tls() {
            return Err(Failure::new(Class::TlsRefused, "the server's greeting does not offer TLS"));
        }
        // The server says nothing to this: the TLS handshake begins at once.
        greeting.append_tls_request(user.decrypts(), channel.reply());
        channel.send().await?;
        channel = channel.secure(transport, address, timeline).await?;
    }
    let nonce = if user.decrypts() { Some(ClientNonce::random()?) } else { None };
    let proven = Proof::new(&mut channel, user, &greeting).give(&greeting, nonce.as_ref()).await;
    proven.map_err(|failure| if channel.io.stream().is_plain() { hint_at_tls(failure, &greeting) } else { failure })?;
    channel.io.check_idle()?;
    channel.io.end_phase(Phase::Auth, timeline);
    let salt = match nonce {
        Some(nonce) => Some(SessionSalt::of(greeting.scramble()?, &nonce)),
        None => None,
    };
    Ok(LoggedIn { channel, without_eof: greeting.is_without_eof(), salt })
}

/// A proof on its way.
struct Proof<'a> {
    channel: &'a mut Channel,
    user: &'a Credentials,
    plugin: Plugin,
    nonce: Vec<u8>,
}

/// What a server's packet asks of us.
enum Step {
    Accepted,
    /// Nothing but to wait for the next.
    Wait,
    GivePassword,
    Switch(AuthSwitch),
}

impl<'a> Proof<'a> {
    fn new(channel: &'a mut Channel, user: &'a Credentials, greeting: &Greeting) -> Self {
        // A server may propose what only some of its users have; it will ask again for ours.
        let plugin = Plugin::named(&greeting.plugin).unwrap_or(Plugin::Native);
        Proof { channel, user, plugin, nonce: greeting.nonce.clone() }
    }

    async fn give(mut self, greeting: &Greeting, nonce: Option<&ClientNonce>) -> Result<()> {
        let tls = !self.channel.io.stream().is_plain();
        let proof = self.plugin.proof(self.user, &self.nonce)?;
        // A gateway is told that we decrypt, and our part of what its keys are bound to.
        let nonce = nonce.map(ClientNonce::hex).unwrap_or_default();
        let attributes: [&[u8]; 4] = [DECRYPTS_ATTRIBUTE, b"1", NONCE_ATTRIBUTE, nonce.as_bytes()];
        let response = Response {
            username: self.user.username(),
            database: self.user.database(),
            plugin: self.plugin.name(),
            proof: &proof,
            attributes: if self.user.decrypts() { &attributes } else { &[] },
            tls,
        };
        response.append(greeting, self.channel.reply());
        self.channel.send().await?;
        for _ in 0..MOST_STEPS {
            let answer = match read_step(self.channel.receive().await?, self.plugin)? {
                Step::Accepted => return Ok(()),
                Step::Wait => continue,
                Step::Switch(switch) => self.switch(switch)?,
                Step::GivePassword => self.password().await?,
            };
            self.say(&answer).await?;
        }
        Err(Failure::new(Class::Authentication, "the server does not end the authentication"))
    }

    fn switch(&mut self, switch: AuthSwitch) -> Result<Vec<u8>> {
        self.plugin = Plugin::named(&switch.plugin).ok_or_else(|| unknown(&switch.plugin))?;
        self.nonce = switch.nonce;
        self.plugin.proof(self.user, &self.nonce)
    }

    /// The password itself, so that nobody on the way can read it.
    async fn password(&mut self) -> Result<Vec<u8>> {
        if !self.channel.io.stream().is_plain() {
            return Ok(self.user.password_with_zero());
        }
        self.say(&[PUBLIC_KEY_WANTED]).await?;
        let answer = packet::not_an_error(self.channel.receive().await?)?;
        match answer.split_first() {
            Some((&MORE_DATA, key)) => self.user.encrypted_password(&self.nonce, key),
            _ => Err(unexpected()),
        }
    }

    async fn say(&mut self, what: &[u8]) -> Result<()> {
        self.channel.reply().extend_from_slice(what);
        self.channel.send().await
    }
}

fn read_step(packet: &[u8], plugin: Plugin) -> Result<Step> {
    match packet::not_an_error(packet)? {
        [ACCEPTED, ..] => Ok(Step::Accepted),
        [MORE_DATA, FAST_AUTH_SUCCEEDED] if plugin == Plugin::CachingSha2 => Ok(Step::Wait),
        [MORE_DATA, FULL_AUTH_WANTED] if plugin == Plugin::CachingSha2 => Ok(Step::GivePassword),
        other => AuthSwitch::parse(other)?.map(Step::Switch).ok_or_else(unexpected),
    }
}

/// MariaDB denies access in the same words to a wrong password and to whoever ought to have come under TLS.
fn hint_at_tls(failure: Failure, greeting: &Greeting) -> Failure {
    if failure.class != Class::Authentication || !greeting.offers_tls() {
        return failure;
    }
    Failure::new(failure.class, format!("{}; the server may also require TLS", failure.detail))
}

fn unexpected() -> Failure {
    Failure::protocol("the server's answer to the authentication is not MySQL's")
}

fn unknown(plugin: &[u8]) -> Failure {
    let name = String::from_utf8_lossy(&plugin[..plugin.len().min(64)]).into_owned();
    Failure::new(Class::Authentication, format!("the server asks for the plugin '{name}', which is not known here"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn step(packet: &[u8], plugin: Plugin) -> std::result::Result<Step, Class> {
        read_step(packet, plugin).map_err(|failure| failure.class)
    }

    #[test]
    fn a_server_may_accept_wait_or_ask() {
        let sha2 = Plugin::CachingSha2;
        assert!(matches!(step(b"\x00\x00\x00\x02\x00\x00\x00", sha2), Ok(Step::Accepted)));
        assert!(matches!(step(b"\x01\x03", sha2), Ok(Step::Wait)));
        assert!(matches!(step(b"\x01\x04", sha2), Ok(Step::GivePassword)));
        assert!(matches!(step(b"\xfemysql_native_password\0nonce", sha2), Ok(Step::Switch(_))));
        assert_eq!(step(b"\xff\x15\x04#28000Access denied", sha2).err(), Some(Class::Authentication));
    }

    /// A server that asks for the password itself, where another proof is under way, is not given it.
    #[test]
    fn what_one_proof_asks_for_is_nothing_to_another() {
        for plugin in [Plugin::Native, Plugin::Ed25519] {
            assert_eq!(step(b"\x01\x04", plugin).err(), Some(Class::Protocol));
        }
        assert_eq!(step(b"\x01\x05", Plugin::CachingSha2).err(), Some(Class::Protocol));
        assert_eq!(step(b"", Plugin::Native).err(), Some(Class::Protocol));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            for plugin in [Plugin::Native, Plugin::CachingSha2, Plugin::Ed25519] {
                let _ = read_step(&bytes, plugin);
            }
        }
    }
}
