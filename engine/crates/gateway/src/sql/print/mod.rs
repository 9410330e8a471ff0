//! From a resolved tree to the text that the server gets.
//!
//! The printed language is small, and every server reads it in one way under every SQL mode: keywords in capitals, one space
//! between tokens, no comments, each operator in parentheses, names in backticks, texts in single quotes with quotes and
//! backslashes both doubled, other bytes in hexadecimal. A function's name stands right before its parenthesis.

mod expression;

use super::lexer::Charset;
use super::tree::{
    Assignment, Body, Delete, Expr, Insert, JoinCondition, JoinKind, Joined, Limit, Lock, LockStrength, LockWait, Name,
    Order, Output, Query, Select, SetOperator, Statement, Table, Update,
};

/// The statement's text behind what goes before it.
pub fn print(before: String, statement: &Statement<'_>) -> String {
    let mut printer = Printer { out: before };
    printer.out.reserve(512);
    match statement {
        Statement::Query(query) => printer.query(query),
        Statement::Insert(insert) => printer.insert(insert),
        Statement::Update(update) => printer.update(update),
        Statement::Delete(delete) => printer.delete(delete),
    }
    printer.out
}

/// Append a name in backticks.
pub fn append_name(out: &mut String, name: &str) {
    out.push('`');
    let mut pieces = name.split('`');
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        out.push_str("``");
        out.push_str(piece);
    }
    out.push('`');
}

/// Append a text in single quotes, which end at one place with and without NO_BACKSLASH_ESCAPES. One with a NUL goes in
/// hexadecimal.
pub fn append_text(out: &mut String, text: &str) {
    if text.contains('\0') {
        return append_bytes(out, Some(Charset::Utf8mb4), false, text.as_bytes());
    }
    out.push('\'');
    let mut rest = text;
    while let Some(at) = rest.find(['\'', '\\']) {
        let (before, special) = rest.split_at(at + 1);
        out.push_str(before);
        out.push_str(&before[at..]);
        rest = special;
    }
    out.push_str(rest);
    out.push('\'');
}

fn append_bytes(out: &mut String, charset: Option<Charset>, is_number: bool, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push_str(match charset {
        Some(Charset::Utf8mb4) => "_utf8mb4 ",
        Some(Charset::Binary) => "_binary ",
        Some(Charset::Latin1) => "_latin1 ",
        None => "",
    });
    out.push_str(if is_number { "0x" } else { "X'" });
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)].into());
        out.push(DIGITS[usize::from(byte & 15)].into());
    }
    out.push_str(if is_number { "" } else { "'" });
}

struct Printer {
    out: String,
}

