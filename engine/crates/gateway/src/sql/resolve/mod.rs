//! Names become what they mean, and with them is decided what may stand where.
//!
//! One walk over the tree: each name is put as it is printed, `*`, USING and NATURAL are written out, and each value's protected
//! columns are known before the value around it is looked at. A derived table cannot see what is around it, so no name in it
//! can mean a column outside.

mod change;
mod expression;
mod output;
mod scope;

use super::Refusal;
use super::policy::{Check, Class, Policy, Taint, Value};
use super::tree::{
    Body, Expr, JoinCondition, JoinKind, Joined, Logic, Name, Order, Output, Query, Select, SetOperator, Statement,
    Table, Window,
};
use crate::rules::Catalogue;
use output::{made_table, name_of, written_out};
use scope::{Columns, Named, Relation, Scope, Visible};
use std::rc::Rc;

/// What a statement's answer holds, and what its parameters must be.
#[derive(Debug, Default)]
pub struct Resolved {
    /// By output; None, where the statement gives no rows.
    pub outputs: Option<Vec<Taint>>,
    /// By parameter: the class of the protected column that it is compared with.
    pub parameters: Vec<Option<Class>>,
    /// Its OK may tell the id that a new row was given.
    pub tells_id: bool,
}

/// Resolve a statement of so many parameters, whose bare table names are this database's.
///
/// # Errors
/// What does not pass.
pub fn resolve<'a>(
    statement: &mut Statement<'a>,
    parameters: u16,
    database: Option<&'a str>,
    catalogue: &'a Catalogue,
) -> Result<Resolved, Refusal> {
    let mut resolver = Resolver::new(database, catalogue);
    resolver.parameters = vec![None; parameters.into()];
    let (outputs, tells_id) = match statement {
        Statement::Query(query) => (Some(resolver.query(query, None)?), false),
        Statement::Insert(insert) => resolver.insert(insert)?,
        Statement::Update(update) => (resolver.update(update).map(|()| None)?, false),
        Statement::Delete(delete) => (resolver.delete(delete)?, false),
    };
    let outputs = outputs.map(|outputs| outputs.iter().map(|output| output.value.taint).collect());
    Ok(Resolved { outputs, parameters: resolver.parameters, tells_id })
}

/// The values of a view's columns.
///
/// # Errors
/// Where it does what no statement may.
pub fn view_values<'a>(
    query: &mut Query<'a>,
    database: &'a str,
    catalogue: &'a Catalogue,
) -> Result<Vec<Value>, Refusal> {
    let outputs = Resolver::new(Some(database), catalogue).query(query, None)?;
    Ok(outputs.into_iter().map(|output| output.value).collect())
}

/// What is known on the way through a statement.
struct Resolver<'a> {
    database: Option<&'a str>,
    catalogue: &'a Catalogue,
    policy: Policy<'a>,
    parameters: Vec<Option<Class>>,
    /// Common tables that can be seen, the latest last.
    common: Vec<(Name<'a>, Rc<[Named<'a>]>)>,
    /// The column that is being assigned to, by its number: it may be made of itself where it may stand anywhere.
    assigned: Option<u32>,
    /// `VALUES(column)` is what the client gives.
    takes_inserted: bool,
}

impl<'a> Resolver<'a> {
    fn new(database: Option<&'a str>, catalogue: &'a Catalogue) -> Self {
        let policy = Policy::new(catalogue);
        Resolver {
            database,
            catalogue,
            policy,
            parameters: Vec::new(),
            common: Vec::new(),
            assigned: None,
            takes_inserted: false,
        }
    }

