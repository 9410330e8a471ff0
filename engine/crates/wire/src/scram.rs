//! The client's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), with and without channel binding (RFC 5929).

use base::error::{Class, Failure, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sha::sha256;
use openssl::sign::Signer;

pub const MECHANISM: &str = "SCRAM-SHA-256";
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// The minimum number of iterations that servers must request (RFC 7677, 4).
const FEWEST_ITERATIONS: usize = 4096;
/// The maximum number of iterations. More iterations would block this thread for seconds. MongoDB's default is 15,000.
const MOST_ITERATIONS: usize = 10_000_000;
const NONCE_BYTES: usize = 24;

type Digest = [u8; 32];

/// The channel binding of an authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binding {
    /// There is no binding, so a man in the middle could pass the proof on to the server.
    None,
    /// The proof is bound to this hash of the server's certificate (`tls-server-end-point`).
    ServerEndPoint(Vec<u8>),
}

impl Binding {
    /// Return the field `gs2-header` (RFC 5802, 7), without an authorization identity.
    fn header(&self) -> &'static str {
        match self {
            Binding::None => "n,,",
            Binding::ServerEndPoint(_) => "p=tls-server-end-point,,",
        }
    }

    /// Return the field `cbind-input` (RFC 5802, 7).
    fn input(&self) -> Vec<u8> {
        let data: &[u8] = match self {
            Binding::None => &[],
            Binding::ServerEndPoint(hash) => hash,
        };
        [self.header().as_bytes(), data].concat()
    }
}

/// The keys for proofs and signatures, which thousands of hash operations derive from a password and a server's salt.
#[derive(Clone)]
pub struct Salted {
    client_key: Digest,
    server_key: Digest,
}

/// An authentication that has begun with the client's first message.
pub struct Exchange {
    nonce: String,
    first_bare: String,
    binding: Binding,
}

/// The signature that the server must send to prove that it knows the password.
pub struct Expected(Digest);

impl Salted {
    /// Derive the keys from a password that the caller has prepared as the database's protocol requires (SASLprep, RFC
    /// 4013). Errors: class `internal` if this OpenSSL has no SHA-256.
    pub fn new(password: &str, salt: &[u8], iterations: usize) -> Result<Self> {
        Self::hashed(password, salt, iterations).map_err(|error| unsupported(&error))
    }

    fn hashed(password: &str, salt: &[u8], iterations: usize) -> std::result::Result<Self, ErrorStack> {
        let mut salted = Digest::default();
        let sha256 = MessageDigest::sha256();
        openssl::pkcs5::pbkdf2_hmac(password.as_bytes(), salt, iterations, sha256, &mut salted)?;
        Ok(Salted { client_key: hmac(&salted, b"Client Key")?, server_key: hmac(&salted, b"Server Key")? })
    }

    fn sign(&self, signed: &[u8]) -> std::result::Result<(Digest, Digest), ErrorStack> {
        let client_signature = hmac(&sha256(&self.client_key), signed)?;
        let proof = std::array::from_fn(|at| self.client_key[at] ^ client_signature[at]);
        Ok((proof, hmac(&self.server_key, signed)?))
    }
}

impl Exchange {
    /// Begin an authentication with a new nonce. Errors: class `internal` if the system has no random bytes.
    pub fn begin(username: &str, binding: Binding) -> Result<Self> {
        let mut random = [0; NONCE_BYTES];
        openssl::rand::rand_bytes(&mut random).map_err(|error| unsupported(&error))?;
        Ok(Self::begin_with(username, binding, BASE64.encode(random)))
    }

    fn begin_with(username: &str, binding: Binding, nonce: String) -> Self {
        let name = username.replace('=', "=3D").replace(',', "=2C");
        Exchange { first_bare: format!("n={name},r={nonce}"), nonce, binding }
    }

    pub fn mechanism(&self) -> &'static str {
        match self.binding {
            Binding::None => MECHANISM,
            Binding::ServerEndPoint(_) => MECHANISM_PLUS,
        }
    }

    pub fn first_message(&self) -> String {
        format!("{}{}", self.binding.header(), self.first_bare)
    }

    /// Answer the server's first message. Return the client's final message and the signature to expect. `salted`
    /// derives keys from a salt and a number of iterations. Errors: class `protocol` for a malformed message;
    /// `authentication` if the server's nonce does not begin with the client's, or the iterations are out of range.
    pub fn prove(
        &self,
        server_first: &[u8],
        salted: impl FnOnce(&[u8], usize) -> Result<Salted>,
    ) -> Result<(String, Expected)> {
        let server_first = text(server_first)?;
        let challenge = Challenge::parse(server_first)?;
        if !challenge.nonce.starts_with(&self.nonce) || challenge.nonce.len() == self.nonce.len() {
            return Err(refused("the server's nonce does not extend the client's"));
        }
        if !(FEWEST_ITERATIONS..=MOST_ITERATIONS).contains(&challenge.iterations) {
            return Err(refused(format!("the server requests {} iterations", challenge.iterations)));
        }
        let salted = salted(&challenge.salt, challenge.iterations)?;
        let without_proof = format!("c={},r={}", BASE64.encode(self.binding.input()), challenge.nonce);
        let signed = format!("{},{server_first},{without_proof}", self.first_bare);
        let (proof, expected) = salted.sign(signed.as_bytes()).map_err(|error| unsupported(&error))?;
        Ok((format!("{without_proof},p={}", BASE64.encode(proof)), Expected(expected)))
    }
}

