//! From tokens to a tree, by recursive descent without backtracking, after the servers' own grammar (`sql_yacc.yy`) and its
//! precedences, as far as statements of that kind may pass. All else is refused.

mod call;
mod change;
mod expression;
mod query;
mod session;
mod set;

use super::Refusal;
use super::lexer::{Lexer, Sign, Token};
use super::tree::{Column, Name, Statement, Table};
use super::words::is_reserved;

pub use session::Session;

/// How deep parentheses, subqueries and operators may be nested.
const DEEPEST: u16 = 64;

/// What a statement is.
#[derive(Debug)]
pub enum Parsed<'a> {
    /// It reads or changes tables.
    Tree {
        /// `SET STATEMENT … FOR `, as it is printed, or nothing.
        before: String,
        statement: Box<Statement<'a>>,
    },
    /// It is about the session, or shows what the server says of itself.
    Session(Session<'a>),
}

/// A statement, read. How many parameters it has goes with it.
///
/// # Errors
/// What is not of the language that passes.
pub fn parse(sql: &[u8], is_prepared: bool) -> Result<(Parsed<'_>, u16), Refusal> {
    if sql.contains(&0) {
        return Err(Refusal::of("statement with a NUL byte"));
    }
    let mut parser = Parser::new(sql, is_prepared)?;
    let parsed = parser.statement()?;
    parser.take_if(Sign::Semicolon)?;
    match parser.next {
        Token::End => Ok((parsed, parser.parameters)),
        _ => Err(parser.unexpected()),
    }
}

/// A view's SELECT, as the server tells it.
///
/// # Errors
/// What is not of the language that passes.
pub fn parse_view(sql: &str) -> Result<super::tree::Query<'_>, Refusal> {
    match parse(sql.as_bytes(), false)? {
        (Parsed::Tree { statement, .. }, _) => match *statement {
            Statement::Query(query) => Ok(query),
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => Err(Refusal::of("view of this form")),
        },
        (Parsed::Session(_), _) => Err(Refusal::of("view of this form")),
    }
}

/// A statement that is being read: the token that comes next, and what is behind it.
pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    next: Token<'a>,
    /// Where that token begins, and where the one before it ends.
    start: usize,
    end: usize,
    depth: u16,
    parameters: u16,
}

impl<'a> Parser<'a> {
    fn new(sql: &'a [u8], is_prepared: bool) -> Result<Self, Refusal> {
        let mut lexer = Lexer::new(sql, is_prepared);
        let start = lexer.skip_blanks()?;
        let next = lexer.token()?;
        Ok(Parser { lexer, next, start, end: 0, depth: 0, parameters: 0 })
    }

