//! What databases, tables and columns a server has, and which of their columns are protected: those that a rule means, and
//! those that hold the same values or are made of them.

use super::ties::{Names, Sources, Tie, Told, spread};
use super::weighing::Weighing;
use super::{ColumnFacts, Facts, Predicates, Rules};
use crate::sql::{self, Class, Taint, Value};
use encryption::Algorithm;
use std::collections::{BTreeMap, HashMap};

/// The server's own tables that may be read, and what in them tells of rows.
const OF_THE_SERVER: &str = "information_schema";
const READABLE: [&str; 6] = ["tables", "columns", "schemata", "key_column_usage", "keywords", "statistics"];
const TELLING: [&str; 7] =
    ["checksum", "auto_increment", "cardinality", "avg_row_length", "data_length", "index_length", "data_free"];
/// Whose statements, statistics and logs may quote data.
const CLOSED: [&str; 3] = ["performance_schema", "mysql", "sys"];

/// A server's tables.
#[derive(Debug, Default)]
pub struct Catalogue {
    databases: HashMap<String, HashMap<String, Table>>,
    names_have_case: bool,
    /// Of the facts that it was made of.
    pub fingerprint: u64,
    pub(super) protections: Vec<Protection>,
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
    /// It is computed when it is read, of a moment as the session's time zone has it.
    pub is_by_clock: bool,
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
    /// Of a view that could not be read, and of a sequence that gives a protected column its values.
    pub refused: bool,
    /// By their names in lower case: whether a protected column is in it.
    indexes: HashMap<String, bool>,
    pub(super) weighings: Vec<Weighing>,
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
    /// The server numbers new rows by it: AUTO_INCREMENT, or a sequence.
    gives_ids: bool,
    /// The server sets it to the present time, by the session's clock, when its row is changed.
    pub(super) is_renewed: bool,
}

impl Table {
    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Whether the server gives this column a value of its own where a new row names none.
    pub fn gives(&self, column: &str) -> bool {
        self.column(column).is_some_and(|column| column.gives_ids)
    }

    fn names_of(&self, column: &Column) -> Names {
        [&self.database, &self.name, &column.name].map(String::clone)
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
        catalogue.close_sequences(facts);
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
        let tables = self.databases.values().flat_map(HashMap::values);
        let unread = tables.filter(|table| table.refused && table.is_view).map(|view| {
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
            weighings: Vec::new(),
        });
        let has = |word: &str| facts.extra.to_ascii_uppercase().contains(word);
        let gives_ids = has("AUTO_INCREMENT") || sequence_of(facts).is_some();
        let (is_visible, is_renewed) = (!has("INVISIBLE"), has("ON UPDATE"));
        made.columns.push(Column { name: name.clone(), value, is_visible, gives_ids, is_renewed });
        let Some((algorithm, predicates)) = rules.rule_for(database, table, name) else { return };
        let name = facts.names.join(".");
        self.protect(&facts.names, Protection { algorithm, predicates, name, is_by_clock: false });
    }

    /// One that is protected already takes over where it may stand alone.
    fn protect(&mut self, [database, table, column]: &Names, how: Protection) {
        let number = self.protections.len();
        let Some(table) = self.table_mut(database, table) else { return };
        let Some(column) = table.columns.iter_mut().find(|known| known.name == *column) else { return };
        if let Taint::Bare(known) = column.value.taint {
            self.protections[known as usize].predicates = how.predicates;
            return;
        }
        column.value.taint = Taint::Bare(number as u32);
        let gives_ids = column.gives_ids;
        table.hides_ids |= gives_ids;
        self.hides_ids |= gives_ids;
        self.protections.push(how);
    }

    pub(super) fn table_mut(&mut self, database: &str, table: &str) -> Option<&mut Table> {
        let (in_database, in_table) = (self.place(database, database), self.place(table, database));
        self.databases.get_mut(&in_database)?.get_mut(&in_table)
    }

    fn protected(&self, database: &str, table: &str, column: &str) -> Option<&Protection> {
        match self.table(database, table)?.column(column)?.value.taint {
            Taint::Bare(number) => Some(self.protection(number)),
            Taint::Clean | Taint::Mixed { .. } => None,
        }
    }

