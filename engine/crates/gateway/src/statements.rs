//! Approved statements: how a client's text is read, which approved statement it is, and what the server gets in its place.
//!
//! The server never sees a client's text. It gets the approved text, with the client's values written anew. So a text that
//! is misread can choose another approved statement or give it another value, but it cannot become another statement.

use crate::session_statements;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, LazyLock};
use zeroize::optimization_barrier;

/// Separates tokens in a shape; it stands in no token outside quotes.
pub const SEPARATOR: u8 = 0x1F;
const LONGEST_QUOTE: usize = 200;

/// The words behind which a value may stand. Behind any other word a text may be an alias, so it belongs to the statement.
static WORDS_BEFORE_VALUES: LazyLock<HashSet<&[u8]>> = LazyLock::new(|| {
    let words = "all and between binary case date distinct div else escape having interval like limit mod not offset on or \
                 regexp return rlike rows select separator sql_calc_found_rows straight_join then time timestamp when where \
                 while xor";
    words.split(' ').map(str::as_bytes).collect()
});
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

    pub fn word(self) -> &'static str {
        match self {
            Kind::Number => "number",
            Kind::Text => "text",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The text has what servers could read in another way.
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
    /// None: a parameter of a prepared statement.
    pub kind: Option<Kind>,
    token: usize,
    /// Where it begins and ends among the written values.
    written: (usize, usize),
}

/// A statement's text as it was read. It is used again for the next text, so that reading allocates nothing.
#[derive(Debug, Default)]
pub struct Reading {
    /// Its tokens, in lower case outside quotes, with separators between them. Each value is a `?`.
    shape: Vec<u8>,
    tokens: Vec<(usize, usize)>,
    values: Vec<Value>,
    /// All values as the server gets them.
    written: Vec<u8>,
    /// The depths of parentheses at which a list behind ORDER BY or GROUP BY is open.
    lists: Vec<usize>,
}

impl Reading {
    /// Read a text. `has_parameters`: question marks stand for values.
    pub fn read(&mut self, text: &[u8], has_parameters: bool) -> Result<(), Refusal> {
        self.erase();
        let mut scanner = Scanner { text, at: 0, reading: self, has_parameters, previous: Previous::Closed, depth: 0 };
        scanner.scan().map_err(Refusal::Unreadable)
    }

    /// A client's values are in it.
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

    /// A value as the server gets it.
    pub fn written(&self, value: &Value) -> &[u8] {
        &self.written[value.written.0..value.written.1]
    }

    /// Whether it has queries within queries: a server may name another column's origin for a column of such a query.
    pub fn is_nested(&self) -> bool {
        let mut selects = 0;
        self.shape_tokens().any(|token| {
            selects += usize::from(token == b"select");
            selects > 1 || matches!(token, b"with" | b"table" | b"json_table")
        })
    }

    /// The text between those of its values that `is_mark` chooses, with one space where there were several blanks.
    pub fn pieces(&self, text: &[u8], is_mark: impl Fn(&Value) -> bool) -> Vec<Vec<u8>> {
        let mut pieces = vec![Vec::new()];
        let mut marks = self.values.iter().filter(|value| is_mark(value)).map(|value| value.token).peekable();
        let mut last_end = None;
        for (place, (start, end)) in self.tokens.iter().enumerate() {
            let piece = pieces.last_mut().expect("at least one piece");
            if last_end.is_some_and(|last_end| last_end < start) {
                piece.push(b' ');
            }
            last_end = Some(end);
            match marks.next_if_eq(&place) {
                Some(_) => pieces.push(Vec::new()),
                None => piece.extend_from_slice(&text[*start..*end]),
            }
        }
        pieces
    }

