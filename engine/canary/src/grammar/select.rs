//! Queries: outputs, joins, derived tables, common table expressions, unions, groups, windows, order and locks.

use super::{DEEPEST, Generator, Scope, Source};
use crate::schema::{Column, Guard, Kind, TABLES};

/// A query's text, and what it gives.
type Query = (String, Vec<Column>);

/// What tells all rows apart: servers give equal ones in any order.
fn ids(scope: &Scope) -> Option<String> {
    let has_id = |source: &Source| source.columns.iter().any(|column| column.name == "id");
    let ids: Vec<_> = scope.iter().map(|source| format!("{}.id", source.alias)).collect();
    scope.iter().all(has_id).then(|| ids.join(", "))
}

impl Generator {
    /// A whole SELECT statement.
    pub(super) fn top_query(&mut self) -> String {
        self.depth = 0;
        if self.rng.percent(4) {
            return self.constants();
        }
        let (with, ctes) = if self.rng.percent(12) { self.with() } else { Default::default() };
        let query = if self.rng.percent(14) { self.union().0 } else { self.select(&ctes, true).0 };
        let query = if self.rng.percent(3) {
            self.hit("query in parentheses");
            format!("({query})")
        } else {
            query
        };
        format!("{with}{query}")
    }

    fn constants(&mut self) -> String {
        self.hit("constants");
        let (one, two) = (self.literal(Kind::Text), self.value(Kind::Int, &Scope::new(), 1));
        let more = *self.rng.pick(&[
            "",
            ", DATABASE()",
            ", @@autocommit",
            ", @@sql_mode",
            ", NULL",
            ", VERSION()",
            ", FOUND_ROWS()",
        ]);
        format!("SELECT {one}, {two} AS n{more}")
    }

    fn with(&mut self) -> (String, Scope) {
        self.hit("WITH");
        let (query, columns) = self.subquery();
        let alias = self.alias();
        let names = if self.rng.percent(40) {
            self.hit("WITH: names of columns");
            let renamed: Vec<_> = (0..columns.len()).map(|place| format!("k{place}")).collect();
            (format!(" ({})", renamed.join(", ")), renamed)
        } else {
            (String::new(), columns.iter().map(|column| column.name.clone()).collect())
        };
        let columns = columns.into_iter().zip(names.1).map(|(column, name)| Column { name, ..column }).collect();
        (format!("WITH {alias}{} AS ({query}) ", names.0), vec![Source { alias, columns }])
    }

    fn union(&mut self) -> Query {
        self.hit("UNION");
        let width = 1 + self.rng.below(2);
        let mut parts = Vec::new();
        let mut columns: Vec<Column> = Vec::new();
        for _ in 0..2 + self.rng.below(2) {
            let (part, mut outputs) = self.narrow_select(width);
            if self.rng.percent(15) {
                self.hit("UNION: parentheses");
                parts.push(format!("({part})"));
            } else {
                parts.push(part);
            }
            for (place, output) in outputs.drain(..).enumerate() {
                match columns.get_mut(place) {
                    Some(column) if output.guard != Guard::Clean => column.guard = Guard::Computed,
                    Some(_) => {}
                    None => columns.push(output),
                }
            }
        }
        // DISTINCT compares.
        let is_clean = columns.iter().all(|column| column.guard == Guard::Clean);
        let all = if (is_clean || self.loose) && self.rng.percent(60) { "UNION" } else { "UNION ALL" };
        let mut query = parts.join(&format!(" {all} "));
        if self.rng.percent(30) && is_clean {
            self.hit("UNION: ORDER BY");
            query.push_str(if width == 1 { " ORDER BY 1" } else { " ORDER BY 1, 2" });
        }
        (query, columns)
    }

    /// Of so many columns, without an order of its own.
    fn narrow_select(&mut self, width: usize) -> Query {
        let (from, scope) = self.from(&Scope::new());
        let outputs: Vec<_> = (0..width).map(|_| self.output(&scope)).collect();
        let condition = self.where_clause(&scope);
        let list: Vec<_> = outputs.iter().map(|(text, column)| format!("{text} AS {}", column.name)).collect();
        (
            format!("SELECT {}{from}{condition}", list.join(", ")),
            outputs.into_iter().map(|(_, column)| column).collect(),
        )
    }

    /// One that stands in another.
    pub(super) fn subquery(&mut self) -> Query {
        self.depth += 1;
        let query =
            if self.depth < DEEPEST && self.rng.percent(12) { self.union() } else { self.select(&Scope::new(), false) };
        self.depth -= 1;
        query
    }

