//! Proofs of who we are, by the plugins that servers of today ask for. Each keeps the password off the wire but
//! `caching_sha2_password` before the server has it cached: there it goes under TLS, or encrypted for the server's key.

use crate::mysql::Settings;
use base::error::{Class, Failure, Result};
use curve25519_dalek::{EdwardsPoint, Scalar};
use mysql::handshake::SCRAMBLE;
use openssl::error::ErrorStack;
use openssl::rsa::{Padding, Rsa};
use openssl::sha::{Sha1, Sha256, Sha512, sha1, sha256, sha512};

/// Bytes of `client_ed25519`'s own nonce.
const ED25519_NONCE: usize = 32;

/// Who we are. Holds the password; is never shown.
pub struct Credentials {
    username: Vec<u8>,
    password: Vec<u8>,
    database: Vec<u8>,
    decrypts: bool,
}

impl Credentials {
    /// Errors: `plan`: a zero byte, which the protocol cannot carry.
    pub fn new(settings: &Settings) -> Result<Self> {
        let password = settings.password.as_ref().map_or("", |password| password.reveal());
        let username = settings.username.as_deref().unwrap_or_default();
        let [username, password, database] =
            [username, password, &settings.database].map(|text| text.as_bytes().to_vec());
        if [&username, &password, &database].iter().any(|text| text.contains(&0)) {
            return Err(Failure::new(Class::Plan, "a user, password or database cannot hold a zero byte"));
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

    /// The password as only the owner of this public key (PEM) can read it, and only on this connection.
    /// Errors: `protocol`, where the key is none.
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

/// How to prove who we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// `mysql_native_password`, the one of MySQL 4.1 to 5.7 and of MariaDB.
    Native,
    /// `caching_sha2_password`, the one of MySQL 8.
    CachingSha2,
    /// `client_ed25519`, MariaDB's.
    Ed25519,
}

impl Plugin {
    /// None, where it is none of ours.
    pub fn named(name: &[u8]) -> Option<Self> {
        [Plugin::Native, Plugin::CachingSha2, Plugin::Ed25519].into_iter().find(|plugin| plugin.name() == name)
    }

    /// On the wire.
    pub fn name(self) -> &'static [u8] {
        match self {
            Plugin::Native => b"mysql_native_password",
            Plugin::CachingSha2 => b"caching_sha2_password",
            Plugin::Ed25519 => b"client_ed25519",
        }
    }

    /// The proof about this nonce.
    /// Errors: `protocol`, where the nonce is none.
    pub fn proof(self, user: &Credentials, nonce: &[u8]) -> Result<Vec<u8>> {
        let wrong = |_| Failure::protocol(format!("a nonce of {} bytes", nonce.len()));
        match self {
            // Without a password there is nothing to prove. client_ed25519 knows no such case.
            Plugin::Native | Plugin::CachingSha2 if user.password.is_empty() => Ok(Vec::new()),
            Plugin::Native => Ok(native(&user.password, nonce.try_into().map_err(wrong)?).to_vec()),
            Plugin::CachingSha2 => Ok(caching_sha2(&user.password, nonce.try_into().map_err(wrong)?).to_vec()),
            Plugin::Ed25519 => Ok(ed25519(&user.password, nonce.try_into().map_err(wrong)?).to_vec()),
        }
    }
}

/// SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password))).
fn native(password: &[u8], nonce: &[u8; SCRAMBLE]) -> [u8; 20] {
    let once = sha1(password);
    let mut hash = Sha1::new();
    hash.update(nonce);
    hash.update(&sha1(&once));
    let pad = hash.finish();
    std::array::from_fn(|at| once[at] ^ pad[at])
}

/// SHA256(password) XOR SHA256(SHA256(SHA256(password)), nonce).
fn caching_sha2(password: &[u8], nonce: &[u8; SCRAMBLE]) -> [u8; 32] {
    let once = sha256(password);
    let mut hash = Sha256::new();
    hash.update(&sha256(&once));
    hash.update(nonce);
    let pad = hash.finish();
    std::array::from_fn(|at| once[at] ^ pad[at])
}

/// Ed25519 (RFC 8032, 5.1.6) of the nonce, except that the password, of any length, stands for the 32 bytes of a private
/// key: which is why OpenSSL, that takes 32 bytes alone, cannot do it.
fn ed25519(password: &[u8], nonce: &[u8; ED25519_NONCE]) -> [u8; 64] {
    let expanded = sha512(password);
    let (secret, prefix) = expanded.split_at(32);
    let secret = curve25519_dalek::scalar::clamp_integer(secret.try_into().expect("half of 64 bytes"));
    let secret = Scalar::from_bytes_mod_order(secret);
    let public = EdwardsPoint::mul_base(&secret).compress();
    let scalar_of = |parts: [&[u8]; 3]| {
        let mut hash = Sha512::new();
        parts.iter().for_each(|part| hash.update(part));
        Scalar::from_bytes_mod_order_wide(&hash.finish())
    };
    let once = scalar_of([prefix, nonce, &[]]);
    let point = EdwardsPoint::mul_base(&once).compress();
    let challenge = scalar_of([point.as_bytes(), public.as_bytes(), nonce]);
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(point.as_bytes());
    signature[32..].copy_from_slice((once + challenge * secret).as_bytes());
    signature
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use mysql_common::auth::plugins::caching_sha2_password::scramble_sha256;
    use mysql_common::auth::plugins::client_ed25519::ClientEd25519;
    use mysql_common::auth::plugins::mysql_native_password::scramble_native;
    use mysql_common::auth::plugins::{ChallengeResponsePlugin, Context, Response};
    use openssl::bn::BigNum;
    use openssl::pkey::{Id, PKey};
    use openssl::sign::Verifier;
    use proptest::prelude::*;

    fn user(password: &str) -> Credentials {
        Credentials { username: b"u".to_vec(), password: password.into(), database: b"d".to_vec(), decrypts: false }
    }

    struct Asked<'a>(&'a [u8]);

