//! What holds of every statement that passes, wherever in it, while its tokens are read one by one.

use super::token::{END, Kind, Token, Tokens};
use super::words::{
    BEFORE_PARENTHESES, BEFORE_VALUES, BETWEEN_SELECTS, FUNCTIONS, TELLING_FUNCTIONS, TELLING_VARIABLES, is_among,
};
use super::{Columns, Refusal, Surroundings};
use crate::gateway::rules::Catalogue;

/// A statement, its last tokens, and what was found in it so far.
pub struct Scanner<'a> {
    tokens: Tokens<'a>,
    catalogue: Option<&'a Catalogue>,
    /// The last one, and the one before it.
    last: [Token<'a>; 2],
    selects: u32,
    /// A table was named.
    from: bool,
    /// Names that are sent with its columns may be made up.
    made_up: bool,
    /// What data were like can be told from it without a table.
    telling: bool,
}

impl<'a> Scanner<'a> {
    pub fn new(sql: &'a [u8], surroundings: &Surroundings<'a>) -> Self {
        Scanner {
            tokens: Tokens::new(sql, surroundings.backslash_escapes),
            catalogue: surroundings.rules.catalogue.as_ref(),
            last: [END; 2],
            selects: 0,
            from: false,
            made_up: false,
            telling: false,
        }
    }

    /// The next token, which may stand where it does.
    pub fn next(&mut self) -> Result<Token<'a>, Refusal> {
        let token = self.tokens.next()?;
        self.check(&token)?;
        self.last = [token, self.last[0]];
        Ok(token)
    }

    /// As `next`, where the token's place is known to be right.
    pub fn skip_one(&mut self) -> Result<Token<'a>, Refusal> {
        let token = self.tokens.next()?;
        self.last = [token, self.last[0]];
        Ok(token)
    }

    /// The next token, which stays and may be anything.
    pub fn peek(&self) -> Result<Token<'a>, Refusal> {
        self.tokens.peek()
    }

    /// There is nothing more.
    pub fn end(&mut self) -> Result<(), Refusal> {
        loop {
            let token = self.next()?;
            match token.kind {
                Kind::End => return Ok(()),
                _ if token.is_sign(";") => {}
                _ => return Err(Refusal::of("more at the end of this statement")),
            }
        }
    }

    /// Everything up to the end, which changes nothing but the rows of a deletion.
    pub fn rest_of_a_query(&mut self) -> Result<(), Refusal> {
        loop {
            let before = self.last[0];
            let token = self.next()?;
            let changes = match token {
                Token { kind: Kind::End, .. } => return Ok(()),
                _ if token.is("UPDATE") => !before.is("FOR"),
                _ if token.is("SET") => !before.is("CHARACTER"),
                _ if token.is("INSERT") || token.is("REPLACE") => !self.peek()?.is_sign("("),
                _ => token.is("DELETE"),
            };
            if changes {
                return Err(Refusal::of_word("query with", &token));
            }
        }
    }

    /// Where the columns come from that the statement gives.
    pub fn columns(&self) -> Columns {
        if self.made_up { Columns::Anything } else { Columns::Tables }
    }

    /// It has no table, variable or function that could tell of data.
    pub fn reads_no_data(&self) -> bool {
        self.selects == 0 && !self.from && !self.telling && !self.made_up
    }

    /// Whether a name is a view's.
    pub fn is_view(&self, name: &Token<'_>) -> bool {
        self.catalogue.is_none_or(|catalogue| catalogue.has_view(name.text)) || name.text.contains(&b'`')
    }

    fn check(&mut self, token: &Token<'a>) -> Result<(), Refusal> {
        match token.kind {
            Kind::Word => self.check_word(token)?,
            Kind::Variable => self.telling = true,
            Kind::ServerVariable => self.telling |= is_among(token.text, TELLING_VARIABLES),
            _ if token.is_sign("(") => self.check_parenthesis()?,
            _ if token.is_sign(":=") => return Err(Refusal::of("assignment to a variable")),
            _ if token.is_sign(";") && self.peek()?.kind != Kind::End => {
                return Err(Refusal::of("second statement behind the first"));
            }
            _ => {}
        }
        if token.is_name() && self.catalogue.is_some() {
            self.made_up |= self.is_view(token);
        }
        Ok(())
    }

    fn check_word(&mut self, word: &Token<'a>) -> Result<(), Refusal> {
        match word {
            _ if word.is("SELECT") => self.note_select(),
            _ if word.is("FROM") => self.from |= !self.peek()?.is("DUAL"),
            _ if word.is("INTO") || word.is("PROCEDURE") => return Err(Refusal::of_word("statement with", word)),
            _ if word.is("WITH") => self.made_up |= !self.peek()?.is("ROLLUP"),
            _ if word.is("TABLE") || word.is("VALUES") || word.is("LATERAL") => self.made_up = true,
            // The part behind the point of @@session.name.
            _ if self.last[0].is_sign(".") => self.telling |= is_among(word.text, TELLING_VARIABLES),
            _ => {}
        }
        Ok(())
    }

    /// A SELECT in parentheses may be a table to the one around it, and then the server sends names of the statement's own
    /// making as a table's and its columns'. Where it is a value or a list of values it cannot.
    fn note_select(&mut self) {
        let [last, before] = self.last;
        if last.kind == Kind::End {
            return;
        }
        self.selects += 1;
        let is_value = match before.kind {
            Kind::Word => is_among(before.text, BEFORE_VALUES),
            _ => ["=", "<", ">"].iter().any(|sign| before.is_sign(sign)),
        };
        let is_next_of_a_set = last.kind == Kind::Word && is_among(last.text, BETWEEN_SELECTS);
        self.made_up |= !(last.is_sign("(") && is_value || is_next_of_a_set);
    }

    fn check_parenthesis(&mut self) -> Result<(), Refusal> {
        let [last, before] = self.last;
        match last.kind {
            Kind::Name | Kind::TextOrName => Err(Refusal::of("quoted name before a parenthesis")),
            Kind::Word if before.is_sign(".") => Err(Refusal::of("stored function")),
            Kind::Word if is_among(last.text, BEFORE_PARENTHESES) => Ok(()),
            Kind::Word if is_among(last.text, FUNCTIONS) => self.check_function(&last),
            Kind::Word => Err(Refusal::of_word("function", &last)),
            _ => Ok(()),
        }
    }

    fn check_function(&mut self, function: &Token<'a>) -> Result<(), Refusal> {
        self.telling |= is_among(function.text, TELLING_FUNCTIONS);
        // With an argument it makes that the id that is told next.
        if function.is("LAST_INSERT_ID") && !self.peek()?.is_sign(")") {
            return Err(Refusal::of("LAST_INSERT_ID with an argument"));
        }
        Ok(())
    }
}