    fn select(&mut self, ctes: &Scope, is_top: bool) -> Query {
        let (from, scope) = self.from(ctes);
        let condition = self.where_clause(&scope);
        if self.rng.percent(15) {
            let (head, columns) = self.grouped(&scope, &from, &condition);
            return (head, columns);
        }
        let (list, columns) = self.outputs(&scope, is_top);
        let is_clean = columns.iter().all(|column| column.guard == Guard::Clean);
        let distinct = if (is_clean || self.loose) && self.rng.percent(8) {
            self.hit("DISTINCT");
            "DISTINCT "
        } else {
            *self.rng.pick(&["", "", "", "", "", "ALL ", "SQL_NO_CACHE "])
        };
        let order = if distinct == "DISTINCT " { String::new() } else { self.order(&scope, is_top) };
        let lock = if is_top && self.rng.percent(6) {
            self.hit("lock");
            *self.rng.pick(&[" FOR UPDATE", " LOCK IN SHARE MODE", " FOR UPDATE SKIP LOCKED", " FOR UPDATE NOWAIT"])
        } else {
            ""
        };
        (format!("SELECT {distinct}{list}{from}{condition}{order}{lock}"), columns)
    }

    /// With GROUP BY, or aggregates of all rows.
    fn grouped(&mut self, scope: &Scope, from: &str, condition: &str) -> Query {
        let Some((key, column)) = self.column(scope, |_| true) else { return self.aggregated(scope, from, condition) };
        self.hit("GROUP BY");
        let (aggregates, mut columns) = self.aggregates(scope);
        columns.insert(0, Column { name: "g".into(), ..column });
        let rollup = if self.rng.percent(10) {
            self.hit("ROLLUP");
            " WITH ROLLUP"
        } else {
            ""
        };
        let having = if self.rng.percent(20) {
            self.hit("HAVING");
            " HAVING COUNT(*) > 1"
        } else {
            ""
        };
        let order = if rollup.is_empty() && self.rng.percent(40) { " ORDER BY g" } else { "" };
        (format!("SELECT {key} AS g, {aggregates}{from}{condition} GROUP BY {key}{rollup}{having}{order}"), columns)
    }

    fn aggregated(&mut self, scope: &Scope, from: &str, condition: &str) -> Query {
        let (aggregates, columns) = self.aggregates(scope);
        (format!("SELECT {aggregates}{from}{condition}"), columns)
    }

    fn aggregates(&mut self, scope: &Scope) -> Query {
        let mut list = Vec::new();
        let mut columns = Vec::new();
        for place in 0..1 + self.rng.below(3) {
            let name = format!("h{place}");
            let (text, kind, guard) = self.aggregate(scope);
            list.push(format!("{text} AS {name}"));
            columns.push(Column { name, kind, guard });
        }
        (list.join(", "), columns)
    }

    fn aggregate(&mut self, scope: &Scope) -> (String, Kind, Guard) {
        if self.rng.percent(30)
            && let Some((name, column)) = self.protected_column(scope)
        {
            if self.rng.percent(30) {
                self.hit("aggregate: COUNT of a protected column");
                return (format!("COUNT({name})"), Kind::Int, Guard::Clean);
            }
            self.hit("aggregate: of a protected column");
            let functions: &[&str] =
                if column.kind == Kind::Int { &["MIN", "MAX", "SUM", "AVG"] } else { &["MIN", "MAX"] };
            return (format!("{}({name})", self.rng.pick(functions)), column.kind, Guard::Computed);
        }
        let number = self.value(Kind::Int, scope, 1);
        let text = self.value(Kind::Text, scope, 2);
        self.hit("aggregate: clean");
        let shapes = [
            ("COUNT(*)".to_owned(), Kind::Int),
            (format!("COUNT(DISTINCT {text})"), Kind::Int),
            (format!("SUM({number})"), Kind::Decimal),
            (format!("AVG({number})"), Kind::Decimal),
            // In hexadecimal, since which of two letters that are alike to a collation comes first is a plan's, too.
            (format!("MAX(HEX({text}))"), Kind::Text),
            (format!("GROUP_CONCAT(HEX({text}) ORDER BY 1 SEPARATOR '|')"), Kind::Text),
            (format!("BIT_OR({number})"), Kind::Int),
            // Its last digits follow the order of rows, which is a plan's.
            (format!("ROUND(STD({number}), 6)"), Kind::Decimal),
            (format!("MIN({number})"), Kind::Int),
        ];
        let (text, kind) = self.rng.pick(&shapes).clone();
        (text, kind, Guard::Clean)
    }

