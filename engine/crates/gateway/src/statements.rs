//! Approved statements: how a client's text is read, which approved statement it is, and what the server gets in its place.
//!
//! The server never sees a client's text. It gets the approved text, with the client's values written anew. So a text that
//! is misread can choose another approved statement or give it another value, but it cannot become another statement.

use crate::session_statements;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use zeroize::optimization_barrier;

/// Separates tokens in a shape; it stands in no token outside quotes.
pub const SEPARATOR: u8 = 0x1F;
/// Characters of a shape that an error quotes.
const LONGEST_QUOTE: usize = 200;

/// The words behind which a value may stand. Behind any other word a text may be an alias, so it belongs to the statement.
const WORDS_BEFORE_VALUES: [&[u8]; 34] = [
    b"all",
    b"and",
    b"between",
    b"binary",
    b"case",
    b"date",
    b"distinct",
    b"div",
    b"else",
    b"escape",
    b"having",
    b"interval",
    b"like",
    b"limit",
    b"mod",
    b"not",
    b"offset",
    b"on",
    b"or",
    b"regexp",
    b"return",
    b"rlike",
    b"rows",
    b"select",
    b"separator",
    b"sql_calc_found_rows",
    b"straight_join",
    b"then",
    b"time",
    b"timestamp",
    b"when",
    b"where",
    b"while",
    b"xor",
];
/// The words that end a list behind ORDER BY or GROUP BY.
const WORDS_BEHIND_LISTS: [&[u8]; 5] = [b"having", b"limit", b"select", b"separator", b"union"];
/// The first words of statements that can be approved. SET, PREPARE and CALL are not among them: they could change the
/// settings by which the gateway writes values.
const FIRST_WORDS: [&str; 15] = [
    "select", "with", "(", "insert", "replace", "update", "delete", "show", "describe", "desc", "explain", "do",
    "truncate", "lock", "unlock",
];
/// Longest operators first.
const OPERATORS: [&[u8]; 28] = [
    b"<=>", b"->>", b"<=", b">=", b"<>", b"!=", b"<<", b">>", b"&&", b"||", b"->", b"(", b")", b",", b".", b"+", b"-",
    b"*", b"/", b"%", b"&", b"|", b"^", b"~", b"=", b"<", b">", b"!",
];

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Digits, with a sign, a point and an exponent.
    Number,
    /// A string, bytes, a date or a time.
    Text,
}

impl Kind {
    /// The kind of a parameter by its `MYSQL_TYPE_…`; None for a type that the gateway lets nobody send. NULL has none either.
    pub fn of_type(number: u8) -> Option<Self> {
        match number {
            0x00..=0x05 | 0x08 | 0x09 | 0x0D | 0xF6 => Some(Kind::Number),
            0x07 | 0x0A..=0x0C | 0x0F | 0xF5 | 0xF9..=0xFE => Some(Kind::Text),
            _ => None,
        }
    }

    /// The word for it in the rules.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Number => "number",
            Kind::Text => "text",
        }
    }
}

/// What the rules say of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Encrypt it.
    Encrypt,
    /// Send it as it is, unless it is a protected column.
    Plain,
}

/// What the rules say of all outputs of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outputs {
    /// One verdict for each; an answer with another number of columns ends the session.
    Each(Box<[Verdict]>),
    /// The same for all; None: by the column's origin.
    All(Option<Verdict>),
}

/// Why a statement is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The gateway does not read such a text.
    Unreadable(Cow<'static, str>),
    /// No approved statement has this shape.
    NotApproved(String),
    /// It is approved for another database.
    OtherDatabase(String),
    /// A value, counted from 1, has another kind than the approved one.
    OtherKind(usize, Kind),
}

impl Refusal {
    const fn unreadable(why: &'static str) -> Self {
        Refusal::Unreadable(Cow::Borrowed(why))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unreadable(why) => write!(out, "the gateway does not accept {why} from this account"),
            Refusal::NotApproved(shape) => write!(
                out,
                "this statement is not approved for this account: {shape} (to approve it, learn it with 'costof gateway \
                 --learn', review it, and add it to [[statements]] of the rules)"
            ),
            Refusal::OtherDatabase(name) => {
                write!(out, "this statement is approved for another database: select '{name}' first")
            }
            Refusal::OtherKind(place, kind) => {
                write!(out, "value {place} of this statement must be a {}, as it was approved", kind.word())
            }
        }
    }
}

