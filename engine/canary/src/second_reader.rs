//! Another parser's reading of a statement, `sqlparser`'s, as far as two texts of one statement can be compared by it.

use sqlparser::ast::{Expr, ObjectName, Query, Select, SelectItem, Statement, TableFactor, Visit, Visitor};
use sqlparser::dialect::MySqlDialect;
use sqlparser::parser::Parser;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Names, in small letters.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shape {
    tables: BTreeSet<String>,
    columns: BTreeSet<String>,
    functions: BTreeMap<String, usize>,
    /// Of outputs: a print may say their expressions or places instead, and others within.
    aliases: BTreeSet<String>,
    /// `*`, USING and NATURAL are printed as the columns that they stand for.
    gains_columns: bool,
}

impl Shape {
    /// In words.
    pub fn difference(before: &Shape, after: &Shape) -> Option<String> {
        if before.tables != after.tables {
            return Some(format!("tables {:?} became {:?}", before.tables, after.tables));
        }
        if before.functions != after.functions {
            return Some(format!("functions {:?} became {:?}", before.functions, after.functions));
        }
        let of_tables = |shape: &Shape| -> BTreeSet<String> {
            let is_alias = |name: &&String| before.aliases.contains(*name) || after.aliases.contains(*name);
            shape.columns.iter().filter(|name| !is_alias(name)).cloned().collect()
        };
        let (was, is) = (of_tables(before), of_tables(after));
        let is_same = was == is || before.gains_columns && was.is_subset(&is);
        (!is_same).then(|| format!("columns {was:?} became {is:?}"))
    }
}

/// None, where it does not read the text.
pub fn shape(text: &[u8]) -> Option<Shape> {
    let text = std::str::from_utf8(text).ok()?;
    let statements = Parser::parse_sql(&MySqlDialect {}, text).ok()?;
    let [statement] = &statements[..] else { return None };
    let mut reader = Reader::default();
    let _ = statement.visit(&mut reader);
    let mut shape = reader.0;
    shape.tables.retain(|table| !common_tables(statement).contains(table));
    shape.gains_columns |= ["USING", "NATURAL"].iter().any(|word| text.contains(word));
    // It takes `b'1'` and `0b1` for columns.
    shape.columns.retain(|column| column != "b" && !column.starts_with("b1") && !column.starts_with("0b"));
    Some(shape)
}

#[derive(Default)]
struct Reader(Shape);

impl Visitor for Reader {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.0.tables.extend(last(relation));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, _: &TableFactor) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<()> {
        self.0.gains_columns |= holds_star(statement);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.0.aliases.insert(alias.value.to_ascii_lowercase());
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        match expression {
            Expr::Identifier(name) => {
                self.0.columns.insert(name.value.to_ascii_lowercase());
            }
            Expr::CompoundIdentifier(names) => {
                self.0.columns.extend(names.last().map(|name| name.value.to_ascii_lowercase()))
            }
            Expr::Function(function) => {
                if let Some(name) = last(&function.name) {
                    *self.0.functions.entry(name).or_default() += 1;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(|part| part.value.to_ascii_lowercase())
}

/// What WITH names: each reader of a statement may call it something else.
fn common_tables(statement: &Statement) -> BTreeSet<String> {
    struct Names(BTreeSet<String>);
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let tables = query.with.iter().flat_map(|with| &with.cte_tables);
            self.0.extend(tables.map(|table| table.alias.name.value.to_ascii_lowercase()));
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(BTreeSet::new());
    let _ = statement.visit(&mut names);
    names.0
}

/// Anywhere in it: a derived table's counts too.
fn holds_star(statement: &Statement) -> bool {
    let Statement::Query(query) = statement else { return false };
    struct Stars(bool);
    impl Visitor for Stars {
        type Break = ();
        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            let is_star =
                |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
            self.0 |= select.projection.iter().any(is_star);
            ControlFlow::Continue(())
        }
    }
    let mut stars = Stars(false);
    let _ = query.visit(&mut stars);
    stars.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(before: &str, after: &str) -> Option<String> {
        Shape::difference(&shape(before.as_bytes()).unwrap(), &shape(after.as_bytes()).unwrap())
    }

    #[test]
    fn quotes_parentheses_and_case_are_no_difference() {
        let before = "SELECT UPPER(city) FROM people p WHERE id = 1 AND name IS NULL";
        let after = "SELECT UPPER(`p`.`city`) AS `UPPER(city)` FROM `d`.`people` AS `p` WHERE ((`p`.`id` = 1) AND (`p`.`name` IS NULL))";
        assert_eq!(difference(before, after), None);
        assert_eq!(difference("SELECT * FROM t", "SELECT `t`.`a`, `t`.`b` FROM `t`"), None);
        let (before, after) =
            ("WITH c AS (SELECT a FROM t) SELECT a FROM c", "WITH x AS (SELECT a FROM t) SELECT x.a FROM x");
        assert_eq!(difference(before, after), None);
        let (before, after) =
            ("SELECT UPPER(a) AS x FROM t ORDER BY x", "SELECT UPPER(`t`.`a`) AS `x` FROM `t` ORDER BY 1");
        assert_eq!(difference(before, after), None);
    }

    #[test]
    fn other_names_are() {
        for (before, after) in [
            ("SELECT a FROM t", "SELECT a FROM u"),
            ("SELECT a FROM t", "SELECT b FROM t"),
            ("SELECT UPPER(a) FROM t", "SELECT LOWER(a) FROM t"),
            ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u)", "SELECT a FROM t"),
            ("SELECT *, a FROM t", "SELECT b FROM t"),
        ] {
            assert!(difference(before, after).is_some(), "{before} {after}");
        }
        assert_eq!(shape(b"SELECT 1; SELECT 2"), None);
        assert_eq!(shape(b"SELECT \xff"), None);
    }
}
