//! What a server says of its tables.

use super::{ColumnRule, Rules};
use std::hash::{DefaultHasher, Hash, Hasher};

/// What a server says of its tables.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Tables are told apart by case.
    pub names_have_case: bool,
    /// In the order of their tables, and in them.
    pub columns: Vec<ColumnFacts>,
    /// Database, view, and its SELECT.
    pub views: Vec<[String; 3]>,
    /// Database, table and column that refers, and to which.
    pub references: Vec<[String; 6]>,
    /// Database, table, and an expression that ties its columns: a CHECK's, a partitioning's.
    pub ties: Vec<[String; 3]>,
    /// Database, table, index and column.
    pub indexes: Vec<[String; 4]>,
    /// Database and table of a trigger.
    pub triggers: Vec<[String; 2]>,
}

/// A column, as the server tells it.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub struct ColumnFacts {
    /// Names of database, table and column.
    pub names: [String; 3],
    /// Of its table: `BASE TABLE`, `VIEW`…
    pub table_type: String,
    /// `varchar`, `int`…
    pub data_type: String,
    /// Of a text.
    pub collation: String,
    /// `auto_increment`, `INVISIBLE`…
    pub extra: String,
    /// What it is generated from.
    pub generation: String,
    /// Its default, where that is an expression, or may be one.
    pub default: String,
}

impl Facts {
    /// Another one for other facts.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

impl Rules {
    /// A rule that means no column there is, in words.
    pub fn unknown_column(&self, facts: &Facts) -> Option<String> {
        let means = |rule: &ColumnRule, column: &ColumnFacts| {
            let [database, table, column] = column.names.each_ref().map(String::as_bytes);
            rule.matches(database, table, column)
        };
        let rule = self.columns().iter().find(|rule| !facts.columns.iter().any(|column| means(rule, column)))?;
        Some(format!("unknown rule column: {rule} is no column of any table on the server"))
    }
}