/// A value of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// None: a parameter of a prepared statement.
    pub kind: Option<Kind>,
    /// Where it lies among the written values.
    written: (usize, usize),
    /// Where it lay in the text.
    place: (usize, usize),
}

/// A statement's text as it was read. It is used again for the next text, so that reading allocates nothing.
#[derive(Debug, Default)]
pub struct Reading {
    /// Its tokens, in lower case outside quotes. Each value is a `?`.
    shape: Vec<u8>,
    values: Vec<Value>,
    /// All values as the server gets them.
    written: Vec<u8>,
    /// The depths of parentheses at which a list behind ORDER BY or GROUP BY is open.
    lists: Vec<usize>,
    /// Where the statement begins, behind comments.
    start: usize,
}

impl Reading {
    /// Read a text. `has_parameters`: question marks stand for values.
    ///
    /// # Errors
    /// What servers could read in another way.
    pub fn read(&mut self, text: &[u8], has_parameters: bool) -> Result<(), Refusal> {
        self.erase();
        let mut scanner = Scanner { text, at: 0, reading: self, has_parameters, previous: Previous::Closed, depth: 0 };
        scanner.scan()
    }

    /// A client's values are in it.
    fn erase(&mut self) {
        for bytes in [&mut self.shape, &mut self.written] {
            bytes.fill(0);
            optimization_barrier(&bytes[..]);
            bytes.clear();
        }
        self.values.clear();
        self.lists.clear();
    }

    /// The tokens with separators between them.
    pub fn shape(&self) -> &[u8] {
        &self.shape
    }

    /// The values in their order.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// A value as the server gets it.
    pub fn written(&self, value: &Value) -> &[u8] {
        &self.written[value.written.0..value.written.1]
    }

    /// Whether it has queries within queries: a server may name another column's origin for a column of such a query.
    pub fn is_nested(&self) -> bool {
        let mut selects = 0;
        self.shape.split(|byte| *byte == SEPARATOR).any(|token| {
            selects += usize::from(token == b"select");
            selects > 1 || matches!(token, b"with" | b"table" | b"json_table")
        })
    }

    /// The shape for people, shortened.
    pub fn quote(&self) -> String {
        let text = String::from_utf8_lossy(&self.shape).replace(char::from(SEPARATOR), " ");
        let end = text.char_indices().nth(LONGEST_QUOTE).map(|(end, _)| end);
        end.map_or_else(|| text.clone(), |end| format!("{}...", &text[..end]))
    }

    /// The text with `?` in place of each value that stands in it, and one space where there were several blanks.
    pub fn learned_text(&self, text: &[u8], keeps_literals: bool) -> String {
        let mut out = Vec::with_capacity(text.len());
        let mut from = self.start;
        for value in self.values.iter().filter(|value| value.kind.is_some() && !keeps_literals) {
            append_squeezed(&text[from..value.place.0], &mut out);
            out.push(b'?');
            from = value.place.1;
        }
        append_squeezed(&text[from..], &mut out);
        String::from_utf8_lossy(&out).trim().trim_end_matches(';').trim_end().to_owned()
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.erase();
    }
}

/// Blanks within quotes stay.
fn append_squeezed(text: &[u8], out: &mut Vec<u8>) {
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (None, b' ' | b'\t' | b'\n' | b'\r') => {
                if out.last() != Some(&b' ') {
                    out.push(b' ');
                }
                continue;
            }
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (Some(b'\'' | b'"'), b'\\') => {
                out.push(byte);
                out.extend(bytes.next());
                continue;
            }
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
        out.push(byte);
    }
}

/// What stood before the next token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Previous {
    /// An operator, an opening parenthesis, a comma, or a word behind which a value may stand.
    Open,
    /// The beginning of an item of ORDER BY or GROUP BY, where a number would name an output.
    List,
    /// Anything else.
    Closed,
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    reading: &'a mut Reading,
    has_parameters: bool,
    previous: Previous,
    depth: usize,
}

