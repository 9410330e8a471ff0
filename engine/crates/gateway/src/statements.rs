//! Approved statements: parsing a client's text, finding the approved statement, and building the text for the server.
//!
//! The server never gets a client's text. It gets the approved text, with the client's values encoded again by the
//! gateway. If the gateway parses a text wrongly, the text can therefore match another approved statement or change a
//! value, but it cannot become an arbitrary statement.

use crate::session_statements;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, LazyLock};
use zeroize::optimization_barrier;

/// The separator between the tokens of a normalised statement (its shape). No token contains it outside quotes.
pub const SEPARATOR: u8 = 0x1F;
const MAX_QUOTED_CHARS: usize = 200;

/// The words after which a text in quotes is a value. After any other word a text in quotes may be an alias, so the
/// gateway treats it as a fixed part of the statement.
static WORDS_BEFORE_VALUES: LazyLock<HashSet<&[u8]>> = LazyLock::new(|| {
    let words = "all and between binary case date distinct div else escape having interval like limit mod not offset on or \
                 regexp return rlike rows select separator sql_calc_found_rows straight_join then time timestamp when where \
                 while xor";
    words.split(' ').map(str::as_bytes).collect()
});
/// The words that end a list after ORDER BY or GROUP BY.
const WORDS_AFTER_LISTS: [&[u8]; 5] = [b"having", b"limit", b"select", b"separator", b"union"];
/// The first words of statements that can be approved. SET, PREPARE and CALL are missing. They could change settings,
/// such as the character set, on which the gateway's encoding of values depends.
const FIRST_WORDS: [&str; 15] = [
    "select", "with", "(", "insert", "replace", "update", "delete", "show", "describe", "desc", "explain", "do",
    "truncate", "lock", "unlock",
];
/// The known operators, the longest first, because the first match is used.
const OPERATORS: [&[u8]; 28] = [
    b"<=>", b"->>", b"<=", b">=", b"<>", b"!=", b"<<", b">>", b"&&", b"||", b"->", b"(", b")", b",", b".", b"+", b"-",
    b"*", b"/", b"%", b"&", b"|", b"^", b"~", b"=", b"<", b">", b"!",
];

/// The kind of a value in a statement. An approval can require a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A number: digits, optionally with a sign, a point and an exponent.
    Number,
    /// A string, bytes, a date or a time.
    Text,
}

impl Kind {
    /// Return the kind of a parameter with this `MYSQL_TYPE_…`. Return None for NULL and for forbidden types.
    pub fn from_type(number: u8) -> Option<Self> {
        match number {
            0x00..=0x05 | 0x08 | 0x09 | 0x0D | 0xF6 => Some(Kind::Number),
            0x07 | 0x0A..=0x0C | 0x0F | 0xF5 | 0xF9..=0xFE => Some(Kind::Text),
            _ => None,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Kind::Number => "number",
            Kind::Text => "text",
        }
    }
}

/// The decision of an approval about one result column (output): to encrypt the column or to send it unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Encrypt,
    /// Send the result column unchanged, unless it is a protected column. Protected columns are always encrypted.
    Plain,
}

