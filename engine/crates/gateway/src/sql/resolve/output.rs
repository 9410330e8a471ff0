//! Outputs, and the tables that are made of them.

use super::scope::{Named, Scope, Visible};
use crate::sql::Refusal;
use crate::sql::lexer::check_name;
use crate::sql::policy::{Check, Value};
use crate::sql::tree::{Column, Expr, Name, Output};
use std::rc::Rc;

/// Names that a server cuts or replaces are not told from others.
const LONGEST_ALIAS: usize = 256;

/// A star as the columns that it means.
pub(super) fn written_out<'a>(output: Output<'a>, scope: &Scope<'a, '_>) -> Result<Vec<Output<'a>>, Refusal> {
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

/// A derived or a common table of these outputs, under the names that it is given, or their own.
pub(super) fn made_table<'a>(outputs: Vec<Named<'a>>, names: &[Name<'a>]) -> Result<Rc<[Named<'a>]>, Refusal> {
    if !names.is_empty() && names.len() != outputs.len() {
        return Err(Refusal::of("list of names that is not as long as its table's columns"));
    }
    let mut made: Vec<Named<'a>> = Vec::with_capacity(outputs.len());
    for (at, Named { name, value, .. }) in outputs.into_iter().enumerate() {
        let name = names.get(at).cloned().unwrap_or(name);
        if made.iter().any(|known| known.name.eq_ignore_ascii_case(&name)) {
            return Err(Refusal::name("derived table with two columns of the name", &name));
        }
        let value = if Check::Derived.is_on() { value } else { Value::CLEAN };
        made.push(Named { name, value, column: None });
    }
    Ok(made.into())
}

/// A text with an introducer, which is no number.
fn is_quoted(source: &[u8]) -> bool {
    let behind =
        source.iter().position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'_')).unwrap_or(source.len());
    matches!(source[behind..].trim_ascii_start().first(), Some(b'\'' | b'"'))
}

/// As servers name an output: a text by its content, all else by what was written. None, where that is no name.
pub(super) fn name_of<'a>(expr: &Expr<'a>, source: &'a [u8]) -> Option<Name<'a>> {
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
    let is_plain = !name.starts_with(' ') && !name.contains(|character: char| character.is_control());
    (fits && is_plain).then_some(name)
}
