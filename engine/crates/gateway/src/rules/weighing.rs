//! What a server looks at together in a row that a statement changes, or computes for the session's time zone.

use super::catalogue::{Catalogue, Table};
use super::facts::Facts;
use super::ties::{Names, Sources, Tie};
use crate::sql::{Class, Taint, Value};
use std::collections::BTreeSet;

/// Several columns of a row that the server looks at together when one of them is written: a CHECK's, a partitioning's, or
/// those that a column is generated from. By an error, a NULL or a length the client learns the outcome.
#[derive(Debug)]
pub struct Weighing {
    /// The table's columns; to write another table's row, where the change of a key cascades to it.
    written: Vec<String>,
    /// The protected ones of the row.
    protected: Vec<(Names, Taint)>,
    /// When the server looks at them.
    when: When,
}

#[derive(Debug, Clone)]
enum When {
    /// One of them is written.
    Written,
    /// The row is changed: what they are depends on the session's time zone.
    Changed,
    /// This column is given its default.
    DefaultOf(String),
}

/// A column that a statement changes in rows that there are.
#[derive(Debug, Clone, Copy)]
pub struct Changed<'c> {
    /// Its name.
    pub column: &'c str,
    /// It is given its default.
    pub to_default: bool,
}

impl Table {
    /// The stored values that the server weighs what is changed against.
    pub fn weighed_against(&self, changed: &[Changed<'_>]) -> impl Iterator<Item = Taint> {
        let has_changes = !changed.is_empty();
        let is_renewed = move |name: &String| has_changes && self.column(name).is_some_and(|column| column.is_renewed);
        let is_set = |name: &String| changed.iter().any(|changed| changed.column == name);
        let is_to_default = |name: &String| changed.iter().any(|changed| changed.column == name && changed.to_default);
        let is_changed = move |name: &String| is_set(name) || is_renewed(name);
        let is_looked_at = move |weighing: &&Weighing| match &weighing.when {
            When::Written => weighing.written.iter().any(is_changed),
            When::Changed => has_changes,
            When::DefaultOf(column) => is_to_default(column),
        };
        let is_new = move |[database, table, name]: &Names| {
            (database, table) == (&self.database, &self.name) && is_changed(name) && !is_to_default(name)
        };
        let weighings = self.weighings.iter().filter(is_looked_at);
        let protected = weighings.flat_map(|weighing| &weighing.protected);
        protected.filter(move |(names, _)| !is_new(names)).map(|(_, taint)| *taint)
    }
}

impl Catalogue {
    fn value(&self, [database, table, column]: &Names) -> Option<Value> {
        Some(self.table(database, table)?.column(column)?.value)
    }

    /// Whether what is made of these columns may be another value in another time zone of the session. A TIME is taken to be of
    /// the present day where a date is made of it or stands beside it.
    fn follow_clock<'t>(&self, columns: &'t [Names], sources: &Sources<'t>) -> bool {
        let is_moment = |names: &&Names| {
            self.value(names).is_some_and(|value| matches!(value.class, Class::Timestamp | Class::Time))
        };
        sources.ask_clock(columns) || sources.met(columns).iter().any(is_moment)
    }

    fn have_protected(&self, columns: &BTreeSet<&Names>) -> bool {
        columns.iter().any(|names| self.value(names).is_some_and(|value| value.taint != Taint::Clean))
    }

    /// Generated columns that are not stored, and follow the session's time zone.
    pub(super) fn note_clocks<'f>(&mut self, facts: &'f Facts, sources: &Sources<'f>) {
        for column in facts.columns.iter().filter(|column| column.extra.to_ascii_uppercase().contains("VIRTUAL")) {
            let Some(Taint::Bare(number)) = self.value(&column.names).map(|value| value.taint) else { continue };
            let own = std::slice::from_ref(&column.names);
            let is_by_clock = self.follow_clock(own, sources) && self.have_protected(&sources.written(own));
            self.protections[number as usize].is_by_clock = is_by_clock;
        }
    }

    pub(super) fn note_weighings<'t>(&mut self, ties: &'t [Tie], sources: &Sources<'t>) {
        for tie in ties {
            let (columns, default_of, asks_clock) = match tie {
                Tie::Expression { columns, asks_clock } => (columns, None, asks_clock),
                Tie::Made { column, from, is_default, asks_clock } => {
                    (from, is_default.then(|| column[2].clone()), asks_clock)
                }
                Tie::Key(_) => continue,
            };
            let written = sources.written(columns);
            let is_by_clock = *asks_clock || self.follow_clock(columns, sources);
            if written.len() < 2 && !is_by_clock {
                continue;
            }
            let cascading: Vec<_> = written.iter().map(|column| (*column, sources.cascading(column))).collect();
            for key in cascading.iter().flat_map(|(_, keys)| keys).filter(|_| default_of.is_none()) {
                let kept = cascading.iter().filter(|(_, keys)| !keys.contains(key)).map(|(column, _)| *column);
                self.note_weighing(&[*key], kept, When::Written);
            }
            let when = match default_of {
                Some(column) => When::DefaultOf(column),
                None if is_by_clock => When::Changed,
                None => When::Written,
            };
            let written: Vec<_> = written.into_iter().collect();
            self.note_weighing(&written, written.iter().copied(), when);
        }
    }

    /// Columns of one table that are written, and those of a row that are looked at with them.
    fn note_weighing<'n>(&mut self, written: &[&Names], looked_at: impl Iterator<Item = &'n Names>, when: When) {
        let tainted = looked_at.filter_map(|names| Some((names.clone(), self.value(names)?.taint)));
        let protected: Vec<_> = tainted.filter(|(_, taint)| *taint != Taint::Clean).collect();
        let Some([database, table, _]) = written.first().filter(|_| !protected.is_empty()) else { return };
        let written = written.iter().map(|names| names[2].clone()).collect();
        if let Some(table) = self.table_mut(database, table) {
            table.weighings.push(Weighing { written, protected, when });
        }
    }
}
