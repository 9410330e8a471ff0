//! Tables: what FROM names, and what joins make of it.

use super::scope::{Columns, Relation, Scope, Visible};
use super::{Common, Naming, Resolver};
use crate::rules;
use crate::sql::Refusal;
use crate::sql::names::{is_made, is_same};
use crate::sql::tree::{Binary, Expr, JoinCondition, JoinKind, Joined, Logic, Name, Table};

impl<'a> Resolver<'a> {
    pub(super) fn tables(
        &mut self,
        from: &mut [Joined<'a>],
        scope: &mut Scope<'a, '_>,
        naming: Naming,
    ) -> Result<(), Refusal> {
        let mut visible = Vec::new();
        let mut is_merged = false;
        for joined in from {
            let (columns, merges) = self.joined(joined, scope, naming)?;
            is_merged |= merges;
            visible.extend(columns);
        }
        if is_merged {
            scope.visible = Some(visible.into_iter().flat_map(|part| part.into_visible(scope)).collect());
        }
        Ok(())
    }

    /// Add what is joined to the scope. What of it `*` means, in order, and whether USING has made one column of two.
    fn joined(
        &mut self,
        joined: &mut Joined<'a>,
        scope: &mut Scope<'a, '_>,
        naming: Naming,
    ) -> Result<(Vec<Part<'a>>, bool), Refusal> {
        match joined {
            Joined::Table(table) => {
                self.table(table, scope, naming)?;
                Ok((vec![Part::All(scope.relations.len() - 1)], false))
            }
            Joined::Derived { query, alias, columns } => {
                let outputs = self.query(query, None, Naming::Within)?;
                let made = self.made_table(outputs, columns)?;
                *alias = self.add(alias.clone(), Columns::Made(made), scope, naming)?;
                Ok((vec![Part::All(scope.relations.len() - 1)], false))
            }
            Joined::Join { kind, left, right, on } => {
                let (mut parts, left_merged) = self.joined(left, scope, naming)?;
                let (right_parts, right_merged) = self.joined(right, scope, naming)?;
                let is_using = match on {
                    JoinCondition::None => false,
                    JoinCondition::On(condition) => {
                        self.condition(condition, scope)?;
                        false
                    }
                    JoinCondition::Using(_) | JoinCondition::Natural => true,
                };
                if !is_using {
                    parts.extend(right_parts);
                    return Ok((parts, left_merged || right_merged));
                }
                let see = |parts: Vec<Part<'a>>| -> Vec<Visible<'a>> {
                    parts.into_iter().flat_map(|part| part.into_visible(scope)).collect()
                };
                let (left, right) = (see(parts), see(right_parts));
                let (condition, columns) = self.merge(*kind, on, left, right, scope)?;
                *on = condition;
                Ok((columns.into_iter().map(Part::One).collect(), true))
            }
        }
    }

    /// Add a table to the scope. The alias under which it is printed.
    pub(super) fn add(
        &mut self,
        alias: Name<'a>,
        columns: Columns<'a>,
        scope: &mut Scope<'a, '_>,
        naming: Naming,
    ) -> Result<Name<'a>, Refusal> {
        let stays = naming == Naming::Client && !is_made(&alias) && !scope.could_have(&alias);
        let printed = if stays { alias.clone() } else { self.made_name() };
        scope.add(Relation { alias, printed: printed.clone(), columns })?;
        Ok(printed)
    }

