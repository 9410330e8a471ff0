//! Secrets, which must never appear in output.

use serde::Deserialize;
use std::fmt;
use zeroize::Zeroizing;

/// A password, or an HTTP header that may contain one. It is read from the plan (the configuration of a run), hidden in
/// debug output, and erased from memory when dropped.
#[derive(Clone, Deserialize)]
#[serde(from = "String")]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(secret: String) -> Self {
        Secret(Zeroizing::new(secret))
    }
}

impl From<&str> for Secret {
    fn from(secret: &str) -> Self {
        Secret(Zeroizing::new(secret.into()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}
