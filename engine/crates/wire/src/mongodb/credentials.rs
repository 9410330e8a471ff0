//! Who we are, as MongoDB has it (Authentication specification): the password is prepared with SASLprep, the user name is not.

use crate::mongodb::Settings;
use crate::scram::{Binding, Exchange, Expected, Salted};
use base::error::{Class, Failure, Result};
use std::sync::{Mutex, PoisonError};

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
    /// Errors: `authentication`, where the password holds what SASLprep (RFC 4013) forbids.
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

    /// Begin an exchange with a new nonce.
    /// Errors: `internal`, where the system has no randomness.
    pub fn begin(&self) -> Result<Exchange> {
        Exchange::begin(&self.username, Binding::None)
    }

    /// Answer the server's first message ([`Exchange::prove`]).
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