    fn outputs(&mut self, scope: &Scope, is_top: bool) -> Query {
        if self.rng.percent(12) && (is_top || scope.len() == 1) {
            return self.star(scope);
        }
        let mut list = Vec::new();
        let mut columns: Vec<Column> = Vec::new();
        for place in 0..1 + self.rng.below(4) {
            let (text, mut column) = self.output(scope);
            column.name = format!("{}{place}", *self.rng.pick(&["c", "city", "name"]));
            let link = if self.rng.percent(15) { " " } else { " AS " };
            list.push(format!("{text}{link}{}", column.name));
            columns.push(column);
        }
        (list.join(", "), columns)
    }

    fn star(&mut self, scope: &Scope) -> Query {
        self.hit("star");
        let columns = scope.iter().flat_map(|source| source.columns.clone()).collect();
        if self.rng.percent(50) {
            return ("*".into(), columns);
        }
        let all: Vec<_> = scope.iter().map(|source| format!("{}.*", source.alias)).collect();
        (all.join(", "), columns)
    }

    /// A column of a result: bare if it is protected.
    fn output(&mut self, scope: &Scope) -> (String, Column) {
        let named = |text: String, kind, guard| (text, Column { name: "c0".into(), kind, guard });
        match self.rng.below(20) {
            0..8 => {
                if let Some((text, column)) = self.any_column(scope, |_, _| true) {
                    self.hit("output: column");
                    let text = if self.rng.percent(6) { format!("({text})") } else { text };
                    return (text, Column { name: "c0".into(), ..column });
                }
            }
            8 if self.depth < DEEPEST => {
                self.hit("output: scalar subquery");
                let (text, guard) = self.scalar_subquery();
                return named(text, Kind::Text, guard);
            }
            9 => return self.window(scope),
            _ => {}
        }
        self.hit("output: expression");
        let kind = *self.rng.pick(&[Kind::Text, Kind::Int, Kind::Decimal, Kind::Date, Kind::Int]);
        named(self.value(kind, scope, 0), kind, Guard::Clean)
    }

    fn scalar_subquery(&mut self) -> (String, Guard) {
        self.depth += 1;
        let (from, scope) = self.table(&Scope::new());
        let guard_and_text = self.any_column(&scope, |_, column| column.guard != Guard::Computed);
        self.depth -= 1;
        let Some((text, column)) = guard_and_text else { return ("(SELECT 1)".into(), Guard::Clean) };
        let alias = &scope[0].alias;
        let order = if scope[0].columns.iter().any(|column| column.name == "id") {
            format!(" ORDER BY {alias}.id")
        } else {
            String::new()
        };
        (format!("(SELECT {text} FROM {from}{order} LIMIT 1)"), column.guard)
    }

    fn window(&mut self, scope: &Scope) -> (String, Column) {
        let Some(ids) = ids(scope) else { return self.output(scope) };
        let order = self.column(scope, |_| true).map_or_else(|| ids.clone(), |(text, _)| format!("{text}, {ids}"));
        let partition = match self.column(scope, |column| column.kind == Kind::Text) {
            Some((text, _)) if self.rng.percent(40) => {
                self.hit("window: PARTITION BY");
                format!("PARTITION BY {text} ")
            }
            _ => String::new(),
        };
        let value = self.value(Kind::Int, scope, 2);
        self.hit("window");
        let function = *self.rng.pick(&[
            "ROW_NUMBER()",
            "RANK()",
            "DENSE_RANK()",
            "SUM(#)",
            "LAG(#)",
            "MAX(#)",
            "NTILE(2)",
            "COUNT(*)",
        ]);
        let frame = if matches!(function, "SUM(#)" | "MAX(#)" | "COUNT(*)") && self.rng.percent(30) {
            self.hit("window: frame");
            *self.rng.pick(&[" ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS UNBOUNDED PRECEDING"])
        } else {
            ""
        };
        let function = function.replace('#', &value);
        let column = Column { name: "c0".into(), kind: Kind::Int, guard: Guard::Clean };
        (format!("{function} OVER ({partition}ORDER BY {order}{frame})"), column)
    }

    fn order(&mut self, scope: &Scope, is_top: bool) -> String {
        let Some(ids) = ids(scope).filter(|_| is_top && self.rng.percent(60)) else { return String::new() };
        let Some((text, _)) = self.column(scope, |_| true) else { return String::new() };
        self.hit("ORDER BY");
        let direction = *self.rng.pick(&["", " ASC", " DESC"]);
        let limit = if self.rng.percent(30) { self.limit() } else { "" };
        format!(" ORDER BY {text}{direction}, {ids}{limit}")
    }

    fn limit(&mut self) -> &'static str {
        let mut limits: &[&'static str] = &[" LIMIT 1", " LIMIT 1, 2", " LIMIT 3 OFFSET 1", " LIMIT 0"];
        if let Some(parameters) = &mut self.parameters
            && self.rng.percent(50)
        {
            parameters.extend([Kind::Int, Kind::Int]);
            self.hit("LIMIT: parameters");
            limits = &[" LIMIT ? OFFSET ?", " LIMIT ?, ?"];
        }
        self.hit("LIMIT");
        self.rng.pick::<&str>(limits)
    }

