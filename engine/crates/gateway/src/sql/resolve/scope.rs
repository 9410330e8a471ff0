//! Which names a part of a statement can see, and what they mean.

use crate::rules::{Column as TableColumn, Table};
use crate::sql::Refusal;
use crate::sql::policy::{Taint, Value};
use crate::sql::tree::{Column, Name};
use std::rc::Rc;

/// A column that has a name of its own: a derived table's, a common table's, or a SELECT's output.
#[derive(Debug, Clone)]
pub struct Named<'a> {
    pub name: Name<'a>,
    pub value: Value,
    /// Where it is a table's column as it is.
    pub column: Option<Column<'a>>,
}

/// A table that a part of a statement reads.
#[derive(Debug)]
pub struct Relation<'a> {
    pub alias: Name<'a>,
    /// Its statement gave it none.
    pub is_implicit: bool,
    pub columns: Columns<'a>,
}

#[derive(Debug, Clone)]
pub enum Columns<'a> {
    Table(&'a Table),
    Made(Rc<[Named<'a>]>),
}

/// A column that a bare name or `*` can mean.
#[derive(Debug, Clone)]
pub struct Visible<'a> {
    pub relation: usize,
    pub name: Name<'a>,
    pub value: Value,
}

/// What a part of a statement can see, and what the part around it can.
#[derive(Debug)]
pub struct Scope<'a, 'p> {
    pub relations: Vec<Relation<'a>>,
    /// In the order of `*`, where USING or NATURAL has made one column of two; else all relations' columns.
    pub visible: Option<Vec<Visible<'a>>>,
    /// A SELECT's outputs, where they can be named: behind GROUP BY, HAVING and ORDER BY.
    pub aliases: &'p [Named<'a>],
    /// Columns are printed with their table's alias.
    pub qualifies: bool,
    pub parent: Option<&'p Scope<'a, 'p>>,
}

impl<'a, 'p> Scope<'a, 'p> {
    /// Within another one, or within none. Nothing is seen of a part whose names are printed bare: what is within would
    /// take them for its own.
    pub fn new(parent: Option<&'p Scope<'a, 'p>>) -> Self {
        let parent = parent.filter(|parent| parent.qualifies);
        Scope { relations: Vec::new(), visible: None, aliases: &[], qualifies: true, parent }
    }

    /// Add a table. Its alias must be nobody else's, here and around: a reader that looks in another order would take one
    /// for the other. Only one table under its own name may stand in a part and around it.
    ///
    /// # Errors
    /// Where it is.
    pub fn add(&mut self, relation: Relation<'a>) -> Result<(), Refusal> {
        let is_same = |known: &Relation<'_>| known.alias.eq_ignore_ascii_case(&relation.alias);
        if self.relations.iter().any(is_same) {
            return Err(Refusal::name("alias that is there twice", &relation.alias));
        }
        let mut around = self.parent;
        while let Some(scope) = around {
            if scope.relations.iter().any(|known| is_same(known) && !is_one_table(known, &relation)) {
                return Err(Refusal::name("alias that hides another one", &relation.alias));
            }
            around = scope.parent;
        }
        self.relations.push(relation);
        Ok(())
    }

