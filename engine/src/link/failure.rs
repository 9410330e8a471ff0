//! What ends the links: one line on standard output.

use serde::Serialize;
use std::fmt::Display;

/// Fatal, said as `{"error": {"class", "detail"}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// `plan` (what was asked for cannot be followed) or `link` (the machine refuses it).
    pub class: &'static str,
    /// For people, one line.
    pub detail: String,
}

impl Failure {
    /// What was asked for makes no sense.
    pub fn plan(detail: impl Into<String>) -> Self {
        Failure { class: "plan", detail: detail.into() }
    }

    /// The machine refuses `what`.
    pub fn link(what: impl Display, error: impl Display) -> Self {
        Failure { class: "link", detail: format!("{what}: {error}") }
    }
}