    fn statement(&mut self) -> Result<Parsed<'a>, Refusal> {
        if let Some(statement) = self.tree()? {
            return Ok(Parsed::Tree { before: String::new(), statement: statement.into() });
        }
        let Token::Word(word) = self.next else {
            return Err(if self.next == Token::End { Refusal::of("empty statement") } else { self.unexpected() });
        };
        self.take()?;
        if word.eq_ignore_ascii_case("SET") && self.take_word("STATEMENT")? {
            let before = self.settings_of_statement()?;
            let statement = self.tree()?.ok_or_else(|| self.unexpected())?;
            return Ok(Parsed::Tree { before, statement: statement.into() });
        }
        self.session(word).map(Parsed::Session)
    }

    /// A statement that reads or changes tables, where one begins here.
    fn tree(&mut self) -> Result<Option<Statement<'a>>, Refusal> {
        let begins = |words: &[&str]| words.iter().any(|word| self.is(word));
        Ok(Some(match () {
            () if begins(&["SELECT", "WITH"]) || self.is_sign(Sign::Open) => Statement::Query(self.query()?),
            () if begins(&["INSERT", "REPLACE"]) => Statement::Insert(self.insert()?),
            () if begins(&["UPDATE"]) => Statement::Update(self.update()?),
            () if begins(&["DELETE"]) => Statement::Delete(self.delete()?),
            () => return Ok(None),
        }))
    }

    /// Take the next token.
    fn take(&mut self) -> Result<Token<'a>, Refusal> {
        self.end = self.lexer.place();
        self.start = self.lexer.skip_blanks()?;
        let next = self.lexer.token()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn is(&self, word: &str) -> bool {
        matches!(self.next, Token::Word(next) if next.eq_ignore_ascii_case(word))
    }

    fn is_sign(&self, sign: Sign) -> bool {
        self.next == Token::Sign(sign)
    }

    /// The next token is a word, and an opening parenthesis follows it.
    fn is_call(&self) -> bool {
        let mut behind = self.lexer;
        let place = behind.skip_blanks();
        matches!(self.next, Token::Word(_)) && place.is_ok_and(|place| behind.is_at(place, b'('))
    }

    fn take_if(&mut self, sign: Sign) -> Result<bool, Refusal> {
        let is_it = self.is_sign(sign);
        if is_it {
            self.take()?;
        }
        Ok(is_it)
    }

    fn take_word(&mut self, word: &str) -> Result<bool, Refusal> {
        let is_it = self.is(word);
        if is_it {
            self.take()?;
        }
        Ok(is_it)
    }

    /// All of these words in turn, where the first of them is there.
    fn take_words(&mut self, words: &[&str]) -> Result<bool, Refusal> {
        if !self.take_word(words[0])? {
            return Ok(false);
        }
        for word in &words[1..] {
            self.expect_word(word)?;
        }
        Ok(true)
    }

    fn expect(&mut self, sign: Sign) -> Result<(), Refusal> {
        if self.take_if(sign)? { Ok(()) } else { Err(self.unexpected()) }
    }

    fn expect_word(&mut self, word: &str) -> Result<(), Refusal> {
        if self.take_word(word)? { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> Refusal {
        match &self.next {
            Token::Word(word) => Refusal::word("statement with this use of the word", word),
            Token::End => Refusal::of("statement that ends here"),
            _ => Refusal::of("statement of this form"),
        }
    }

    /// One level deeper for as long as this takes.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Refusal>) -> Result<T, Refusal> {
        self.deepen(1)?;
        let read = read(self)?;
        self.depth -= 1;
        Ok(read)
    }

    fn deepen(&mut self, levels: u16) -> Result<(), Refusal> {
        self.depth += levels;
        if self.depth > DEEPEST { Err(Refusal::of("statement nested so deep")) } else { Ok(()) }
    }

    /// One or more, with commas between them.
    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T, Refusal>) -> Result<Vec<T>, Refusal> {
        let mut all = vec![one(self)?];
        while self.take_if(Sign::Comma)? {
            all.push(one(self)?);
        }
        Ok(all)
    }

    /// `(…, …)`
    fn list_in_parentheses<T>(&mut self, one: impl FnMut(&mut Self) -> Result<T, Refusal>) -> Result<Vec<T>, Refusal> {
        self.expect(Sign::Open)?;
        let all = self.list(one)?;
        self.expect(Sign::Close)?;
        Ok(all)
    }

    /// A name that is quoted, or no reserved word.
    fn name(&mut self) -> Result<Name<'a>, Refusal> {
        match &self.next {
            Token::Word(word) if is_reserved(word) => Err(self.unexpected()),
            _ => self.name_behind_a_point(),
        }
    }

    /// Behind a point any word is a name.
    fn name_behind_a_point(&mut self) -> Result<Name<'a>, Refusal> {
        match self.take()? {
            Token::Word(word) => {
                super::lexer::check_name(word)?;
                Ok(word.into())
            }
            Token::Name(name) => Ok(name),
            _ => Err(Refusal::of("statement without a name where one must be")),
        }
    }

    fn is_name(&self) -> bool {
        match &self.next {
            Token::Word(word) => !is_reserved(word),
            Token::Name(_) => true,
            _ => false,
        }
    }

    /// `[AS] name`; behind AS it may be a text.
    fn alias(&mut self) -> Result<Option<Name<'a>>, Refusal> {
        if self.take_word("AS")? {
            if let Token::Text(_) = self.next
                && let Token::Text(text) = self.take()?
            {
                super::lexer::check_name(&text)?;
                return Ok(Some(text));
            }
            return self.name().map(Some);
        }
        if self.is_name() { self.name().map(Some) } else { Ok(None) }
    }

    /// `[[database.]table.]name`
    fn column(&mut self) -> Result<Column<'a>, Refusal> {
        let first = self.name()?;
        self.column_from(first)
    }

    fn column_from(&mut self, first: Name<'a>) -> Result<Column<'a>, Refusal> {
        if !self.take_if(Sign::Dot)? {
            return Ok(Column { database: None, table: None, name: first });
        }
        let second = self.name_behind_a_point()?;
        if !self.take_if(Sign::Dot)? {
            return Ok(Column { database: None, table: Some(first), name: second });
        }
        let name = self.name_behind_a_point()?;
        Ok(Column { database: Some(first), table: Some(second), name })
    }

    /// `[database.]name`
    fn table_name(&mut self) -> Result<Table<'a>, Refusal> {
        let first = self.name()?;
        let (database, name) = match self.take_if(Sign::Dot)? {
            true => (Some(first), self.name_behind_a_point()?),
            false => (None, first),
        };
        Ok(Table { database, name, alias: None, hints: Vec::new() })
    }

    fn integer(&mut self) -> Result<u64, Refusal> {
        match self.take()? {
            Token::Number(digits) => digits.parse().map_err(|_| Refusal::of("number of this size or form here")),
            _ => Err(Refusal::of("statement without a number where one must be")),
        }
    }
}
