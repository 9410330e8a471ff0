//! Login on a connected socket: greeting, TLS, and authentication, which may take several steps.
//!
//! The authentication plugins of current servers are supported. The client sends the password itself only if the plugin
//! is `caching_sha2_password` and the server has not cached the password. The password is then protected by TLS, or
//! encrypted with the server's public key.

use super::Settings;
use super::channel::Channel;
use base::error::{Class, Failure, Result};
use curve25519_dalek::{EdwardsPoint, Scalar};
use encryption::{ClientNonce, DECRYPTS_ATTRIBUTE, NONCE_ATTRIBUTE, SessionSalt};
use mysql::handshake::{AuthSwitch, Greeting, Response, SCRAMBLE};
use mysql::packet;
use net::runtime::Reactor;
use net::transport::{Address, Stream, Transport};
use openssl::error::ErrorStack;
use openssl::rsa::{Padding, Rsa};
use openssl::sha::{Sha1, Sha256, Sha512, sha1, sha256, sha512};
use record::{Phase, Timeline};
use std::rc::Rc;

/// The first byte of a server's answer to an authentication packet.
const ACCEPTED: u8 = 0x00;
const MORE_DATA: u8 = 0x01;
/// The server's answers in `caching_sha2_password`.
const FAST_AUTH_SUCCEEDED: u8 = 3;
const FULL_AUTH_WANTED: u8 = 4;
/// The client's request for the server's public key in `caching_sha2_password`.
const PUBLIC_KEY_WANTED: u8 = 2;
/// The maximum number of answers during an authentication. It is enough for a switch of the plugin, full
/// authentication, a public key, and an OK. A server that sends more will not accept the client.
const MAX_STEPS: usize = 8;

pub struct LoggedIn {
    pub channel: Channel,
    /// True if the server sends no EOF packet after column definitions and after rows.
    pub without_eof: bool,
    /// The salt of the session's keys for encrypted columns. None if the client does not decrypt.
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
        // The server does not answer this request, so the TLS handshake begins at once.
        greeting.append_tls_request(user.decrypts(), channel.reply());
        channel.send().await?;
        channel = channel.secure(transport, address, timeline).await?;
    }
    let nonce = if user.decrypts() { Some(ClientNonce::random()?) } else { None };
    let result = Authentication::new(&mut channel, user, &greeting).authenticate(&greeting, nonce.as_ref()).await;
    result.map_err(|failure| if channel.io.stream().is_plain() { hint_at_tls(failure, &greeting) } else { failure })?;
    channel.io.check_idle()?;
    channel.io.end_phase(Phase::Auth, timeline);
    let salt = match nonce {
        Some(nonce) => Some(SessionSalt::new(greeting.scramble()?, &nonce)),
        None => None,
    };
    Ok(LoggedIn { channel, without_eof: greeting.is_without_eof(), salt })
}

struct Authentication<'a> {
    channel: &'a mut Channel,
    user: &'a Credentials,
    plugin: Plugin,
    nonce: Vec<u8>,
}

/// The step that a server's packet requests from the client.
enum Step {
    Accepted,
    Wait,
    SendPassword,
    Switch(AuthSwitch),
}

impl<'a> Authentication<'a> {
    fn new(channel: &'a mut Channel, user: &'a Credentials, greeting: &Greeting) -> Self {
        // A server may first propose a plugin that this user does not have. The server then requests the user's plugin.
        let plugin = Plugin::named(&greeting.plugin).unwrap_or(Plugin::Native);
        Authentication { channel, user, plugin, nonce: greeting.nonce.clone() }
    }

    async fn authenticate(mut self, greeting: &Greeting, nonce: Option<&ClientNonce>) -> Result<()> {
        let tls = !self.channel.io.stream().is_plain();
        let proof = self.plugin.proof(self.user, &self.nonce)?;
        // The attributes tell an encrypting gateway that the client decrypts columns. They also contain the client's
        // part of the session salt.
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
        for _ in 0..MAX_STEPS {
            let answer = match read_step(self.channel.receive().await?, self.plugin)? {
                Step::Accepted => return Ok(()),
                Step::Wait => continue,
                Step::Switch(switch) => self.switch(switch)?,
                Step::SendPassword => self.password().await?,
            };
            self.send(&answer).await?;
        }
        Err(Failure::new(Class::Authentication, "the server does not finish the authentication"))
    }

