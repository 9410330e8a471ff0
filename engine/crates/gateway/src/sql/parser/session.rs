//! Statements about the session, and SHOW: each is rebuilt from a fixed form.

use super::Parser;
use crate::sql::Refusal;
use crate::sql::lexer::{Sign, Token};
use crate::sql::print::{append_name, append_text};
use crate::sql::tree::{Name, Table};
use std::borrow::Cow;

/// A statement that reads no table of a user's.
#[derive(Debug, PartialEq)]
pub enum Session<'a> {
    /// As it is sent. It gives no rows.
    Silent(Cow<'static, str>),
    /// As it is sent. It gives rows of the server's own.
    Shown(Cow<'static, str>),
    /// What SHOW tells of a database, by this beginning; of the present one where it names none.
    OfDatabase { show: &'static str, database: Option<Name<'a>>, rest: String },
    /// What SHOW tells of a table, by this beginning.
    OfTable { show: &'static str, table: Table<'a>, rest: String },
    /// A table's indexes.
    Indexes(Table<'a>),
    /// What SHOW TABLE STATUS tells, of the tables whose names are so.
    TableStatus { database: Option<Name<'a>>, rest: String },
    /// `USE name`
    Use(Name<'a>),
}

impl PartialEq for Table<'_> {
    fn eq(&self, other: &Self) -> bool {
        (&self.database, &self.name, &self.alias) == (&other.database, &other.name, &other.alias)
    }
}

/// Diagnostics hold values: there are never any.
const NO_WARNINGS: &str = "SELECT '' AS `Level`, 0 AS `Code`, '' AS `Message` FROM DUAL WHERE (1 = 0)";
const WARNINGS_COUNTED: &str = "SELECT 0 AS `@@session.warning_count`";
const ERRORS_COUNTED: &str = "SELECT 0 AS `@@session.error_count`";
/// Of SHOW VARIABLES: the last ids that were given, and what RAND goes on from.
const HIDDEN_VARIABLES: &str =
    "(`Variable_name` NOT IN ('identity', 'insert_id', 'last_insert_id', 'rand_seed1', 'rand_seed2'))";
/// Of SHOW STATUS; the rest counts what statements did with rows.
const STATUS: [&str; 6] =
    ["Ssl_cipher", "Ssl_cipher_list", "Ssl_version", "Threads_connected", "Uptime", "Compression"];

impl<'a> Parser<'a> {
    /// Behind its first word.
    pub(super) fn session(&mut self, first: &'a str) -> Result<Session<'a>, Refusal> {
        let is = |known: &str| first.eq_ignore_ascii_case(known);
        match () {
            () if is("SET") => self.set(),
            () if is("SHOW") => self.show(),
            () if is("DESCRIBE") || is("DESC") => self.of_table("SHOW COLUMNS"),
            () if is("USE") => self.name().map(Session::Use),
            () if is("KILL") => self.kill(),
            () if is("BEGIN") => {
                self.take_word("WORK")?;
                Ok(silent("BEGIN"))
            }
            () if is("START") => self.start_transaction(),
            () if is("COMMIT") => Ok(silent(format!("COMMIT{}", self.ending()?))),
            () if is("ROLLBACK") => self.rollback(),
            () if is("SAVEPOINT") => self.savepoint("SAVEPOINT "),
            () if is("RELEASE") => {
                self.expect_word("SAVEPOINT")?;
                self.savepoint("RELEASE SAVEPOINT ")
            }
            () => Err(Refusal::word("statement that begins with", first)),
        }
    }

    fn start_transaction(&mut self) -> Result<Session<'a>, Refusal> {
        self.expect_word("TRANSACTION")?;
        let mut text = String::from("START TRANSACTION");
        let mut before = " ";
        while let Some(what) = match () {
            () if self.take_words(&["WITH", "CONSISTENT", "SNAPSHOT"])? => Some("WITH CONSISTENT SNAPSHOT"),
            () if self.take_word("READ")? => Some(self.read_mode()?),
            () => None,
        } {
            text.push_str(before);
            text.push_str(what);
            before = ", ";
            if !self.take_if(Sign::Comma)? {
                break;
            }
        }
        Ok(silent(text))
    }

    pub(super) fn read_mode(&mut self) -> Result<&'static str, Refusal> {
        if self.take_word("WRITE")? {
            return Ok("READ WRITE");
        }
        self.expect_word("ONLY")?;
        Ok("READ ONLY")
    }

    /// `[WORK] [AND [NO] CHAIN] [[NO] RELEASE]`
    fn ending(&mut self) -> Result<String, Refusal> {
        self.take_word("WORK")?;
        let mut ending = String::new();
        if self.take_word("AND")? {
            ending.push_str(if self.take_word("NO")? { " AND NO CHAIN" } else { " AND CHAIN" });
            self.expect_word("CHAIN")?;
        }
        if self.take_word("NO")? {
            self.expect_word("RELEASE")?;
            ending.push_str(" NO RELEASE");
        } else if self.take_word("RELEASE")? {
            ending.push_str(" RELEASE");
        }
        Ok(ending)
    }

    fn rollback(&mut self) -> Result<Session<'a>, Refusal> {
        let ending = self.ending()?;
        if ending.is_empty() && self.take_word("TO")? {
            self.take_word("SAVEPOINT")?;
            return self.savepoint("ROLLBACK TO SAVEPOINT ");
        }
        Ok(silent(format!("ROLLBACK{ending}")))
    }

    fn savepoint(&mut self, beginning: &str) -> Result<Session<'a>, Refusal> {
        let mut text = String::from(beginning);
        append_name(&mut text, &self.name()?);
        Ok(silent(text))
    }

    /// As drivers do it when a statement takes too long; whose connection it may be is the server's to say.
    fn kill(&mut self) -> Result<Session<'a>, Refusal> {
        let what = match () {
            () if self.take_word("QUERY")? => "KILL QUERY ",
            () => {
                self.take_word("CONNECTION")?;
                "KILL CONNECTION "
            }
        };
        Ok(silent(format!("{what}{}", self.integer()?)))
    }

    fn show(&mut self) -> Result<Session<'a>, Refusal> {
        if self.take_word("GLOBAL")? || self.take_word("SESSION")? || self.take_word("LOCAL")? {
            return match () {
                () if self.take_word("VARIABLES")? => self.variables(),
                () if self.take_word("STATUS")? => self.status(),
                () => Err(self.unexpected()),
            };
        }
        let is_full = self.take_word("FULL")?;
        let word = match self.take()? {
            Token::Word(word) => word,
            _ => return Err(Refusal::of("SHOW of this form")),
        };
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        match () {
            () if is("TABLES") && is_full => {
                let database = self.database_from()?;
                Ok(Session::OfDatabase { show: "SHOW FULL TABLES", database, rest: self.like_or_where("Table_type")? })
            }
            () if is("TABLES") => {
                Ok(Session::OfDatabase { show: "SHOW TABLES", database: self.database_from()?, rest: self.like()? })
            }
            () if is("TABLE") && !is_full => {
                self.expect_word("STATUS")?;
                let database = self.database_from()?;
                let rest = if self.is("LIKE") { format!(" AND `table_name`{}", self.like()?) } else { String::new() };
                Ok(Session::TableStatus { database, rest })
            }
            () if is("COLUMNS") || is("FIELDS") => {
                self.of_table_in(if is_full { "SHOW FULL COLUMNS" } else { "SHOW COLUMNS" })
            }
            () if is_full => Err(Refusal::word("SHOW FULL", word)),
            () if is("INDEX") || is("INDEXES") || is("KEYS") => self.indexes(),
            () if is("CREATE") => self.create(),
            () if is("VARIABLES") => self.variables(),
            () if is("STATUS") => self.status(),
            () if is("DATABASES") || is("SCHEMAS") => self.listed("SHOW DATABASES"),
            () if is("CHARSET") => self.listed("SHOW CHARACTER SET"),
            () if is("CHARACTER") => {
                self.expect_word("SET")?;
                self.listed("SHOW CHARACTER SET")
            }
            () if is("COLLATION") => self.listed("SHOW COLLATION"),
            () if is("ENGINES") => Ok(Session::Shown("SHOW ENGINES".into())),
            () if is("GRANTS") => Ok(Session::Shown("SHOW GRANTS".into())),
            () if is("WARNINGS") || is("ERRORS") => {
                self.limit()?;
                Ok(Session::Shown(NO_WARNINGS.into()))
            }
            () if is("COUNT") => self.count(),
            () => Err(Refusal::word("SHOW", word)),
        }
    }

    /// `COUNT(*) {WARNINGS | ERRORS}`
    fn count(&mut self) -> Result<Session<'a>, Refusal> {
        self.expect(Sign::Open)?;
        self.expect(Sign::Star)?;
        self.expect(Sign::Close)?;
        let is_errors = self.take_word("ERRORS")?;
        if !is_errors {
            self.expect_word("WARNINGS")?;
        }
        Ok(Session::Shown(if is_errors { ERRORS_COUNTED } else { WARNINGS_COUNTED }.into()))
    }

    fn create(&mut self) -> Result<Session<'a>, Refusal> {
        let show = match self.take_word("VIEW")? {
            true => "SHOW CREATE VIEW ",
            false => {
                self.expect_word("TABLE")?;
                "SHOW CREATE TABLE "
            }
        };
        Ok(Session::OfTable { show, table: self.table_name()?, rest: String::new() })
    }

    fn from(&mut self) -> Result<bool, Refusal> {
        Ok(self.take_word("FROM")? || self.take_word("IN")?)
    }

    fn database_from(&mut self) -> Result<Option<Name<'a>>, Refusal> {
        if self.from()? { self.name().map(Some) } else { Ok(None) }
    }

    /// `{FROM | IN} table [{FROM | IN} database] [LIKE …]`
    fn of_table_in(&mut self, show: &'static str) -> Result<Session<'a>, Refusal> {
        if !self.from()? {
            return Err(self.unexpected());
        }
        self.of_table(show)
    }

    fn of_table(&mut self, show: &'static str) -> Result<Session<'a>, Refusal> {
        Ok(Session::OfTable { show, table: self.table_from()?, rest: self.like()? })
    }

    /// `{FROM | IN} table [{FROM | IN} database]`
    fn indexes(&mut self) -> Result<Session<'a>, Refusal> {
        match self.from()? {
            true => self.table_from().map(Session::Indexes),
            false => Err(self.unexpected()),
        }
    }

    /// `table [{FROM | IN} database]`
    fn table_from(&mut self) -> Result<Table<'a>, Refusal> {
        let mut table = self.table_name()?;
        if self.from()? {
            table.database = Some(self.name()?);
        }
        Ok(table)
    }

    fn listed(&mut self, show: &'static str) -> Result<Session<'a>, Refusal> {
        Ok(Session::Shown(format!("{show}{}", self.like()?).into()))
    }

    /// `[LIKE '…']`, printed.
    fn like(&mut self) -> Result<String, Refusal> {
        if !self.take_word("LIKE")? {
            return Ok(String::new());
        }
        let mut text = String::from(" LIKE ");
        append_text(&mut text, &self.pattern()?);
        Ok(text)
    }

    fn pattern(&mut self) -> Result<Cow<'a, str>, Refusal> {
        match self.take()? {
            Token::Text(text) if !text.contains('\0') => Ok(text),
            _ => Err(Refusal::of("pattern of this form")),
        }
    }

    /// `[LIKE '…']` or `[WHERE Variable_name {= | LIKE} '…' [OR …]]`. A session's; what is global is seen in it, too.
    fn variables(&mut self) -> Result<Session<'a>, Refusal> {
        const NAME: &str = "Variable_name";
        let chosen = match self.take_word("LIKE")? {
            true => format!(" AND (({}))", chosen_by(NAME, "LIKE", &self.pattern()?)),
            false if self.take_word("WHERE")? => format!(" AND ({})", self.chosen(NAME)?),
            false => String::new(),
        };
        Ok(Session::Shown(format!("SHOW VARIABLES WHERE ({HIDDEN_VARIABLES}{chosen})").into()))
    }

    /// `[LIKE '…']` or `[WHERE column {= | LIKE} '…' [OR …]]`, printed.
    fn like_or_where(&mut self, column: &str) -> Result<String, Refusal> {
        if self.take_word("WHERE")? { Ok(format!(" WHERE ({})", self.chosen(column)?)) } else { self.like() }
    }

    /// `column {= | LIKE} '…' [OR …]`, printed.
    fn chosen(&mut self, known: &str) -> Result<String, Refusal> {
        let mut chosen = Vec::new();
        loop {
            let column = self.name()?;
            if !column.eq_ignore_ascii_case(known) {
                return Err(Refusal::name("SHOW by the column", &column));
            }
            match () {
                () if self.take_word("LIKE")? => chosen.push(("LIKE", self.pattern()?)),
                () if self.take_if(Sign::Equal)? => chosen.push(("=", self.pattern()?)),
                () => {
                    self.expect_word("IN")?;
                    chosen.extend(self.list_in_parentheses(Self::pattern)?.into_iter().map(|name| ("=", name)));
                }
            }
            if !self.take_word("OR")? {
                let printed = chosen.iter().map(|(operator, text)| format!("({})", chosen_by(known, operator, text)));
                return Ok(printed.collect::<Vec<_>>().join(" OR "));
            }
        }
    }

    /// `LIKE` one of the names that tell nothing of rows.
    fn status(&mut self) -> Result<Session<'a>, Refusal> {
        let name = if self.take_word("LIKE")? { self.pattern()? } else { Cow::Borrowed("") };
        let known = STATUS.iter().find(|known| known.eq_ignore_ascii_case(&name));
        let known = known.ok_or(Refusal::of("SHOW STATUS but of one variable of the connection"))?;
        Ok(Session::Shown(format!("SHOW STATUS LIKE '{known}'").into()))
    }
}

fn chosen_by(column: &str, operator: &str, text: &str) -> String {
    let mut printed = format!("`{column}` {operator} ");
    append_text(&mut printed, text);
    printed
}

pub(super) fn silent(text: impl Into<Cow<'static, str>>) -> Session<'static> {
    Session::Silent(text.into())
}
