//! The fence around accounts that do not get plaintext: which statements cannot carry an encrypted value out in another way.
//!
//! Result sets are guarded where they pass (`session`), by the names that the server sends with them. The fence is for all
//! else: values that are copied to where no rule guards them (into a file, a variable, another column), names that the server
//! takes from the statement instead of a table, and statements about statements. It reads tokens, not SQL's grammar: it lets
//! pass what it knows to be harmless, and the server refuses what is no SQL.

mod scanner;
mod session_settings;
mod stored;
mod token;
mod words;

use super::rules::Rules;
use scanner::Scanner;
use std::borrow::Cow;
use token::{Kind, Token};
use words::is_among;

/// What a statement is read against.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Of the session's account.
    pub rules: &'a Rules,
    /// The session's SQL mode lets a backslash in a text take the next sign's meaning.
    pub backslash_escapes: bool,
}

/// What the statement's answer is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Of its result sets.
    pub columns: Columns,
    /// Its OK may tell the id that an insertion was given: no rule means its table.
    pub tells_id: bool,
}

/// Where a result set's columns come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// From tables: the names that the server sends with them can be trusted.
    Tables,
    /// From anything: the server may send names that the statement, or a view, has made up.
    Anything,
    /// From the server itself: no data were read.
    Server,
    /// What SHOW shows: what has a name is of the server, what has none may quote data.
    Shown,
}

impl Columns {
    /// How many there are.
    pub const COUNT: usize = 4;
}

/// Why a statement does not pass, in words that can go on after "the gateway lets no … pass". Quotes no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(Cow<'static, str>);

impl Refusal {
    /// For this.
    pub const fn of(what: &'static str) -> Self {
        Refusal(Cow::Borrowed(what))
    }

    fn of_word(what: &str, word: &Token<'_>) -> Self {
        const LONGEST: usize = 64;
        let word = String::from_utf8_lossy(&word.text[..word.text.len().min(LONGEST)]).to_uppercase();
        Refusal(format!("{what} {word}").into())
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

/// Read a statement.
///
/// # Errors
/// Where it is not known to be harmless.
pub fn read(sql: &[u8], surroundings: &Surroundings<'_>) -> Result<Reading, Refusal> {
    let mut scanner = Scanner::new(sql, surroundings);
    let first = scanner.next()?;
    let silent = Reading { columns: Columns::Anything, tells_id: false };
    match first {
        Token { kind: Kind::End, .. } => Ok(silent),
        _ if first.is_sign("(") => parenthesised(scanner),
        _ if first.is("SELECT") => select(scanner),
        _ if first.is("WITH") || first.is("DELETE") => query(scanner),
        _ if first.is("INSERT") || first.is("REPLACE") => stored::insert(scanner, surroundings.rules),
        _ if first.is("UPDATE") => stored::update(scanner),
        _ if first.is("SHOW") => show(scanner),
        _ if first.is("SET") => session_settings::set(scanner).map(|()| silent),
        _ if first.is("USE") => use_database(scanner).map(|()| silent),
        _ if first.is("KILL") => kill(scanner).map(|()| silent),
        _ if is_about_transactions(&first) => transaction(scanner, &first).map(|()| silent),
        _ if first.kind == Kind::Word => Err(Refusal::of_word("statement that begins with", &first)),
        _ => Err(Refusal::of("statement of this kind")),
    }
}

fn select(mut scanner: Scanner<'_>) -> Result<Reading, Refusal> {
    scanner.rest_of_a_query()?;
    let columns = if scanner.reads_no_data() { Columns::Server } else { scanner.columns() };
    Ok(Reading { columns, tells_id: false })
}

/// Its columns are those of its tables at best.
fn query(mut scanner: Scanner<'_>) -> Result<Reading, Refusal> {
    scanner.rest_of_a_query()?;
    Ok(Reading { columns: scanner.columns(), tells_id: false })
}

/// What is ordered or limited from outside its parentheses is a table of its own, with a name that the server makes up.
fn parenthesised(mut scanner: Scanner<'_>) -> Result<Reading, Refusal> {
    let mut first = scanner.next()?;
    while first.is_sign("(") {
        first = scanner.next()?;
    }
    if !first.is("SELECT") {
        return Err(Refusal::of("statement of this kind"));
    }
    scanner.rest_of_a_query()?;
    Ok(Reading { columns: Columns::Anything, tells_id: false })
}

fn show(mut scanner: Scanner<'_>) -> Result<Reading, Refusal> {
    let mut what = scanner.next()?;
    while ["FULL", "GLOBAL", "SESSION", "LOCAL"].iter().any(|word| what.is(word)) {
        what = scanner.next()?;
    }
    let columns = match what {
        // The last id that was given is among them.
        _ if what.is("VARIABLES") => Columns::Anything,
        _ if what.kind == Kind::Word && is_among(what.text, words::SHOWN) => Columns::Shown,
        _ => return Err(Refusal::of_word("SHOW", &what)),
    };
    if what.is("COUNT") {
        // Its parenthesis is no function's.
        scanner.skip_one()?;
    }
    scanner.rest_of_a_query()?;
    Ok(Reading { columns, tells_id: false })
}

fn use_database(mut scanner: Scanner<'_>) -> Result<(), Refusal> {
    if scanner.next()?.is_name() { scanner.end() } else { Err(Refusal::of("USE without a name")) }
}

/// As drivers do it when a statement takes too long; whose it may be is the server's to say.
fn kill(mut scanner: Scanner<'_>) -> Result<(), Refusal> {
    let mut token = scanner.next()?;
    while ["HARD", "SOFT", "CONNECTION", "QUERY"].iter().any(|word| token.is(word)) {
        token = scanner.next()?;
    }
    match token.kind {
        Kind::Number | Kind::Parameter => scanner.end(),
        _ => Err(Refusal::of("KILL of anything but a connection by its number")),
    }
}

fn is_about_transactions(first: &Token<'_>) -> bool {
    ["BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"].iter().any(|word| first.is(word))
}

fn transaction(mut scanner: Scanner<'_>, first: &Token<'_>) -> Result<(), Refusal> {
    let second = scanner.next()?;
    let goes_on = match second {
        // `BEGIN NOT ATOMIC` begins a program, `START SLAVE` replication.
        _ if first.is("BEGIN") => second.is("WORK"),
        _ if first.is("START") => second.is("TRANSACTION"),
        _ if first.is("RELEASE") => second.is("SAVEPOINT"),
        _ => second.is_name(),
    };
    match second.kind {
        Kind::End if !first.is("START") => return Ok(()),
        Kind::Sign if second.is_sign(";") => return scanner.end(),
        _ if goes_on => {}
        _ => return Err(Refusal::of_word("statement that begins with", first)),
    }
    loop {
        let token = scanner.next()?;
        match token.kind {
            Kind::End => return Ok(()),
            Kind::Word | Kind::Name => {}
            _ if token.is_sign(",") || token.is_sign(";") => {}
            _ => return Err(Refusal::of_word("statement that begins with", first)),
        }
    }
}

#[cfg(test)]
mod tests;
