//! The columns of a server's base tables, and which of them are protected.

use super::{ColumnRule, Rules};
use std::collections::HashSet;

/// The names of database, table and column, as the server spells them.
pub type Names = [String; 3];

/// A column of a base table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnFacts {
    /// Where it is.
    pub names: Names,
    /// The server numbers new rows by it: AUTO_INCREMENT, or a sequence.
    pub gives_ids: bool,
}

/// A server's columns under some rules.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// Columns of base tables that no rule matches.
    plain: HashSet<Names>,
    /// Columns that a rule matches.
    pub protected: Vec<Names>,
    /// Views and whatever else is no base table, in lower case.
    pub views: HashSet<String>,
    /// A protected column is given its values by the server, which shows the last of them with each new row.
    pub hides_ids: bool,
}

impl Catalogue {
    /// Sort a server's columns by the rules. `views` are names without their databases.
    pub fn new(columns: &[ColumnFacts], views: &[String], rules: &Rules) -> Self {
        let views = views.iter().map(|name| name.to_lowercase()).collect();
        let mut catalogue = Catalogue { views, ..Catalogue::default() };
        for column in columns {
            let [database, table, name] = &column.names;
            if rules.algorithm_of(database, table, name).is_some() {
                catalogue.protected.push(column.names.clone());
                catalogue.hides_ids |= column.gives_ids;
            } else {
                catalogue.plain.insert(column.names.clone());
            }
        }
        catalogue
    }

    /// Whether this is a column of a base table that no rule matches.
    pub fn knows_as_plain(&self, names: [&str; 3]) -> bool {
        self.plain.contains(&names.map(str::to_owned))
    }
}

impl Rules {
    /// Take a server's columns and views. For a column of a view that has a base table's name as its alias, servers name that
    /// table's column as the origin; so outputs of statements that name a view are encrypted unless their approval says more.
    pub fn take_catalogue(&mut self, columns: &[ColumnFacts], views: &[String]) {
        let catalogue = Catalogue::new(columns, views, self);
        self.statements = self.statements.encrypting(|name| catalogue.views.contains(name)).into();
        self.catalogue = catalogue.into();
    }

    /// A column rule that matches no column of a base table, in words.
    pub fn unmatched_rule(&self, columns: &[ColumnFacts]) -> Option<String> {
        let matches = |rule: &ColumnRule, column: &ColumnFacts| {
            let [database, table, column] = column.names.each_ref().map(String::as_bytes);
            rule.matches(database, table, column)
        };
        let rule = self.columns().iter().find(|rule| !columns.iter().any(|column| matches(rule, column)))?;
        Some(format!("the rule for {rule} matches no column of a base table on the server"))
    }
}