    fn switch(&mut self, switch: AuthSwitch) -> Result<Vec<u8>> {
        self.plugin = Plugin::named(&switch.plugin).ok_or_else(|| unknown(&switch.plugin))?;
        self.nonce = switch.nonce;
        self.plugin.proof(self.user, &self.nonce)
    }

    /// Return the password itself under TLS, and otherwise the password encrypted with the server's public key.
    async fn password(&mut self) -> Result<Vec<u8>> {
        if !self.channel.io.stream().is_plain() {
            return Ok(self.user.password_with_zero());
        }
        self.send(&[PUBLIC_KEY_WANTED]).await?;
        let answer = packet::not_an_error(self.channel.receive().await?)?;
        match answer.split_first() {
            Some((&MORE_DATA, key)) => self.user.encrypted_password(&self.nonce, key),
            _ => Err(unexpected()),
        }
    }

    async fn send(&mut self, payload: &[u8]) -> Result<()> {
        self.channel.reply().extend_from_slice(payload);
        self.channel.send().await
    }
}

fn read_step(packet: &[u8], plugin: Plugin) -> Result<Step> {
    match packet::not_an_error(packet)? {
        [ACCEPTED, ..] => Ok(Step::Accepted),
        [MORE_DATA, FAST_AUTH_SUCCEEDED] if plugin == Plugin::CachingSha2 => Ok(Step::Wait),
        [MORE_DATA, FULL_AUTH_WANTED] if plugin == Plugin::CachingSha2 => Ok(Step::SendPassword),
        other => AuthSwitch::parse(other)?.map(Step::Switch).ok_or_else(unexpected),
    }
}

/// Add a hint to an authentication error if the server offers TLS: this user may have to use TLS. MariaDB sends the
/// same error for a wrong password and for a plaintext connection of a user who must use TLS.
fn hint_at_tls(failure: Failure, greeting: &Greeting) -> Failure {
    if failure.class != Class::Authentication || !greeting.offers_tls() {
        return failure;
    }
    Failure::new(failure.class, format!("{}; the server may also require TLS", failure.detail))
}

fn unexpected() -> Failure {
    Failure::protocol("the server's answer to the authentication is not valid MySQL")
}

fn unknown(plugin: &[u8]) -> Failure {
    let name = String::from_utf8_lossy(&plugin[..plugin.len().min(64)]).into_owned();
    Failure::new(
        Class::Authentication,
        format!("the server requires the authentication plugin '{name}', which is not supported"),
    )
}

/// The number of bytes of the nonce of `client_ed25519`.
const ED25519_NONCE: usize = 32;

/// The user's credentials. They include the password, so they are never printed.
pub struct Credentials {
    username: Vec<u8>,
    password: Vec<u8>,
    database: Vec<u8>,
    decrypts: bool,
}

impl Credentials {
    pub fn new(settings: &Settings) -> Result<Self> {
        let password = settings.password.as_ref().map_or("", |password| password.reveal());
        let username = settings.username.as_deref().unwrap_or_default();
        let [username, password, database] =
            [username, password, &settings.database].map(|text| text.as_bytes().to_vec());
        if [&username, &password, &database].iter().any(|text| text.contains(&0)) {
            return Err(Failure::new(Class::Plan, "a user, password or database must not contain a zero byte"));
        }
        Ok(Credentials { username, password, database, decrypts: settings.decryption.is_some() })
    }

    pub fn username(&self) -> &[u8] {
        &self.username
    }

    pub fn database(&self) -> &[u8] {
        &self.database
    }

    pub fn decrypts(&self) -> bool {
        self.decrypts
    }

    pub fn password_with_zero(&self) -> Vec<u8> {
        let mut bytes = self.password.clone();
        bytes.push(0);
        bytes
    }

