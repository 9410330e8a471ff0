//! Statements about the session, and SHOW: each is rebuilt from a fixed form.

use super::Parser;
use crate::sql::Refusal;
use crate::sql::lexer::{Sign, Token};
use crate::sql::print::{append_name, append_text};
use crate::sql::settings;
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
    /// Behind `SET STATEMENT`, which is MariaDB's: by it drivers limit one statement.
    pub(super) fn settings_of_statement(&mut self) -> Result<String, Refusal> {
        let settings = self.list(|parser| {
            let name = ["max_statement_time", "sql_select_limit"].into_iter().find(|name| parser.is(name));
            let name = name.ok_or_else(|| parser.unexpected())?;
            parser.take()?;
            parser.expect(Sign::Equal)?;
            match parser.take()? {
                Token::Number(digits) if !digits.contains(['e', 'E']) => Ok(format!("{name} = {digits}")),
                _ => Err(wrong_value()),
            }
        })?;
        self.expect_word("FOR")?;
        Ok(format!("SET STATEMENT {} FOR ", settings.join(", ")))
    }

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

    fn read_mode(&mut self) -> Result<&'static str, Refusal> {
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

    fn set(&mut self) -> Result<Session<'a>, Refusal> {
        let is_of_session = self.take_word("SESSION")? || self.take_word("LOCAL")?;
        if self.take_word("TRANSACTION")? {
            return self.set_transaction(if is_of_session { "SET SESSION TRANSACTION" } else { "SET TRANSACTION" });
        }
        let mut parts = Vec::new();
        let mut is_scoped = is_of_session;
        loop {
            if let Some(part) = self.setting(is_scoped)? {
                parts.push(part);
            }
            if !self.take_if(Sign::Comma)? {
                break;
            }
            is_scoped = self.take_word("SESSION")? || self.take_word("LOCAL")?;
        }
        Ok(match parts.is_empty() {
            // All of it is so already.
            true => silent("DO 0"),
            false => silent(format!("SET {}", parts.join(", "))),
        })
    }

    /// As it is printed; None, where there is nothing to set.
    fn setting(&mut self, is_scoped: bool) -> Result<Option<String>, Refusal> {
        if !is_scoped && self.take_word("NAMES")? {
            return self.names();
        }
        if !is_scoped && (self.take_words(&["CHARACTER", "SET"])? || self.take_word("CHARSET")?) {
            let charset = self.word_or_text()?;
            return settings::charset(&charset).map(|()| None);
        }
        let name = match self.take()? {
            Token::Word(word) => word,
            Token::Variable(word) if !is_scoped => {
                let is_session = ["session", "local"].iter().any(|scope| word.eq_ignore_ascii_case(scope));
                match (is_session, is_session && self.take_if(Sign::Dot)?) {
                    (true, true) => match self.take()? {
                        Token::Word(word) => word,
                        _ => return Err(self.unexpected()),
                    },
                    _ => word,
                }
            }
            _ => return Err(Refusal::of("SET of this form")),
        };
        self.expect(Sign::Equal)?;
        let value = self.setting_value()?;
        settings::printed(name, &value)
    }

    /// `NAMES charset [COLLATE collation]`
    fn names(&mut self) -> Result<Option<String>, Refusal> {
        let charset = self.word_or_text()?;
        settings::charset(&charset)?;
        let collation = if self.take_word("COLLATE")? { Some(self.word_or_text()?) } else { None };
        settings::names(collation.as_deref())
    }

    fn setting_value(&mut self) -> Result<settings::Value<'a>, Refusal> {
        use settings::Value;
        if self.is_call() {
            return self.changed_modes().map(Value::ChangedModes);
        }
        let is_negative = self.take_if(Sign::Minus)?;
        Ok(match self.take()? {
            Token::Number(digits) if !is_negative => Value::Number(digits.parse().map_err(|_| wrong_value())?),
            Token::Text(text) if !is_negative => Value::Text(text),
            Token::Word(word) if !is_negative => Value::Word(word),
            _ => return Err(wrong_value()),
        })
    }

    /// `CONCAT(@@sql_mode, ',MODE')` and `REPLACE(@@sql_mode, 'MODE', '')`, also within one another: by these drivers add modes
    /// and take some out. As it is printed.
    fn changed_modes(&mut self) -> Result<String, Refusal> {
        if let Token::Variable(name) = self.next {
            self.take()?;
            return if self.variable(name)? == "sql_mode" { Ok("@@sql_mode".into()) } else { Err(wrong_value()) };
        }
        let function = ["CONCAT", "REPLACE"].into_iter().find(|function| self.is(function)).ok_or_else(wrong_value)?;
        self.take()?;
        self.expect(Sign::Open)?;
        let before = self.nested(Self::changed_modes)?;
        let mut texts = Vec::new();
        while self.take_if(Sign::Comma)? {
            match self.take()? {
                Token::Text(text) => texts.push(text),
                _ => return Err(wrong_value()),
            }
        }
        self.expect(Sign::Close)?;
        match (function, &texts[..]) {
            ("CONCAT", texts) => {
                settings::known_modes(&texts.concat()).map(|modes| format!("CONCAT({before}, ',{modes}')"))
            }
            (_, [mode, nothing]) if nothing.is_empty() => {
                settings::known_modes(mode).map(|mode| format!("REPLACE({before}, '{mode}', '')"))
            }
            (_, _) => None,
        }
        .ok_or_else(wrong_value)
    }

    /// `TRANSACTION {ISOLATION LEVEL … | READ ONLY | READ WRITE}, …`
    fn set_transaction(&mut self, beginning: &str) -> Result<Session<'a>, Refusal> {
        let parts = self.list(|parser| {
            if parser.take_word("READ")? {
                return parser.read_mode();
            }
            parser.expect_word("ISOLATION")?;
            parser.expect_word("LEVEL")?;
            Ok(match () {
                () if parser.take_word("SERIALIZABLE")? => "ISOLATION LEVEL SERIALIZABLE",
                () if parser.take_words(&["REPEATABLE", "READ"])? => "ISOLATION LEVEL REPEATABLE READ",
                () => {
                    parser.expect_word("READ")?;
                    match parser.take_word("UNCOMMITTED")? {
                        true => "ISOLATION LEVEL READ UNCOMMITTED",
                        false => {
                            parser.expect_word("COMMITTED")?;
                            "ISOLATION LEVEL READ COMMITTED"
                        }
                    }
                }
            })
        })?;
        Ok(silent(format!("{beginning} {}", parts.join(", "))))
    }

    fn word_or_text(&mut self) -> Result<Cow<'a, str>, Refusal> {
        match self.take()? {
            Token::Word(word) => Ok(word.into()),
            Token::Text(text) => Ok(text),
            _ => Err(wrong_value()),
        }
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
            () if is("TABLES") => self.of_database(if is_full { "SHOW FULL TABLES" } else { "SHOW TABLES" }),
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
        self.expect_word("TABLE")?;
        Ok(Session::OfTable { show: "SHOW CREATE TABLE ", table: self.table_name()?, rest: String::new() })
    }

    fn from(&mut self) -> Result<bool, Refusal> {
        Ok(self.take_word("FROM")? || self.take_word("IN")?)
    }

    fn of_database(&mut self, show: &'static str) -> Result<Session<'a>, Refusal> {
        let database = if self.from()? { Some(self.name()?) } else { None };
        Ok(Session::OfDatabase { show, database, rest: self.like()? })
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
        let mut chosen = Vec::new();
        if self.take_word("LIKE")? {
            chosen.push(("LIKE", self.pattern()?));
        } else if self.take_word("WHERE")? {
            chosen = self.chosen_variables()?;
        }
        let mut text = format!("SHOW VARIABLES WHERE ({HIDDEN_VARIABLES}");
        for (at, (operator, pattern)) in chosen.iter().enumerate() {
            text.push_str(if at == 0 { " AND ((" } else { ") OR (" });
            text.push_str("`Variable_name` ");
            text.push_str(operator);
            text.push(' ');
            append_text(&mut text, pattern);
        }
        text.push_str(if chosen.is_empty() { ")" } else { ")))" });
        Ok(Session::Shown(text.into()))
    }

    fn chosen_variables(&mut self) -> Result<Vec<(&'static str, Cow<'a, str>)>, Refusal> {
        let mut chosen = Vec::new();
        loop {
            let column = self.name()?;
            if !column.eq_ignore_ascii_case("Variable_name") {
                return Err(Refusal::of("SHOW VARIABLES by anything but Variable_name"));
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
                return Ok(chosen);
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

fn silent(text: impl Into<Cow<'static, str>>) -> Session<'static> {
    Session::Silent(text.into())
}

fn wrong_value() -> Refusal {
    Refusal::of("SET of this form")
}
