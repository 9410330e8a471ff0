//! SET: what a client may make its session like.

use super::Refusal;
use super::scanner::Scanner;
use super::token::{Kind, Token};
use super::words::{CHARSET_VARIABLES, CHARSETS, SETTABLE, is_among};

/// Everything behind SET.
pub fn set(mut scanner: Scanner<'_>) -> Result<(), Refusal> {
    let mut first = scanner.next()?;
    if first.is("NAMES") || first.is("CHARSET") {
        return charset_and_collation(scanner);
    }
    if first.is("CHARACTER") && scanner.peek()?.is("SET") {
        scanner.next()?;
        return charset_and_collation(scanner);
    }
    let for_session = first.is("SESSION") || first.is("LOCAL");
    if for_session && scanner.peek()?.is("TRANSACTION") {
        first = scanner.next()?;
    }
    if first.is("TRANSACTION") {
        return transaction(scanner);
    }
    loop {
        if first.is("SESSION") || first.is("LOCAL") {
            first = scanner.next()?;
        }
        if !assignment(&mut scanner, first)? {
            return Ok(());
        }
        first = scanner.next()?;
    }
}

fn charset_and_collation(mut scanner: Scanner<'_>) -> Result<(), Refusal> {
    is_charset(&scanner.next()?)?;
    if scanner.peek()?.is("COLLATE") {
        scanner.next()?;
        scanner.next()?;
    }
    scanner.end()
}

fn is_charset(token: &Token<'_>) -> Result<(), Refusal> {
    match token.kind {
        Kind::Word | Kind::Text | Kind::TextOrName if is_among(token.text, CHARSETS) => Ok(()),
        _ => Err(Refusal::of("character set but utf8mb4, utf8, latin1, ascii and binary")),
    }
}

/// `ISOLATION LEVEL READ COMMITTED, READ ONLY`.
fn transaction(mut scanner: Scanner<'_>) -> Result<(), Refusal> {
    loop {
        let token = scanner.next()?;
        match token.kind {
            Kind::End => return Ok(()),
            Kind::Word => {}
            _ if token.is_sign(",") || token.is_sign(";") => {}
            _ => return Err(Refusal::of("SET TRANSACTION of this form")),
        }
    }
}

/// Whether another one follows.
fn assignment(scanner: &mut Scanner<'_>, first: Token<'_>) -> Result<bool, Refusal> {
    let mut name = first;
    if first.kind == Kind::ServerVariable
        && (first.text.eq_ignore_ascii_case(b"session") || first.text.eq_ignore_ascii_case(b"local"))
    {
        scanner.next()?;
        name = scanner.next()?;
    }
    if !matches!(name.kind, Kind::Word | Kind::ServerVariable) || !scanner.next()?.is_sign("=") {
        return Err(Refusal::of("SET of this form"));
    }
    if is_among(name.text, CHARSET_VARIABLES) {
        is_charset(&scanner.next()?)?;
        return goes_on(&scanner.next()?);
    }
    if !is_among(name.text, SETTABLE) {
        return Err(Refusal::of_word("SET of", &name));
    }
    value(scanner)
}

/// It reads no table, so a word in it is a value, or nothing to the server.
fn value(scanner: &mut Scanner<'_>) -> Result<bool, Refusal> {
    let mut depth = 0;
    loop {
        let token = scanner.next()?;
        match token.kind {
            Kind::Sign if token.is_sign("(") => depth += 1,
            Kind::Sign if token.is_sign(")") => depth -= 1,
            Kind::Sign if token.is_sign(",") && depth > 0 => {}
            Kind::Sign if [".", "-", "+"].iter().any(|sign| token.is_sign(sign)) => {}
            Kind::Sign | Kind::End => return goes_on(&token),
            _ if token.is("SELECT") => return Err(Refusal::of("SET to a query's value")),
            _ => {}
        }
    }
}

fn goes_on(token: &Token<'_>) -> Result<bool, Refusal> {
    match token {
        _ if token.is_sign(",") => Ok(true),
        _ if token.is_sign(";") || token.kind == Kind::End => Ok(false),
        _ => Err(Refusal::of("SET to a value of this form")),
    }
}
