//! What databases, tables and columns a server has, and which of their columns are protected: those that a rule means, and
//! those that hold the same values or are made of them.

use super::{Predicates, Rules};
use crate::sql::{self, Class, Taint, Value};
use encryption::Algorithm;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The server's own tables that may be read, and what in them tells of rows.
const OF_THE_SERVER: &str = "information_schema";
const READABLE: [&str; 6] = ["tables", "columns", "schemata", "key_column_usage", "keywords", "statistics"];
const TELLING: [&str; 3] = ["checksum", "auto_increment", "cardinality"];
/// Whose statements, statistics and logs may quote data.
const CLOSED: [&str; 3] = ["performance_schema", "mysql", "sys"];

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
}

impl Facts {
    /// Another one for other facts.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// A server's tables.
#[derive(Debug, Default)]
pub struct Catalogue {
    databases: HashMap<String, HashMap<String, Table>>,
    names_have_case: bool,
    /// Of the facts that it was made of.
    pub fingerprint: u64,
    protections: Vec<Protection>,
    /// What an operator should know.
    pub warnings: Vec<String>,
    /// A protected column is given its values by the server, which tells the last of them.
    pub hides_ids: bool,
}

/// How a column's values are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    /// Of what goes to a client.
    pub algorithm: Algorithm,
    /// Where it may stand in a statement.
    pub predicates: Predicates,
    /// Whose it is, for an error to name it.
    pub name: String,
}

/// A table or a view.
#[derive(Debug)]
pub struct Table {
    /// Its schema, as the server spells it.
    pub database: String,
    /// As the server spells it.
    pub name: String,
    /// In their order.
    pub columns: Vec<Column>,
    /// It is one, and cannot be written to.
    pub is_view: bool,
    /// The server gives a protected column its values.
    pub hides_ids: bool,
    /// Of a view that could not be read.
    pub refused: bool,
    /// By their names in lower case: whether a protected column is in it.
    indexes: HashMap<String, bool>,
}

/// A column of a table or of a view.
#[derive(Debug)]
pub struct Column {
    /// As the server spells it.
    pub name: String,
    /// What its values are.
    pub value: Value,
    /// `*` means it too.
    pub is_visible: bool,
}

impl Table {
    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Whether an index has a protected column; None, where there is no such index.
    pub fn index_is_protected(&self, name: &str) -> Option<bool> {
        self.indexes.get(&name.to_ascii_lowercase()).copied()
    }
}

impl Catalogue {
    /// Of a server that says this, under these rules.
    pub fn new(facts: &Facts, rules: &Rules) -> Self {
        let names_have_case = facts.names_have_case;
        let mut catalogue = Catalogue { names_have_case, fingerprint: facts.fingerprint(), ..Catalogue::default() };
        for column in &facts.columns {
            catalogue.add(column, rules);
        }
        catalogue.protect_what_is_tied(facts);
        catalogue.note_indexes(facts);
        catalogue.read_views(facts, rules);
        catalogue.warnings = catalogue.doubts(facts);
        catalogue
    }

    /// The table of this name.
    pub fn table(&self, database: &str, table: &str) -> Option<&Table> {
        match self.names_have_case && !database.eq_ignore_ascii_case(OF_THE_SERVER) {
            true => self.databases.get(database)?.get(table),
            false => self.databases.get(&database.to_ascii_lowercase())?.get(&table.to_ascii_lowercase()),
        }
    }

    /// Of a protected column.
    pub fn protection(&self, number: u32) -> &Protection {
        &self.protections[number as usize]
    }

    /// How a column with these original names is protected, whatever a statement calls it.
    pub fn protection_of(&self, database: &[u8], table: &[u8], column: &[u8]) -> Option<Taint> {
        let [database, table, column] = [database, table, column].map(str::from_utf8);
        let taint = self.table(database.ok()?, table.ok()?)?.column(column.ok()?)?.value.taint;
        (taint != Taint::Clean).then_some(taint)
    }

