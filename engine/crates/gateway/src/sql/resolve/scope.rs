//! Which names a part of a statement can see, and what they mean.

use crate::rules::{Column as TableColumn, Table};
use crate::sql::Refusal;
use crate::sql::names::{could_be_same, is_same};
use crate::sql::policy::{Taint, Value};
use crate::sql::tree::{Column, Name};
use std::rc::Rc;

/// Both servers join fewer.
const MOST_TABLES: usize = 64;
/// A table's key under another name, where it is one integer.
const ROW_ID: &str = "_rowid";

/// A column that has a name of its own: a derived table's, a common table's, or a SELECT's output.
#[derive(Debug, Clone)]
pub struct Named<'a> {
    pub name: Name<'a>,
    /// As it is printed.
    pub printed: Name<'a>,
    pub value: Value,
    /// Where it is a table's column as it is.
    pub column: Option<Column<'a>>,
}

/// A table that a part of a statement reads.
#[derive(Debug)]
pub struct Relation<'a> {
    pub alias: Name<'a>,
    /// The alias as it is printed: nothing else that can be seen where this can has it.
    pub printed: Name<'a>,
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
    /// As it is printed.
    pub printed: Name<'a>,
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

    /// Add a table. What its alias hides around is not meant by it; but an alias in another case hides it for some servers
    /// and not for others.
    ///
    /// # Errors
    /// In that case, and where another one here has the alias.
    pub fn add(&mut self, relation: Relation<'a>) -> Result<(), Refusal> {
        if self.relations.len() == MOST_TABLES {
            return Err(Refusal::of("join of so many tables"));
        }
        if self.relations.iter().any(|known| is_same(&known.alias, &relation.alias)) {
            return Err(Refusal::name("alias that is there twice", &relation.alias));
        }
        let mut around = self.parent;
        while let Some(scope) = around {
            if scope
                .relations
                .iter()
                .any(|known| is_same(&known.alias, &relation.alias) && known.alias != relation.alias)
            {
                return Err(Refusal::name("alias that hides one in another case", &relation.alias));
            }
            around = scope.parent;
        }
        self.relations.push(relation);
        Ok(())
    }

    /// Whether a server might take an alias for one that is here.
    pub fn could_have(&self, alias: &str) -> bool {
        self.relations.iter().any(|known| could_be_same(&known.printed, alias))
    }

    /// Neither here nor around is a table.
    pub fn is_empty(&self) -> bool {
        self.relations.is_empty() && self.parent.is_none_or(Scope::is_empty)
    }

    /// How many names one is compared with at most, to find what it means.
    pub fn width(&self) -> usize {
        let around = self.parent.map_or(0, Scope::width);
        self.aliases.len() + around + self.relations.iter().map(|relation| relation.columns.len()).sum::<usize>()
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
        let of_table = |column: &'a TableColumn| {
            let name: Name<'a> = (&column.name[..]).into();
            Visible { relation, printed: name.clone(), name, value: column.value }
        };
        let of_made = |made: &Named<'a>| {
            let Named { name, printed, value, .. } = made.clone();
            Visible { relation, name, printed, value }
        };
        match &self.relations[relation].columns {
            Columns::Table(table) => table.columns.iter().filter(|column| column.is_visible).map(of_table).collect(),
            Columns::Made(made) => made.iter().map(of_made).collect(),
        }
    }

    /// The relation that a qualified name means.
    pub fn relation(&self, database: Option<&str>, table: &str) -> Option<usize> {
        self.relations.iter().position(|known| {
            is_same(&known.alias, table)
                && database.is_none_or(
                    |database| matches!(known.columns, Columns::Table(table) if is_same(&table.database, database)),
                )
        })
    }

    /// The relation that a column, as it is printed, is of.
    pub fn relation_of(&self, printed: &Column<'_>) -> Option<&Relation<'a>> {
        let table = printed.table.as_deref()?;
        self.relations.iter().find(|known| known.printed == table)
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

    /// Of what is around only columns are seen: an output there has nothing but its bare name, which a server might take for
    /// something nearer.
    fn resolve_bare(&self, column: &mut Column<'a>) -> Result<Value, Refusal> {
        if let Some(output) = self.aliases.iter().find(|output| is_same(&output.name, &column.name)) {
            return self.resolve_output(output, column);
        }
        let mut scope = Some(self);
        while let Some(here) = scope {
            if let Some((found, value)) = here.find(&column.name)? {
                *column = found;
                return Ok(value);
            }
            scope = here.parent;
        }
        Err(Refusal::unknown_column(&column.name))
    }

    fn resolve_output(&self, output: &Named<'a>, column: &mut Column<'a>) -> Result<Value, Refusal> {
        let found = self.find(&column.name)?;
        let is_meant = |own: &Column<'a>| {
            let mut all = self.aliases.iter().filter(|other| is_same(&other.name, &output.name));
            all.all(|other| other.column.as_ref() == Some(own)) && found.as_ref().is_none_or(|(found, _)| found == own)
        };
        *column = match &output.column {
            Some(own) if is_meant(own) => own.clone(),
            _ => {
                self.may_be_bare(output)?;
                Column { database: None, table: None, name: output.printed.clone() }
            }
        };
        Ok(output.value)
    }

    /// Whatever else a server might take an output's bare name for, nothing is protected in it.
    fn may_be_bare(&self, output: &Named<'a>) -> Result<(), Refusal> {
        let is_risk = |name: &str, value: Value| value.taint != Taint::Clean && could_be_same(name, &output.printed);
        let mut others = self.aliases.iter().filter(|other| !std::ptr::eq(*other, output));
        let has_column = |relation: &Relation<'_>| match &relation.columns {
            // Those that `*` does not mean have their names too, and so have those that USING has merged.
            Columns::Table(table) => table.columns.iter().any(|column| is_risk(&column.name, column.value)),
            Columns::Made(made) => made.iter().any(|made| is_risk(&made.printed, made.value)),
        };
        let is_risky = others.any(|other| is_risk(&other.printed, other.value))
            || self.relations.iter().any(has_column)
            || is_same(&output.printed, ROW_ID);
        match is_risky {
            true => Err(Refusal::name("name that could be an alias or a column", &output.name)),
            false => Ok(()),
        }
    }

    /// The output that a bare name is of, by its place from 0.
    ///
    /// # Errors
    /// Where it could be one of two that differ.
    pub fn place(&self, name: &str) -> Result<Option<usize>, Refusal> {
        let mut places = (0..self.aliases.len()).filter(|place| is_same(&self.aliases[*place].name, name));
        let Some(first) = places.next() else { return Ok(None) };
        let own = &self.aliases[first].column;
        match places.all(|other| own.is_some() && self.aliases[other].column == *own) {
            true => Ok(Some(first)),
            false => Err(Refusal::name("name that could be two aliases", name)),
        }
    }

    /// The one column here of this name, as it is printed.
    ///
    /// # Errors
    /// Where there are two.
    pub fn find(&self, name: &str) -> Result<Option<(Column<'a>, Value)>, Refusal> {
        let mut found = None;
        match &self.visible {
            Some(visible) => {
                for known in visible.iter().filter(|known| is_same(&known.name, name)) {
                    only(&mut found, (known.relation, known.printed.clone(), known.value), name)?;
                }
            }
            None => {
                for at in 0..self.relations.len() {
                    if let Some((printed, value)) = self.column(at, name) {
                        only(&mut found, (at, printed, value), name)?;
                    }
                }
            }
        }
        Ok(found.map(|(at, printed, value)| (self.printed(at, printed), value)))
    }

    /// As it is printed.
    fn column(&self, relation: usize, name: &str) -> Option<(Name<'a>, Value)> {
        match &self.relations[relation].columns {
            Columns::Table(table) => {
                let column = table.column(name)?;
                Some(((&column.name[..]).into(), column.value))
            }
            Columns::Made(made) => {
                let made = made.iter().find(|made| is_same(&made.name, name))?;
                Some((made.printed.clone(), made.value))
            }
        }
    }

    /// A column of a relation, by its printed name.
    pub fn printed(&self, relation: usize, name: Name<'a>) -> Column<'a> {
        let table = self.qualifies.then(|| self.relations[relation].printed.clone());
        Column { database: None, table, name }
    }
}

impl Columns<'_> {
    fn len(&self) -> usize {
        match self {
            Columns::Table(table) => table.columns.len(),
            Columns::Made(made) => made.len(),
        }
    }
}

fn only<T>(place: &mut Option<T>, found: T, name: &str) -> Result<(), Refusal> {
    match place.replace(found) {
        None => Ok(()),
        Some(_) => Err(Refusal::name("column that could be of two tables", name)),
    }
}