    fn not_approved(&self) -> Refusal {
        let mut shape = String::from_utf8_lossy(&self.shape).replace(char::from(SEPARATOR), " ");
        if let Some((end, _)) = shape.char_indices().nth(LONGEST_QUOTE) {
            shape.truncate(end);
            shape.push_str("...");
        }
        Refusal::NotApproved(format!(
            "this statement is not approved for this account: {shape} (to approve it, learn it with 'costof gateway \
             --learn', review it, and add it to [[statements]] of the rules)"
        ))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.erase();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Previous {
    /// An operator, an opening parenthesis, a comma, or a word behind which a value may stand.
    Open,
    /// The beginning of an item of ORDER BY or GROUP BY, where a number would name an output.
    List,
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
                        return Err("a second statement behind ';'");
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

    /// Drivers sign their statements with a comment at the beginning.
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

    /// Append the token that begins at `start` and ends here. It may be spelled otherwise in the shape.
    fn token(&mut self, start: usize, shape: &[u8]) {
        if !self.reading.shape.is_empty() {
            self.reading.shape.push(SEPARATOR);
        }
        self.reading.shape.extend_from_slice(shape);
        self.reading.tokens.push((start, self.at));
        self.previous = Previous::Closed;
    }

    fn folded_token(&mut self, start: usize) {
        let text = self.text;
        self.token(start, &text[start..self.at]);
        let begin = self.reading.shape.len() - (self.at - start);
        self.reading.shape[begin..].make_ascii_lowercase();
    }

    /// Refuse what servers might read as a part of the token before it.
    fn end_token(&self) -> Scanned {
        let is_open = self.text.get(self.at).is_some_and(|next| is_of_word(*next) || b"'\"`@\\?".contains(next));
        let is_beyond_ascii = self.text.get(self.at).is_some_and(|next| !next.is_ascii());
        match is_open || is_beyond_ascii {
            true => Err("a word, a quote or a '?' right behind a number, a name, a '?' or a quoted text"),
            false => Ok(()),
        }
    }

    /// The value that has been written last. Where no value may stand it belongs to the statement.
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
            return Err("a control character in a text that is no value");
        }
        self.token(start, &literal);
        Ok(())
    }

    fn parameter(&mut self) -> Scanned {
        if self.previous != Previous::Open {
            return Err("a '?' where no value can stand, or that ORDER BY or GROUP BY goes by");
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

    /// Digits, with a point and an exponent where they are complete. `start`: where its sign is.
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
                return Err("a word right behind a number");
            }
            self.at += 1 + sign;
            self.skip_digits();
        }
        if self.text.get(self.at) == Some(&b'.') {
            return Err("a number with two points");
        }
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
                        // Patterns keep the backslash.
                        b'%' | b'_' => {
                            append(out, b'\\');
                            append(out, escaped);
                        }
                        _ => return Err("a backslash before a character that needs none"),
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

