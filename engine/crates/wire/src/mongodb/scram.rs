//! SCRAM-SHA-256 (RFC 5802, RFC 7677) as a client, without channel binding, as MongoDB has it (Authentication
//! specification): the password is prepared with SASLprep, the user name is not.

use crate::mongodb::Settings;
use base::error::{Class, Failure, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sha::sha256;
use openssl::sign::Signer;
use std::sync::{Mutex, PoisonError};

/// Its name in saslStart.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The Authentication specification forbids fewer.
const FEWEST_ITERATIONS: usize = 4096;
/// A server that asks for more (MongoDB's default is 15,000) would stop this thread for seconds.
const MOST_ITERATIONS: usize = 10_000_000;
const NONCE_BYTES: usize = 24;
/// "n,,": no channel binding, no other user to act as.
const GS2_HEADER: &str = "n,,";

type Digest = [u8; 32];

/// Who we are. Holds the password; is never shown.
pub struct Credentials {
    username: String,
    prepared_password: String,
    source: String,
    /// The specification says to keep what the password and salt come to: it costs thousands of hashes, which no
    /// driver pays for a second connection, so none may be measured in one.
    salted: Mutex<Option<Salted>>,
}

/// What a password comes to with one server's salt.
#[derive(Clone)]
struct Salted {
    salt: Vec<u8>,
    iterations: usize,
    client_key: Digest,
    server_key: Digest,
}

/// A begun exchange.
pub struct Exchange {
    nonce: String,
    first_bare: String,
}

/// What the server must answer to show that it knows the password too.
pub struct Expected(Digest);

impl Credentials {
    /// None without a user.
    ///
    /// # Errors
    /// `authentication`, where the password holds what SASLprep (RFC 4013) forbids.
    pub fn new(settings: &Settings) -> Result<Option<Self>> {
        let (Some(username), Some(password)) = (&settings.username, &settings.password) else { return Ok(None) };
        let prepared = stringprep::saslprep(password.reveal());
        let prepared = prepared.map_err(|_| refused("the password holds a character that SASLprep forbids"))?;
        Ok(Some(Credentials {
            username: username.clone(),
            prepared_password: prepared.into_owned(),
            source: settings.auth_source.clone(),
            salted: Mutex::new(None),
        }))
    }

    /// The database that knows the user.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// As hello's `saslSupportedMechs` asks.
    pub fn user_and_source(&self) -> String {
        format!("{}.{}", self.source, self.username)
    }

    /// Begin an exchange with a new nonce.
    ///
    /// # Errors
    /// `internal`, where the system has no randomness.
    pub fn begin(&self) -> Result<Exchange> {
        let mut random = [0; NONCE_BYTES];
        openssl::rand::rand_bytes(&mut random).map_err(|error| unable(&error))?;
        Ok(self.begin_with(BASE64.encode(random)))
    }

    fn begin_with(&self, nonce: String) -> Exchange {
        let name = self.username.replace('=', "=3D").replace(',', "=2C");
        Exchange { first_bare: format!("n={name},r={nonce}"), nonce }
    }

    fn salted(&self, salt: Vec<u8>, iterations: usize) -> Result<Salted> {
        let mut kept = self.salted.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some(salted) if salted.salt == salt && salted.iterations == iterations => Ok(salted.clone()),
            _ => {
                let salted = Salted::new(&self.prepared_password, salt, iterations).map_err(|error| unable(&error))?;
                Ok(kept.insert(salted).clone())
            }
        }
    }
}

impl Salted {
    fn new(password: &str, salt: Vec<u8>, iterations: usize) -> std::result::Result<Self, ErrorStack> {
        let mut salted = Digest::default();
        let sha256 = MessageDigest::sha256();
        openssl::pkcs5::pbkdf2_hmac(password.as_bytes(), &salt, iterations, sha256, &mut salted)?;
        let client_key = hmac(&salted, b"Client Key")?;
        let server_key = hmac(&salted, b"Server Key")?;
        Ok(Salted { salt, iterations, client_key, server_key })
    }
}

impl Exchange {
    /// client-first-message.
    pub fn first_message(&self) -> String {
        format!("{GS2_HEADER}{}", self.first_bare)
    }

    /// Answer the server's first message: client-final-message, and what the server must answer to it.
    ///
    /// # Errors
    /// `protocol`, where its message is none; `authentication`, where its nonce is not ours or it asks for too little.
    pub fn prove(&self, credentials: &Credentials, server_first: &[u8]) -> Result<(String, Expected)> {
        let server_first = text(server_first)?;
        let challenge = Challenge::parse(server_first)?;
        if !challenge.nonce.starts_with(&self.nonce) || challenge.nonce.len() == self.nonce.len() {
            return Err(refused("the server did not extend our nonce"));
        }
        if !(FEWEST_ITERATIONS..=MOST_ITERATIONS).contains(&challenge.iterations) {
            return Err(refused(format!("the server asks for {} iterations", challenge.iterations)));
        }
        let salted = credentials.salted(challenge.salt, challenge.iterations)?;
        let without_proof = format!("c={},r={}", BASE64.encode(GS2_HEADER), challenge.nonce);
        let signed = format!("{},{server_first},{without_proof}", self.first_bare);
        let (proof, expected) = salted.sign(signed.as_bytes()).map_err(|error| unable(&error))?;
        Ok((format!("{without_proof},p={}", BASE64.encode(proof)), Expected(expected)))
    }
}