    /// Write USING and NATURAL out: the condition, and the columns that are left, the common ones first.
    fn merge(
        &mut self,
        kind: JoinKind,
        on: &JoinCondition<'a>,
        left: Vec<Visible<'a>>,
        right: Vec<Visible<'a>>,
        scope: &Scope<'a, '_>,
    ) -> Result<(JoinCondition<'a>, Vec<Visible<'a>>), Refusal> {
        let names: Vec<Name<'a>> = match on {
            JoinCondition::Using(names) => names.clone(),
            JoinCondition::Natural => {
                self.compare(left.len() * right.len())?;
                let common = |column: &&Visible<'a>| right.iter().any(|other| is_same(&other.name, &column.name));
                left.iter().filter(common).map(|column| column.name.clone()).collect()
            }
            JoinCondition::None | JoinCondition::On(_) => Vec::new(),
        };
        self.compare(2 * names.len() * (left.len() + right.len()))?;
        let (mut conditions, mut columns) = (Vec::new(), Vec::new());
        for name in &names {
            let one = |side: &[Visible<'a>]| -> Result<Visible<'a>, Refusal> {
                let mut found = side.iter().filter(|column| is_same(&column.name, name));
                match (found.next(), found.next()) {
                    (Some(only), None) => Ok(only.clone()),
                    (None, _) => Err(Refusal::unknown_column(name)),
                    (Some(_), Some(_)) => Err(Refusal::name("column that could be of two tables", name)),
                }
            };
            let (one, other) = (one(&left)?, one(&right)?);
            self.policy.may_equal(one.value, other.value)?;
            let column = |of: &Visible<'a>| Box::new(Expr::Column(scope.printed(of.relation, of.printed.clone())));
            let (left, right) = (column(&one), column(&other));
            conditions.push(Expr::Binary { operator: Binary::Equal, left, right });
            columns.push(if kind == JoinKind::Right { other } else { one });
        }
        let is_common = |column: &Visible<'_>| names.iter().any(|name| is_same(name, &column.name));
        columns.extend(left.into_iter().chain(right).filter(|column| !is_common(column)));
        let condition = match conditions.len() {
            0 if matches!(kind, JoinKind::Inner | JoinKind::Straight) => JoinCondition::None,
            0 => JoinCondition::On(Expr::Boolean(true)),
            1 => JoinCondition::On(conditions.remove(0)),
            _ => JoinCondition::On(Expr::Chain { operator: Logic::And, operands: conditions }),
        };
        Ok((condition, columns))
    }

    /// A common table, or the server's.
    pub(super) fn table(
        &mut self,
        table: &mut Table<'a>,
        scope: &mut Scope<'a, '_>,
        naming: Naming,
    ) -> Result<(), Refusal> {
        self.compare(self.common.len())?;
        let is_it = |common: &&Common<'a>| table.database.is_none() && is_same(&common.name, &table.name);
        let (name, columns) = match self.common.iter().rfind(is_it) {
            Some(Common { name, printed, columns }) => {
                if !table.hints.is_empty() {
                    return Err(Refusal::of("index hint on a common table"));
                }
                table.name = printed.clone();
                (name.clone(), Columns::Made(columns.clone()))
            }
            None => {
                let found = self.of_server(table)?;
                (table.name.clone(), Columns::Table(found))
            }
        };
        let alias = table.alias.take().unwrap_or(name);
        table.alias = Some(self.add(alias, columns, scope, naming)?);
        Ok(())
    }

    /// Put a table's name as it is printed in its place.
    pub(super) fn of_server(&self, table: &mut Table<'a>) -> Result<&'a rules::Table, Refusal> {
        let database = match &table.database {
            Some(database) => database,
            None => &self.database.ok_or(Refusal::no_database())?.into(),
        };
        let found = self.catalogue.table(database, &table.name);
        let found = found.ok_or_else(|| Refusal::unknown_table(database, &table.name))?;
        if found.refused {
            let what = if found.is_view { "view that it cannot read" } else { "sequence of a protected column" };
            return Err(Refusal::name(what, &found.name));
        }
        for hint in &table.hints {
            for index in &hint.indexes {
                match found.index_is_protected(index) {
                    Some(false) => {}
                    Some(true) => return Err(Refusal::name("hint on the index of a protected column", index)),
                    None => return Err(Refusal::name("hint on an index that there is none of", index)),
                }
            }
        }
        table.database = Some((&found.database[..]).into());
        table.name = (&found.name[..]).into();
        Ok(found)
    }
}

/// What a piece of FROM adds to `*`.
enum Part<'a> {
    /// A relation's columns.
    All(usize),
    /// One column.
    One(Visible<'a>),
}

impl<'a> Part<'a> {
    fn into_visible(self, scope: &Scope<'a, '_>) -> Vec<Visible<'a>> {
        match self {
            Part::All(relation) => scope.of_relation(relation),
            Part::One(column) => vec![column],
        }
    }
}