/// The decision of an approval about the result columns (outputs) of its statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outputs {
    /// One decision for each column of the answer. An answer with another number of columns ends the session.
    Each(Box<[Verdict]>),
    /// The same decision for all result columns. None if there is no decision: whether a result column is encrypted then
    /// depends on the table column from which its values come.
    All(Option<Verdict>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Servers could parse this construct (such as "a second statement after ';'") differently from the gateway.
    Unreadable(&'static str),
    NotApproved(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unreadable(why) => write!(out, "the gateway does not accept {why} from this account"),
            Refusal::NotApproved(why) => out.write_str(why),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// The kind of a literal. None for a parameter of a prepared statement.
    pub kind: Option<Kind>,
    token: usize,
    /// The start and end of the value in the buffer `Reading::written`.
    written: (usize, usize),
}

/// The parsed text of a statement. The object is reused for the next text, which avoids allocations.
#[derive(Debug, Default)]
pub struct Reading {
    /// The tokens, joined by separators. Outside quotes they are in lower case, and each value is a `?`.
    shape: Vec<u8>,
    tokens: Vec<(usize, usize)>,
    values: Vec<Value>,
    /// All values as the gateway sends them to the server.
    written: Vec<u8>,
    /// The lists after ORDER BY or GROUP BY that are still open while the text is parsed. Each list is stored as the
    /// depth of parentheses at which it began.
    lists: Vec<usize>,
}

impl Reading {
    /// Parse a text. If `has_parameters` is true, question marks outside quotes stand for values. Otherwise they are
    /// refused.
    pub fn read(&mut self, text: &[u8], has_parameters: bool) -> Result<(), Refusal> {
        self.erase();
        let mut scanner = Scanner { text, at: 0, reading: self, has_parameters, previous: Previous::Closed, depth: 0 };
        scanner.scan().map_err(Refusal::Unreadable)
    }

    /// Erase the parsed text from memory, because it contains a client's values.
    fn erase(&mut self) {
        for bytes in [&mut self.shape, &mut self.written] {
            bytes.fill(0);
            optimization_barrier(&bytes[..]);
            bytes.clear();
        }
        self.tokens.clear();
        self.values.clear();
        self.lists.clear();
    }

    pub fn shape(&self) -> &[u8] {
        &self.shape
    }

    pub fn shape_tokens(&self) -> impl Iterator<Item = &[u8]> {
        self.shape.split(|byte| *byte == SEPARATOR)
    }

    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Return a value as the gateway sends it to the server.
    pub fn written(&self, value: &Value) -> &[u8] {
        &self.written[value.written.0..value.written.1]
    }

    /// Return whether the statement contains nested queries. Servers may report a wrong table column as the origin of
    /// values that come from a nested query.
    pub fn is_nested(&self) -> bool {
        let mut selects = 0;
        self.shape_tokens().any(|token| {
            selects += usize::from(token == b"select");
            selects > 1 || matches!(token, b"with" | b"table" | b"json_table")
        })
    }

    /// Split the text at the values that `is_placeholder` selects, and return the parts without these values. Each run
    /// of blanks is replaced by one space.
    pub fn text_between(&self, text: &[u8], is_placeholder: impl Fn(&Value) -> bool) -> Vec<Vec<u8>> {
        let mut text_between = vec![Vec::new()];
        let mut placeholders =
            self.values.iter().filter(|value| is_placeholder(value)).map(|value| value.token).peekable();
        let mut last_end = None;
        for (position, (start, end)) in self.tokens.iter().enumerate() {
            let part = text_between.last_mut().expect("at least one part");
            if last_end.is_some_and(|last_end| last_end < start) {
                part.push(b' ');
            }
            last_end = Some(end);
            match placeholders.next_if_eq(&position) {
                Some(_) => text_between.push(Vec::new()),
                None => part.extend_from_slice(&text[*start..*end]),
            }
        }
        text_between
    }

    fn not_approved(&self) -> Refusal {
        let mut shape = String::from_utf8_lossy(&self.shape).replace(char::from(SEPARATOR), " ");
        if let Some((end, _)) = shape.char_indices().nth(MAX_QUOTED_CHARS) {
            shape.truncate(end);
            shape.push_str("...");
        }
        Refusal::NotApproved(format!(
            "this statement is not approved for this account: {shape} (to approve it, record it with 'costof gateway \
             --learn', review it, and add it to [[statements]] of the rules)"
        ))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.erase();
    }
}

/// The kind of the previous token, which decides whether a value may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Previous {
    /// The previous token is an operator, an opening parenthesis, a comma or a word after which a value may follow.
    Open,
    /// The next token begins an expression after ORDER BY or GROUP BY. A number there would name a result column
    /// (`ORDER BY 2`).
    List,
    Closed,
}

/// A scanner that parses a text token by token into a [`Reading`].
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    reading: &'a mut Reading,
    has_parameters: bool,
    previous: Previous,
    depth: usize,
}

type Scanned = Result<(), &'static str>;

