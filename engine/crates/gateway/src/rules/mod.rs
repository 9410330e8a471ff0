//! What an operator wants encrypted, for whom and how: one file, read whole or refused.

mod catalogue;
mod facts;
mod file;
mod pattern;
mod reading;
mod ties;
mod weighing;

pub use catalogue::{Catalogue, Column, Protection, Table};
pub use facts::{ColumnFacts, Facts};
pub use file::{Check, Expressions, Predicates, UnknownClients};
pub use pattern::Pattern;
pub use weighing::Changed;

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
    /// Of computed columns, and of rules that do not say another.
    pub algorithm: Algorithm,
    /// What is done with computed outputs.
    pub expressions: Expressions,
    /// What becomes of clients that do not say that they decrypt.
    pub unknown_clients: UnknownClients,
    /// Who may see what tables there are. None only where there is nothing to guard.
    pub check: Option<Check>,
    /// The server's tables, as they were told last.
    pub catalogue: Arc<Catalogue>,
    accounts: HashMap<Vec<u8>, Role>,
    default_role: Role,
    columns: Vec<ColumnRule>,
}

/// What an account gets to see of encrypted columns.
#[derive(Debug, Clone)]
pub enum Role {
    /// Everything.
    Plaintext,
    /// What the holder of this key can decrypt.
    Ciphertext(Arc<NamedKey>),
    /// What nobody can decrypt.
    Opaque,
}

/// A master key and the name that it goes by.
#[derive(Debug)]
pub struct NamedKey {
    /// Of 1 to 255 bytes.
    pub name: String,
    /// 16 bytes.
    pub key: MasterKey,
}

/// Columns to encrypt.
#[derive(Debug, Clone)]
pub struct ColumnRule {
    database: Pattern,
    table: Pattern,
    column: Pattern,
    algorithm: Algorithm,
    predicates: Predicates,
}

impl Rules {
    /// # Errors
    /// `plan`, in one line that names the place.
    pub fn read(path: &Path) -> Result<Self> {
        reading::read(path)
    }

    /// Whether there is anything to encrypt.
    pub fn guard(&self) -> bool {
        !self.columns.is_empty()
    }

    /// The role of an account. Without anything to encrypt all see everything.
    pub fn role(&self, account: &[u8]) -> Role {
        match self.guard() {
            true => self.accounts.get(account).unwrap_or(&self.default_role).clone(),
            false => Role::Plaintext,
        }
    }

    /// How a column is encrypted, and where it may stand; None, where no rule means it. The first rule that does counts.
    pub fn rule_for(&self, database: &str, table: &str, column: &str) -> Option<(Algorithm, Predicates)> {
        let [database, table, column] = [database, table, column].map(str::as_bytes);
        let rule = self.columns.iter().find(|rule| rule.matches(database, table, column))?;
        Some((rule.algorithm, rule.predicates))
    }

    /// The rules, for whoever compares them with what there is.
    pub fn columns(&self) -> &[ColumnRule] {
        &self.columns
    }
}

impl ColumnRule {
    /// Whether it means this column.
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
