//! Values and conditions.

use super::{Printer, append_bytes, append_text};
use crate::sql::tree::{
    Argument, ArgumentValue, Binary, Bound, Call, Column, Expr, Logic, Over, Truth, Type, Unary, Window,
};

impl Printer {
    pub(super) fn column(&mut self, column: &Column<'_>) {
        if let Some(table) = &column.table {
            self.name(table);
            self.say(".");
        }
        self.name(&column.name);
    }

    pub(super) fn expr(&mut self, expr: &Expr<'_>) {
        match expr {
            Expr::Null => self.say("NULL"),
            Expr::Boolean(true) => self.say("TRUE"),
            Expr::Boolean(false) => self.say("FALSE"),
            Expr::Number(digits) => self.number(digits),
            Expr::Text(text) => append_text(&mut self.out, text),
            Expr::Bytes { charset, is_number, bytes } => append_bytes(&mut self.out, *charset, *is_number, bytes),
            Expr::Temporal { kind, text } => {
                self.say(kind);
                self.say(" ");
                append_text(&mut self.out, text);
            }
            Expr::Parameter(_) => self.say("?"),
            Expr::Column(column) => self.column(column),
            Expr::Place(place) => self.say(&place.to_string()),
            Expr::Variable(name) => {
                self.say("@@");
                self.say(name);
            }
            Expr::NextValue(sequence) => {
                self.say("NEXT VALUE FOR ");
                self.table(sequence);
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

    pub(super) fn window(&mut self, window: &Window<'_>) {
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
        // A percent sign is none to MariaDB in ORACLE mode.
        Binary::Modulo => " MOD ",
        Binary::BitXor => " ^ ",
    }
}