impl Printer {
    fn say(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn name(&mut self, name: &str) {
        append_name(&mut self.out, name);
    }

    fn list<T>(&mut self, items: &[T], mut one: impl FnMut(&mut Self, &T)) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.say(", ");
            }
            one(self, item);
        }
    }

    fn names(&mut self, names: &[Name<'_>]) {
        self.say("(");
        self.list(names, |printer, name| printer.name(name));
        self.say(")");
    }

    fn query(&mut self, query: &Query<'_>) {
        if !query.with.is_empty() {
            self.say("WITH ");
            self.list(&query.with, |printer, table| {
                printer.name(&table.name);
                if !table.columns.is_empty() {
                    printer.say(" ");
                    printer.names(&table.columns);
                }
                printer.say(" AS ");
                printer.nested(&table.query);
            });
            self.say(" ");
        }
        self.body(&query.body);
        self.order(&query.order);
        self.limit(query.limit.as_ref());
        self.lock(query.lock);
    }

    fn nested(&mut self, query: &Query<'_>) {
        self.say("(");
        self.query(query);
        self.say(")");
    }

    fn body(&mut self, body: &Body<'_>) {
        match body {
            Body::Select(select) => self.select(select),
            Body::Nested(query) => self.nested(query),
            Body::Set { operator, is_distinct, left, right } => {
                self.body(left);
                self.say(match operator {
                    SetOperator::Union => " UNION ",
                    SetOperator::Except => " EXCEPT ",
                    SetOperator::Intersect => " INTERSECT ",
                });
                // DISTINCT is what it is without a word, and older servers have no word for it behind EXCEPT.
                self.say(if *is_distinct { "" } else { "ALL " });
                self.body(right);
            }
        }
    }

    fn select(&mut self, select: &Select<'_>) {
        self.say("SELECT ");
        self.say(if select.is_distinct { "DISTINCT " } else { "" });
        self.say(if select.is_straight { "STRAIGHT_JOIN " } else { "" });
        self.say(if select.counts_all { "SQL_CALC_FOUND_ROWS " } else { "" });
        self.outputs(&select.outputs);
        if !select.from.is_empty() {
            self.say(" FROM ");
            self.list(&select.from, Self::joined);
        } else if select.condition.is_some() {
            // Older servers take no WHERE without it.
            self.say(" FROM DUAL");
        }
        self.condition(" WHERE ", select.condition.as_ref());
        if !select.groups.is_empty() {
            self.say(" GROUP BY ");
            self.list(&select.groups, Self::expr);
            self.say(if select.has_rollup { " WITH ROLLUP" } else { "" });
        }
        self.condition(" HAVING ", select.having.as_ref());
        if !select.windows.is_empty() {
            self.say(" WINDOW ");
            self.list(&select.windows, |printer, (name, window)| {
                printer.name(name);
                printer.say(" AS ");
                printer.window(window);
            });
        }
    }

    fn outputs(&mut self, outputs: &[Output<'_>]) {
        self.list(outputs, |printer, output| match output {
            Output::Expr { expr, alias, .. } => {
                printer.expr(expr);
                if let Some(alias) = alias {
                    printer.say(" AS ");
                    printer.name(alias);
                }
            }
            Output::Star { .. } => unreachable!("stars are expanded when names are resolved"),
        });
    }

    fn joined(&mut self, joined: &Joined<'_>) {
        match joined {
            Joined::Table(table) => self.table(table),
            Joined::Derived { query, alias, columns } => {
                self.nested(query);
                self.say(" AS ");
                self.name(alias);
                if !columns.is_empty() {
                    self.say(" ");
                    self.names(columns);
                }
            }
            Joined::Join { kind, left, right, on } => {
                self.say("(");
                self.joined(left);
                self.say(match kind {
                    JoinKind::Inner => " JOIN ",
                    JoinKind::Straight => " STRAIGHT_JOIN ",
                    JoinKind::Left => " LEFT JOIN ",
                    JoinKind::Right => " RIGHT JOIN ",
                });
                self.joined(right);
                match on {
                    JoinCondition::None => {}
                    JoinCondition::On(condition) => self.condition(" ON ", Some(condition)),
                    JoinCondition::Using(_) | JoinCondition::Natural => {
                        unreachable!("joins have conditions when names are resolved")
                    }
                }
                self.say(")");
            }
        }
    }

    fn table(&mut self, table: &Table<'_>) {
        if let Some(database) = &table.database {
            self.name(database);
            self.say(".");
        }
        self.name(&table.name);
        if let Some(alias) = &table.alias {
            self.say(" AS ");
            self.name(alias);
        }
        for hint in &table.hints {
            self.say(" ");
            self.say(hint.what);
            self.say(" INDEX ");
            self.names(&hint.indexes);
        }
    }

    fn condition(&mut self, before: &str, condition: Option<&Expr<'_>>) {
        if let Some(condition) = condition {
            self.say(before);
            self.expr(condition);
        }
    }

    fn order(&mut self, order: &[Order<'_>]) {
        if !order.is_empty() {
            self.say(" ORDER BY ");
            self.orders(order);
        }
    }

    fn orders(&mut self, order: &[Order<'_>]) {
        self.list(order, |printer, order| {
            printer.expr(&order.expr);
            printer.say(if order.is_descending { " DESC" } else { "" });
        });
    }

    fn limit(&mut self, limit: Option<&Limit<'_>>) {
        let Some(Limit { offset, count, is_offset_first }) = limit else { return };
        self.say(" LIMIT ");
        match offset {
            None => self.expr(count),
            Some(offset) if *is_offset_first => {
                self.expr(offset);
                self.say(", ");
                self.expr(count);
            }
            Some(offset) => {
                self.expr(count);
                self.say(" OFFSET ");
                self.expr(offset);
            }
        }
    }

    fn lock(&mut self, lock: Option<Lock>) {
        let Some(Lock { strength, wait }) = lock else { return };
        self.say(match strength {
            LockStrength::Update => " FOR UPDATE",
            LockStrength::Share => " LOCK IN SHARE MODE",
        });
        self.say(match wait {
            LockWait::Default => "",
            LockWait::NoWait => " NOWAIT",
            LockWait::SkipLocked => " SKIP LOCKED",
        });
    }

    fn insert(&mut self, insert: &Insert<'_>) {
        self.say(if insert.replaces { "REPLACE " } else { "INSERT " });
        self.say(if insert.ignores { "IGNORE " } else { "" });
        self.say("INTO ");
        self.table(&insert.table);
        self.say(" ");
        self.names(&insert.columns);
        self.say(" VALUES ");
        self.list(&insert.rows, |printer, row| {
            printer.say("(");
            printer.list(row, Self::expr);
            printer.say(")");
        });
        if !insert.updates.is_empty() {
            self.say(" ON DUPLICATE KEY UPDATE ");
            self.assignments(&insert.updates);
        }
        self.returning(&insert.returning);
    }

    fn assignments(&mut self, assignments: &[Assignment<'_>]) {
        self.list(assignments, |printer, Assignment { column, value }| {
            printer.column(column);
            printer.say(" = ");
            printer.expr(value);
        });
    }

    fn returning(&mut self, outputs: &[Output<'_>]) {
        if !outputs.is_empty() {
            self.say(" RETURNING ");
            self.outputs(outputs);
        }
    }

    fn update(&mut self, update: &Update<'_>) {
        self.say("UPDATE ");
        self.say(if update.ignores { "IGNORE " } else { "" });
        self.list(&update.from, Self::joined);
        self.say(" SET ");
        self.assignments(&update.assignments);
        self.condition(" WHERE ", update.condition.as_ref());
        self.order(&update.order);
        self.limit(update.limit.as_ref());
    }

    fn delete(&mut self, delete: &Delete<'_>) {
        self.say("DELETE ");
        self.say(if delete.ignores { "IGNORE " } else { "" });
        self.list(&delete.targets, Self::table);
        self.say(if delete.targets.is_empty() { "FROM " } else { " FROM " });
        self.list(&delete.from, Self::joined);
        self.condition(" WHERE ", delete.condition.as_ref());
        self.order(&delete.order);
        self.limit(delete.limit.as_ref());
        self.returning(&delete.returning);
    }
}