    /// What `*` means.
    pub fn all(&self) -> Vec<Visible<'a>> {
        match &self.visible {
            Some(visible) => visible.clone(),
            None => (0..self.relations.len()).flat_map(|relation| self.of_relation(relation)).collect(),
        }
    }

    /// What `alias.*` means.
    pub fn of_relation(&self, relation: usize) -> Vec<Visible<'a>> {
        let of_table =
            |column: &'a TableColumn| Visible { relation, name: (&column.name[..]).into(), value: column.value };
        match &self.relations[relation].columns {
            Columns::Table(table) => table.columns.iter().filter(|column| column.is_visible).map(of_table).collect(),
            Columns::Made(made) => {
                made.iter().map(|made| Visible { relation, name: made.name.clone(), value: made.value }).collect()
            }
        }
    }

    /// The relation that a qualified name means.
    pub fn relation(&self, database: Option<&str>, table: &str) -> Option<usize> {
        self.relations.iter().position(|known| {
            known.alias.eq_ignore_ascii_case(table)
                && database.is_none_or(|database| {
                    matches!(known.columns, Columns::Table(table) if table.database.eq_ignore_ascii_case(database))
                })
        })
    }

    /// Put a column's name as it is printed in its place.
    ///
    /// # Errors
    /// Where it means nothing, or could mean two things.
    pub fn resolve(&self, column: &mut Column<'a>) -> Result<Value, Refusal> {
        match &column.table {
            Some(_) => self.resolve_qualified(column),
            None => self.resolve_bare(column),
        }
    }

    fn resolve_qualified(&self, column: &mut Column<'a>) -> Result<Value, Refusal> {
        let table = column.table.as_deref().unwrap_or_default();
        let mut scope = Some(self);
        while let Some(here) = scope {
            if let Some(at) = here.relation(column.database.as_deref(), table) {
                // A server would look further out: there is to be nothing of this name.
                let (name, value) =
                    here.column(at, &column.name).ok_or_else(|| Refusal::unknown_column(&column.name))?;
                *column = here.printed(at, name);
                return Ok(value);
            }
            scope = here.parent;
        }
        Err(Refusal::unknown_column(&column.name))
    }

    fn resolve_bare(&self, column: &mut Column<'a>) -> Result<Value, Refusal> {
        let mut scope = Some(self);
        while let Some(here) = scope {
            let found = here.find(&column.name)?;
            let mut aliased = here.aliases.iter().filter(|output| output.name.eq_ignore_ascii_case(&column.name));
            match (aliased.next(), found) {
                (None, None) => {}
                (None, Some((at, name, value))) => {
                    *column = here.printed(at, name);
                    return Ok(value);
                }
                (Some(output), None) if aliased.next().is_none() => {
                    *column = Column { database: None, table: None, name: output.name.clone() };
                    return Ok(output.value);
                }
                (Some(output), Some((at, name, value))) => {
                    let printed = here.printed(at, name);
                    let is_clean = value.taint == Taint::Clean && output.value.taint == Taint::Clean;
                    if is_clean && aliased.clone().all(|other| other.value.taint == Taint::Clean) {
                        // Whichever of them a server takes, nothing is protected in it.
                        *column = Column { database: None, table: None, name: output.name.clone() };
                        return Ok(output.value);
                    }
                    let is_it = |output: &Named<'_>| output.column.as_ref().is_some_and(|known| same(known, &printed));
                    if !is_it(output) || !aliased.all(is_it) {
                        return Err(Refusal::name("name that could be an alias or a column", &column.name));
                    }
                    *column = printed;
                    return Ok(value);
                }
                (Some(_), None) => return Err(Refusal::name("name that could be two aliases", &column.name)),
            }
            scope = here.parent;
        }
        Err(Refusal::unknown_column(&column.name))
    }

    /// The one column here of this name.
    fn find(&self, name: &str) -> Result<Option<(usize, Name<'a>, Value)>, Refusal> {
        let mut found = None;
        match &self.visible {
            Some(visible) => {
                for known in visible.iter().filter(|known| known.name.eq_ignore_ascii_case(name)) {
                    only(&mut found, (known.relation, known.name.clone(), known.value), name)?;
                }
            }
            None => {
                for at in 0..self.relations.len() {
                    if let Some((spelt, value)) = self.column(at, name) {
                        only(&mut found, (at, spelt, value), name)?;
                    }
                }
            }
        }
        Ok(found)
    }

    fn column(&self, relation: usize, name: &str) -> Option<(Name<'a>, Value)> {
        match &self.relations[relation].columns {
            Columns::Table(table) => {
                let column = table.column(name)?;
                Some(((&column.name[..]).into(), column.value))
            }
            Columns::Made(made) => {
                let made = made.iter().find(|made| made.name.eq_ignore_ascii_case(name))?;
                Some((made.name.clone(), made.value))
            }
        }
    }

    /// A column of a relation, as it is printed.
    pub fn printed(&self, relation: usize, name: Name<'a>) -> Column<'a> {
        let table = self.qualifies.then(|| self.relations[relation].alias.clone());
        Column { database: None, table, name }
    }
}

/// Two names of one printed column.
pub fn same(one: &Column<'_>, other: &Column<'_>) -> bool {
    one.table == other.table && one.name == other.name
}

fn is_one_table(one: &Relation<'_>, other: &Relation<'_>) -> bool {
    match (&one.columns, &other.columns) {
        (Columns::Table(one_table), Columns::Table(other_table)) => {
            one.is_implicit && other.is_implicit && std::ptr::eq(*one_table, *other_table)
        }
        _ => false,
    }
}

fn only<T>(place: &mut Option<T>, found: T, name: &str) -> Result<(), Refusal> {
    match place.replace(found) {
        None => Ok(()),
        Some(_) => Err(Refusal::name("column that could be of two tables", name)),
    }
}