    fn query(&mut self, query: &mut Query<'a>, parent: Option<&Scope<'a, '_>>) -> Result<Vec<Named<'a>>, Refusal> {
        let known = self.common.len();
        for table in &mut query.with {
            let outputs = self.query(&mut table.query, None)?;
            if self.common.iter().any(|(name, _)| name.eq_ignore_ascii_case(&table.name)) {
                return Err(Refusal::name("WITH of a name that is there twice", &table.name));
            }
            self.common.push((table.name.clone(), made_table(outputs, &table.columns)?));
        }
        let outputs = match &mut query.body {
            Body::Select(select) => self.select(select, &mut query.order, parent)?,
            body => {
                let outputs = self.body(body, parent)?;
                let mut scope = Scope::new(parent);
                scope.aliases = &outputs;
                self.order(&mut query.order, &scope, &outputs)?;
                outputs
            }
        };
        self.common.truncate(known);
        Ok(outputs)
    }

    fn body(&mut self, body: &mut Body<'a>, parent: Option<&Scope<'a, '_>>) -> Result<Vec<Named<'a>>, Refusal> {
        match body {
            Body::Select(select) => self.select(select, &mut [], parent),
            Body::Nested(query) => self.query(query, parent),
            Body::Set { operator, is_distinct, left, right } => {
                let left = self.body(left, parent)?;
                let right = self.body(right, parent)?;
                if left.len() != right.len() {
                    return Err(Refusal::of("union of different numbers of columns"));
                }
                let compares = *is_distinct || *operator != SetOperator::Union;
                let unite = |(mut left, right): (Named<'a>, Named<'a>)| {
                    for taint in [left.value.taint, right.value.taint] {
                        if compares {
                            self.policy.may_use(Check::Distinct, taint, "comparison by UNION, EXCEPT or INTERSECT")?;
                        }
                    }
                    left.value = self.policy.united(left.value, right.value)?;
                    left.column = None;
                    Ok(left)
                };
                left.into_iter().zip(right).map(unite).collect()
            }
        }
    }

    fn select(
        &mut self,
        select: &mut Select<'a>,
        order: &mut [Order<'a>],
        parent: Option<&Scope<'a, '_>>,
    ) -> Result<Vec<Named<'a>>, Refusal> {
        let mut scope = Scope::new(parent);
        self.tables(&mut select.from, &mut scope)?;
        if let Some(condition) = &mut select.condition {
            self.condition(condition, &scope)?;
        }
        let outputs = self.outputs(&mut select.outputs, &scope)?;
        if select.is_distinct {
            for output in &outputs {
                self.policy.may_use(Check::Distinct, output.value.taint, "comparison by DISTINCT")?;
            }
        }
        for (_, window) in &mut select.windows {
            self.window(window, &scope)?;
        }
        scope.aliases = &outputs;
        for group in &mut select.groups {
            self.sorted(group, &scope, &outputs, Check::Group, "GROUP BY")?;
        }
        if let Some(having) = &mut select.having {
            self.condition(having, &scope)?;
        }
        self.order(order, &scope, &outputs)?;
        Ok(outputs)
    }

    /// Write out stars, and name what has no name of its own as the server would.
    fn outputs(&mut self, outputs: &mut Vec<Output<'a>>, scope: &Scope<'a, '_>) -> Result<Vec<Named<'a>>, Refusal> {
        let mut named = Vec::with_capacity(outputs.len());
        if outputs.iter().any(|output| matches!(output, Output::Star { .. })) {
            let written = std::mem::take(outputs).into_iter().map(|output| written_out(output, scope));
            *outputs = written.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        }
        for output in outputs {
            let Output::Expr { expr, alias, source } = output else {
                return Err(Refusal::of("star of this form"));
            };
            let written = match expr {
                Expr::Column(column) => Some(column.name.clone()),
                _ => None,
            };
            // Its name would hold a NUL, and is printed in no way that a server takes for the same one.
            if alias.is_none() && matches!(expr, Expr::Text(text) if text.contains('\0')) {
                return Err(Refusal::of("text with a NUL as an output without an alias"));
            }
            let value = self.value(expr, scope)?;
            let column = match expr {
                Expr::Column(column) => Some(column.clone()),
                _ => None,
            };
            if alias.is_none() {
                *alias = match (&written, &column) {
                    (Some(written), Some(column)) if *written == column.name => None,
                    (Some(written), _) => Some(written.clone()),
                    (None, _) => name_of(expr, source),
                };
            }
            let name = match (&*alias, &column) {
                (Some(alias), _) => alias.clone(),
                (None, Some(column)) => column.name.clone(),
                (None, None) => "".into(),
            };
            named.push(Named { name, value, column });
        }
        Ok(named)
    }

    fn order(&mut self, order: &mut [Order<'a>], scope: &Scope<'a, '_>, outputs: &[Named<'a>]) -> Result<(), Refusal> {
        for Order { expr, .. } in order {
            self.sorted(expr, scope, outputs, Check::Order, "ORDER BY")?;
        }
        Ok(())
    }

    /// What rows are ordered or grouped by. A number alone is an output's place; a server may come upon one in what only
    /// holds values too, so that is refused.
    fn sorted(
        &mut self,
        expr: &mut Expr<'a>,
        scope: &Scope<'a, '_>,
        outputs: &[Named<'a>],
        check: Check,
        what: &'static str,
    ) -> Result<(), Refusal> {
        let taint = match expr {
            Expr::Null | Expr::Text(_) => return Ok(()),
            Expr::Number(digits) => {
                let place = digits.parse::<usize>().ok().and_then(|place| outputs.get(place.checked_sub(1)?));
                place.ok_or(Refusal::of("place of an output that there is none at"))?.value.taint
            }
            expr if !expression::depends_on_rows(expr) => {
                return Err(Refusal::of("order by a value that is the same in all rows"));
            }
            expr => self.value(expr, scope)?.taint,
        };
        self.policy.may_use(check, taint, what)
    }

    fn window(&mut self, window: &mut Window<'a>, scope: &Scope<'a, '_>) -> Result<(), Refusal> {
        for expr in &mut window.partition {
            let taint = self.value(expr, scope)?.taint;
            self.policy.may_use(Check::Window, taint, "PARTITION BY")?;
        }
        for Order { expr, .. } in &mut window.order {
            if !expression::depends_on_rows(expr) {
                return Err(Refusal::of("order by a value that is the same in all rows"));
            }
            let taint = self.value(expr, scope)?.taint;
            self.policy.may_use(Check::Window, taint, "ORDER BY of a window")?;
        }
        Ok(())
    }

    fn tables(&mut self, from: &mut [Joined<'a>], scope: &mut Scope<'a, '_>) -> Result<(), Refusal> {
        let mut visible = Vec::new();
        let mut is_merged = false;
        for joined in from {
            let (columns, merges) = self.joined(joined, scope)?;
            is_merged |= merges;
            visible.extend(columns);
        }
        if is_merged {
            scope.visible = Some(visible.into_iter().flat_map(|part| part.into_visible(scope)).collect());
        }
        Ok(())
    }

    /// Add what is joined to the scope. What of it `*` means, in order, and whether USING has made one column of two.
    fn joined(&mut self, joined: &mut Joined<'a>, scope: &mut Scope<'a, '_>) -> Result<(Vec<Part<'a>>, bool), Refusal> {
        match joined {
            Joined::Table(table) => {
                self.table(table, scope)?;
                Ok((vec![Part::All(scope.relations.len() - 1)], false))
            }
            Joined::Derived { query, alias, columns } => {
                let outputs = self.query(query, None)?;
                let made = made_table(outputs, columns)?;
                scope.add(Relation { alias: alias.clone(), is_implicit: false, columns: Columns::Made(made) })?;
                Ok((vec![Part::All(scope.relations.len() - 1)], false))
            }
            Joined::Join { kind, left, right, on } => {
                let (mut parts, left_merged) = self.joined(left, scope)?;
                let (right_parts, right_merged) = self.joined(right, scope)?;
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
                let common =
                    |column: &&Visible<'a>| right.iter().any(|other| other.name.eq_ignore_ascii_case(&column.name));
                left.iter().filter(common).map(|column| column.name.clone()).collect()
            }
            JoinCondition::None | JoinCondition::On(_) => Vec::new(),
        };
        let (mut conditions, mut columns) = (Vec::new(), Vec::new());
        for name in &names {
            let one = |side: &[Visible<'a>]| -> Result<Visible<'a>, Refusal> {
                let mut found = side.iter().filter(|column| column.name.eq_ignore_ascii_case(name));
                match (found.next(), found.next()) {
                    (Some(only), None) => Ok(only.clone()),
                    (None, _) => Err(Refusal::unknown_column(name)),
                    (Some(_), Some(_)) => Err(Refusal::name("column that could be of two tables", name)),
                }
            };
            let (one, other) = (one(&left)?, one(&right)?);
            self.policy.may_equal(one.value, other.value)?;
            let column = |of: &Visible<'a>| Box::new(Expr::Column(scope.printed(of.relation, of.name.clone())));
            let (left, right) = (column(&one), column(&other));
            conditions.push(Expr::Binary { operator: super::tree::Binary::Equal, left, right });
            columns.push(if kind == JoinKind::Right { other } else { one });
        }
        let is_common = |column: &Visible<'_>| names.iter().any(|name| name.eq_ignore_ascii_case(&column.name));
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
    fn table(&mut self, table: &mut Table<'a>, scope: &mut Scope<'a, '_>) -> Result<(), Refusal> {
        let is_implicit = table.alias.is_none();
        let is_it = |(name, _): &&(Name<'a>, Rc<[Named<'a>]>)| name.eq_ignore_ascii_case(&table.name);
        let columns = match self.common.iter().rfind(is_it).filter(|_| table.database.is_none()) {
            Some((name, made)) => {
                if !table.hints.is_empty() {
                    return Err(Refusal::of("index hint on a common table"));
                }
                table.name = name.clone();
                Columns::Made(made.clone())
            }
            None => Columns::Table(self.of_server(table)?),
        };
        let alias = table.alias.get_or_insert_with(|| table.name.clone()).clone();
        scope.add(Relation { alias, is_implicit, columns })
    }

    /// Put a table's name as it is printed in its place.
    fn of_server(&self, table: &mut Table<'a>) -> Result<&'a super::super::rules::Table, Refusal> {
        let database = match &table.database {
            Some(database) => database,
            None => &self.database.ok_or(Refusal::no_database())?.into(),
        };
        let found = self.catalogue.table(database, &table.name);
        let found = found.ok_or_else(|| Refusal::unknown_table(database, &table.name))?;
        if found.refused {
            return Err(Refusal::name("view that it cannot read", &found.name));
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