    /// What protected values may get around.
    fn doubts(&self, facts: &Facts) -> Vec<String> {
        let has_protected = |table: &&Table| table.columns.iter().any(|column| column.value.taint != Taint::Clean);
        let triggers = facts.triggers.iter().filter_map(|[database, table]| self.table(database, table));
        let triggered = triggers.filter(has_protected).map(|table| {
            format!("{}.{} has protected columns and triggers, which may copy them", table.database, table.name)
        });
        let refused = self.databases.values().flat_map(HashMap::values).filter(|table| table.refused);
        let unread = refused.map(|view| {
            format!("view {}.{} is refused: the gateway cannot follow its definition", view.database, view.name)
        });
        let mut warnings: Vec<_> = triggered.chain(unread).collect();
        warnings.sort();
        warnings
    }

    fn place(&self, name: &str, database: &str) -> String {
        let has_case = self.names_have_case && !database.eq_ignore_ascii_case(OF_THE_SERVER);
        if has_case { name.into() } else { name.to_ascii_lowercase() }
    }

    fn add(&mut self, facts: &ColumnFacts, rules: &Rules) {
        let [database, table, name] = &facts.names;
        let is = |known: &&str| known.eq_ignore_ascii_case(database);
        let is_of_server = database.eq_ignore_ascii_case(OF_THE_SERVER);
        let is_readable = READABLE.iter().any(|known| known.eq_ignore_ascii_case(table));
        let tells = TELLING.iter().any(|telling| telling.eq_ignore_ascii_case(name));
        if CLOSED.iter().any(is) || is_of_server && (!is_readable || tells) {
            return;
        }
        let value = Value { taint: Taint::Clean, class: Class::of(&facts.data_type, &facts.collation) };
        let (in_database, in_table) = (self.place(database, database), self.place(table, database));
        let is_view = facts.table_type.contains("VIEW") && !is_of_server;
        let made = self.databases.entry(in_database).or_default().entry(in_table).or_insert_with(|| Table {
            database: database.clone(),
            name: table.clone(),
            columns: Vec::new(),
            is_view,
            hides_ids: false,
            refused: is_view,
            indexes: HashMap::new(),
        });
        let has = |word: &str| facts.extra.to_ascii_uppercase().contains(word);
        made.columns.push(Column { name: name.clone(), value, is_visible: !has("INVISIBLE") });
        let Some((algorithm, predicates)) = rules.rule_for(database, table, name) else { return };
        let protection = Protection { algorithm, predicates, name: format!("{database}.{table}.{name}") };
        self.protect(database, table, name, protection, has("AUTO_INCREMENT"));
    }

    /// Whether it was not before.
    fn protect(&mut self, database: &str, table: &str, column: &str, how: Protection, gives_ids: bool) -> bool {
        let number = self.protections.len() as u32;
        let Some(table) = self.table_mut(database, table) else { return false };
        let found = table.columns.iter_mut().find(|known| known.name.eq_ignore_ascii_case(column));
        let Some(column) = found.filter(|column| column.value.taint == Taint::Clean) else { return false };
        column.value.taint = Taint::Bare(number);
        table.hides_ids |= gives_ids;
        self.hides_ids |= gives_ids;
        self.protections.push(how);
        true
    }

    fn table_mut(&mut self, database: &str, table: &str) -> Option<&mut Table> {
        let (in_database, in_table) = (self.place(database, database), self.place(table, database));
        self.databases.get_mut(&in_database)?.get_mut(&in_table)
    }

    fn protected(&self, database: &str, table: &str, column: &str) -> Option<&Protection> {
        match self.table(database, table)?.column(column)?.value.taint {
            Taint::Bare(number) => Some(self.protection(number)),
            Taint::Clean | Taint::Mixed { .. } => None,
        }
    }

