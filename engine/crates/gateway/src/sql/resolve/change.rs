//! INSERT, UPDATE and DELETE: what is stored is the client's own, made of what is not protected, or of the same column.

use super::scope::{Columns, Named, Scope};
use super::{Naming, Resolver};
use crate::rules::{self, Changed, Predicates};
use crate::sql::Refusal;
use crate::sql::policy::{Check, Taint, Value};
use crate::sql::tree::{Assignment, Delete, Expr, Insert, Joined, Name, Output, Table, Update};
use std::collections::BTreeMap;

impl<'a> Resolver<'a> {
    /// What it returns, and whether its OK may tell the id of a new row.
    pub(super) fn insert(&mut self, insert: &mut Insert<'a>) -> Result<(Option<Vec<Named<'a>>>, bool), Refusal> {
        let table = self.of_server(&mut insert.table)?;
        written_to(table)?;
        let columns = insert_columns(insert, table)?;
        let outside = Scope::new(None);
        for row in &mut insert.rows {
            for (at, value) in row.iter_mut().enumerate() {
                self.stored(value, columns.get(at).map(|column| column.value), &outside)?;
            }
        }
        // Names are printed bare: a subquery must not take one for its own.
        let mut scope = Scope::new(None);
        scope.qualifies = false;
        let alias = insert.table.name.clone();
        self.add(alias, Columns::Table(table), &mut scope, Naming::Client)?;
        for Assignment { column, value } in &mut insert.updates {
            let into = scope.resolve(column)?;
            self.inserted = Some(table);
            self.stored(value, Some(into), &scope)?;
            self.inserted = None;
        }
        let changed: Vec<_> = insert.updates.iter().filter_map(|assignment| changed(table, assignment)).collect();
        self.weighed(table, &changed)?;
        let returned = self.returned(&mut insert.returning, &scope)?;
        Ok((returned, !table.hides_ids))
    }

    pub(super) fn update(&mut self, update: &mut Update<'a>) -> Result<(), Refusal> {
        let mut scope = Scope::new(None);
        self.tables(&mut update.from, &mut scope, Naming::Client)?;
        let mut changed_rows = BTreeMap::new();
        for assignment in &mut update.assignments {
            let Assignment { column, value } = assignment;
            let into = scope.resolve(column)?;
            let Some(Columns::Table(table)) = scope.relation_of(column).map(|relation| &relation.columns) else {
                return Err(Refusal::unknown_column(&column.name));
            };
            written_to(table)?;
            self.stored(value, Some(into), &scope)?;
            let (_, row) = changed_rows.entry(column.table.clone()).or_insert((*table, Vec::new()));
            row.extend(changed(table, assignment));
        }
        for (table, row) in changed_rows.values() {
            self.weighed(table, row)?;
        }
        if let Some(condition) = &mut update.condition {
            self.condition(condition, &scope)?;
        }
        self.order(&mut update.order, &scope, &[])
    }

    pub(super) fn delete(&mut self, delete: &mut Delete<'a>) -> Result<Option<Vec<Named<'a>>>, Refusal> {
        let mut scope = Scope::new(None);
        if delete.targets.is_empty() {
            let [Joined::Table(table)] = &mut delete.from[..] else { return Err(Refusal::of("DELETE of this form")) };
            // MariaDB has no alias here.
            if table.alias.is_some() {
                return Err(Refusal::of("DELETE with an alias"));
            }
            self.table(table, &mut scope, Naming::Client)?;
            if table.alias.take().as_ref() != Some(&table.name) {
                return Err(Refusal::name("DELETE of rows of", &table.name));
            }
        } else {
            self.tables(&mut delete.from, &mut scope, Naming::Client)?;
            for target in &mut delete.targets {
                *target = deleted(target, &scope)?;
            }
        }
        for relation in scope.relations.iter().filter(|_| delete.targets.is_empty()) {
            match relation.columns {
                Columns::Table(table) => written_to(table)?,
                Columns::Made(_) => return Err(Refusal::of("DELETE of this form")),
            }
        }
        if let Some(condition) = &mut delete.condition {
            self.condition(condition, &scope)?;
        }
        self.order(&mut delete.order, &scope, &[])?;
        self.returned(&mut delete.returning, &scope)
    }

    fn returned(
        &mut self,
        outputs: &mut Vec<Output<'a>>,
        scope: &Scope<'a, '_>,
    ) -> Result<Option<Vec<Named<'a>>>, Refusal> {
        if outputs.is_empty() {
            return Ok(None);
        }
        let mut named = self.outputs(outputs, scope, Naming::Client)?;
        if !Check::Returning.is_on() {
            named.iter_mut().for_each(|output| output.value = Value::CLEAN);
        }
        Ok(Some(named))
    }

