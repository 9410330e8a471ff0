//! From a resolved tree to the text that the server gets.
//!
//! The printed language is small, and every server reads it in one way under every SQL mode: keywords in capitals, one space
//! between tokens, no comments, each operator in parentheses, names in backticks, texts in single quotes with quotes and
//! backslashes both doubled, other bytes in hexadecimal. A function's name stands right before its parenthesis.

use super::lexer::Charset;
use super::tree::{
    Argument, ArgumentValue, Assignment, Binary, Body, Bound, Call, Column, Delete, Expr, Insert, JoinCondition,
    JoinKind, Joined, Limit, Lock, LockStrength, LockWait, Logic, Name, Order, Output, Over, Query, Select,
    SetOperator, Statement, Table, Truth, Type, Unary, Update, Window,
};

/// The statement's text.
pub fn print(statement: &Statement<'_>) -> String {
    let mut printer = Printer { out: String::with_capacity(512) };
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
        return append_bytes(out, Some(Charset::Utf8mb4), text.as_bytes());
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

fn append_bytes(out: &mut String, charset: Option<Charset>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push_str(match charset {
        Some(Charset::Utf8mb4) => "_utf8mb4 ",
        Some(Charset::Binary) => "_binary ",
        Some(Charset::Latin1) => "_latin1 ",
        None => "",
    });
    out.push_str("X'");
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)].into());
        out.push(DIGITS[usize::from(byte & 15)].into());
    }
    out.push('\'');
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
        let Some(Limit { offset, count }) = limit else { return };
        self.say(" LIMIT ");
        if let Some(offset) = offset {
            self.expr(offset);
            self.say(", ");
        }
        self.expr(count);
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

    fn column(&mut self, column: &Column<'_>) {
        if let Some(table) = &column.table {
            self.name(table);
            self.say(".");
        }
        self.name(&column.name);
    }

    fn expr(&mut self, expr: &Expr<'_>) {
        match expr {
            Expr::Null => self.say("NULL"),
            Expr::Boolean(true) => self.say("TRUE"),
            Expr::Boolean(false) => self.say("FALSE"),
            Expr::Number(digits) => self.number(digits),
            Expr::Text(text) => append_text(&mut self.out, text),
            Expr::Bytes { charset, bytes } => append_bytes(&mut self.out, *charset, bytes),
            Expr::Temporal { kind, text } => {
                self.say(kind);
                self.say(" ");
                append_text(&mut self.out, text);
            }
            Expr::Parameter(_) => self.say("?"),
            Expr::Column(column) => self.column(column),
            Expr::Variable(name) => {
                self.say("@@");
                self.say(name);
            }
            Expr::Default => self.say("DEFAULT"),
            Expr::Inserted(column) => {
                self.say("VALUES(");
                self.column(column);
                self.say(")");
            }
            Expr::Row(values) => {
                self.say("(");
                self.list(values, Self::expr);
                self.say(")");
            }
            Expr::Call(call) => self.call(call),
            Expr::Cast { operand, to } => self.cast(operand, *to),
            Expr::Convert { operand, charset } => {
                self.say("CONVERT(");
                self.expr(operand);
                self.say(" USING ");
                self.say(charset);
                self.say(")");
            }
            Expr::Match { columns, against, mode } => {
                self.say("MATCH (");
                self.list(columns, Self::expr);
                self.say(") AGAINST (");
                self.expr(against);
                self.say(mode);
                self.say(")");
            }
            Expr::Query(query) => self.nested(query),
            Expr::Exists(query) => {
                self.say("EXISTS ");
                self.nested(query);
            }
            operation => {
                self.say("(");
                self.operation(operation);
                self.say(")");
            }
        }
    }

    /// One that begins with its point is read in another way behind a name.
    fn number(&mut self, digits: &str) {
        self.say(if digits.starts_with('.') { "0" } else { "" });
        self.say(digits);
    }

    /// What stands between parentheses.
    fn operation(&mut self, operation: &Expr<'_>) {
        match operation {
            Expr::Unary { operator, operand } => {
                self.say(match operator {
                    Unary::Not => "NOT ",
                    Unary::Minus => "-",
                    Unary::Plus => "+",
                    Unary::Invert => "~",
                    Unary::Binary => "BINARY ",
                });
                self.expr(operand);
            }
            Expr::Binary { operator, left, right } => {
                self.expr(left);
                self.say(sign(*operator));
                self.expr(right);
            }
            Expr::Chain { operator, operands } => {
                for (at, operand) in operands.iter().enumerate() {
                    self.say(match operator {
                        _ if at == 0 => "",
                        Logic::And => " AND ",
                        Logic::Or => " OR ",
                    });
                    self.expr(operand);
                }
            }
            Expr::Is { operand, is_not, what } => {
                self.expr(operand);
                self.say(if *is_not { " IS NOT " } else { " IS " });
                self.say(match what {
                    Truth::Null => "NULL",
                    Truth::True => "TRUE",
                    Truth::False => "FALSE",
                    Truth::Unknown => "UNKNOWN",
                });
            }
            Expr::Between { operand, is_not, low, high } => {
                self.expr(operand);
                self.say(if *is_not { " NOT BETWEEN " } else { " BETWEEN " });
                self.expr(low);
                self.say(" AND ");
                self.expr(high);
            }
            Expr::In { operand, is_not, list } => {
                self.expr(operand);
                self.say(if *is_not { " NOT IN (" } else { " IN (" });
                self.list(list, Self::expr);
                self.say(")");
            }
            Expr::InQuery { operand, is_not, query } => {
                self.expr(operand);
                self.say(if *is_not { " NOT IN " } else { " IN " });
                self.nested(query);
            }
            Expr::Like { operand, is_not, pattern, escape } => {
                self.expr(operand);
                self.say(if *is_not { " NOT LIKE " } else { " LIKE " });
                self.expr(pattern);
                if let Some(escape) = escape {
                    self.say(" ESCAPE ");
                    self.expr(escape);
                }
            }
            Expr::Case { operand, branches, otherwise } => {
                self.say("CASE ");
                if let Some(operand) = operand {
                    self.expr(operand);
                    self.say(" ");
                }
                for (when, then) in branches {
                    self.say("WHEN ");
                    self.expr(when);
                    self.say(" THEN ");
                    self.expr(then);
                    self.say(" ");
                }
                if let Some(otherwise) = otherwise {
                    self.say("ELSE ");
                    self.expr(otherwise);
                    self.say(" ");
                }
                self.say("END");
            }
            Expr::Collate { operand, collation } => {
                self.expr(operand);
                self.say(" COLLATE ");
                self.say(collation);
            }
            Expr::AddInterval { operand, is_minus, amount, unit } => {
                self.expr(operand);
                self.say(if *is_minus { " - " } else { " + " });
                self.interval(amount, unit.0);
            }
            Expr::Quantified { operand, operator, is_all, query } => {
                self.expr(operand);
                self.say(sign(*operator));
                self.say(if *is_all { "ALL " } else { "ANY " });
                self.nested(query);
            }
            other => self.expr(other),
        }
    }

    fn interval(&mut self, amount: &Expr<'_>, unit: &str) {
        self.say("INTERVAL ");
        self.expr(amount);
        self.say(" ");
        self.say(unit);
    }

    fn cast(&mut self, operand: &Expr<'_>, to: Type) {
        self.say("CAST(");
        self.expr(operand);
        self.say(" AS ");
        self.say(to.name);
        if let Some(length) = to.length {
            self.say(&format!("({length}"));
            if let Some(decimals) = to.decimals {
                self.say(&format!(", {decimals}"));
            }
            self.say(")");
        }
        if let Some(charset) = to.charset {
            self.say(" CHARACTER SET ");
            self.say(charset);
        }
        self.say(")");
    }

    fn call(&mut self, call: &Call<'_>) {
        self.say(call.function.name);
        self.say("(");
        self.say(if call.has_star { "*" } else { "" });
        self.say(if call.is_distinct { "DISTINCT " } else { "" });
        for Argument { before, value } in &call.arguments {
            self.say(before);
            match value {
                ArgumentValue::Expr(expr) => self.expr(expr),
                ArgumentValue::Unit(unit) => self.say(unit.0),
                ArgumentValue::Interval(amount, unit) => self.interval(amount, unit.0),
                ArgumentValue::Word(word) => self.say(word),
            }
        }
        self.order(&call.order);
        if let Some(separator) = &call.separator {
            self.say(" SEPARATOR ");
            append_text(&mut self.out, separator);
        }
        self.say(")");
        match &call.over {
            None => {}
            Some(Over::Name(name)) => {
                self.say(" OVER ");
                self.name(name);
            }
            Some(Over::Window(window)) => {
                self.say(" OVER ");
                self.window(window);
            }
        }
    }

    fn window(&mut self, window: &Window<'_>) {
        self.say("(");
        if let Some(base) = &window.base {
            self.name(base);
        }
        if !window.partition.is_empty() {
            self.say(" PARTITION BY ");
            self.list(&window.partition, Self::expr);
        }
        self.order(&window.order);
        if let Some(frame) = &window.frame {
            self.say(" ");
            self.say(frame.unit);
            self.say(if frame.end.is_some() { " BETWEEN " } else { " " });
            self.bound(&frame.start);
            if let Some(end) = &frame.end {
                self.say(" AND ");
                self.bound(end);
            }
        }
        self.say(")");
    }

    fn bound(&mut self, bound: &Bound) {
        match bound {
            Bound::CurrentRow => self.say("CURRENT ROW"),
            Bound::UnboundedPreceding => self.say("UNBOUNDED PRECEDING"),
            Bound::UnboundedFollowing => self.say("UNBOUNDED FOLLOWING"),
            Bound::Preceding(rows) => self.say(&format!("{rows} PRECEDING")),
            Bound::Following(rows) => self.say(&format!("{rows} FOLLOWING")),
        }
    }
}

fn sign(operator: Binary) -> &'static str {
    match operator {
        Binary::Xor => " XOR ",
        Binary::Equal => " = ",
        Binary::NullSafeEqual => " <=> ",
        Binary::NotEqual => " <> ",
        Binary::Less => " < ",
        Binary::LessOrEqual => " <= ",
        Binary::Greater => " > ",
        Binary::GreaterOrEqual => " >= ",
        Binary::Regexp => " REGEXP ",
        Binary::BitOr => " | ",
        Binary::BitAnd => " & ",
        Binary::ShiftLeft => " << ",
        Binary::ShiftRight => " >> ",
        Binary::Add => " + ",
        Binary::Subtract => " - ",
        Binary::Multiply => " * ",
        Binary::Divide => " / ",
        Binary::IntegerDivide => " DIV ",
        Binary::Modulo => " % ",
        Binary::BitXor => " ^ ",
    }
}
