//! A plan that this process alone can read, and whoever carries it cannot: encrypted by HPKE (RFC 9180), base mode. What was
//! sealed is quoted in no error. `costof/ipc/sealing.py` is the other end.

use super::{Command, Plan};
use base::error::Result;
use base::lines::wrong;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, OpModeR, Serializable, single_shot_open};
use serde::Deserialize;
use zeroize::Zeroizing;

const INFO: &[u8] = b"costof plan";
/// Bytes of an encapsulated key, with which a message begins.
const ENCAPSULATED: usize = 32;

/// A key pair that was made here, and opens one plan.
pub struct Opener {
    private: <X25519HkdfSha256 as Kem>::PrivateKey,
    public: <X25519HkdfSha256 as Kem>::PublicKey,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Sealed(Sealed),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    message: String,
}

impl Opener {
    /// With a new key pair.
    #[allow(clippy::new_without_default, reason = "each is another")]
    pub fn new() -> Self {
        let (private, public) = X25519HkdfSha256::gen_keypair();
        Opener { private, public }
    }

    /// In base64.
    pub fn public_key(&self) -> String {
        BASE64_STANDARD.encode(self.public.to_bytes())
    }

    /// The plan of a line that was sealed to this key.
    ///
    /// # Errors
    /// `plan`.
    pub fn open(self, line: &[u8]) -> Result<Plan> {
        let plan = self.unseal(line).ok_or_else(|| wrong("it is no plan that was sealed to this engine's key"))?;
        match serde_json::from_slice(&plan) {
            Ok(Command::Plan(plan)) => Ok(plan),
            Ok(_) => Err(wrong("what was sealed is no plan")),
            Err(error) => Err(wrong(&format!(
                "the sealed plan is not of the agreed form, at column {} of its line {}",
                error.column(),
                error.line()
            ))),
        }
    }

    fn unseal(&self, line: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let Line::Sealed(Sealed { message }) = serde_json::from_slice(line).ok()?;
        let message = BASE64_STANDARD.decode(message).ok()?;
        let (encapsulated, ciphertext) = message.split_at_checked(ENCAPSULATED)?;
        let encapsulated = Deserializable::from_bytes(encapsulated).ok()?;
        let plan = single_shot_open::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
            &OpModeR::Base,
            &self.private,
            &encapsulated,
            INFO,
            ciphertext,
            b"",
        );
        plan.ok().map(Zeroizing::new)
    }
}