impl<'a> Scanner<'a> {
    fn scan(&mut self) -> Result<(), Refusal> {
        self.skip_leading_comments()?;
        self.reading.start = self.at;
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
                        return Err(Refusal::unreadable("a second statement behind ';'"));
                    }
                }
                _ => self.operator()?,
            }
        }
        if self.reading.shape.is_empty() { Err(Refusal::unreadable("an empty statement")) } else { Ok(()) }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn next_is_digit(&self, ahead: usize) -> bool {
        self.text.get(self.at + ahead).is_some_and(u8::is_ascii_digit)
    }

    fn skip_blanks(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Drivers sign their statements with a comment at the beginning.
    fn skip_leading_comments(&mut self) -> Result<(), Refusal> {
        loop {
            self.skip_blanks();
            match self.rest() {
                [b'/', b'*', b'!' | b'+', ..] | [b'/', b'*', b'M', b'!', ..] => {
                    return Err(Refusal::unreadable("a comment that servers execute"));
                }
                [b'/', b'*', rest @ ..] => {
                    let end = rest.windows(2).position(|pair| pair == b"*/");
                    self.at += 4 + end.ok_or(Refusal::unreadable("a comment without an end"))?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Append a token to the shape.
    fn token(&mut self, token: &[u8]) {
        let shape = &mut self.reading.shape;
        if !shape.is_empty() {
            shape.push(SEPARATOR);
        }
        shape.extend_from_slice(token);
    }

    /// Refuse what servers might read as a part of the token before it.
    fn end_token(&self, what: &'static str) -> Result<(), Refusal> {
        match self.text.get(self.at) {
            Some(
                b'\''
                | b'"'
                | b'`'
                | b'@'
                | b'\\'
                | b'$'
                | b'?'
                | b'0'..=b'9'
                | b'A'..=b'Z'
                | b'a'..=b'z'
                | b'_'
                | 0x80..,
            ) => Err(Refusal::Unreadable(format!("a word, a quote or a '?' right behind {what}").into())),
            _ => Ok(()),
        }
    }

    /// The value that has been written last. Where no value may stand it belongs to the statement.
    fn value(&mut self, kind: Kind, start: usize, written: usize) -> Result<(), Refusal> {
        let end = self.reading.written.len();
        if self.previous == Previous::Open {
            self.token(b"?");
            let value = Value { kind: Some(kind), written: (written, end), place: (start, self.at) };
            self.reading.values.push(value);
        } else {
            let Reading { shape, written: all, .. } = &mut *self.reading;
            let token = &all[written..];
            if token.contains(&SEPARATOR) {
                return Err(Refusal::unreadable("a control character in a text that is no value"));
            }
            if !shape.is_empty() {
                shape.push(SEPARATOR);
            }
            shape.extend_from_slice(token);
            all.truncate(written);
        }
        self.previous = Previous::Closed;
        Ok(())
    }

    fn parameter(&mut self) -> Result<(), Refusal> {
        if self.previous != Previous::Open {
            return Err(Refusal::unreadable("a '?' where no value can stand, or that ORDER BY or GROUP BY goes by"));
        }
        self.at += 1;
        self.end_token("a '?'")?;
        let end = self.reading.written.len();
        self.token(b"?");
        self.reading.values.push(Value { kind: None, written: (end, end), place: (self.at - 1, self.at) });
        self.previous = Previous::Closed;
        Ok(())
    }

    fn take_digits(&mut self) {
        while self.next_is_digit(0) {
            self.at += 1;
        }
    }

    /// Digits, with a point and an exponent where they are complete. `start`: where its sign is.
    fn number(&mut self, start: usize) -> Result<(), Refusal> {
        let digits = self.at;
        self.take_digits();
        if self.text.get(self.at) == Some(&b'.') {
            if !self.next_is_digit(1) {
                return Err(Refusal::unreadable("a number that ends with a point"));
            }
            self.at += 1;
            self.take_digits();
        }
        if let [b'e' | b'E', rest @ ..] = self.rest() {
            let sign = usize::from(matches!(rest.first(), Some(b'+' | b'-')));
            if !self.next_is_digit(1 + sign) {
                return Err(Refusal::unreadable("a word right behind a number"));
            }
            self.at += 1 + sign;
            self.take_digits();
        }
        if self.text.get(self.at) == Some(&b'.') {
            return Err(Refusal::unreadable("a number with two points"));
        }
        self.end_token("a number")?;
        let written = self.reading.written.len();
        if self.text[start] == b'-' {
            // Behind another minus it must not begin a comment.
            self.reading.written.extend_from_slice(b" -");
        }
        self.reading.written.extend_from_slice(&self.text[digits..self.at]);
        self.value(Kind::Number, start, written)
    }

    /// Between quotes of either kind, as servers read it without ANSI_QUOTES and NO_BACKSLASH_ESCAPES. Each byte goes to
    /// `append`.
    fn content(&mut self, mut append: impl FnMut(&mut Vec<u8>, u8)) -> Result<(), Refusal> {
        let quote = self.text[self.at];
        self.at += 1;
        loop {
            let out = &mut self.reading.written;
            match self.text[self.at..] {
                [] => return Err(Refusal::unreadable("a quote without an end")),
                [0, ..] => return Err(Refusal::unreadable("a NUL")),
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
                        // Patterns keep the backslash.
                        b'%' | b'_' => {
                            append(out, b'\\');
                            append(out, escaped);
                        }
                        _ => return Err(Refusal::unreadable("a backslash before a character that needs none")),
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

    fn string(&mut self) -> Result<(), Refusal> {
        let (start, written) = (self.at, self.reading.written.len());
        self.reading.written.push(b'\'');
        self.content(append_quoted)?;
        self.reading.written.push(b'\'');
        self.end_token("a quoted text")?;
        if str::from_utf8(&self.reading.written[written..]).is_err() {
            return Err(Refusal::unreadable("a text that is not UTF-8"));
        }
        self.value(Kind::Text, start, written)
    }

    /// `_binary'…'`, `x'…'`: `start` is where its word begins.
    fn bytes(&mut self, start: usize, is_hexadecimal: bool) -> Result<(), Refusal> {
        let written = self.reading.written.len();
        self.reading.written.extend_from_slice(b"_binary X'");
        let digits = self.reading.written.len();
        if is_hexadecimal {
            self.content(|out, byte| out.push(byte))?;
            let content = &self.reading.written[digits..];
            if content.len() % 2 == 1 || !content.iter().all(u8::is_ascii_hexdigit) {
                return Err(Refusal::unreadable("bytes that are not pairs of hexadecimal digits"));
            }
        } else {
            self.content(append_hexadecimal)?;
        }
        self.reading.written.push(b'\'');
        self.end_token("a quoted text")?;
        self.value(Kind::Text, start, written)
    }

    fn quoted_name(&mut self) -> Result<(), Refusal> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.rest() {
                [b'`', b'`', ..] => self.at += 2,
                [b'`', ..] => break,
                [0 | SEPARATOR, ..] => return Err(Refusal::unreadable("a control character in a name")),
                [_, ..] => self.at += 1,
                [] => return Err(Refusal::unreadable("a quote without an end")),
            }
        }
        self.at += 1;
        self.end_token("a quoted name")?;
        let text = self.text;
        let name = &text[start..self.at];
        if str::from_utf8(name).is_err() {
            return Err(Refusal::unreadable("a name that is not UTF-8"));
        }
        self.token(name);
        self.previous = Previous::Closed;
        Ok(())
    }

    /// `@@name` or `@@session.name`
    fn variable(&mut self) -> Result<(), Refusal> {
        let start = self.at;
        let [b'@', b'@', b'A'..=b'Z' | b'a'..=b'z' | b'_', ..] = self.rest() else {
            return Err(Refusal::unreadable("a user's variable (@)"));
        };
        self.at += 2;
        while self.text.get(self.at).is_some_and(|byte| is_of_word(*byte) || *byte == b'.') {
            self.at += 1;
        }
        self.end_token("a variable")?;
        let text = self.text;
        self.token(&text[start..self.at]);
        self.fold_last(self.at - start);
        self.previous = Previous::Closed;
        Ok(())
    }

    fn fold_last(&mut self, length: usize) {
        let shape = &mut self.reading.shape;
        let start = shape.len() - length;
        shape[start..].make_ascii_lowercase();
    }

    fn word(&mut self) -> Result<(), Refusal> {
        let start = self.at;
        while self.text.get(self.at).is_some_and(|byte| is_of_word(*byte)) {
            self.at += 1;
        }
        let text = self.text;
        let word = &text[start..self.at];
        let is_hexadecimal = word.eq_ignore_ascii_case(b"x");
        let is_binary = word.eq_ignore_ascii_case(b"_binary");
        if is_binary {
            self.skip_blanks();
        }
        match self.text.get(self.at) {
            Some(b'\'') if is_hexadecimal || is_binary => return self.bytes(start, is_hexadecimal),
            Some(b'\'' | b'"' | b'`' | b'@' | b'\\' | b'?' | 0x80..) => {
                return Err(Refusal::unreadable("a word with a quote or a character beyond ASCII right behind it"));
            }
            _ => {}
        }
        let length = word.len();
        self.token(word);
        self.fold_last(length);
        let folded = &self.reading.shape[self.reading.shape.len() - length..];
        let is_one_of = |known: &[&[u8]]| known.contains(&folded);
        let (opens, ends_list, is_by) =
            (is_one_of(&WORDS_BEFORE_VALUES), is_one_of(&WORDS_BEHIND_LISTS), folded == b"by");
        if ends_list && self.reading.lists.last() == Some(&self.depth) {
            self.reading.lists.pop();
        }
        if is_by && self.reading.lists.last() != Some(&self.depth) {
            self.reading.lists.push(self.depth);
        }
        self.previous = match (is_by, opens) {
            (true, _) => Previous::List,
            (false, true) => Previous::Open,
            (false, false) => Previous::Closed,
        };
        Ok(())
    }

    fn operator(&mut self) -> Result<(), Refusal> {
        let rest = self.rest();
        match rest {
            [b'-', b'-', ..] | [b'#', ..] | [b'/', b'*', ..] => return Err(Refusal::unreadable("a comment")),
            [b'.', b'0'..=b'9', ..] => return Err(Refusal::unreadable("a number that begins with a point")),
            [0x80..=0xFF, ..] => return Err(Refusal::unreadable("a character beyond ASCII outside quotes")),
            [b'\\', ..] => return Err(Refusal::unreadable("a backslash outside quotes")),
            [b'?', ..] => return Err(Refusal::unreadable("a '?' in a statement that is not prepared")),
            [b':', ..] => return Err(Refusal::unreadable("a ':'")),
            [0, ..] => return Err(Refusal::unreadable("a NUL")),
            _ => {}
        }
        let known = OPERATORS.iter().find(|operator| rest.starts_with(operator));
        let operator = *known.ok_or(Refusal::unreadable("a character that is no operator"))?;
        self.at += operator.len();
        self.token(operator);
        let lists = &mut self.reading.lists;
        self.previous = match operator {
            b"(" => {
                self.depth += 1;
                if self.previous == Previous::List { Previous::List } else { Previous::Open }
            }
            b")" => {
                self.depth = self.depth.saturating_sub(1);
                while lists.last().is_some_and(|list| *list > self.depth) {
                    lists.pop();
                }
                Previous::Closed
            }
            b"." => Previous::Closed,
            b"," if lists.last() == Some(&self.depth) => Previous::List,
            b"+" | b"-" | b"~" | b"!" if self.previous == Previous::List => Previous::List,
            _ => Previous::Open,
        };
        Ok(())
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

/// The one form in which texts reach a server: quotes and backslashes doubled, NUL escaped.
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

/// A place of an approved statement where the client's statement has a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// A `?`: any value, of this kind where one is named.
    Any(Option<Kind>),
    /// A value that was approved as it is, in its written form.
    Fixed(Box<[u8]>),
}

/// A statement that guarded accounts may send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// What is sent before, between and behind the values.
    pieces: Box<[Box<[u8]>]>,
    places: Box<[Place]>,
    database: Option<Box<[u8]>>,
    /// What becomes of its outputs.
    pub outputs: Outputs,
    /// Its OK may show the id that a new row was given.
    pub tells_id: bool,
    /// The database that is the session's once the statement has succeeded.
    pub uses: Option<Box<[u8]>>,
    /// It is about the session and in no rules file.
    is_of_session: bool,
}

/// A statement as the rules have it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// With a `?` for each value.
    pub text: String,
    /// The session's database; None: any.
    pub database: Option<String>,
    /// A verdict for each output.
    pub outputs: Option<Vec<Verdict>>,
    /// The kind of each `?`; None: any.
    pub values: Option<Vec<Kind>>,
}

impl Statement {
    /// The statement of an approval, whose text has been read.
    fn approved(approval: &Approval, reading: &Reading) -> Result<Self, String> {
        let tokens: Vec<&[u8]> = reading.shape.split(|byte| *byte == SEPARATOR).collect();
        if !FIRST_WORDS.iter().any(|word| word.as_bytes() == tokens[0]) {
            let first = String::from_utf8_lossy(tokens[0]).to_uppercase();
            return Err(format!("a statement that begins with {first} cannot be approved"));
        }
        let has = |word: &[u8]| tokens.contains(&word);
        let outputs = match &approval.outputs {
            Some(verdicts) => Outputs::Each(verdicts.clone().into()),
            None => Outputs::All(reading.is_nested().then_some(Verdict::Encrypt)),
        };
        let mut statement = Statement::of(approval.text.as_bytes(), reading, outputs);
        statement.tells_id = !has(b"last_insert_id");
        statement.database = approval.database.as_ref().map(|name| name.as_bytes().into());
        if let Some(kinds) = &approval.values {
            let open = statement.places.iter_mut().filter_map(|place| match place {
                Place::Any(kind) => Some(kind),
                Place::Fixed(_) => None,
            });
            let mut open: Vec<_> = open.collect();
            if open.len() != kinds.len() {
                let (marks, kinds) = (open.len(), kinds.len());
                return Err(format!("'values' has {kinds} kinds, and the text has {marks} question marks"));
            }
            open.iter_mut().zip(kinds).for_each(|(place, kind)| **place = Some(*kind));
        }
        Ok(statement)
    }

    fn of(text: &[u8], reading: &Reading, outputs: Outputs) -> Self {
        let (mut pieces, mut from) = (Vec::new(), 0);
        let place = |value: &Value| match value.kind {
            None => Place::Any(None),
            Some(_) => Place::Fixed(reading.written(value).into()),
        };
        for value in reading.values.iter().filter(|value| value.kind.is_none()) {
            pieces.push(text[from..value.place.0].into());
            from = value.place.1;
        }
        pieces.push(text[from..].into());
        Statement {
            pieces: pieces.into(),
            places: reading.values.iter().map(place).collect(),
            database: None,
            outputs,
            tells_id: false,
            uses: None,
            is_of_session: false,
        }
    }

    /// A statement about the session, whose text is the gateway's own.
    pub fn of_session(text: impl Into<String>) -> Self {
        Statement {
            pieces: [text.into().into_bytes().into()].into(),
            places: Box::default(),
            database: None,
            outputs: Outputs::All(Some(Verdict::Plain)),
            tells_id: false,
            uses: None,
            is_of_session: true,
        }
    }

    /// Append what the server gets for a text that was read.
    pub fn append(&self, reading: &Reading, out: &mut Vec<u8>) {
        let open = self.places.iter().zip(&reading.values).filter(|(place, _)| matches!(place, Place::Any(_)));
        let (first, others) = self.pieces.split_first().expect("at least one piece");
        out.extend_from_slice(first);
        for ((_, value), piece) in open.zip(others) {
            match value.kind {
                Some(_) => out.extend_from_slice(reading.written(value)),
                None => out.push(b'?'),
            }
            out.extend_from_slice(piece);
        }
    }

    /// The kinds that the parameters of a prepared statement must have.
    pub fn parameters(&self, reading: &Reading) -> Box<[Option<Kind>]> {
        let parameter = |(place, value): (&Place, &Value)| match (place, value.kind) {
            (Place::Any(kind), None) => Some(*kind),
            _ => None,
        };
        self.places.iter().zip(&reading.values).filter_map(parameter).collect()
    }

    fn fixed(&self) -> usize {
        self.places.iter().filter(|place| matches!(place, Place::Fixed(_))).count()
    }

    /// Whether all values that were approved as they are stand in the text as they are.
    fn has_fixed(&self, reading: &Reading) -> bool {
        self.places.iter().zip(&reading.values).all(|(place, value)| match place {
            Place::Any(_) => true,
            Place::Fixed(written) => value.kind.is_some() && reading.written(value) == &**written,
        })
    }

    /// The first value of another kind than was approved, counted from 1, and the kind that it must have.
    fn other_kind(&self, reading: &Reading) -> Option<(usize, Kind)> {
        let pairs = self.places.iter().zip(&reading.values).enumerate();
        pairs.into_iter().find_map(|(place, pair)| match pair {
            (Place::Any(Some(kind)), Value { kind: Some(own), .. }) if own != kind => Some((place + 1, *kind)),
            _ => None,
        })
    }
}

/// All approved statements of a rules file, and those about the session.
#[derive(Debug, Clone)]
pub struct Statements {
    by_shape: HashMap<Box<[u8]>, Vec<Arc<Statement>>>,
    /// Those of the rules file.
    approved: usize,
}

impl Default for Statements {
    fn default() -> Self {
        let mut statements = Statements { by_shape: HashMap::new(), approved: 0 };
        let mut reading = Reading::default();
        for (text, sent) in session_statements::fixed() {
            reading.read(text.as_bytes(), false).expect("a text of the gateway's own");
            let mut statement = Statement::of(sent.as_bytes(), &reading, Outputs::All(Some(Verdict::Plain)));
            statement.is_of_session = true;
            statements.by_shape.entry(reading.shape().into()).or_default().push(statement.into());
        }
        statements
    }
}

impl Statements {
    /// Add an approved statement.
    ///
    /// # Errors
    /// Why it cannot be approved.
    pub fn add(&mut self, approval: &Approval) -> Result<(), String> {
        let mut reading = Reading::default();
        reading.read(approval.text.as_bytes(), true).map_err(|refusal| match refusal {
            Refusal::Unreadable(why) => format!("the text has {why}"),
            other => other.to_string(),
        })?;
        let statement = Statement::approved(approval, &reading)?;
        let alike = self.by_shape.entry(reading.shape().into()).or_default();
        let is_there = |known: &Arc<Statement>| {
            let fixed = known.places.iter().zip(&statement.places).all(|pair| match pair {
                (Place::Any(_), Place::Any(_)) => true,
                (Place::Fixed(one), Place::Fixed(other)) => one == other,
                _ => false,
            });
            fixed && known.database == statement.database && !known.is_of_session
        };
        if alike.iter().any(is_there) {
            return Err("the same statement is there twice".into());
        }
        alike.push(statement.into());
        // What was approved with the most values as they are is looked at first, and what is of a database before others.
        alike.sort_by_key(|statement| std::cmp::Reverse((statement.fixed(), statement.database.is_some())));
        self.approved += 1;
        Ok(())
    }

    /// The same statements. Outputs of those that name one of these are encrypted unless their approval says more.
    pub fn encrypting(&self, is_one: impl Fn(&str) -> bool) -> Self {
        let names_one = |shape: &[u8]| {
            let mut tokens = shape.split(|byte| *byte == SEPARATOR).map(String::from_utf8_lossy);
            tokens.any(|token| is_one(&token.trim_matches('`').replace("``", "`").to_lowercase()))
        };
        let mut statements = self.clone();
        for (shape, alike) in &mut statements.by_shape {
            let is_open = |statement: &Arc<Statement>| statement.outputs == Outputs::All(None);
            if alike.iter().any(is_open) && names_one(shape) {
                for statement in alike.iter_mut().filter(|statement| is_open(statement)) {
                    let outputs = Outputs::All(Some(Verdict::Encrypt));
                    *statement = Arc::new(Statement { outputs, ..Statement::clone(statement) });
                }
            }
        }
        statements
    }

    /// How many were approved.
    pub fn count(&self) -> usize {
        self.approved
    }

    /// The statement that a client's text is.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn find(
        &self,
        text: &[u8],
        is_prepared: bool,
        database: Option<&[u8]>,
        reading: &mut Reading,
    ) -> Result<Arc<Statement>, Refusal> {
        reading.read(text, is_prepared)?;
        let mut refusal = None;
        for statement in self.by_shape.get(reading.shape()).into_iter().flatten() {
            if !statement.has_fixed(reading) {
                continue;
            }
            if let Some(name) = statement.database.as_deref().filter(|name| Some(*name) != database) {
                refusal = Some(Refusal::OtherDatabase(String::from_utf8_lossy(name).into_owned()));
                continue;
            }
            match statement.other_kind(reading) {
                None => return Ok(statement.clone()),
                Some((place, kind)) => refusal = Some(Refusal::OtherKind(place, kind)),
            }
        }
        if let Some(statement) = session_statements::read(reading) {
            return Ok(statement.into());
        }
        Err(refusal.unwrap_or_else(|| Refusal::NotApproved(reading.quote())))
    }

    /// Whether a statement that was found under other rules is approved by these as well, for the same outputs.
    pub fn approve(&self, statement: &Statement) -> bool {
        let is_known = |known: &Arc<Statement>| **known == *statement;
        statement.is_of_session || self.by_shape.values().flatten().any(is_known)
    }
}

#[cfg(test)]
mod tests;