impl Salted {
    /// ClientProof and ServerSignature of RFC 5802, 3.
    fn sign(&self, signed: &[u8]) -> std::result::Result<(Digest, Digest), ErrorStack> {
        let client_signature = hmac(&sha256(&self.client_key), signed)?;
        let proof = std::array::from_fn(|at| self.client_key[at] ^ client_signature[at]);
        Ok((proof, hmac(&self.server_key, signed)?))
    }
}

impl Expected {
    /// Check the server's last message: without it, anything that copies a salt could pass for the server.
    ///
    /// # Errors
    /// `authentication`, `protocol`.
    pub fn verify(&self, server_final: &[u8]) -> Result<()> {
        let message = text(server_final)?;
        let signature = message.strip_prefix("v=").and_then(|rest| rest.split(',').next());
        let signature = signature.ok_or_else(|| malformed("no server signature"))?;
        let signature = BASE64.decode(signature).map_err(|_| malformed("the server signature is no base64"))?;
        if signature.len() == self.0.len() && openssl::memcmp::eq(&signature, &self.0) {
            return Ok(());
        }
        Err(refused("the server could not prove that it knows the password"))
    }
}

/// server-first-message: `r=nonce,s=salt,i=iterations`.
struct Challenge<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: usize,
}

impl<'a> Challenge<'a> {
    fn parse(message: &'a str) -> Result<Self> {
        let mut parts = message.split(',');
        let mut part = |name| {
            let value = parts.next().and_then(|part| part.strip_prefix(name));
            value.ok_or_else(|| malformed(format!("no {name} where it belongs")))
        };
        let (nonce, salt, iterations) = (part("r=")?, part("s=")?, part("i=")?);
        Ok(Challenge {
            nonce,
            salt: BASE64.decode(salt).map_err(|_| malformed("the salt is no base64"))?,
            iterations: iterations.parse().map_err(|_| malformed("the iteration count is no number"))?,
        })
    }
}

fn text(message: &[u8]) -> Result<&str> {
    std::str::from_utf8(message).map_err(|_| malformed("not UTF-8"))
}

fn hmac(key: &[u8], data: &[u8]) -> std::result::Result<Digest, ErrorStack> {
    let key = PKey::hmac(key)?;
    let mut digest = Digest::default();
    Signer::new(MessageDigest::sha256(), &key)?.sign_oneshot(&mut digest, data)?;
    Ok(digest)
}

fn malformed(what: impl std::fmt::Display) -> Failure {
    Failure::protocol(format!("the server's SCRAM message is malformed: {what}"))
}

fn refused(why: impl Into<String>) -> Failure {
    Failure::new(Class::Authentication, why)
}

fn unable(error: &ErrorStack) -> Failure {
    Failure::new(Class::Internal, format!("this OpenSSL cannot do SCRAM-SHA-256: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn credentials(username: &str, password: &str) -> Credentials {
        Credentials {
            username: username.into(),
            prepared_password: stringprep::saslprep(password).unwrap().into_owned(),
            source: "admin".into(),
            salted: Mutex::new(None),
        }
    }

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    /// RFC 7677, 3.
    #[test]
    fn the_example_of_the_rfc() {
        let user = credentials("user", "pencil");
        let exchange = user.begin_with(NONCE.into());
        assert_eq!(exchange.first_message(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let (proof, expected) = exchange.prove(&user, SERVER_FIRST).unwrap();
        assert_eq!(
            proof,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        expected.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
    }

    #[test]
    fn a_server_that_does_not_know_the_password_is_refused() {
        let user = credentials("user", "pencil");
        let (_, expected) = user.begin_with(NONCE.into()).prove(&user, SERVER_FIRST).unwrap();
        for (answer, class) in [
            (&b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="[..], Class::Protocol),
            (b"v=AAAATRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", Class::Authentication),
            (b"v=", Class::Authentication),
            (b"e=other-error", Class::Protocol),
            (b"", Class::Protocol),
        ] {
            assert_eq!(expected.verify(answer).unwrap_err().class, class, "{answer:?}");
        }
    }

    #[test]
    fn a_challenge_that_weakens_the_exchange_is_refused() {
        let user = credentials("user", "pencil");
        for challenge in [
            "r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=2000000000",
        ] {
            let refused = user.begin_with(NONCE.into()).prove(&user, challenge.as_bytes());
            assert_eq!(refused.err().map(|failure| failure.class), Some(Class::Authentication), "{challenge}");
        }
    }

    #[test]
    fn names_are_escaped_and_passwords_prepared() {
        assert_eq!(credentials("a=b,c", "x").begin_with("n".into()).first_message(), "n,,n=a=3Db=2Cc,r=n");
        // RFC 4013, 3: a soft hyphen is mapped to nothing.
        assert_eq!(credentials("u", "I\u{ad}X").prepared_password, "IX");
    }

    proptest! {
        #[test]
        fn arbitrary_messages_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), text in "[rsiv=,+/A-Za-z0-9]{0,60}") {
            let user = credentials("user", "pencil");
            for message in [&bytes[..], text.as_bytes(), format!("r={NONCE}x,s={text},i={text}").as_bytes()] {
                let _ = user.begin_with(NONCE.into()).prove(&user, message);
                let _ = Expected(Digest::default()).verify(message);
            }
        }
    }
}