    /// What is put into a column, whose value is known where it is.
    fn stored(&mut self, value: &mut Expr<'a>, into: Option<Value>, scope: &Scope<'a, '_>) -> Result<(), Refusal> {
        if matches!(value, Expr::Default) {
            return Ok(());
        }
        self.assigned = into.and_then(|into| self.may_be_made_of_itself(into.taint));
        let made = self.value(value, scope);
        self.assigned = None;
        let made = made?.taint;
        // What the server would have given this column stays in it.
        let stays = matches!(value, Expr::Inserted(_)) && into.is_some_and(|into| into.taint == made);
        if stays { Ok(()) } else { self.policy.may_store(made) }
    }

    /// What a statement changes in rows that there are: where the server weighs it against a stored value, whoever may choose
    /// the one finds out the other.
    fn weighed(&self, table: &rules::Table, changed: &[Changed<'_>]) -> Result<(), Refusal> {
        const WHAT: &str = "change of what a CHECK or a generated column weighs against the stored value";
        table.weighed_against(changed).try_for_each(|stored| self.policy.may_use(Check::Weighing, stored, WHAT))
    }

    fn may_be_made_of_itself(&self, taint: Taint) -> Option<u32> {
        match taint {
            Taint::Bare(number) if self.catalogue.protection(number).predicates == Predicates::Allow => Some(number),
            Taint::Bare(_) | Taint::Clean | Taint::Mixed { .. } => None,
        }
    }
}

/// The columns that are written, in the order of the rows' values. Where the statement names none they are all.
fn insert_columns<'a>(insert: &mut Insert<'a>, table: &'a rules::Table) -> Result<Vec<&'a rules::Column>, Refusal> {
    let is_empty = insert.columns.is_empty() && insert.rows.iter().all(Vec::is_empty);
    let columns: Vec<_> = match insert.columns.is_empty() {
        true if is_empty => Vec::new(),
        true => table.columns.iter().filter(|column| column.is_visible).collect(),
        false => {
            let find = |name: &Name<'a>| table.column(name).ok_or_else(|| Refusal::unknown_column(name));
            insert.columns.iter().map(find).collect::<Result<_, _>>()?
        }
    };
    if insert.rows.iter().any(|row| row.len() != columns.len()) {
        return Err(Refusal::of("row that is not as long as its list of columns"));
    }
    insert.columns = columns.iter().map(|column| (&column.name[..]).into()).collect();
    Ok(columns)
}

fn changed<'c>(table: &'c rules::Table, assignment: &Assignment<'_>) -> Option<Changed<'c>> {
    let column = &table.column(&assignment.column.name)?.name;
    Some(Changed { column, to_default: matches!(assignment.value, Expr::Default) })
}

fn written_to(table: &rules::Table) -> Result<(), Refusal> {
    if table.is_view { Err(Refusal::name("change through the view", &table.name)) } else { Ok(()) }
}

/// A table whose rows go, by its alias.
fn deleted<'a>(target: &Table<'a>, scope: &Scope<'a, '_>) -> Result<Table<'a>, Refusal> {
    let found = scope.relation(target.database.as_deref(), &target.name).filter(|_| target.alias.is_none());
    let relation = &scope.relations[found.ok_or_else(|| Refusal::name("DELETE of rows of", &target.name))?];
    match relation.columns {
        Columns::Table(table) => written_to(table)?,
        Columns::Made(_) => return Err(Refusal::name("DELETE of rows of", &target.name)),
    }
    Ok(Table { database: None, name: relation.printed.clone(), alias: None, hints: Vec::new() })
}
