//! What INSERT and UPDATE store: nothing but what the client gave, and what the same column held before.

use super::scanner::Scanner;
use super::token::{Kind, Token};
use super::words::{EXPRESSION_WORDS, FUNCTIONS, TYPES, UNITS, is_among};
use super::{Reading, Refusal};
use crate::gateway::rules::Rules;

/// Parts of a column's name that are looked at.
const PARTS: usize = 3;

/// A column that is assigned to.
#[derive(Clone, Copy)]
struct Column<'a> {
    parts: [Token<'a>; PARTS],
    count: usize,
}

/// Of which columns a value may be made.
#[derive(Clone, Copy)]
enum From<'a> {
    None,
    /// Of this one. Where the statement has a single table, it is known by its last part alone.
    Same {
        column: Column<'a>,
        single_table: bool,
    },
}

/// `INSERT [INTO] table [(columns)] {VALUES … | SET …} [ON DUPLICATE KEY UPDATE …] [RETURNING …]`
pub fn insert(mut scanner: Scanner<'_>, rules: &Rules) -> Result<Reading, Refusal> {
    let tells_id = target(&mut scanner, rules)?;
    let end = match scanner.skip_one()? {
        token if token.is("VALUES") || token.is("VALUE") => values(&mut scanner)?,
        token if token.is("SET") => assignments(&mut scanner, true)?,
        _ => return Err(Refusal::of("INSERT of anything but VALUES")),
    };
    let end = match end {
        token if token.is("ON") => {
            for word in ["DUPLICATE", "KEY", "UPDATE"] {
                if !scanner.next()?.is(word) {
                    return Err(Refusal::of("INSERT of this form"));
                }
            }
            assignments(&mut scanner, true)?
        }
        token => token,
    };
    rest(scanner, end).map(|reading| Reading { tells_id, ..reading })
}

/// `UPDATE tables SET … [WHERE …]`
pub fn update(mut scanner: Scanner<'_>) -> Result<Reading, Refusal> {
    let mut depth = 0;
    let mut single_table = true;
    loop {
        let token = scanner.next()?;
        match token.kind {
            Kind::End => return Err(Refusal::of("UPDATE without SET")),
            _ if token.is_sign("(") => depth += 1,
            _ if token.is_sign(")") => depth -= 1,
            _ if depth == 0 && token.is("SET") => break,
            _ => {}
        }
        single_table &= !token.is_sign("(") && !token.is_sign(",") && !token.is("JOIN") && !token.is("STRAIGHT_JOIN");
    }
    let end = assignments(&mut scanner, single_table)?;
    rest(scanner, end)
}

/// Up to the table and the list of columns; whether the id of a new row may be told.
fn target(scanner: &mut Scanner<'_>, rules: &Rules) -> Result<bool, Refusal> {
    let mut first = scanner.skip_one()?;
    while ["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"].iter().any(|word| first.is(word)) {
        first = scanner.skip_one()?;
    }
    let name = names(scanner, first)?;
    let (database, table) = match name.parts {
        [table, ..] if name.count == 1 => (None, table),
        [database, table, _] if name.count == 2 => (Some(database.text), table),
        _ => return Err(Refusal::of("INSERT of this form")),
    };
    if scanner.peek()?.is_sign("(") {
        scanner.skip_one()?;
        loop {
            let token = scanner.skip_one()?;
            match token.kind {
                _ if token.is_name() || token.is_sign(",") || token.is_sign(".") => {}
                _ if token.is_sign(")") => break,
                _ => return Err(Refusal::of("INSERT of this form")),
            }
            // `INSERT INTO t (SELECT …)`
            if token.is("SELECT") || token.is("WITH") || token.is("TABLE") {
                return Err(Refusal::of("INSERT of anything but VALUES"));
            }
        }
    }
    Ok(!scanner.is_view(&table) && !rules.may_mean(database, table.text))
}

/// Parentheses and what is in them, up to a word that is behind them.
fn values<'a>(scanner: &mut Scanner<'a>) -> Result<Token<'a>, Refusal> {
    value(scanner, From::None, &["ON", "AS", "RETURNING"])
}

/// `column = value, …`, up to a word that is behind them.
fn assignments<'a>(scanner: &mut Scanner<'a>, single_table: bool) -> Result<Token<'a>, Refusal> {
    loop {
        let first = scanner.next()?;
        let column = names(scanner, first)?;
        if !scanner.next()?.is_sign("=") {
            return Err(Refusal::of("assignment of this form"));
        }
        let from = From::Same { column, single_table };
        let end = value(scanner, from, &["WHERE", "ORDER", "LIMIT", "ON", "AS", "RETURNING"])?;
        if !end.is_sign(",") {
            return Ok(end);
        }
    }
}

/// `[database.][table.]name`, of which this is the first part.
fn names<'a>(scanner: &mut Scanner<'a>, first: Token<'a>) -> Result<Column<'a>, Refusal> {
    if !first.is_name() {
        return Err(Refusal::of("name of this form"));
    }
    let mut column = Column { parts: [first; PARTS], count: 1 };
    while scanner.peek()?.is_sign(".") {
        scanner.skip_one()?;
        let part = scanner.skip_one()?;
        if !part.is_name() || column.count == PARTS {
            return Err(Refusal::of("name of this form"));
        }
        column.parts[column.count] = part;
        column.count += 1;
    }
    Ok(column)
}

