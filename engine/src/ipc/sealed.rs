//! Plans (configurations of a run) that `costof/messages/sealing.py` encrypted to this process's public key with HPKE
//! (RFC 9180) in base mode. Error messages never quote the plaintext, because it may contain passwords.

use super::{Command, Plan};
use base::error::Result;
use base::lines::invalid_command;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, OpModeR, Serializable, single_shot_open};
use serde::Deserialize;
use zeroize::Zeroizing;

const INFO: &[u8] = b"costof plan";
/// The length in bytes of the encapsulated key, the first part of a message.
const ENCAPSULATED: usize = 32;

/// A newly generated key pair that can decrypt one plan (configuration of a run).
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
    #[allow(clippy::new_without_default, reason = "each opener has a new key")]
    pub fn new() -> Self {
        let (private, public) = X25519HkdfSha256::gen_keypair();
        Opener { private, public }
    }

    pub fn public_key(&self) -> String {
        BASE64_STANDARD.encode(self.public.to_bytes())
    }

    pub fn open(self, line: &[u8]) -> Result<Plan> {
        let plan = self
            .unseal(line)
            .ok_or_else(|| invalid_command("the plan is not encrypted to this engine's public key"))?;
        match serde_json::from_slice(&plan) {
            Ok(Command::Plan(plan)) => Ok(plan),
            Ok(_) => Err(invalid_command("the sealed command is not a plan")),
            Err(error) => Err(invalid_command(&format!(
                "the sealed plan is invalid at column {} of line {}",
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

#[cfg(test)]
mod tests {
    use super::*;
    use base::error::Class;
    use hpke::{OpModeS, single_shot_seal};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    const VECTOR: &str = include_str!("../../../tests/vectors/sealed-plan.json");
    const SECRET: &str = "s3cret-Password";

    fn vector() -> Value {
        serde_json::from_str(VECTOR).unwrap()
    }

    fn opener() -> Opener {
        let private = BASE64_STANDARD.decode(vector()["private_key"].as_str().unwrap()).unwrap();
        let private = <X25519HkdfSha256 as Kem>::PrivateKey::from_bytes(&private).unwrap();
        Opener { public: X25519HkdfSha256::sk_to_pk(&private), private }
    }

    fn sealed(plaintext: &[u8]) -> Vec<u8> {
        let (encapsulated, ciphertext) = single_shot_seal::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
            &OpModeS::Base,
            &opener().public,
            INFO,
            plaintext,
            b"",
        )
        .unwrap();
        let message = BASE64_STANDARD.encode([&encapsulated.to_bytes()[..], &ciphertext[..]].concat());
        json!({"sealed": {"message": message}}).to_string().into_bytes()
    }

    fn is_rejected_without_secret(line: &[u8]) -> bool {
        let Err(failure) = opener().open(line) else { return false };
        failure.class == Class::Plan && !failure.detail.contains(SECRET) && !failure.detail.contains('\n')
    }

    /// Collect the JSON pointers (RFC 6901) of a value and of all values in it.
    fn pointers(value: &Value, at: &str, collected: &mut Vec<String>) {
        collected.push(at.into());
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(name, field)| pointers(field, &format!("{at}/{name}"), collected));
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(place, item)| pointers(item, &format!("{at}/{place}"), collected));
            }
            _ => {}
        }
    }

    #[test]
    fn plan_encrypted_by_python_is_decrypted() {
        let vector = vector();
        assert_eq!(opener().public_key(), vector["public_key"].as_str().unwrap());
        let plan = opener().open(vector["line"].to_string().as_bytes()).unwrap();
        assert_eq!((plan.seed, plan.workloads[0].workers, plan.arms[0].name.as_str()), (42, 4, "tls"));
        assert!(!format!("{plan:?}").contains(SECRET));
        assert!(Opener::new().open(vector["line"].to_string().as_bytes()).is_err(), "another key");
    }

    #[test]
    fn error_about_a_password_in_a_wrong_field_does_not_quote_it() {
        let plan = vector()["plan"].take();
        let mut all = Vec::new();
        pointers(&plan, "", &mut all);
        let mut refused = 0;
        for place in all {
            for wrong in [json!(SECRET), json!({ SECRET: SECRET }), json!([SECRET])] {
                let mut plan = plan.clone();
                *plan.pointer_mut(&place).unwrap() = wrong;
                let line = sealed(plan.to_string().as_bytes());
                if opener().open(&line).is_err() {
                    refused += 1;
                    assert!(is_rejected_without_secret(&line), "{place}");
                }
            }
        }
        assert!(refused > 60, "{refused}");
        let open = plan.to_string().into_bytes();
        let slice = json!({"slice": {"id": 1, "arm": SECRET, "workload": "w", "operations": 1, "seconds": 1.0}});
        assert!(is_rejected_without_secret(&open) && is_rejected_without_secret(&sealed(slice.to_string().as_bytes())));
        assert!(
            is_rejected_without_secret(&sealed(&open[..open.len() / 2]))
                && is_rejected_without_secret(json!({"sealed": SECRET}).to_string().as_bytes())
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]

        #[test]
        fn modified_encrypted_plan_is_rejected(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let mut line = sealed(vector()["plan"].to_string().as_bytes());
            let at = at.index(line.len());
            line[at] ^= 1_u8 << bit;
            prop_assert!(is_rejected_without_secret(&line));
        }
    }
}
