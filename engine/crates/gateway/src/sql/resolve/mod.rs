//! Names become what they mean, and with them is decided what may stand where.
//!
//! One walk over the tree: each name is put as it is printed, `*`, USING and NATURAL are written out, and each value's protected
//! columns are known before the value around it is looked at. A derived table cannot see what is around it, so no name in it
//! can mean a column outside.
//!
//! Which alias a name means is found here and nowhere else: tables within the statement, and all of WITH, are printed under
//! names that the gateway makes, and of the outermost part, whose aliases a client sees, those that differ for any server.

mod change;
mod expression;
mod output;
mod scope;
mod tables;

use super::Refusal;
use super::names::{is_same, made};
use super::policy::{Check, Class, Policy, Taint, Value};
use super::tree::{Body, Column, Expr, Name, Order, Query, Select, SetOperator, Statement, Window};
use crate::rules::{self, Catalogue};
use scope::{Named, Scope};
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
        Statement::Query(query) => (Some(resolver.query(query, None, Naming::Client)?), false),
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
    let outputs = Resolver::new(Some(database), catalogue).query(query, None, Naming::Client)?;
    Ok(outputs.into_iter().map(|output| output.value).collect())
}

/// Names that may be compared, in some tens of milliseconds: a statement of thousands of names that each could mean thousands takes
/// too long.
const MOST_COMPARED: usize = 5_000_000;

/// By which names a query's tables and outputs are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// The client's, who sees them.
    Client,
    /// Tables under made ones. Outputs under their own, as far as all servers tell them apart: a client may see them as
    /// the names that columns had at first.
    Within,
    /// All under made ones: a name alone will stand for an output.
    Made,
}