impl Column<'_> {
    fn is(&self, other: &Column<'_>, single_table: bool) -> bool {
        let same = |one: &Token<'_>, other: &Token<'_>| one.text.eq_ignore_ascii_case(other.text);
        if single_table {
            return same(&self.parts[self.count - 1], &other.parts[other.count - 1]);
        }
        let (ours, theirs) = (&self.parts[..self.count], &other.parts[..other.count]);
        ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(one, other)| same(one, other))
    }
}

/// One value, or a list of them in parentheses, and the token behind it: one of these words, a comma that no parenthesis
/// holds, or the end.
fn value<'a>(scanner: &mut Scanner<'a>, from: From<'a>, ends: &[&str]) -> Result<Token<'a>, Refusal> {
    let is_list = matches!(from, From::None);
    let mut depth = 0;
    let mut cases = 0;
    loop {
        let token = scanner.next()?;
        match token.kind {
            Kind::End => return Ok(token),
            Kind::Sign if token.is_sign("(") => depth += 1,
            Kind::Sign if token.is_sign(")") => depth -= 1,
            Kind::Sign if depth == 0 && (token.is_sign(";") || token.is_sign(",") && !is_list) => return Ok(token),
            Kind::Sign | Kind::Text | Kind::Number | Kind::Parameter | Kind::ServerVariable | Kind::Variable => {}
            Kind::TextOrName => return Err(Refusal::of("double quotes in a stored value; use single quotes")),
            Kind::Name => known(scanner, token, from)?,
            Kind::Word if depth == 0 && cases == 0 && ends.iter().any(|end| token.is(end)) => return Ok(token),
            Kind::Word if token.is("CASE") => cases += 1,
            Kind::Word if cases > 0 && token.is("END") => cases -= 1,
            Kind::Word if cases > 0 && ["WHEN", "THEN", "ELSE"].iter().any(|word| token.is(word)) => {}
            Kind::Word => word(scanner, token, from)?,
        }
    }
}

/// A word in a value that is none of a CASE.
fn word<'a>(scanner: &mut Scanner<'a>, word: Token<'a>, from: From<'a>) -> Result<(), Refusal> {
    let next = scanner.peek()?;
    match word {
        _ if word.is("INTERVAL") => interval(scanner),
        _ if word.is("AS") => one_of(scanner, TYPES),
        _ if word.is("USING") || word.is("COLLATE") => scanner.skip_one().map(drop),
        // The value that the statement itself gives to a column.
        _ if word.is("VALUES") || word.is("VALUE") => values_of(scanner),
        _ if is_among(word.text, EXPRESSION_WORDS) && !next.is_sign(".") => Ok(()),
        _ if next.is_sign("(") && is_among(word.text, FUNCTIONS) => Ok(()),
        // `_utf8mb4'…'`, `x'…'`
        _ if next.kind == Kind::Text => Ok(()),
        _ => known(scanner, word, from),
    }
}

fn known<'a>(scanner: &mut Scanner<'a>, first: Token<'a>, from: From<'a>) -> Result<(), Refusal> {
    let named = names(scanner, first)?;
    match from {
        From::Same { column, single_table } if column.is(&named, single_table) => Ok(()),
        _ => Err(Refusal::of_word("value that is stored from the column", &named.parts[named.count - 1])),
    }
}

fn interval(scanner: &mut Scanner<'_>) -> Result<(), Refusal> {
    let mut amount = scanner.next()?;
    if amount.is_sign("-") || amount.is_sign("+") {
        amount = scanner.next()?;
    }
    match amount.kind {
        Kind::Number | Kind::Text | Kind::Parameter => one_of(scanner, UNITS),
        _ => Err(Refusal::of("interval of this form in a stored value")),
    }
}

fn one_of(scanner: &mut Scanner<'_>, words: &[&str]) -> Result<(), Refusal> {
    let token = scanner.skip_one()?;
    if token.kind != Kind::Word || !is_among(token.text, words) {
        return Err(Refusal::of("stored value of this form"));
    }
    // `DECIMAL(10, 2)`
    if scanner.peek()?.is_sign("(") {
        loop {
            let token = scanner.skip_one()?;
            match token.kind {
                Kind::Number => {}
                _ if token.is_sign("(") || token.is_sign(",") => {}
                _ if token.is_sign(")") => break,
                _ => return Err(Refusal::of("stored value of this form")),
            }
        }
    }
    Ok(())
}

/// `(column)`
fn values_of(scanner: &mut Scanner<'_>) -> Result<(), Refusal> {
    let opens = scanner.skip_one()?;
    let first = scanner.skip_one()?;
    if !opens.is_sign("(") || !first.is_name() {
        return Err(Refusal::of("stored value of this form"));
    }
    names(scanner, first)?;
    if scanner.skip_one()?.is_sign(")") { Ok(()) } else { Err(Refusal::of("stored value of this form")) }
}

/// What is behind the values.
fn rest(mut scanner: Scanner<'_>, end: Token<'_>) -> Result<Reading, Refusal> {
    match end {
        _ if end.is("ON") || end.is("AS") => return Err(Refusal::of("statement of this form")),
        _ if end.kind == Kind::End || end.is_sign(";") => scanner.end()?,
        _ => scanner.rest_of_a_query()?,
    }
    Ok(Reading { columns: scanner.columns(), tells_id: false })
}