    /// Generated columns, both ends of a foreign key, and the columns of one CHECK or partitioning, until nothing changes.
    fn protect_what_is_tied(&mut self, facts: &Facts) {
        let pair = |[a, b, c, d, e, f]: &[String; 6]| vec![[a, b, c].map(String::clone), [d, e, f].map(String::clone)];
        let mut groups: Vec<Vec<[String; 3]>> = facts.references.iter().map(pair).collect();
        groups.extend(facts.ties.iter().map(|[database, table, tie]| self.named_in(database, table, tie)));
        let generated = facts.columns.iter().filter(|column| !column.generation.is_empty());
        let sources = |column: &ColumnFacts| {
            let [database, table, _] = &column.names;
            (column.names.clone(), self.named_in(database, table, &column.generation))
        };
        let generated: Vec<_> = generated.map(sources).collect();
        let gives_ids = |extra: &str| extra.to_ascii_uppercase().contains("AUTO_INCREMENT");
        let ids: HashSet<_> =
            facts.columns.iter().filter(|column| gives_ids(&column.extra)).map(|column| &column.names).collect();
        loop {
            let mut found: Vec<(&[String; 3], Protection)> = Vec::new();
            let strictest = |columns: &[[String; 3]]| {
                let found =
                    columns.iter().filter_map(|[database, table, column]| self.protected(database, table, column));
                found.min_by_key(|protection| protection.predicates).cloned()
            };
            for group in &groups {
                let by = strictest(group);
                found.extend(by.into_iter().flat_map(|by| group.iter().map(move |names| (names, by.clone()))));
            }
            found.extend(
                generated.iter().filter_map(|(names, sources)| Some((names, generated_from(strictest(sources)?)))),
            );
            let mut has_changed = false;
            for (names, by) in found {
                let [database, table, column] = names;
                let how = Protection { name: format!("{database}.{table}.{column}"), ..by };
                has_changed |= self.protect(database, table, column, how, ids.contains(names));
            }
            if !has_changed {
                return;
            }
        }
    }

    /// A table's columns that an expression names; all of them where it cannot be read.
    fn named_in(&self, database: &str, table: &str, expression: &str) -> Vec<[String; 3]> {
        let Some(known) = self.table(database, table) else { return Vec::new() };
        let names = sql::names_in(expression);
        let is_named = |column: &&Column| {
            names.as_ref().is_none_or(|names| names.iter().any(|name| name.eq_ignore_ascii_case(&column.name)))
        };
        let of_table = |column: &Column| [&known.database, &known.name, &column.name].map(String::clone);
        known.columns.iter().filter(is_named).map(of_table).collect()
    }

    fn note_indexes(&mut self, facts: &Facts) {
        for [database, table, index, column] in &facts.indexes {
            let is_protected = self.protected(database, table, column).is_some();
            if let Some(table) = self.table_mut(database, table) {
                *table.indexes.entry(index.to_ascii_lowercase()).or_default() |= is_protected;
            }
        }
    }

    /// A view may be of views: each pass reads those whose tables are known.
    fn read_views(&mut self, facts: &Facts, rules: &Rules) {
        let mut left: Vec<_> = facts.views.iter().collect();
        loop {
            let before = left.len();
            left.retain(|[database, view, definition]| {
                let Some(values) = sql::view_values(definition, database, self, rules) else { return true };
                let Some(table) = self.table_mut(database, view) else { return false };
                if values.len() == table.columns.len() {
                    // What a rule means by the view's own name stays protected as it says.
                    for (column, value) in table.columns.iter_mut().zip(values) {
                        if column.value.taint == Taint::Clean {
                            column.value = value;
                        }
                    }
                    table.refused = false;
                }
                false
            });
            if left.len() == before {
                return;
            }
        }
    }
}

/// What is made of a column may be equal where the column is not: to compare it tells a part of the value.
fn generated_from(source: Protection) -> Protection {
    let predicates = if source.predicates == Predicates::Allow { Predicates::Allow } else { Predicates::Refuse };
    Protection { predicates, ..source }
}

impl Rules {
    /// A rule that means no column there is, in words.
    pub fn unknown_column(&self, facts: &Facts) -> Option<String> {
        let means = |rule: &super::ColumnRule, column: &ColumnFacts| {
            let [database, table, column] = column.names.each_ref().map(String::as_bytes);
            rule.matches(database, table, column)
        };
        let rule = self.columns().iter().find(|rule| !facts.columns.iter().any(|column| means(rule, column)))?;
        Some(format!("unknown rule column: {rule} is no column of any table on the server"))
    }
}
