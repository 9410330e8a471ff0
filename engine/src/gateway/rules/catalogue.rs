//! What tables a server has, as far as rules and the fence must know.

use super::Rules;
use std::collections::HashSet;

/// A column of the server's, and whether its table is one or a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its schema.
    pub database: Vec<u8>,
    /// Or view.
    pub table: Vec<u8>,
    /// Its name.
    pub column: Vec<u8>,
    /// A view's columns may be another table's under another name.
    pub is_view: bool,
}

/// A server's base tables and views.
#[derive(Debug, Default, Clone)]
pub struct Catalogue {
    tables: HashSet<(Vec<u8>, Vec<u8>)>,
    /// In lower case, of any database.
    views: HashSet<Vec<u8>>,
}

impl Catalogue {
    /// Of all columns there are.
    pub fn new(entries: &[Entry]) -> Self {
        let mut catalogue = Catalogue::default();
        for entry in entries {
            if entry.is_view {
                catalogue.views.insert(entry.table.to_ascii_lowercase());
            } else {
                catalogue.tables.insert((entry.database.clone(), entry.table.clone()));
            }
        }
        catalogue
    }

    /// Whether this is a table and no view; to the letter, since on some servers two names differ by case alone.
    pub fn is_table(&self, database: &[u8], table: &[u8]) -> bool {
        // Owned keys, since a pair of slices cannot be looked up among pairs of vectors. Asked once a definition.
        self.tables.contains(&(database.to_vec(), table.to_vec()))
    }

    /// Whether a view has this name, in any database and by any case.
    pub fn has_view(&self, name: &[u8]) -> bool {
        // Most servers have none, and then no name is folded.
        !self.views.is_empty() && self.views.contains(&name.to_ascii_lowercase())
    }
}

impl Rules {
    /// A rule that means no column there is, in words.
    pub fn unknown_column(&self, entries: &[Entry]) -> Option<String> {
        let rule = self
            .columns()
            .iter()
            .find(|rule| !entries.iter().any(|entry| rule.matches(&entry.database, &entry.table, &entry.column)))?;
        Some(format!("unknown rule column: {rule} is no column of any table on the server"))
    }
}
