//! Outputs as they are written out and named.

use super::scope::{Named, Scope, Visible};
use super::{Naming, Resolver};
use crate::sql::Refusal;
use crate::sql::lexer::check_name;
use crate::sql::names::{begins_blank, is_plain};
use crate::sql::policy::{Check, Value};
use crate::sql::tree::{Column, Expr, Name, Output};
use std::rc::Rc;

/// Names that a server cuts or replaces are not told from others.
const LONGEST_ALIAS: usize = 256;
/// Columns that stars may stand for.
const MOST_WRITTEN_OUT: usize = 16_384;
/// Of a derived table, as servers have it.
const MOST_COLUMNS: usize = 4096;

impl<'a> Resolver<'a> {
    /// Write out stars, and name what has no name of its own as the server would.
    pub(super) fn outputs(
        &mut self,
        outputs: &mut Vec<Output<'a>>,
        scope: &Scope<'a, '_>,
        naming: Naming,
    ) -> Result<Vec<Named<'a>>, Refusal> {
        if outputs.iter().any(|output| matches!(output, Output::Star { .. })) {
            self.write_out(outputs, scope)?;
        }
        let mut named = Vec::with_capacity(outputs.len());
        for output in outputs {
            let Output::Expr { expr, alias, source } = output else {
                return Err(Refusal::of("star of this form"));
            };
            named.push(self.output(expr, alias, source, scope, naming)?);
        }
        Ok(named)
    }

    fn write_out(&mut self, outputs: &mut Vec<Output<'a>>, scope: &Scope<'a, '_>) -> Result<(), Refusal> {
        for output in std::mem::take(outputs) {
            let columns = written_out(output, scope)?;
            self.written_out += columns.len();
            if self.written_out > MOST_WRITTEN_OUT {
                return Err(Refusal::of("statement that is so long when its stars are written out"));
            }
            outputs.extend(columns);
        }
        Ok(())
    }

    fn output(
        &mut self,
        expr: &mut Expr<'a>,
        alias: &mut Option<Name<'a>>,
        source: &'a [u8],
        scope: &Scope<'a, '_>,
        naming: Naming,
    ) -> Result<Named<'a>, Refusal> {
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
        let own = column.as_ref().map(|column| &column.name);
        let name = alias.take().or(written).or_else(|| name_of(expr, source));
        let printed = match naming {
            Naming::Client if name.as_deref().is_some_and(begins_blank) && name.as_ref() != own => {
                return Err(Refusal::of("alias that begins with a blank"));
            }
            Naming::Client => name.clone(),
            Naming::Within => match name.clone().filter(|name| is_plain(name)) {
                None => Some(self.made_name()),
                plain => plain,
            },
            Naming::Made => Some(self.made_name()),
        };
        let name = name.unwrap_or_default();
        let known = printed.as_ref().or(own).cloned().unwrap_or_default();
        *alias = printed.filter(|printed| Some(printed) != own);
        Ok(Named { name, printed: known, value, column })
    }

    /// A derived or a common table of these outputs, under the names that it is given, or their own.
    pub(super) fn made_table(
        &mut self,
        outputs: Vec<Named<'a>>,
        names: &mut [Name<'a>],
    ) -> Result<Rc<[Named<'a>]>, Refusal> {
        if !names.is_empty() && names.len() != outputs.len() {
            return Err(Refusal::of("list of names that is not as long as its table's columns"));
        }
        if outputs.len() > MOST_COLUMNS {
            return Err(Refusal::of("table of so many columns"));
        }
        let mut columns = outputs;
        for (given, column) in names.iter_mut().zip(&mut columns) {
            let printed = if is_plain(given) { given.clone() } else { self.made_name() };
            column.name = std::mem::replace(given, printed.clone());
            column.printed = printed;
        }
        for column in &mut columns {
            column.column = None;
            if !Check::Derived.is_on() {
                column.value = Value::CLEAN;
            }
        }
        match twice(&columns) {
            Some(name) => Err(Refusal::name("derived table with two columns of the name", &name)),
            None => Ok(columns.into()),
        }
    }
}

/// A star as the columns that it means.
fn written_out<'a>(output: Output<'a>, scope: &Scope<'a, '_>) -> Result<Vec<Output<'a>>, Refusal> {
    let (columns, is_all) = match &output {
        Output::Expr { .. } => return Ok(vec![output]),
        Output::Star { table: None, .. } => (scope.all(), true),
        Output::Star { database, table: Some(table) } => {
            let relation = scope.relation(database.as_deref(), table);
            (scope.of_relation(relation.ok_or_else(|| Refusal::name("star of an unknown table", table))?), false)
        }
    };
    if is_all && columns.is_empty() {
        return Err(Refusal::of("star without a table"));
    }
    let column = |column: Visible<'a>| {
        let table = scope.relations[column.relation].alias.clone();
        let expr = Expr::Column(Column { database: None, table: Some(table), name: column.name });
        Output::Expr { expr, alias: None, source: b"" }
    };
    Ok(columns.into_iter().map(column).collect())
}

/// A text with an introducer, which is no number.
fn is_quoted(source: &[u8]) -> bool {
    let behind =
        source.iter().position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'_')).unwrap_or(source.len());
    matches!(source[behind..].trim_ascii_start().first(), Some(b'\'' | b'"'))
}

/// As servers name an output: a text by its content, all else by what was written. None, where that is no name.
fn name_of<'a>(expr: &Expr<'a>, source: &'a [u8]) -> Option<Name<'a>> {
    let name = match expr {
        Expr::Text(text) => text.clone(),
        Expr::Bytes { charset: Some(_), bytes, .. } if is_quoted(source) => {
            str::from_utf8(bytes).ok()?.to_owned().into()
        }
        // It is printed so where a text has what no alias can have.
        Expr::Bytes { charset: Some(_), .. } => return None,
        _ => str::from_utf8(source).ok()?.into(),
    };
    let fits = name.chars().count() <= LONGEST_ALIAS && check_name(&name).is_ok();
    let is_plain = !begins_blank(&name) && !name.contains(|character: char| character.is_control());
    (fits && is_plain).then_some(name)
}

/// A name that two columns have.
fn twice(columns: &[Named<'_>]) -> Option<String> {
    let mut names: Vec<_> = columns.iter().map(|column| column.name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone())
}