impl Expected {
    /// Verify the signature in the server's last message. Without this check, an impostor that knows only the salt
    /// could pass as the server.
    pub fn verify(&self, server_final: &[u8]) -> Result<()> {
        let message = text(server_final)?;
        let signature = message.strip_prefix("v=").and_then(|rest| rest.split(',').next());
        let signature = signature.ok_or_else(|| malformed("no server signature"))?;
        let signature = BASE64.decode(signature).map_err(|_| malformed("the server signature is not base64"))?;
        if signature.len() == self.0.len() && openssl::memcmp::eq(&signature, &self.0) {
            return Ok(());
        }
        Err(refused("the server could not prove that it knows the password"))
    }
}

/// The fields of the server's first message: `r=nonce,s=salt,i=iterations`.
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
            value.ok_or_else(|| malformed(format!("{name} is missing")))
        };
        let (nonce, salt, iterations) = (part("r=")?, part("s=")?, part("i=")?);
        Ok(Challenge {
            nonce,
            salt: BASE64.decode(salt).map_err(|_| malformed("the salt is not base64"))?,
            iterations: iterations.parse().map_err(|_| malformed("the iteration count is not a number"))?,
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

fn unsupported(error: &ErrorStack) -> Failure {
    Failure::new(Class::Internal, format!("this OpenSSL cannot do SCRAM-SHA-256: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pencil(salt: &[u8], iterations: usize) -> Result<Salted> {
        Salted::new("pencil", salt, iterations)
    }

    fn begin(nonce: &str) -> Exchange {
        Exchange::begin_with("user", Binding::None, nonce.into())
    }

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    #[test]
    fn example_of_rfc_7677_is_reproduced() {
        let exchange = begin(NONCE);
        assert_eq!(exchange.first_message(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let (proof, expected) = exchange.prove(SERVER_FIRST, pencil).unwrap();
        assert_eq!(
            proof,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        expected.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
    }

    #[test]
    fn server_that_does_not_know_the_password_is_refused() {
        let (_, expected) = begin(NONCE).prove(SERVER_FIRST, pencil).unwrap();
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
    fn server_challenges_that_weaken_the_login_are_refused() {
        for challenge in [
            "r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=2000000000",
        ] {
            let refused = begin(NONCE).prove(challenge.as_bytes(), pencil);
            assert_eq!(refused.err().map(|failure| failure.class), Some(Class::Authentication), "{challenge}");
        }
    }

    #[test]
    fn special_characters_in_scram_user_names_are_escaped() {
        let exchange = Exchange::begin_with("a=b,c", Binding::None, "n".into());
        assert_eq!(exchange.first_message(), "n,,n=a=3Db=2Cc,r=n");
    }

    /// The client sends the field `gs2-header` in its first message. It sends this field again, followed by the
    /// certificate's hash, in its final message (RFC 5802, 7).
    #[test]
    fn scram_plus_proof_contains_the_hash_of_the_server_certificate() {
        let exchange = Exchange::begin_with("user", Binding::ServerEndPoint(vec![1, 2, 255]), NONCE.into());
        assert_eq!(exchange.mechanism(), "SCRAM-SHA-256-PLUS");
        assert_eq!(exchange.first_message(), format!("p=tls-server-end-point,,n=user,r={NONCE}"));
        let (bound, _) = exchange.prove(SERVER_FIRST, pencil).unwrap();
        let header = BASE64.encode(b"p=tls-server-end-point,,\x01\x02\xff");
        assert!(bound.starts_with(&format!("c={header},r={NONCE}")), "{bound}");
        let (unbound, _) = begin(NONCE).prove(SERVER_FIRST, pencil).unwrap();
        assert_ne!(bound.split_once(",p=").unwrap().1, unbound.split_once(",p=").unwrap().1);
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_messages_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100), text in "[rsiv=,+/A-Za-z0-9]{0,60}") {
            for message in [&bytes[..], text.as_bytes(), format!("r={NONCE}x,s={text},i={text}").as_bytes()] {
                let _ = begin(NONCE).prove(message, pencil);
                let _ = Expected(Digest::default()).verify(message);
            }
        }
    }
}
