//! Statements of accounts that do not get plaintext: parse, resolve, decide by allow-list, print, send.
//!
//! Read it in this order: [`lexer`] and [`parser`] make a [`tree`] of the client's text, [`resolve`] finds out what its names
//! mean and which protected columns each value holds, [`policy`] says where those may stand, [`print`] writes the text that
//! the server gets. Nothing of the client's text goes on but names, numbers and texts that were read and are written anew: a
//! misreading gives another query, never another decision.

mod cache;
mod lexer;
mod names;
mod parser;
mod policy;
mod print;
mod resolve;
mod settings;
mod token;
mod tree;
mod words;

pub use cache::read as read_known;
pub use policy::{Check, Class, Taint, Value};
pub use settings::{MODES, kept_mode};

use super::rules::{self, Catalogue, Expressions, Rules};
use encryption::Algorithm;
use lexer::{Lexer, Token};
use parser::{Parsed, Session};
use print::{append_name, append_text};
use std::borrow::Cow;
use std::fmt;
use tree::Table;

/// Text of a statement, as a client sends it.
pub const LONGEST_STATEMENT: usize = 1 << 20;
/// As it is printed: `*` in many subqueries makes it longer.
const LONGEST_PRINTED: usize = 4 << 20;

/// What a statement is read against.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Of the session's account.
    pub rules: &'a Rules,
    /// That bare names are of.
    pub database: Option<&'a str>,
    /// Question marks stand for values.
    pub is_prepared: bool,
}

/// What goes on in a statement's place, and what its answer may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What the server gets.
    pub text: Box<str>,
    /// Of its rows.
    pub answer: Answer,
    /// By parameter: what it must be, where it is compared with a protected column.
    pub parameters: Box<[Option<Class>]>,
    /// Its OK may tell the id that a new row was given.
    pub tells_id: bool,
    /// The database that is the session's once it is carried out.
    pub uses: Option<Box<str>>,
}

impl Plan {
    /// All else of it.
    pub fn without_text(&self) -> Self {
        let Plan { text: _, answer, parameters, tells_id, uses } = self;
        let (answer, parameters, uses) = (answer.clone(), parameters.clone(), uses.clone());
        Plan { text: Box::default(), answer, parameters, tells_id: *tells_id, uses }
    }
}

/// What rows a statement gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// None.
    Silent,
    /// What the server says of itself, as many columns as it likes.
    Shown,
    /// One column for each of these.
    Rows(Box<[Output]>),
}

/// What becomes of a column of a statement's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// It goes as it is.
    Plain,
    /// It is encrypted.
    Sealed(Algorithm),
}

/// Why a statement does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The server's error for the like.
    pub kind: RefusalKind,
    words: Cow<'static, str>,
}

/// What a refusal is most like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// It is not allowed.
    Denied,
    /// There is no such table.
    UnknownTable,
    /// There is no such column.
    UnknownColumn,
    /// There is no present database.
    NoDatabase,
}

impl Refusal {
    const fn of(what: &'static str) -> Self {
        Refusal { kind: RefusalKind::Denied, words: Cow::Borrowed(what) }
    }

    fn new(kind: RefusalKind, words: String) -> Self {
        Refusal { kind, words: words.into() }
    }

    fn between(what: &str, token: &str) -> Self {
        Self::new(RefusalKind::Denied, format!("{what} {token}"))
    }

    fn word(what: &str, word: &str) -> Self {
        Self::new(RefusalKind::Denied, format!("{what} {}", shortened(word).to_uppercase()))
    }

    fn name(what: &str, name: &str) -> Self {
        Self::new(RefusalKind::Denied, format!("{what} '{}'", shortened(name)))
    }

    fn column(what: &str, column: &str) -> Self {
        Self::new(RefusalKind::Denied, format!("{what} of the protected column {}", shortened(column)))
    }

    fn made_of_columns(what: &str) -> Self {
        Self::new(RefusalKind::Denied, format!("{what} of what is made of protected columns"))
    }

    fn unknown_column(name: &str) -> Self {
        Self::new(RefusalKind::UnknownColumn, format!("Unknown column '{}'", shortened(name)))
    }

    fn unknown_table(database: &str, name: &str) -> Self {
        let (database, name) = (shortened(database), shortened(name));
        let words = format!("Table '{database}.{name}' doesn't exist, or the gateway has not seen it yet");
        Self::new(RefusalKind::UnknownTable, words)
    }

