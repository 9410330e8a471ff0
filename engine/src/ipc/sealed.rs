//! A plan that this process alone can read, and whoever carries it cannot: encrypted by HPKE (RFC 9180), base mode. What was
//! sealed is quoted in no error. `costof/messages/sealing.py` is the other end.

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
    #[allow(clippy::new_without_default, reason = "each is another")]
    pub fn new() -> Self {
        let (private, public) = X25519HkdfSha256::gen_keypair();
        Opener { private, public }
    }

    pub fn public_key(&self) -> String {
        BASE64_STANDARD.encode(self.public.to_bytes())
    }

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

    fn sealed(what: &[u8]) -> Vec<u8> {
        let (encapsulated, ciphertext) = single_shot_seal::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
            &OpModeS::Base,
            &opener().public,
            INFO,
            what,
            b"",
        )
        .unwrap();
        let message = BASE64_STANDARD.encode([&encapsulated.to_bytes()[..], &ciphertext[..]].concat());
        json!({"sealed": {"message": message}}).to_string().into_bytes()
    }

    fn is_told(line: &[u8]) -> bool {
        let Err(failure) = opener().open(line) else { return false };
        failure.class == Class::Plan && !failure.detail.contains(SECRET) && !failure.detail.contains('\n')
    }

    /// Every place of a value, as a JSON pointer (RFC 6901).
    fn places(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.into());
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(name, field)| places(field, &format!("{at}/{name}"), found));
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(place, item)| places(item, &format!("{at}/{place}"), found));
            }
            _ => {}
        }
    }

    #[test]
    fn opens_what_python_has_sealed() {
        let vector = vector();
        assert_eq!(opener().public_key(), vector["public_key"].as_str().unwrap());
        let plan = opener().open(vector["line"].to_string().as_bytes()).unwrap();
        assert_eq!((plan.seed, plan.workloads[0].workers, plan.arms[0].name.as_str()), (42, 4, "tls"));
        assert!(!format!("{plan:?}").contains(SECRET));
        assert!(Opener::new().open(vector["line"].to_string().as_bytes()).is_err(), "another key");
    }

    #[test]
    fn a_password_in_the_wrong_place_is_not_quoted() {
        let plan = vector()["plan"].take();
        let mut all = Vec::new();
        places(&plan, "", &mut all);
        let mut refused = 0;
        for place in all {
            for wrong in [json!(SECRET), json!({ SECRET: SECRET }), json!([SECRET])] {
                let mut plan = plan.clone();
                *plan.pointer_mut(&place).unwrap() = wrong;
                let line = sealed(plan.to_string().as_bytes());
                if opener().open(&line).is_err() {
                    refused += 1;
                    assert!(is_told(&line), "{place}");
                }
            }
        }
        assert!(refused > 60, "{refused}");
        let open = plan.to_string().into_bytes();
        let slice = json!({"slice": {"id": 1, "arm": SECRET, "workload": "w", "operations": 1, "seconds": 1.0}});
        assert!(is_told(&open) && is_told(&sealed(slice.to_string().as_bytes())));
        assert!(is_told(&sealed(&open[..open.len() / 2])) && is_told(json!({"sealed": SECRET}).to_string().as_bytes()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_told(line in any::<Vec<u8>>(), what in any::<Vec<u8>>()) {
            prop_assert!(is_told(&line));
            prop_assert!(is_told(&sealed(&what)));
            let message = json!({"message": BASE64_STANDARD.encode(&line)});
            let line = json!({ "sealed": message }).to_string();
            prop_assert!(is_told(line.as_bytes()));
        }

        #[test]
        fn what_was_changed_on_its_way_is_told(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let mut line = sealed(vector()["plan"].to_string().as_bytes());
            let at = at.index(line.len());
            line[at] ^= 1_u8 << bit;
            prop_assert!(is_told(&line));
        }
    }
}
