//! The format of the rules file.

use crate::statements::Approval;
use base::Secret;
use encryption::Algorithm;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    #[serde(default = "gcm")]
    pub algorithm: Algorithm,
    #[serde(default)]
    pub unknown_clients: UnknownClients,
    #[serde(default)]
    pub default_role: DefaultRole,
    #[serde(default)]
    pub master_keys: BTreeMap<String, Spanned<Secret>>,
    #[serde(default)]
    pub accounts: Vec<Spanned<Account>>,
    #[serde(default)]
    pub columns: Vec<Spanned<Column>>,
    pub check: Option<Check>,
    #[serde(default)]
    pub statements: Vec<Spanned<Approval>>,
    /// A path from the rules file's folder.
    pub statements_file: Option<PathBuf>,
}

/// A file of statements beside the rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatementsFile {
    #[serde(default)]
    pub statements: Vec<Spanned<Approval>>,
}

/// What happens to clients that do not announce that they decrypt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownClients {
    /// Their login is refused.
    #[default]
    Refuse,
    /// They get ciphertext.
    Ciphertext,
}

/// The role of accounts that are not named. Without a key it cannot be `ciphertext`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultRole {
    #[default]
    Opaque,
    Plaintext,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    pub name: String,
    pub role: RoleName,
    pub master_key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleName {
    Plaintext,
    Ciphertext,
    Opaque,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    pub database: String,
    pub table: String,
    pub column: String,
    pub algorithm: Option<Algorithm>,
}

/// An account that sees which columns there are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Its name at the server.
    pub username: String,
    /// Its password.
    pub password: Secret,
}

fn gcm() -> Algorithm {
    Algorithm::Aes128Gcm
}