    const fn no_database() -> Self {
        Refusal { kind: RefusalKind::NoDatabase, words: Cow::Borrowed("No database selected") }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RefusalKind::Denied => write!(out, "the gateway lets no {} pass for this account", self.words),
            RefusalKind::UnknownTable | RefusalKind::UnknownColumn | RefusalKind::NoDatabase => {
                out.write_str(&self.words)
            }
        }
    }
}

fn shortened(text: &str) -> &str {
    const LONGEST: usize = 192;
    let end = (0..=text.len().min(LONGEST)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Read a statement.
///
/// # Errors
/// Where it is not known to be harmless.
pub fn read(sql: &[u8], surroundings: &Surroundings<'_>) -> Result<Plan, Refusal> {
    let Surroundings { rules, database, is_prepared } = *surroundings;
    let catalogue = &*rules.catalogue;
    if sql.len() > LONGEST_STATEMENT {
        return Err(Refusal::of("statement of more than 1 MiB"));
    }
    let (parsed, parameters) = parser::parse(sql, is_prepared)?;
    let (before, mut statement) = match parsed {
        Parsed::Tree { before, statement } => (before, statement),
        Parsed::Session(session) => return about_session(session, surroundings),
    };
    let resolved = resolve::resolve(&mut statement, parameters, database, catalogue)?;
    let answer = match resolved.outputs {
        None => Answer::Silent,
        Some(outputs) => {
            let of = |taint: &Taint| output(*taint, catalogue, rules);
            Answer::Rows(outputs.iter().map(of).collect::<Result<_, _>>()?)
        }
    };
    let text = print::print(before, &statement);
    if text.len() > LONGEST_PRINTED {
        return Err(Refusal::of("statement that is so long when its stars are written out"));
    }
    let parameters = resolved.parameters.into();
    Ok(Plan { text: text.into(), answer, parameters, tells_id: resolved.tells_id, uses: None })
}

fn output(taint: Taint, catalogue: &Catalogue, rules: &Rules) -> Result<Output, Refusal> {
    match taint {
        Taint::Clean => Ok(Output::Plain),
        _ if !Check::Output.is_on() => Ok(Output::Plain),
        Taint::Bare(number) => Ok(Output::Sealed(catalogue.protection(number).algorithm)),
        Taint::Mixed { is_expression: true, .. } if rules.expressions == Expressions::Refuse => {
            Err(Refusal::of("column that is computed from a protected one"))
        }
        Taint::Mixed { .. } => Ok(Output::Sealed(rules.algorithm)),
    }
}

fn about_session(session: Session<'_>, surroundings: &Surroundings<'_>) -> Result<Plan, Refusal> {
    let (answer, text, uses) = match session {
        Session::Silent(text) => (Answer::Silent, text.into_owned(), None),
        Session::Shown(text) => (Answer::Shown, text.into_owned(), None),
        Session::Use(name) => {
            let mut text = String::from("USE ");
            append_name(&mut text, &name);
            (Answer::Silent, text, Some(name.into()))
        }
        Session::OfDatabase { show, database, rest } => {
            let mut text = format!("{show} FROM ");
            let database = database.as_deref().or(surroundings.database).ok_or(Refusal::no_database())?;
            append_name(&mut text, database);
            (Answer::Shown, text + &rest, None)
        }
        Session::TableStatus { database, rest } => {
            let mut text = String::from(TABLE_STATUS);
            let database = database.as_deref().or(surroundings.database).ok_or(Refusal::no_database())?;
            append_text(&mut text, database);
            (Answer::Shown, text + &rest, None)
        }
        Session::Indexes(table) => (Answer::Shown, indexes_of(known_table(&table, surroundings)?), None),
        Session::OfTable { show, table, rest } => (Answer::Shown, of_table(show, &table, surroundings)? + &rest, None),
    };
    Ok(Plan { text: text.into(), answer, parameters: Box::default(), tells_id: false, uses })
}

fn known_table<'a>(table: &Table<'_>, surroundings: &Surroundings<'a>) -> Result<&'a rules::Table, Refusal> {
    let database = table.database.as_deref().or(surroundings.database).ok_or(Refusal::no_database())?;
    let found = surroundings.rules.catalogue.table(database, &table.name);
    found.ok_or_else(|| Refusal::unknown_table(database, &table.name))
}

/// SHOW TABLE STATUS without next ids, checksums and sizes, of the database behind it. How many bytes rows take may tell
/// whether a number is 0 or how well a value is compressed.
const TABLE_STATUS: &str = "SELECT table_name AS `Name`, engine AS `Engine`, version AS `Version`, \
    row_format AS `Row_format`, table_rows AS `Rows`, CAST(NULL AS UNSIGNED) AS `Avg_row_length`, \
    CAST(NULL AS UNSIGNED) AS `Data_length`, max_data_length AS `Max_data_length`, \
    CAST(NULL AS UNSIGNED) AS `Index_length`, CAST(NULL AS UNSIGNED) AS `Data_free`, \
    CAST(NULL AS UNSIGNED) AS `Auto_increment`, create_time AS `Create_time`, update_time AS `Update_time`, \
    check_time AS `Check_time`, table_collation AS `Collation`, CAST(NULL AS UNSIGNED) AS `Checksum`, \
    create_options AS `Create_options`, table_comment AS `Comment` FROM information_schema.tables WHERE table_schema = ";

/// SHOW INDEX without how many values there are, which tells how many rows share one.
fn indexes_of(table: &rules::Table) -> String {
    let mut text = String::from(
        "SELECT table_name AS `Table`, non_unique AS `Non_unique`, index_name AS `Key_name`, \
         seq_in_index AS `Seq_in_index`, column_name AS `Column_name`, collation AS `Collation`, \
         CAST(NULL AS SIGNED) AS `Cardinality`, sub_part AS `Sub_part`, packed AS `Packed`, nullable AS `Null`, \
         index_type AS `Index_type`, comment AS `Comment`, index_comment AS `Index_comment` \
         FROM information_schema.statistics WHERE table_schema = ",
    );
    append_text(&mut text, &table.database);
    text.push_str(" AND table_name = ");
    append_text(&mut text, &table.name);
    text
}

/// `SHOW … FROM database.table`, and `SHOW CREATE {TABLE | VIEW} database.table`, the former of which tells the next id.
fn of_table(show: &'static str, table: &Table<'_>, surroundings: &Surroundings<'_>) -> Result<String, Refusal> {
    let found = known_table(table, surroundings)?;
    let creates = show.ends_with(' ');
    if creates && found.hides_ids {
        return Err(Refusal::of("SHOW CREATE TABLE while its protected column has AUTO_INCREMENT"));
    }
    let mut text = String::from(show);
    text.push_str(if creates { "" } else { " FROM " });
    append_name(&mut text, &found.database);
    text.push('.');
    append_name(&mut text, &found.name);
    Ok(text)
}

/// The names that an expression of the server's own names, quoted or not; None, where it cannot be read.
pub fn names_in(expression: &str) -> Option<Vec<String>> {
    let mut lexer = Lexer::new(expression.as_bytes(), false);
    let mut names = Vec::new();
    loop {
        match lexer.token().ok()? {
            Token::Word(name) => names.push(name.to_owned()),
            Token::Name(name) => names.push(name.into_owned()),
            Token::End => return Some(names),
            Token::Text(_)
            | Token::Bytes { .. }
            | Token::Number(_)
            | Token::Parameter
            | Token::Variable(_)
            | Token::Sign(_) => {}
        }
    }
}

/// Whether an expression of the server's own asks what time it is, or how a moment is written, in the session's time zone; or
/// cannot be read.
pub fn asks_clock(expression: &str) -> bool {
    let asks = |name: &String| CLOCK.iter().any(|known| known.eq_ignore_ascii_case(name));
    names_in(expression).is_none_or(|names| names.iter().any(asks))
}

/// As servers name them in the expressions that they keep.
const CLOCK: [&str; 11] = [
    "current_date",
    "current_time",
    "current_timestamp",
    "curdate",
    "curtime",
    "from_unixtime",
    "localtime",
    "localtimestamp",
    "now",
    "sysdate",
    "unix_timestamp",
];

/// What a view's columns hold; None, where the gateway cannot read it or it does what no statement may.
pub fn view_values(definition: &str, database: &str, catalogue: &Catalogue, rules: &Rules) -> Option<Vec<Value>> {
    let mut query = parser::parse_view(definition).ok()?;
    let values = resolve::view_values(&mut query, database, catalogue).ok()?;
    if !Check::View.is_on() {
        return Some(vec![Value::CLEAN; values.len()]);
    }
    let may_be_sent = values.iter().all(|value| output(value.taint, catalogue, rules).is_ok());
    may_be_sent.then_some(values)
}

#[cfg(test)]
mod tests;