    /// `_binary'…'`, `x'…'`: `start` is where its word begins.
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
            return Err("a user's variable (@)");
        };
        self.at += 2;
        while self.text.get(self.at).is_some_and(|byte| is_of_word(*byte) || *byte == b'.') {
            self.at += 1;
        }
        self.end_token()?;
        self.folded_token(start);
        Ok(())
    }

    fn word(&mut self) -> Scanned {
        let start = self.at;
        while self.text.get(self.at).is_some_and(|byte| is_of_word(*byte)) {
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
        if WORDS_BEHIND_LISTS.contains(&folded) {
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
            [0x80..=0xFF, ..] => return Err("a character beyond ASCII outside quotes"),
            [b'?', ..] => return Err("a '?' in a statement that is not prepared"),
            _ => {}
        }
        let known = OPERATORS.iter().find(|operator| rest.starts_with(operator));
        let operator = *known.ok_or("a character that is no operator")?;
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    pieces: Vec<Vec<u8>>,
    places: Vec<Place>,
    database: Option<Box<[u8]>>,
    pub outputs: Outputs,
    /// Its OK may show the id that a new row was given.
    pub shows_id: bool,
    /// The database that is the session's once the statement has succeeded.
    pub uses: Option<Vec<u8>>,
    /// It is about the session and in no rules file.
    is_of_session: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// With a `?` for each value.
    pub text: String,
    /// The session's database; None: any.
    pub database: Option<String>,
    pub outputs: Option<Vec<Verdict>>,
    /// The kind of each `?`; None: any.
    pub values: Option<Vec<Kind>>,
}

impl Statement {
    /// The statement of an approval, whose text has been read.
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
            let mut open: Vec<_> = places.iter_mut().filter(|place| matches!(place, Place::Any(_))).collect();
            if open.len() != kinds.len() {
                let (marks, kinds) = (open.len(), kinds.len());
                return Err(format!("'values' has {kinds} kinds, and the text has {marks} question marks"));
            }
            open.iter_mut().zip(kinds).for_each(|(place, kind)| **place = Place::Any(Some(*kind)));
        }
        Ok(Statement {
            pieces: reading.pieces(approval.text.as_bytes(), |value| value.kind.is_none()),
            places,
            database: approval.database.as_ref().map(|name| name.as_bytes().into()),
            outputs,
            shows_id: !reading.shape_tokens().any(|token| token == b"last_insert_id"),
            uses: None,
            is_of_session: false,
        })
    }

    /// A statement about the session, whose text is the gateway's own.
    pub fn of_session(text: impl Into<Vec<u8>>) -> Self {
        Statement {
            pieces: vec![text.into()],
            places: Vec::new(),
            database: None,
            outputs: Outputs::All(Some(Verdict::Plain)),
            shows_id: false,
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

    pub fn parameters(&self, reading: &Reading) -> Vec<Option<Kind>> {
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

    /// Why a text of this shape is refused in this database.
    fn objection(&self, reading: &Reading, database: Option<&[u8]>) -> Option<String> {
        if let Some(name) = self.database.as_deref().filter(|name| Some(*name) != database) {
            let name = String::from_utf8_lossy(name);
            return Some(format!("this statement is approved for another database: select '{name}' first"));
        }
        let pairs = self.places.iter().zip(&reading.values).enumerate();
        pairs.into_iter().find_map(|(at, pair)| match pair {
            (Place::Any(Some(kind)), Value { kind: Some(other), .. }) if other != kind => {
                let (number, kind) = (at + 1, kind.word());
                Some(format!("value {number} of this statement must be a {kind}, as it was approved"))
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

/// All approved statements of a rules file, and those about the session.
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
            reading.read(text.as_bytes(), false).expect("a text of the gateway's own");
            let statement = Statement { places: places(&reading), ..Statement::of_session(sent) };
            statements.by_shape.entry(reading.shape().into()).or_default().push(statement.into());
        }
        statements
    }
}

impl Statements {
    pub fn add(&mut self, approval: &Approval) -> Result<(), String> {
        let mut reading = Reading::default();
        reading.read(approval.text.as_bytes(), true).map_err(|refusal| match refusal {
            Refusal::Unreadable(why) => format!("the text has {why}"),
            Refusal::NotApproved(why) => why,
        })?;
        let statement = Statement::approved(approval, &reading)?;
        let alike = self.by_shape.entry(reading.shape().into()).or_default();
        let is_there = |known: &Arc<Statement>| {
            let fixed = known.places.iter().zip(&statement.places).all(|pair| match pair {
                (Place::Any(_), Place::Any(_)) => true,
                (one, other) => one == other,
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

    /// The same statements. Outputs of those that name one of these views are encrypted unless their approval says more.
    pub fn encrypting(&self, views: &HashSet<String>) -> Self {
        let mut statements = self.clone();
        for (shape, alike) in &mut statements.by_shape {
            let mut tokens = shape.split(|byte| *byte == SEPARATOR);
            if tokens.any(|token| views.contains(&bare_name(token))) {
                for statement in alike.iter_mut().filter(|statement| statement.outputs == Outputs::All(None)) {
                    Arc::make_mut(statement).outputs = Outputs::All(Some(Verdict::Encrypt));
                }
            }
        }
        statements
    }

    pub fn count(&self) -> usize {
        self.approved
    }

    pub fn find(
        &self,
        text: &[u8],
        is_prepared: bool,
        database: Option<&[u8]>,
        reading: &mut Reading,
    ) -> Result<Arc<Statement>, Refusal> {
        reading.read(text, is_prepared)?;
        let alike = self.by_shape.get(reading.shape()).into_iter().flatten();
        let mut objection = None;
        for statement in alike.filter(|statement| statement.has_fixed(reading)) {
            match statement.objection(reading, database) {
                None => return Ok(statement.clone()),
                why => objection = why,
            }
        }
        if let Some(statement) = session_statements::read(reading) {
            return Ok(statement.into());
        }
        Err(objection.map_or_else(|| reading.not_approved(), Refusal::NotApproved))
    }

    /// Whether a statement that was found under other rules is approved by these as well, for the same outputs.
    pub fn approve(&self, statement: &Statement) -> bool {
        let is_known = |known: &Arc<Statement>| **known == *statement;
        statement.is_of_session || self.by_shape.values().flatten().any(is_known)
    }
}

/// A name of a shape in lower case and without its quotes.
pub fn bare_name(token: &[u8]) -> String {
    String::from_utf8_lossy(token).trim_matches('`').replace("``", "`").to_lowercase()
}

#[cfg(test)]
mod tests;