    pub(super) fn where_clause(&mut self, scope: &Scope) -> String {
        if self.rng.percent(45) {
            return String::new();
        }
        self.hit("WHERE");
        format!(" WHERE {}", self.condition(scope, 1))
    }

    /// With its keyword.
    fn from(&mut self, ctes: &Scope) -> (String, Scope) {
        let (mut text, mut scope) = self.table(ctes);
        for _ in 0..self.rng.weighted(&[65, 28, 7]) {
            let (next, mut joined) = self.table(ctes);
            scope.append(&mut joined);
            text = self.join(&text, &next, &scope);
        }
        (format!(" FROM {text}"), scope)
    }

    fn join(&mut self, left: &str, right: &str, scope: &Scope) -> String {
        let (first, last) = (&scope[0], &scope[scope.len() - 1]);
        let has_id = |source: &Source| source.columns.iter().any(|column| column.name == "id");
        if has_id(first) && has_id(last) && self.rng.percent(75) {
            let on = format!("{}.id = {}.id", first.alias, last.alias);
            self.hit("JOIN ON");
            let kind =
                *self.rng.pick(&["JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT OUTER JOIN", "CROSS JOIN", "STRAIGHT_JOIN"]);
            return format!("{left} {kind} {right} ON {on}");
        }
        let condition = self.condition(scope, 2);
        match self.rng.below(4) {
            0 if scope.len() == 2 && has_id(first) && has_id(last) => {
                self.hit("JOIN USING");
                format!("{left} JOIN {right} USING (id)")
            }
            1 => {
                self.hit("comma join");
                format!("{left}, {right}")
            }
            _ => {
                self.hit("JOIN on a condition");
                format!("{left} LEFT JOIN {right} ON {condition}")
            }
        }
    }

    /// One source, without a keyword.
    pub(super) fn table(&mut self, ctes: &Scope) -> (String, Scope) {
        if !ctes.is_empty() && self.rng.percent(70) {
            self.hit("FROM a CTE");
            let alias = self.alias();
            let source = Source { alias: alias.clone(), columns: ctes[0].columns.clone() };
            return (format!("{} AS {alias}", ctes[0].alias), vec![source]);
        }
        if self.depth + 1 < DEEPEST && self.rng.percent(14) {
            self.hit("derived table");
            let (query, columns) = self.subquery();
            let alias = self.alias();
            return (format!("({query}) AS {alias}"), vec![Source { alias, columns }]);
        }
        let table = self.rng.weighted(&[32, 12, 10, 6, 10, 10, 6, 5, 6, 2, 2, 5, 3, 4, 3, 3, 3]);
        self.named_table(table)
    }

    fn named_table(&mut self, place: usize) -> (String, Scope) {
        let table = &TABLES[place];
        if table.is_view {
            self.hit("view");
        }
        let alias = self.alias();
        let qualified = if self.rng.percent(10) {
            self.hit("name of the database");
            format!("{}.{}", self.database, table.name)
        } else {
            table.name.to_owned()
        };
        let link = if self.rng.percent(30) { " " } else { " AS " };
        (format!("{qualified}{link}{alias}"), vec![Source { alias, columns: table.columns() }])
    }

    pub(super) fn count_of_a_table(&mut self) -> String {
        self.depth += 1;
        let (from, scope) = self.table(&Scope::new());
        let condition = self.where_clause(&scope);
        self.depth -= 1;
        format!("(SELECT COUNT(*) FROM {from}{condition})")
    }

    pub(super) fn exists(&mut self, outer: &Scope) -> String {
        self.hit("EXISTS");
        self.depth += 1;
        let (from, mut scope) = self.table(&Scope::new());
        // Correlated: the query's own names first.
        scope.extend(outer.iter().cloned());
        let condition = self.condition(&scope, 2);
        self.depth -= 1;
        let not = if self.rng.percent(30) { "NOT " } else { "" };
        format!("{not}EXISTS (SELECT 1 FROM {from} WHERE {condition})")
    }

    pub(super) fn in_a_subquery(&mut self, value: &str) -> String {
        self.hit("IN a subquery");
        self.depth += 1;
        let (from, scope) = self.table(&Scope::new());
        let text = self.column(&scope, |_| true).map_or_else(|| "1".into(), |(text, _)| text);
        self.depth -= 1;
        let operator = *self.rng.pick(&["IN", "NOT IN", "= ANY", "< ALL"]);
        format!("{value} {operator} (SELECT {text} FROM {from})")
    }
}
