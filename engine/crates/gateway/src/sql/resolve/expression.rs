//! Values and conditions: what is protected in them.

use super::scope::Scope;
use super::{Named, Naming, Resolver};
use crate::sql::Refusal;
use crate::sql::policy::{Check, Class, Taint, Value};
use crate::sql::tree::{Argument, ArgumentValue, Binary, Call, Expr, Order, Over, Query, Truth, Unary};
use crate::sql::words::{self, Kind};

/// Whether a value could differ from row to row: it has a column, or a function's value.
pub(super) fn depends_on_rows(expr: &Expr<'_>) -> bool {
    let any = |values: &[Expr<'_>]| values.iter().any(depends_on_rows);
    match expr {
        Expr::Null
        | Expr::Boolean(_)
        | Expr::Number(_)
        | Expr::Text(_)
        | Expr::Bytes { .. }
        | Expr::Temporal { .. }
        | Expr::Parameter(_)
        | Expr::Variable(_)
        | Expr::Default
        | Expr::Query(_) => false,
        Expr::Column(_)
        | Expr::Place(_)
        | Expr::NextValue(_)
        | Expr::Inserted(_)
        | Expr::Call(_)
        | Expr::Match { .. }
        | Expr::Exists(_) => true,
        Expr::Unary { operand, .. }
        | Expr::Cast { operand, .. }
        | Expr::Convert { operand, .. }
        | Expr::Collate { operand, .. }
        | Expr::Is { operand, .. } => depends_on_rows(operand),
        Expr::Binary { left, right, .. } => depends_on_rows(left) || depends_on_rows(right),
        Expr::Chain { operands, .. } => any(operands),
        Expr::Row(values) => any(values),
        Expr::Between { operand, low, high, .. } => {
            depends_on_rows(operand) || depends_on_rows(low) || depends_on_rows(high)
        }
        Expr::In { operand, list, .. } => depends_on_rows(operand) || any(list),
        Expr::InQuery { operand, .. } | Expr::Quantified { operand, .. } => depends_on_rows(operand),
        Expr::Like { operand, pattern, .. } => depends_on_rows(operand) || depends_on_rows(pattern),
        Expr::AddInterval { operand, amount, .. } => depends_on_rows(operand) || depends_on_rows(amount),
        Expr::Case { operand, branches, otherwise } => {
            operand.as_ref().is_some_and(|operand| depends_on_rows(operand))
                || branches.iter().any(|(when, then)| depends_on_rows(when) || depends_on_rows(then))
                || otherwise.as_ref().is_some_and(|otherwise| depends_on_rows(otherwise))
        }
    }
}

/// To decide whether two values may be compared takes as long as to compare so many names.
const NAMES_A_VALUE: usize = 4;

/// A side of a comparison, resolved.
enum Operand {
    One(Value),
    Row(Vec<Operand>),
}

impl<'a> Resolver<'a> {
    /// A condition that rows are chosen by. Here a protected column may be compared as its rule says.
    pub(super) fn condition(&mut self, expr: &mut Expr<'a>, scope: &Scope<'a, '_>) -> Result<(), Refusal> {
        match expr {
            Expr::Chain { operands, .. } => operands.iter_mut().try_for_each(|operand| self.condition(operand, scope)),
            Expr::Unary { operator: Unary::Not, operand } => self.condition(operand, scope),
            Expr::Binary { operator: Binary::Xor, left, right } => {
                self.condition(left, scope)?;
                self.condition(right, scope)
            }
            Expr::Binary { operator: Binary::Equal | Binary::NullSafeEqual | Binary::NotEqual, left, right } => {
                let (one, other) = (self.operand(left, scope)?, self.operand(right, scope)?);
                self.equality((left, &one), (right, &other))
            }
            Expr::In { operand, list, .. } => {
                let mut values = vec![self.operand(operand, scope)?];
                for item in &mut *list {
                    values.push(self.operand(item, scope)?);
                }
                let exprs = std::iter::once(&**operand).chain(&*list);
                self.membership(&exprs.zip(&values).collect::<Vec<_>>())
            }
            Expr::InQuery { operand, query, .. }
            | Expr::Quantified { operand, operator: Binary::Equal | Binary::NotEqual, query, .. } => {
                self.equality_with_query(operand, query, scope)
            }
            other => {
                let taint = self.value(other, scope)?.taint;
                self.policy.may_use(Check::Condition, taint, "condition")
            }
        }
    }

    /// One side of a comparison. Names that are resolved mean another thing if they are resolved again.
    fn operand(&mut self, expr: &mut Expr<'a>, scope: &Scope<'a, '_>) -> Result<Operand, Refusal> {
        Ok(match expr {
            Expr::Row(values) => {
                let values = values.iter_mut().map(|value| self.operand(value, scope));
                Operand::Row(values.collect::<Result<_, _>>()?)
            }
            expr => Operand::One(self.value(expr, scope)?),
        })
    }

    /// Two values, or rows of as many, that are compared for equality.
    fn equality(&mut self, left: (&Expr<'a>, &Operand), right: (&Expr<'a>, &Operand)) -> Result<(), Refusal> {
        if let ((Expr::Row(left), Operand::Row(one)), (Expr::Row(right), Operand::Row(other))) = (left, right) {
            if one.len() != other.len() {
                return Err(Refusal::of("comparison of rows of different length"));
            }
            let mut pairs = left.iter().zip(one).zip(right.iter().zip(other));
            return pairs.try_for_each(|(left, right)| self.equality(left, right));
        }
        let (one, other) = (self.value_of(left.1)?, self.value_of(right.1)?);
        match (one.taint, other.taint) {
            (Taint::Clean, Taint::Clean) => Ok(()),
            (Taint::Bare(_), Taint::Clean) if is_given(right.0) => self.equality_with(one, right.0),
            (Taint::Clean, Taint::Bare(_)) if is_given(left.0) => self.equality_with(other, left.0),
            _ => self.policy.may_equal(one, other),
        }
    }

    /// A value and those of a list. To a server all of them have one collation, which any of them may name, and a parameter
    /// has one type: what is protected has to be comparable with each of the others.
    fn membership(&mut self, all: &[(&Expr<'a>, &Operand)]) -> Result<(), Refusal> {
        for (place, one) in all.iter().enumerate() {
            if !self.is_guarded(one.1) {
                continue;
            }
            self.compare(NAMES_A_VALUE * all.len())?;
            for (_, other) in all.iter().enumerate().filter(|(other, _)| *other != place) {
                self.equality(*one, *other)?;
            }
        }
        Ok(())
    }

    fn is_guarded(&self, operand: &Operand) -> bool {
        match operand {
            Operand::One(value) => !self.policy.is_free(value.taint),
            Operand::Row(operands) => operands.iter().any(|operand| self.is_guarded(operand)),
        }
    }

    fn value_of(&mut self, operand: &Operand) -> Result<Value, Refusal> {
        match operand {
            Operand::One(value) => Ok(*value),
            Operand::Row(operands) => operands.iter().try_fold(Value::CLEAN, |all, operand| {
                let taint = self.value_of(operand)?.taint;
                self.computed_both(all.taint, taint)
            }),
        }
    }

    fn equality_with(&mut self, column: Value, given: &Expr<'a>) -> Result<(), Refusal> {
        if let Some(parameter) = self.policy.may_equal_literal(column, given)? {
            self.parameters[usize::from(parameter)] = Some(column.class);
        }
        Ok(())
    }

    fn equality_with_query(
        &mut self,
        operand: &mut Expr<'a>,
        query: &mut Query<'a>,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Refusal> {
        let found = self.query(query, Some(scope), Naming::Within)?;
        let mut one = std::slice::from_mut(operand);
        if let [Expr::Row(values)] = one {
            one = values;
        }
        if one.len() != found.len() {
            return Err(Refusal::of("comparison of rows of different length"));
        }
        for (expr, found) in one.iter_mut().zip(found) {
            let value = self.value(expr, scope)?;
            self.policy.may_equal(value, found.value)?;
        }
        Ok(())
    }

    /// A value, and what is protected in it.
    pub(super) fn value(&mut self, expr: &mut Expr<'a>, scope: &Scope<'a, '_>) -> Result<Value, Refusal> {
        match expr {
            Expr::Null
            | Expr::Boolean(_)
            | Expr::Number(_)
            | Expr::Text(_)
            | Expr::Bytes { .. }
            | Expr::Temporal { .. }
            | Expr::Parameter(_) => {
                Ok(Value { class: Class::of_literal(expr).unwrap_or(Class::Other), ..Value::CLEAN })
            }
            Expr::Variable(name) => match words::tells_id(name) && self.catalogue.hides_ids {
                true => Err(Refusal::of("last id while a protected column has AUTO_INCREMENT")),
                false => Ok(Value::CLEAN),
            },
            Expr::Column(column) => {
                self.compare(scope.width())?;
                let value = scope.resolve(column)?;
                self.policy.may_read(value)?;
                let is_own = self.assigned.is_some_and(|assigned| value.taint == Taint::Bare(assigned));
                Ok(if is_own { Value { taint: Taint::Clean, ..value } } else { value })
            }
            // A subquery would take the bare name for a column of its own tables.
            Expr::Inserted(column) => {
                let table = self.inserted.filter(|_| !scope.qualifies);
                let table = table.ok_or(Refusal::of("VALUES() but behind ON DUPLICATE KEY UPDATE"))?;
                let value = scope.resolve(column)?;
                // The client gives it, unless the server does.
                Ok(if table.gives(&column.name) { value } else { Value::CLEAN })
            }
            Expr::Default => Err(Refusal::of("DEFAULT but as a stored value")),
            Expr::Place(_) => Err(Refusal::of("place of an output as a value")),
            // How often it is asked for would tell how many rows a server has looked at.
            Expr::NextValue(_) if !scope.is_empty() => Err(Refusal::of("next value of a sequence for rows of a table")),
            Expr::NextValue(sequence) => match self.of_server(sequence)? {
                table if table.is_view => Err(Refusal::name("next value of the view", &table.name)),
                _ => Ok(Value::CLEAN),
            },
            Expr::Is { operand, what: Truth::Null, .. } => {
                let value = self.value(operand, scope)?;
                match value.taint {
                    // Servers take a date of zeros for NULL here.
                    Taint::Bare(_) if matches!(value.class, Class::Temporal | Class::Timestamp) => {
                        self.policy.may_equal_literal(value, &Expr::Null).map(|_| Value::CLEAN)
                    }
                    // Whether a value is NULL is seen in each row that is sent.
                    Taint::Clean | Taint::Bare(_) => Ok(Value::CLEAN),
                    Taint::Mixed { .. } => self.computed(value.taint),
                }
            }
            Expr::Cast { operand, to } => {
                let taint = self.value(operand, scope)?.taint;
                Ok(Value { class: Class::of_cast(*to), ..self.computed(taint)? })
            }
            Expr::Unary { operand, .. }
            | Expr::Convert { operand, .. }
            | Expr::Collate { operand, .. }
            | Expr::Is { operand, .. } => {
                let taint = self.value(operand, scope)?.taint;
                self.computed(taint)
            }
            Expr::Binary { left, right, .. } => self.computed_of([&mut **left, &mut **right], scope),
            Expr::Chain { operands, .. } => self.computed_of(operands, scope),
            Expr::Between { operand, low, high, .. } => {
                self.computed_of([&mut **operand, &mut **low, &mut **high], scope)
            }
            Expr::In { operand, list, .. } => {
                let operand = self.value(operand, scope)?.taint;
                let list = self.computed_of(list, scope)?.taint;
                self.computed_both(operand, list)
            }
            Expr::InQuery { operand, query, .. } | Expr::Quantified { operand, query, .. } => {
                let outputs = self.query(query, Some(scope), Naming::Within)?;
                let all = self.computed_all(&outputs)?;
                let operand = self.value(operand, scope)?.taint;
                self.computed_both(all, operand)
            }
            Expr::Like { operand, pattern, escape, .. } => {
                let mut parts = vec![&mut **operand, &mut **pattern];
                parts.extend(escape.as_deref_mut());
                self.computed_of(parts, scope)
            }
            Expr::AddInterval { operand, amount, .. } => self.computed_of([&mut **operand, &mut **amount], scope),
            Expr::Row(values) => self.computed_of(values, scope),
            Expr::Case { operand, branches, otherwise } => {
                let mut parts: Vec<_> = operand.as_deref_mut().into_iter().collect();
                parts.extend(branches.iter_mut().flat_map(|(when, then)| [when, then]));
                parts.extend(otherwise.as_deref_mut());
                self.computed_of(parts, scope)
            }
            Expr::Match { columns, against, .. } => self.computed_of(columns.iter_mut().chain([&mut **against]), scope),
            Expr::Call(call) => self.call(call, scope),
            Expr::Query(query) => {
                let outputs = self.query(query, Some(scope), Naming::Within)?;
                match &outputs[..] {
                    [only] => self.policy.may_be_subquery(only.value).map(|()| only.value),
                    outputs => self.computed_all(outputs).and_then(|all| self.computed(all)),
                }
            }
            // Which rows there are was decided in it.
            Expr::Exists(query) => self.query(query, Some(scope), Naming::Within).map(|_| Value::CLEAN),
        }
    }

    /// What an operator or a function makes of a value.
    fn computed(&mut self, taint: Taint) -> Result<Value, Refusal> {
        self.policy.may_use(Check::Expression, taint, "expression")?;
        match Check::Expression.is_on() {
            true => Ok(Value::computed(taint)),
            false => Ok(Value::CLEAN),
        }
    }

    fn computed_both(&mut self, one: Taint, other: Taint) -> Result<Value, Refusal> {
        match (one, other) {
            (Taint::Clean, taint) | (taint, Taint::Clean) => self.computed(taint),
            (one, other) => {
                self.computed(one)?;
                self.computed(other)
            }
        }
    }

    fn computed_all(&mut self, outputs: &[Named<'a>]) -> Result<Taint, Refusal> {
        outputs.iter().try_fold(Taint::Clean, |all, output| Ok(self.computed_both(all, output.value.taint)?.taint))
    }

    fn computed_of<'e>(
        &mut self,
        parts: impl IntoIterator<Item = &'e mut Expr<'a>>,
        scope: &Scope<'a, '_>,
    ) -> Result<Value, Refusal>
    where
        'a: 'e,
    {
        let mut all = Value::CLEAN;
        for part in parts {
            let taint = self.value(part, scope)?.taint;
            all = self.computed_both(all.taint, taint)?;
        }
        Ok(all)
    }

    fn call(&mut self, call: &mut Call<'a>, scope: &Scope<'a, '_>) -> Result<Value, Refusal> {
        if call.function.name == "LAST_INSERT_ID" {
            if !call.arguments.is_empty() {
                return Err(Refusal::of("LAST_INSERT_ID with an argument"));
            }
            if self.catalogue.hides_ids {
                return Err(Refusal::of("last id while a protected column has AUTO_INCREMENT"));
            }
        }
        // How often it is asked for would tell how many rows a server has looked at.
        if call.function.kind == Kind::Lock && !scope.is_empty() {
            return Err(Refusal::word("lock for rows of a table by", call.function.name));
        }
        let is_plain = !call.is_distinct && call.over.is_none();
        let mut all = Taint::Clean;
        for Argument { value, .. } in &mut call.arguments {
            let taint = match value {
                ArgumentValue::Expr(expr) | ArgumentValue::Interval(expr, _) => self.value(expr, scope)?.taint,
                ArgumentValue::Unit(_) | ArgumentValue::Word(_) => Taint::Clean,
            };
            all = match call.function.kind {
                Kind::Count if is_plain => Taint::Clean,
                Kind::Combine if is_plain => {
                    // Which value is the least, or how many digits a sum has, is seen by the ciphertext's length.
                    self.policy.may_use(Check::Aggregate, taint, "MIN, MAX, SUM or AVG")?;
                    self.policy.joined(all, taint)
                }
                _ => self.computed_both(all, taint)?.taint,
            };
        }
        for Order { expr, .. } in &mut call.order {
            let taint = self.value(expr, scope)?.taint;
            self.policy.may_use(Check::Order, taint, "ORDER BY")?;
        }
        if let Some(Over::Window(window)) = &mut call.over {
            self.window(window, scope)?;
        }
        match call.function.kind {
            // How many there are is counted of rows that were chosen without it.
            Kind::Count => Ok(Value::CLEAN),
            Kind::Combine if is_plain => Ok(Value { taint: all, ..Value::CLEAN }),
            Kind::Combine | Kind::Scalar | Kind::Lock | Kind::Aggregate | Kind::Window => self.computed(all),
        }
    }
}

/// The client gives it: a literal or a parameter.
fn is_given(expr: &Expr<'_>) -> bool {
    match expr {
        Expr::Null
        | Expr::Boolean(_)
        | Expr::Number(_)
        | Expr::Text(_)
        | Expr::Bytes { .. }
        | Expr::Temporal { .. }
        | Expr::Parameter(_) => true,
        Expr::Unary { operator: Unary::Minus, operand } => matches!(**operand, Expr::Number(_)),
        _ => false,
    }
}