/// What is known on the way through a statement.
struct Resolver<'a> {
    database: Option<&'a str>,
    catalogue: &'a Catalogue,
    policy: Policy<'a>,
    parameters: Vec<Option<Class>>,
    /// Common tables that can be seen, the latest last.
    common: Vec<Common<'a>>,
    /// How many names were made.
    made: u32,
    compared: usize,
    written_out: usize,
    /// The column that is being assigned to, by its number: it may be made of itself where it may stand anywhere.
    assigned: Option<u32>,
    /// `VALUES(column)` is what would have become a row of this table.
    inserted: Option<&'a rules::Table>,
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
            made: 0,
            compared: 0,
            written_out: 0,
            assigned: None,
            inserted: None,
        }
    }

    fn query(
        &mut self,
        query: &mut Query<'a>,
        parent: Option<&Scope<'a, '_>>,
        naming: Naming,
    ) -> Result<Vec<Named<'a>>, Refusal> {
        let known = self.common.len();
        for table in &mut query.with {
            let outputs = self.query(&mut table.query, None, Naming::Within)?;
            let mut same = self.common.iter().enumerate().filter(|(_, known)| is_same(&known.name, &table.name));
            if same.any(|(place, known_table)| place >= known || known_table.name != table.name) {
                return Err(Refusal::name("WITH of a name that is there twice", &table.name));
            }
            let columns = self.made_table(outputs, &mut table.columns)?;
            let printed = self.name_of_common();
            self.common.push(Common { name: std::mem::replace(&mut table.name, printed.clone()), printed, columns });
        }
        let outputs = match &mut query.body {
            Body::Select(select) => self.select(select, &mut query.order, parent, naming)?,
            body => {
                let outputs = self.body(body, parent, naming.of_outputs(&query.order, &[]))?;
                let mut scope = Scope::new(parent);
                scope.aliases = &outputs;
                self.order(&mut query.order, &scope, &outputs)?;
                outputs
            }
        };
        self.common.truncate(known);
        Ok(outputs)
    }

    fn made_name(&mut self) -> Name<'a> {
        self.made += 1;
        made(self.made)
    }

    /// One that no table has: a server does not see each common table where the statement means it, and takes a table then.
    fn name_of_common(&mut self) -> Name<'a> {
        loop {
            let name = self.made_name();
            if self.database.is_none_or(|database| self.catalogue.table(database, &name).is_none()) {
                return name;
            }
        }
    }

    /// Before names are looked for, each among so many.
    ///
    /// # Errors
    /// Where it would take too long.
    fn compare(&mut self, names: usize) -> Result<(), Refusal> {
        self.compared = self.compared.saturating_add(names);
        if self.compared > MOST_COMPARED { Err(Refusal::of("statement of so many names")) } else { Ok(()) }
    }

    fn body(
        &mut self,
        body: &mut Body<'a>,
        parent: Option<&Scope<'a, '_>>,
        naming: Naming,
    ) -> Result<Vec<Named<'a>>, Refusal> {
        match body {
            Body::Select(select) => self.select(select, &mut [], parent, naming),
            Body::Nested(query) => {
                let mut outputs = self.query(query, parent, naming)?;
                outputs.iter_mut().for_each(|output| output.column = None);
                Ok(outputs)
            }
            Body::Set { operator, is_distinct, left, right } => {
                let left = self.body(left, parent, naming)?;
                let right = self.body(right, parent, naming)?;
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
        naming: Naming,
    ) -> Result<Vec<Named<'a>>, Refusal> {
        let mut scope = Scope::new(parent);
        self.tables(&mut select.from, &mut scope, naming)?;
        if let Some(condition) = &mut select.condition {
            self.condition(condition, &scope)?;
        }
        let naming = if select.having.is_some() { naming.made() } else { naming.of_outputs(order, &select.groups) };
        let outputs = self.outputs(&mut select.outputs, &scope, naming)?;
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
        self.compare(scope.width())?;
        let taint = match expr {
            Expr::Null | Expr::Text(_) => return Ok(()),
            Expr::Number(digits) => {
                let place = digits.parse::<usize>().ok().and_then(|place| outputs.get(place.checked_sub(1)?));
                place.ok_or(Refusal::of("place of an output that there is none at"))?.value.taint
            }
            Expr::Column(Column { table: None, name, .. }) => {
                let name = name.clone();
                self.sorted_name(&name, expr, scope, check)?
            }
            expr if !expression::depends_on_rows(expr) => {
                return Err(Refusal::of("order by a value that is the same in all rows"));
            }
            expr => self.value(expr, scope)?.taint,
        };
        self.policy.may_use(check, taint, what)
    }

    /// A name that is all that rows are ordered or grouped by. To servers it is an output before it is a column in ORDER BY,
    /// and the other way round in GROUP BY.
    fn sorted_name(
        &mut self,
        name: &str,
        expr: &mut Expr<'a>,
        scope: &Scope<'a, '_>,
        check: Check,
    ) -> Result<Taint, Refusal> {
        let column = if check == Check::Group { scope.find(name)? } else { None };
        if let Some((column, value)) = column {
            *expr = Expr::Column(column);
            return Ok(value.taint);
        }
        let Some(place) = scope.place(name)? else { return Ok(self.value(expr, scope)?.taint) };
        let output = &scope.aliases[place];
        *expr = output.column.clone().map_or(Expr::Place(place + 1), Expr::Column);
        Ok(output.value.taint)
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
}

impl Naming {
    /// Of outputs that may be named alone behind them.
    fn made(self) -> Self {
        if self == Naming::Client { self } else { Naming::Made }
    }

    /// A name that is all that rows are ordered or grouped by is printed as a place.
    fn of_outputs(self, order: &[Order<'_>], groups: &[Expr<'_>]) -> Self {
        let mut all = order.iter().map(|order| &order.expr).chain(groups);
        if all.all(|expr| matches!(expr, Expr::Column(_) | Expr::Number(_))) { self } else { self.made() }
    }
}

/// A table of WITH.
struct Common<'a> {
    name: Name<'a>,
    /// As it is printed.
    printed: Name<'a>,
    columns: Rc<[Named<'a>]>,
}