    /// Return the password, masked with this connection's nonce and encrypted with this public key (PEM).
    pub fn encrypted_password(&self, nonce: &[u8], key: &[u8]) -> Result<Vec<u8>> {
        let mut bytes = self.password_with_zero();
        bytes.iter_mut().zip(nonce.iter().cycle()).for_each(|(byte, pad)| *byte ^= pad);
        let encrypt = || -> std::result::Result<Vec<u8>, ErrorStack> {
            let key = Rsa::public_key_from_pem(key)?;
            let mut encrypted = vec![0; key.size() as usize];
            let length = key.public_encrypt(&bytes, &mut encrypted, Padding::PKCS1_OAEP)?;
            encrypted.truncate(length);
            Ok(encrypted)
        };
        encrypt().map_err(|_| Failure::protocol("the server's key cannot encrypt the password"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// `mysql_native_password`, used by MySQL 4.1 to 5.7 and by MariaDB.
    Native,
    /// `caching_sha2_password`, used by MySQL 8.
    CachingSha2,
    /// `client_ed25519`, used by MariaDB.
    Ed25519,
}

impl Plugin {
    pub fn named(name: &[u8]) -> Option<Self> {
        [Plugin::Native, Plugin::CachingSha2, Plugin::Ed25519].into_iter().find(|plugin| plugin.name() == name)
    }

    pub fn name(self) -> &'static [u8] {
        match self {
            Plugin::Native => b"mysql_native_password",
            Plugin::CachingSha2 => b"caching_sha2_password",
            Plugin::Ed25519 => b"client_ed25519",
        }
    }

    /// Return the authentication data that proves knowledge of the password without revealing it. Errors: class
    /// `protocol` if the nonce has a wrong length.
    pub fn proof(self, user: &Credentials, nonce: &[u8]) -> Result<Vec<u8>> {
        let wrong = |_| Failure::protocol(format!("the server sent a nonce of {} bytes", nonce.len()));
        match self {
            // Without a password the proof is empty, except with client_ed25519.
            Plugin::Native | Plugin::CachingSha2 if user.password.is_empty() => Ok(Vec::new()),
            Plugin::Native => Ok(native(&user.password, nonce.try_into().map_err(wrong)?).to_vec()),
            Plugin::CachingSha2 => Ok(caching_sha2(&user.password, nonce.try_into().map_err(wrong)?).to_vec()),
            Plugin::Ed25519 => Ok(ed25519(&user.password, nonce.try_into().map_err(wrong)?).to_vec()),
        }
    }
}

/// Return SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password))).
fn native(password: &[u8], nonce: &[u8; SCRAMBLE]) -> [u8; 20] {
    let once = sha1(password);
    let mut hash = Sha1::new();
    hash.update(nonce);
    hash.update(&sha1(&once));
    let pad = hash.finish();
    std::array::from_fn(|at| once[at] ^ pad[at])
}

/// Return SHA256(password) XOR SHA256(SHA256(SHA256(password)), nonce).
fn caching_sha2(password: &[u8], nonce: &[u8; SCRAMBLE]) -> [u8; 32] {
    let once = sha256(password);
    let mut hash = Sha256::new();
    hash.update(&sha256(&once));
    hash.update(nonce);
    let pad = hash.finish();
    std::array::from_fn(|at| once[at] ^ pad[at])
}

/// Sign the nonce with Ed25519 (RFC 8032, 5.1.6), using a password of any length in place of the 32 bytes of a private
/// key. OpenSSL cannot be used, because it accepts only 32 bytes.
fn ed25519(password: &[u8], nonce: &[u8; ED25519_NONCE]) -> [u8; 64] {
    let expanded = sha512(password);
    let (secret, prefix) = expanded.split_at(32);
    let secret = curve25519_dalek::scalar::clamp_integer(secret.try_into().expect("half of 64 bytes"));
    let secret = Scalar::from_bytes_mod_order(secret);
    let public = EdwardsPoint::mul_base(&secret).compress();
    let hash_to_scalar = |parts: [&[u8]; 3]| {
        let mut hash = Sha512::new();
        parts.iter().for_each(|part| hash.update(part));
        Scalar::from_bytes_mod_order_wide(&hash.finish())
    };
    let once = hash_to_scalar([prefix, nonce, &[]]);
    let point = EdwardsPoint::mul_base(&once).compress();
    let challenge = hash_to_scalar([point.as_bytes(), public.as_bytes(), nonce]);
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(point.as_bytes());
    signature[32..].copy_from_slice((once + challenge * secret).as_bytes());
    signature
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::auth::plugins::caching_sha2_password::scramble_sha256;
    use mysql_common::auth::plugins::client_ed25519::ClientEd25519;
    use mysql_common::auth::plugins::mysql_native_password::scramble_native;
    use mysql_common::auth::plugins::{ChallengeResponsePlugin, Context, Response};
    use proptest::prelude::*;

    fn step(packet: &[u8], plugin: Plugin) -> std::result::Result<Step, Class> {
        read_step(packet, plugin).map_err(|failure| failure.class)
    }

    #[test]
    fn every_server_packet_of_a_login_is_recognized() {
        let sha2 = Plugin::CachingSha2;
        assert!(matches!(step(b"\x00\x00\x00\x02\x00\x00\x00", sha2), Ok(Step::Accepted)));
        assert!(matches!(step(b"\x01\x03", sha2), Ok(Step::Wait)));
        assert!(matches!(step(b"\x01\x04", sha2), Ok(Step::SendPassword)));
        assert!(matches!(step(b"\xfemysql_native_password\0nonce", sha2), Ok(Step::Switch(_))));
        assert_eq!(step(b"\xff\x15\x04#28000Access denied", sha2).err(), Some(Class::Authentication));
    }

    /// An attacker's server could request the password itself, which only `caching_sha2_password` may send.
    #[test]
    fn password_is_sent_only_by_authentication_plugins_that_require_it() {
        for plugin in [Plugin::Native, Plugin::Ed25519] {
            assert_eq!(step(b"\x01\x04", plugin).err(), Some(Class::Protocol));
        }
        assert_eq!(step(b"\x01\x05", Plugin::CachingSha2).err(), Some(Class::Protocol));
        assert_eq!(step(b"", Plugin::Native).err(), Some(Class::Protocol));
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            for plugin in [Plugin::Native, Plugin::CachingSha2, Plugin::Ed25519] {
                let _ = read_step(&bytes, plugin);
            }
        }
    }

    fn user(password: &str) -> Credentials {
        Credentials { username: b"u".to_vec(), password: password.into(), database: b"d".to_vec(), decrypts: false }
    }

    struct TestContext<'a>(&'a [u8]);