    /// Whatever tells of a column that a rule means, as strictly as all that it tells of.
    fn protect_what_is_tied(&mut self, facts: &Facts) {
        let mut told: BTreeMap<Names, Told> = BTreeMap::new();
        for table in self.databases.values().flat_map(HashMap::values) {
            for column in &table.columns {
                if let Taint::Bare(number) = column.value.taint {
                    told.insert(table.names_of(column), Told::itself(number as usize));
                }
            }
        }
        let ties = self.ties(facts);
        spread(&ties, &mut told);
        let by_rule = self.protections.clone();
        for (names, told) in told {
            if let Some(how) = told.protection(&by_rule, names.join(".")) {
                self.protect(&names, how);
            }
        }
        let sources = Sources::of(&ties);
        self.note_clocks(facts, &sources);
        self.note_weighings(&ties, &sources);
    }

    fn tighten(&mut self, by_rule: u32, read: Taint) {
        let least = match read {
            Taint::Clean | Taint::Mixed { is_free: true, .. } => return,
            Taint::Bare(number) => self.protection(number).predicates,
            Taint::Mixed { is_free: false, .. } => Predicates::Refuse,
        };
        let protection = &mut self.protections[by_rule as usize];
        protection.predicates = protection.predicates.min(least);
    }

    fn ties(&self, facts: &Facts) -> Vec<Tie> {
        let key = |[a, b, c, d, e, f]: &[String; 6]| Some(Tie::Key([self.names(a, b, c)?, self.names(d, e, f)?]));
        let expression = |[database, table, text]: &[String; 3]| Tie::Expression {
            columns: self.named_in(database, table, text),
            asks_clock: sql::asks_clock(text),
        };
        let made = facts.columns.iter().flat_map(|column| {
            let [database, table, _] = &column.names;
            let texts = [(&column.generation, false), (&column.default, true)];
            texts.into_iter().filter(|(text, _)| !text.is_empty()).map(|(text, is_default)| Tie::Made {
                column: column.names.clone(),
                from: self.named_in(database, table, text),
                is_default,
                asks_clock: sql::asks_clock(text),
            })
        });
        facts.references.iter().filter_map(key).chain(facts.ties.iter().map(expression)).chain(made).collect()
    }

    /// As the catalogue spells them.
    fn names(&self, database: &str, table: &str, column: &str) -> Option<Names> {
        let table = self.table(database, table)?;
        let known = table.columns.iter().find(|known| is_one_column(&known.name, column))?;
        Some(table.names_of(known))
    }

    /// A table's columns that an expression names; all of them where it cannot be read.
    fn named_in(&self, database: &str, table: &str, expression: &str) -> Vec<Names> {
        let Some(known) = self.table(database, table) else { return Vec::new() };
        let names = sql::names_in(expression);
        let is_named = |column: &&Column| {
            names.as_ref().is_none_or(|names| names.iter().any(|name| is_one_column(name, &column.name)))
        };
        known.columns.iter().filter(is_named).map(|column| known.names_of(column)).collect()
    }

    /// They would tell the last of a protected column's values, as its AUTO_INCREMENT would.
    fn close_sequences(&mut self, facts: &Facts) {
        for column in &facts.columns {
            let [database, table, name] = &column.names;
            let Some([of, sequence]) = sequence_of(column) else { continue };
            if self.protected(database, table, name).is_some()
                && let Some(sequence) = self.table_mut(&of, &sequence)
            {
                sequence.refused = true;
            }
        }
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
                    // What a rule means by the view's own name is kept as it says, or as strictly as what the view reads.
                    let mut stricter = Vec::new();
                    for (column, value) in table.columns.iter_mut().zip(values) {
                        match column.value.taint {
                            Taint::Bare(by_rule) => stricter.push((by_rule, value.taint)),
                            Taint::Clean | Taint::Mixed { .. } => column.value = value,
                        }
                    }
                    table.refused = false;
                    for (by_rule, read) in stricter {
                        self.tighten(by_rule, read);
                    }
                }
                false
            });
            if left.len() == before {
                return;
            }
        }
    }
}

/// Database and name of the sequence by which a column's default numbers new rows.
fn sequence_of(column: &ColumnFacts) -> Option<[String; 2]> {
    let mut names = sql::names_in(&column.default)?.into_iter();
    names.find(|name| name.eq_ignore_ascii_case("nextval"))?;
    Some([names.next()?, names.next()?])
}

/// Of one table: servers tell columns apart by no case, beyond ASCII neither.
fn is_one_column(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}