    impl Context for Asked<'_> {
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

    /// The server keeps SHA1(SHA1(password)), which MySQL's manual gives for "mypass" (PASSWORD()), and nothing more.
    #[test]
    fn a_server_that_knows_only_the_hash_is_convinced() {
        let kept = BigNum::from_hex_str("6C8989366EAF75BB670AD8EA7A7FC1176A95CEF4").unwrap().to_vec();
        let nonce = *b"dvH@I-CJ*4d|cZwk4^]:";
        let proof = native(b"mypass", &nonce);
        let pad = sha1(&[&nonce[..], &kept].concat());
        let once: Vec<_> = proof.iter().zip(pad).map(|(byte, pad)| byte ^ pad).collect();
        assert_eq!(sha1(&once)[..], kept);
    }

    /// MariaDB's documentation ("Authentication Plugin - ed25519") gives the public key of "secret"; what is signed is
    /// plain Ed25519, so OpenSSL can check it.
    #[test]
    fn an_ed25519_proof_is_a_signature_by_the_documented_key() {
        let public = BASE64.decode("ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY=").unwrap();
        let key = PKey::public_key_from_raw_bytes(&public, Id::ED25519).unwrap();
        let nonce = [9; ED25519_NONCE];
        let signature = ed25519(b"secret", &nonce);
        assert!(Verifier::new_without_digest(&key).unwrap().verify_oneshot(&signature, &nonce).unwrap());
    }

    #[test]
    fn only_the_servers_key_reads_an_encrypted_password() {
        let key = Rsa::generate(2048).unwrap();
        let nonce = b"dvH@I-CJ*4d|cZwk4^]:";
        let user = user("a password that is longer than the nonce");
        let encrypted = user.encrypted_password(nonce, &key.public_key_to_pem().unwrap()).unwrap();
        let mut read = vec![0; key.size() as usize];
        let length = key.private_decrypt(&encrypted, &mut read, Padding::PKCS1_OAEP).unwrap();
        let read: Vec<_> = read[..length].iter().zip(nonce.iter().cycle()).map(|(byte, pad)| byte ^ pad).collect();
        assert_eq!(read, user.password_with_zero());
        assert_eq!(user.encrypted_password(nonce, b"no key").unwrap_err().class, Class::Protocol);
    }

    #[test]
    fn without_a_password_there_is_nothing_to_prove() {
        assert_eq!(Plugin::Native.proof(&user(""), &[1; SCRAMBLE]).unwrap(), b"");
        assert_eq!(Plugin::CachingSha2.proof(&user(""), &[1; SCRAMBLE]).unwrap(), b"");
    }

    proptest! {
        #[test]
        fn every_proof_is_that_of_mysql_common(password in "\\PC{1,40}", nonce in any::<[u8; 32]>()) {
            let short: [u8; SCRAMBLE] = nonce[..SCRAMBLE].try_into().unwrap();
            prop_assert_eq!(Some(native(password.as_bytes(), &short)), scramble_native(&short, password.as_bytes()));
            prop_assert_eq!(
                Some(caching_sha2(password.as_bytes(), &short)),
                scramble_sha256(&short, password.as_bytes())
            );
            let theirs = ClientEd25519::default().run(Asked(password.as_bytes()), &nonce).unwrap();
            prop_assert_eq!(Response::last(ed25519(password.as_bytes(), &nonce).to_vec()), theirs);
        }

        #[test]
        fn a_nonce_of_any_length_never_panics(nonce in prop::collection::vec(any::<u8>(), 0..40)) {
            for plugin in [Plugin::Native, Plugin::CachingSha2, Plugin::Ed25519] {
                let _ = plugin.proof(&user("secret"), &nonce);
            }
            let _ = user("secret").encrypted_password(&nonce, &nonce);
        }
    }
}