    impl Context for TestContext<'_> {
        fn pass(&self) -> &[u8] {
            self.0
        }
        fn is_ipc_transport(&self) -> bool {
            false
        }
        fn is_tls_transport(&self) -> bool {
            false
        }
        fn scramble(&self) -> &[u8] {
            &[]
        }
        fn server_key_pem(&self) -> Option<&[u8]> {
            None
        }
    }

    #[test]
    fn proof_of_an_empty_password_is_empty() {
        assert_eq!(Plugin::Native.proof(&user(""), &[1; SCRAMBLE]).unwrap(), b"");
        assert_eq!(Plugin::CachingSha2.proof(&user(""), &[1; SCRAMBLE]).unwrap(), b"");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        #[test]
        fn password_proofs_equal_the_proofs_of_crate_mysql_common(password in "\\PC{1,40}", nonce in any::<[u8; 32]>()) {
            let short: [u8; SCRAMBLE] = nonce[..SCRAMBLE].try_into().unwrap();
            prop_assert_eq!(Some(native(password.as_bytes(), &short)), scramble_native(&short, password.as_bytes()));
            prop_assert_eq!(
                Some(caching_sha2(password.as_bytes(), &short)),
                scramble_sha256(&short, password.as_bytes())
            );
            let theirs = ClientEd25519::default().run(TestContext(password.as_bytes()), &nonce).unwrap();
            prop_assert_eq!(Response::last(ed25519(password.as_bytes(), &nonce).to_vec()), theirs);
        }

        #[test]
        fn computing_a_password_proof_from_a_nonce_of_any_length_never_panics(nonce in prop::collection::vec(any::<u8>(), 0..40)) {
            for plugin in [Plugin::Native, Plugin::CachingSha2, Plugin::Ed25519] {
                let _ = plugin.proof(&user("secret"), &nonce);
            }
            let _ = user("secret").encrypted_password(&nonce, &nonce);
        }
    }
}