impl Scanner<'_> {
    fn scan(&mut self) -> Scanned {
        self.skip_leading_comments()?;
        loop {
            self.skip_blanks();
            let Some(&first) = self.text.get(self.at) else { break };
            match first {
                b'0'..=b'9' => self.number(self.at)?,
                b'+' | b'-' if self.previous == Previous::Open && self.next_is_digit(1) => {
                    self.at += 1;
                    self.number(self.at - 1)?;
                }
                b'\'' | b'"' => self.string()?,
                b'`' => self.quoted_name()?,
                b'@' => self.variable()?,
                b'A'..=b'Z' | b'a'..=b'z' | b'_' => self.word()?,
                b'?' if self.has_parameters => self.parameter()?,
                b';' => {
                    self.at += 1;
                    self.skip_blanks();
                    if self.at < self.text.len() {
                        return Err("a second statement after ';'");
                    }
                }
                _ => self.operator()?,
            }
        }
        if self.reading.shape.is_empty() { Err("an empty statement") } else { Ok(()) }
    }

    fn next_is_digit(&self, ahead: usize) -> bool {
        self.text.get(self.at + ahead).is_some_and(u8::is_ascii_digit)
    }

    fn skip_blanks(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skip comments before a statement, which some drivers add.
    fn skip_leading_comments(&mut self) -> Scanned {
        loop {
            self.skip_blanks();
            match &self.text[self.at..] {
                [b'/', b'*', b'!' | b'+', ..] | [b'/', b'*', b'M', b'!', ..] => {
                    return Err("a comment that servers execute");
                }
                [b'/', b'*', rest @ ..] => {
                    let end = rest.windows(2).position(|pair| pair == b"*/");
                    self.at += 4 + end.ok_or("a comment without an end")?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Record the token from `start` to the current position. `shape` is the token's form in the normalised statement.
    fn token(&mut self, start: usize, shape: &[u8]) {
        if !self.reading.shape.is_empty() {
            self.reading.shape.push(SEPARATOR);
        }
        self.reading.shape.extend_from_slice(shape);
        self.reading.tokens.push((start, self.at));
        self.previous = Previous::Closed;
    }

    /// Record the token from `start` to the current position, and append it to the normalised statement in lower case.
    fn folded_token(&mut self, start: usize) {
        let text = self.text;
        self.token(start, &text[start..self.at]);
        let begin = self.reading.shape.len() - (self.at - start);
        self.reading.shape[begin..].make_ascii_lowercase();
    }

    /// Return an error if servers might take the next byte for a part of this token.
    fn end_token(&self) -> Scanned {
        let is_open = self.text.get(self.at).is_some_and(|next| is_word_byte(*next) || b"'\"`@\\?".contains(next));
        let is_beyond_ascii = self.text.get(self.at).is_some_and(|next| !next.is_ascii());
        match is_open || is_beyond_ascii {
            true => Err("a word, a quote or a '?' right after a number, a name, a '?' or a quoted text"),
            false => Ok(()),
        }
    }

    /// Record the value that was appended to `written` last. If no value may follow the previous token, record the
    /// value as a fixed part of the statement.
    fn value(&mut self, kind: Kind, start: usize, written: usize) -> Scanned {
        self.end_token()?;
        let end = self.reading.written.len();
        if self.previous == Previous::Open {
            self.reading.values.push(Value {
                kind: Some(kind),
                token: self.reading.tokens.len(),
                written: (written, end),
            });
            self.token(start, b"?");
            return Ok(());
        }
        let literal = self.reading.written.split_off(written);
        if literal.contains(&SEPARATOR) {
            return Err("a control character in a text that is not a value");
        }
        self.token(start, &literal);
        Ok(())
    }

    fn parameter(&mut self) -> Scanned {
        if self.previous != Previous::Open {
            return Err("a '?' where no value is allowed, or in a list of ORDER BY or GROUP BY");
        }
        self.at += 1;
        self.end_token()?;
        let end = self.reading.written.len();
        self.reading.values.push(Value { kind: None, token: self.reading.tokens.len(), written: (end, end) });
        self.token(self.at - 1, b"?");
        Ok(())
    }

    fn skip_digits(&mut self) {
        while self.next_is_digit(0) {
            self.at += 1;
        }
    }

    /// Scan a number: digits, with an optional fraction and an optional exponent. `start` is the position of the sign,
    /// or of the first digit if there is no sign.
    fn number(&mut self, start: usize) -> Scanned {
        let digits = self.at;
        self.skip_digits();
        if self.text.get(self.at) == Some(&b'.') {
            if !self.next_is_digit(1) {
                return Err("a number that ends with a point");
            }
            self.at += 1;
            self.skip_digits();
        }
        if let [b'e' | b'E', rest @ ..] = &self.text[self.at..] {
            let sign = usize::from(matches!(rest.first(), Some(b'+' | b'-')));
            if !self.next_is_digit(1 + sign) {
                return Err("a word right after a number");
            }
            self.at += 1 + sign;
            self.skip_digits();
        }
        if self.text.get(self.at) == Some(&b'.') {
            return Err("a number with two points");
        }
        let written = self.reading.written.len();
        if self.text[start] == b'-' {
            // Without the space, this minus and a minus before it would begin a comment (`--`).
            self.reading.written.extend_from_slice(b" -");
        }
        self.reading.written.extend_from_slice(&self.text[digits..self.at]);
        self.value(Kind::Number, start, written)
    }

    /// Scan a quoted text as servers do without ANSI_QUOTES and NO_BACKSLASH_ESCAPES. Pass decoded bytes to `append`.
    fn content(&mut self, append: fn(&mut Vec<u8>, u8)) -> Scanned {
        let quote = self.text[self.at];
        self.at += 1;
        loop {
            let out = &mut self.reading.written;
            match self.text[self.at..] {
                [] => return Err("a quote without an end"),
                [0, ..] => return Err("a NUL"),
                [first, second, ..] if first == quote && second == quote => {
                    append(out, quote);
                    self.at += 2;
                }
                [first, ..] if first == quote => {
                    self.at += 1;
                    return Ok(());
                }
                [b'\\', escaped, ..] => {
                    match escaped {
                        b'0' => append(out, 0),
                        b'b' => append(out, 0x08),
                        b'n' => append(out, b'\n'),
                        b'r' => append(out, b'\r'),
                        b't' => append(out, b'\t'),
                        b'Z' => append(out, 0x1A),
                        b'\'' | b'"' | b'\\' => append(out, escaped),
                        // Servers keep this backslash, because it escapes `%` and `_` in patterns of LIKE.
                        b'%' | b'_' => {
                            append(out, b'\\');
                            append(out, escaped);
                        }
                        _ => return Err("a backslash before a character that needs no escape"),
                    }
                    self.at += 2;
                }
                [byte, ..] => {
                    append(out, byte);
                    self.at += 1;
                }
            }
        }
    }

    fn string(&mut self) -> Scanned {
        let (start, written) = (self.at, self.reading.written.len());
        self.reading.written.push(b'\'');
        self.content(append_quoted)?;
        self.reading.written.push(b'\'');
        if str::from_utf8(&self.reading.written[written..]).is_err() {
            return Err("a text that is not UTF-8");
        }
        self.value(Kind::Text, start, written)
    }

    /// Scan a binary literal, `_binary'…'` or `x'…'`. `start` is the position of the prefix.
    fn bytes(&mut self, start: usize, is_hexadecimal: bool) -> Scanned {
        let written = self.reading.written.len();
        self.reading.written.extend_from_slice(b"_binary X'");
        let digits = self.reading.written.len();
        if is_hexadecimal {
            self.content(Vec::push)?;
            let content = &self.reading.written[digits..];
            if content.len() % 2 == 1 || !content.iter().all(u8::is_ascii_hexdigit) {
                return Err("bytes that are not pairs of hexadecimal digits");
            }
        } else {
            self.content(append_hexadecimal)?;
        }
        self.reading.written.push(b'\'');
        self.value(Kind::Text, start, written)
    }

    fn quoted_name(&mut self) -> Scanned {
        let start = self.at;
        self.at += 1;
        loop {
            match self.text[self.at..] {
                [b'`', b'`', ..] => self.at += 2,
                [b'`', ..] => break,
                [0 | SEPARATOR, ..] => return Err("a control character in a name"),
                [_, ..] => self.at += 1,
                [] => return Err("a quote without an end"),
            }
        }
        self.at += 1;
        self.end_token()?;
        let text = self.text;
        let name = &text[start..self.at];
        if str::from_utf8(name).is_err() {
            return Err("a name that is not UTF-8");
        }
        self.token(start, name);
        Ok(())
    }

    fn variable(&mut self) -> Scanned {
        let start = self.at;
        let [b'@', b'@', b'A'..=b'Z' | b'a'..=b'z' | b'_', ..] = self.text[self.at..] else {
            return Err("a user variable (@)");
        };
        self.at += 2;
        while self.text.get(self.at).is_some_and(|byte| is_word_byte(*byte) || *byte == b'.') {
            self.at += 1;
        }
        self.end_token()?;
        self.folded_token(start);
        Ok(())
    }

    fn word(&mut self) -> Scanned {
        let start = self.at;
        while self.text.get(self.at).is_some_and(|byte| is_word_byte(*byte)) {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        let is_hexadecimal = word.eq_ignore_ascii_case(b"x");
        let is_binary = word.eq_ignore_ascii_case(b"_binary");
        if is_binary {
            self.skip_blanks();
        }
        if (is_hexadecimal || is_binary) && self.text.get(self.at) == Some(&b'\'') {
            return self.bytes(start, is_hexadecimal);
        }
        self.end_token()?;
        self.folded_token(start);
        let lists = &mut self.reading.lists;
        let folded = self.reading.shape.rsplit(|byte| *byte == SEPARATOR).next().unwrap_or_default();
        if WORDS_AFTER_LISTS.contains(&folded) {
            lists.pop_if(|list| *list == self.depth);
        }
        if folded == b"by" {
            if lists.last() != Some(&self.depth) {
                lists.push(self.depth);
            }
            self.previous = Previous::List;
        } else if WORDS_BEFORE_VALUES.contains(folded) {
            self.previous = Previous::Open;
        }
        Ok(())
    }

    fn operator(&mut self) -> Scanned {
        let rest = &self.text[self.at..];
        match rest {
            [b'-', b'-', ..] | [b'#', ..] | [b'/', b'*', ..] => return Err("a comment"),
            [b'.', b'0'..=b'9', ..] => return Err("a number that begins with a point"),
            [0x80..=0xFF, ..] => return Err("a non-ASCII character outside quotes"),
            [b'?', ..] => return Err("a '?' in a statement that is not prepared"),
            _ => {}
        }
        let known = OPERATORS.iter().find(|operator| rest.starts_with(operator));
        let operator = *known.ok_or("a character that is not an operator")?;
        let (start, before) = (self.at, self.previous);
        self.at += operator.len();
        self.token(start, operator);
        let lists = &mut self.reading.lists;
        self.previous = match operator {
            b"(" => {
                self.depth += 1;
                if before == Previous::List { Previous::List } else { Previous::Open }
            }
            b")" => {
                self.depth = self.depth.saturating_sub(1);
                while lists.pop_if(|list| *list > self.depth).is_some() {}
                Previous::Closed
            }
            b"." => Previous::Closed,
            b"," if lists.last() == Some(&self.depth) => Previous::List,
            b"+" | b"-" | b"~" | b"!" if before == Previous::List => Previous::List,
            _ => Previous::Open,
        };
        Ok(())
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

/// Append a byte of a string literal as the gateway sends it: quotes and backslashes are doubled, NUL becomes `\0`.
fn append_quoted(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'\'' => out.extend_from_slice(b"''"),
        b'\\' => out.extend_from_slice(b"\\\\"),
        0 => out.extend_from_slice(b"\\0"),
        byte => out.push(byte),
    }
}

fn append_hexadecimal(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// The requirement of an approved statement for one of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// A `?` in the approved text. It allows any value of this kind, or any value at all if the kind is None.
    Any(Option<Kind>),
    /// A literal in the approved text, as the gateway sends it to the server. Only an equal value is allowed.
    Fixed(Box<[u8]>),
}

/// An approved statement, or a statement about the session that needs no approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    text_between: Vec<Vec<u8>>,
    places: Vec<Place>,
    database: Option<Box<[u8]>>,
    pub outputs: Outputs,
    /// True if the answer may contain the id that the server generated for a new row.
    pub shows_id: bool,
    /// The database that becomes current with this statement (`USE shop`). None if the statement changes no database.
    pub uses: Option<Vec<u8>>,
    is_session_statement: bool,
}

/// An entry `[[statements]]` of a rules file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The statement's text, with a `?` for each value that may vary.
    pub text: String,
    /// The database in which the statement is approved. None if it is approved in every database.
    pub database: Option<String>,
    pub outputs: Option<Vec<Verdict>>,
    /// The kind of each `?`, a number or a text. None if all kinds are allowed.
    pub values: Option<Vec<Kind>>,
}

impl Statement {
    fn approved(approval: &Approval, reading: &Reading) -> Result<Self, String> {
        let first = reading.shape_tokens().next().unwrap_or_default();
        if !FIRST_WORDS.iter().any(|word| word.as_bytes() == first) {
            let first = String::from_utf8_lossy(first).to_uppercase();
            return Err(format!("a statement that begins with {first} cannot be approved"));
        }
        let outputs = match &approval.outputs {
            Some(verdicts) => Outputs::Each(verdicts.clone().into()),
            None => Outputs::All(reading.is_nested().then_some(Verdict::Encrypt)),
        };
        let mut places = places(reading);
        if let Some(kinds) = &approval.values {
            let mut open_places: Vec<_> =
                places.iter_mut().filter(|position| matches!(position, Place::Any(_))).collect();
            if open_places.len() != kinds.len() {
                let (placeholders, kinds) = (open_places.len(), kinds.len());
                return Err(format!("'values' has {kinds} kinds, but the text has {placeholders} question marks"));
            }
            open_places.iter_mut().zip(kinds).for_each(|(position, kind)| **position = Place::Any(Some(*kind)));
        }
        Ok(Statement {
            text_between: reading.text_between(approval.text.as_bytes(), |value| value.kind.is_none()),
            places,
            database: approval.database.as_ref().map(|name| name.as_bytes().into()),
            outputs,
            shows_id: !reading.shape_tokens().any(|token| token == b"last_insert_id"),
            uses: None,
            is_session_statement: false,
        })
    }

    /// Create a statement about the session, which needs no approval. The gateway sends `text` to the server.
    pub fn for_session(text: impl Into<Vec<u8>>) -> Self {
        Statement {
            text_between: vec![text.into()],
            places: Vec::new(),
            database: None,
            outputs: Outputs::All(Some(Verdict::Plain)),
            shows_id: false,
            uses: None,
            is_session_statement: true,
        }
    }

    /// Append the text for the server: the approved text with the values of the parsed text.
    pub fn append(&self, reading: &Reading, out: &mut Vec<u8>) {
        let open_places =
            self.places.iter().zip(&reading.values).filter(|(position, _)| matches!(position, Place::Any(_)));
        let (first, other_parts) = self.text_between.split_first().expect("at least one part");
        out.extend_from_slice(first);
        for ((_, value), part) in open_places.zip(other_parts) {
            match value.kind {
                Some(_) => out.extend_from_slice(reading.written(value)),
                None => out.push(b'?'),
            }
            out.extend_from_slice(part);
        }
    }

    /// Return the approved kind of each parameter of the prepared text. None stands for a parameter of any kind.
    pub fn parameters(&self, reading: &Reading) -> Vec<Option<Kind>> {
        let parameter = |(place, value): (&Place, &Value)| match (place, value.kind) {
            (Place::Any(kind), None) => Some(*kind),
            _ => None,
        };
        self.places.iter().zip(&reading.values).filter_map(parameter).collect()
    }

    /// Return the number of literals in the approved text.
    fn fixed(&self) -> usize {
        self.places.iter().filter(|place| matches!(place, Place::Fixed(_))).count()
    }

    /// Return whether each literal of the approved text equals the literal at the same place in the parsed text.
    fn has_fixed(&self, reading: &Reading) -> bool {
        self.places.iter().zip(&reading.values).all(|(place, value)| match place {
            Place::Any(_) => true,
            Place::Fixed(written) => value.kind.is_some() && reading.written(value) == &**written,
        })
    }

    /// Return the reason why the approval does not cover this text in this database. Return None if the approval
    /// covers the text. Call this only if the text and the statement have the same normalised form.
    fn refusal_reason(&self, reading: &Reading, database: Option<&[u8]>) -> Option<String> {
        if let Some(name) = self.database.as_deref().filter(|name| Some(*name) != database) {
            let name = String::from_utf8_lossy(name);
            return Some(format!("this statement is approved for another database: select '{name}' first"));
        }
        let pairs = self.places.iter().zip(&reading.values).enumerate();
        pairs.into_iter().find_map(|(at, pair)| match pair {
            (Place::Any(Some(kind)), Value { kind: Some(other), .. }) if other != kind => {
                let (number, kind) = (at + 1, kind.word());
                Some(format!("value {number} of this statement must be a {kind}, as approved"))
            }
            _ => None,
        })
    }
}

fn places(reading: &Reading) -> Vec<Place> {
    let place = |value: &Value| match value.kind {
        None => Place::Any(None),
        Some(_) => Place::Fixed(reading.written(value).into()),
    };
    reading.values.iter().map(place).collect()
}

/// The approved statements of a rules file, and the statements about the session, by their normalised form (shape).
#[derive(Debug, Clone)]
pub struct Statements {
    by_shape: HashMap<Box<[u8]>, Vec<Arc<Statement>>>,
    approved: usize,
}

impl Default for Statements {
    fn default() -> Self {
        let mut statements = Statements { by_shape: HashMap::new(), approved: 0 };
        let mut reading = Reading::default();
        for (text, sent) in session_statements::fixed() {
            reading.read(text.as_bytes(), false).expect("the gateway's own texts are valid");
            let statement = Statement { places: places(&reading), ..Statement::for_session(sent) };
            statements.by_shape.entry(reading.shape().into()).or_default().push(statement.into());
        }
        statements
    }
}

impl Statements {
    /// Add an approved statement. Errors: a message that tells why the statement cannot be approved, or that it was
    /// already added.
    pub fn add(&mut self, approval: &Approval) -> Result<(), String> {
        let mut reading = Reading::default();
        reading.read(approval.text.as_bytes(), true).map_err(|refusal| match refusal {
            Refusal::Unreadable(why) => format!("the text has {why}"),
            Refusal::NotApproved(why) => why,
        })?;
        let statement = Statement::approved(approval, &reading)?;
        let same_shape = self.by_shape.entry(reading.shape().into()).or_default();
        let is_equal = |known: &Arc<Statement>| {
            let fixed = known.places.iter().zip(&statement.places).all(|pair| match pair {
                (Place::Any(_), Place::Any(_)) => true,
                (one, other) => one == other,
            });
            fixed && known.database == statement.database && !known.is_session_statement
        };
        if same_shape.iter().any(is_equal) {
            return Err("the same statement appears twice".into());
        }
        same_shape.push(statement.into());
        // The first match is used, so put statements with more literals first. Among statements with the same number of
        // literals, put statements for a single database first.
        same_shape.sort_by_key(|statement| std::cmp::Reverse((statement.fixed(), statement.database.is_some())));
        self.approved += 1;
        Ok(())
    }

    /// Return a copy that encrypts all result columns of each statement that names one of these views. A statement is
    /// not changed if its approval says which result columns to encrypt.
    pub fn encrypting_views(&self, views: &HashSet<String>) -> Self {
        let mut statements = self.clone();
        for (shape, same_shape) in &mut statements.by_shape {
            let mut tokens = shape.split(|byte| *byte == SEPARATOR);
            if tokens.any(|token| views.contains(&bare_name(token))) {
                for statement in same_shape.iter_mut().filter(|statement| statement.outputs == Outputs::All(None)) {
                    Arc::make_mut(statement).outputs = Outputs::All(Some(Verdict::Encrypt));
                }
            }
        }
        statements
    }

    pub fn count(&self) -> usize {
        self.approved
    }

    /// Parse a text into `reading`, and return the approved statement that it matches in this database. Errors: the
    /// reason why the text is refused.
    pub fn find(
        &self,
        text: &[u8],
        is_prepared: bool,
        database: Option<&[u8]>,
        reading: &mut Reading,
    ) -> Result<Arc<Statement>, Refusal> {
        reading.read(text, is_prepared)?;
        let same_shape = self.by_shape.get(reading.shape()).into_iter().flatten();
        let mut refusal_reason = None;
        for statement in same_shape.filter(|statement| statement.has_fixed(reading)) {
            match statement.refusal_reason(reading, database) {
                None => return Ok(statement.clone()),
                why => refusal_reason = why,
            }
        }
        if let Some(statement) = session_statements::read(reading) {
            return Ok(statement.into());
        }
        Err(refusal_reason.map_or_else(|| reading.not_approved(), Refusal::NotApproved))
    }

    /// Return whether `statement`, which earlier rules approved, is still approved with the same decisions about its
    /// result columns.
    pub fn still_approves(&self, statement: &Statement) -> bool {
        let is_known = |known: &Arc<Statement>| **known == *statement;
        statement.is_session_statement || self.by_shape.values().flatten().any(is_known)
    }
}

/// Return a token of a normalised statement as a name: in lower case and without its quotes.
pub fn bare_name(token: &[u8]) -> String {
    String::from_utf8_lossy(token).trim_matches('`').replace("``", "`").to_lowercase()
}

#[cfg(test)]
mod tests;
