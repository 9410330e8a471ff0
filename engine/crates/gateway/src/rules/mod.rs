//! The rules: which columns are protected, what each account gets, and which statements are approved. One file, read whole
//! or refused.

mod catalogue;
mod file;
mod pattern;
mod reading;

pub use catalogue::{Catalogue, ColumnFacts, Names};
pub use file::{Check, UnknownClients};
pub use pattern::Pattern;
pub use reading::parse_approvals;

use crate::statements::Statements;
use base::error::Result;
use encryption::{Algorithm, MasterKey};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A rules file, understood.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Of all rules that this process has had in force; those that never were have 0.
    pub number: u64,
    /// For encrypted outputs that are no protected columns, and for column rules that name no other.
    pub algorithm: Algorithm,
    /// What happens to clients that do not announce that they decrypt.
    pub unknown_clients: UnknownClients,
    /// The account that may see which columns there are. None only where there is nothing to protect.
    pub check: Option<Check>,
    /// The server's columns when it was last asked.
    pub catalogue: Arc<Catalogue>,
    /// What guarded accounts may send.
    pub statements: Arc<Statements>,
    accounts: HashMap<Vec<u8>, Role>,
    default_role: Role,
    columns: Vec<ColumnRule>,
}

/// What an account gets of protected columns.
#[derive(Debug, Clone)]
pub enum Role {
    /// Plaintext; the account is not guarded.
    Plaintext,
    /// What the holder of this key can decrypt.
    Ciphertext(Arc<NamedKey>),
    /// What nobody can decrypt.
    Opaque,
}

/// A master key and its name.
#[derive(Debug)]
pub struct NamedKey {
    /// Of 1 to 255 bytes.
    pub name: String,
    /// 16 bytes.
    pub key: MasterKey,
}

/// A rule for columns to protect.
#[derive(Debug, Clone)]
pub struct ColumnRule {
    database: Pattern,
    table: Pattern,
    column: Pattern,
    algorithm: Algorithm,
}

impl Rules {
    /// # Errors
    /// `plan`, in one line that names the place.
    pub fn read(path: &Path) -> Result<Self> {
        reading::read(path)
    }

    /// Whether any account is guarded.
    pub fn guard(&self) -> bool {
        !self.columns.is_empty()
    }

    /// The role of an account. Without protected columns all accounts get plaintext.
    pub fn role(&self, account: &[u8]) -> Role {
        match self.guard() {
            true => self.accounts.get(account).unwrap_or(&self.default_role).clone(),
            false => Role::Plaintext,
        }
    }

    /// How a column is encrypted, by the first rule that matches it; None for a column that is not protected.
    pub fn algorithm_of(&self, database: &str, table: &str, column: &str) -> Option<Algorithm> {
        if database.is_empty() || column.is_empty() {
            // Computed outputs have no names.
            return None;
        }
        let [database, table, column] = [database, table, column].map(str::as_bytes);
        self.columns.iter().find(|rule| rule.matches(database, table, column)).map(|rule| rule.algorithm)
    }

    /// The rules for columns.
    pub fn columns(&self) -> &[ColumnRule] {
        &self.columns
    }

    /// What an operator should know.
    pub fn warnings(&self) -> Vec<String> {
        let is_mute = self.guard() && self.statements.count() == 0;
        is_mute.then(|| "no statement is approved, so guarded accounts can send none".to_owned()).into_iter().collect()
    }
}

impl ColumnRule {
    /// Whether it matches this column.
    pub fn matches(&self, database: &[u8], table: &[u8], column: &[u8]) -> bool {
        self.database.matches(database) && self.table.matches(table) && self.column.matches(column)
    }
}

impl std::fmt::Display for ColumnRule {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}.{}", self.database, self.table, self.column)
    }
}

#[cfg(test)]
mod tests;
