//! SET of session variables and transactions, and `SET STATEMENT`: each is rebuilt from a fixed form.

use super::Parser;
use super::session::{Session, silent};
use crate::sql::Refusal;
use crate::sql::lexer::{Sign, Token};
use crate::sql::settings;
use std::borrow::Cow;

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

    pub(super) fn set(&mut self) -> Result<Session<'a>, Refusal> {
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
}

fn wrong_value() -> Refusal {
    Refusal::of("SET of this form")
}
