//! SQL, cut into tokens.
//!
//! The language is narrower than the servers': whatever MySQL, MariaDB and this lexer could cut in different ways is refused
//! (executable comments, a word right behind a number or a quote, control bytes, unquoted characters beyond ASCII). It does not
//! have to be exact beyond that, since the server never sees this text: it sees what is printed from the tree.

use super::Refusal;
pub use super::token::{Charset, Sign, Token};
use std::borrow::Cow;

/// A name's characters, by both servers' limits; an alias may have 256.
const LONGEST_NAME: usize = 256;

/// A statement and the place where it is read. Copying it marks a place to come back to.
#[derive(Debug, Clone, Copy)]
pub struct Lexer<'a> {
    sql: &'a [u8],
    at: usize,
    has_parameters: bool,
}

impl<'a> Lexer<'a> {
    /// From its beginning. `has_parameters`: it is prepared, so question marks stand for values.
    pub fn new(sql: &'a [u8], has_parameters: bool) -> Self {
        Lexer { sql, at: 0, has_parameters }
    }

    /// Where the next token begins, behind blanks and comments.
    ///
    /// # Errors
    /// A comment of a kind that is not read.
    pub fn skip_blanks(&mut self) -> Result<usize, Refusal> {
        loop {
            match self.rest() {
                [b' ' | b'\t' | b'\n' | b'\r', ..] => self.at += 1,
                [b'#', ..] => self.skip_line(),
                [b'-', b'-', rest @ ..] => match rest.first() {
                    None | Some(b' ' | b'\t' | b'\n') => self.skip_line(),
                    // MySQL takes a control byte for a blank here, MariaDB too; other readers do not.
                    Some(_) => return Err(Refusal::of("'--' without a blank behind it")),
                },
                [b'/', b'*', b'!', ..] | [b'/', b'*', b'M', b'!', ..] => {
                    return Err(Refusal::of("comment that a server may execute"));
                }
                [b'/', b'*', rest @ ..] => {
                    let end = rest.windows(2).position(|pair| pair == b"*/");
                    self.at += 4 + end.ok_or(Refusal::of("comment without an end"))?;
                }
                _ => return Ok(self.at),
            }
        }
    }

    /// The text between two places.
    pub fn source(&self, from: usize, to: usize) -> &'a [u8] {
        &self.sql[from..to]
    }

    /// Whether this byte is there.
    pub fn is_at(&self, place: usize, byte: u8) -> bool {
        self.sql.get(place) == Some(&byte)
    }

    /// Behind the last token.
    pub fn place(&self) -> usize {
        self.at
    }

    /// The next token.
    ///
    /// # Errors
    /// What servers could read in another way.
    pub fn token(&mut self) -> Result<Token<'a>, Refusal> {
        self.skip_blanks()?;
        let Some(&first) = self.rest().first() else { return Ok(Token::End) };
        match first {
            b'0'..=b'9' => self.number(),
            b'.' if self.rest().get(1).is_some_and(u8::is_ascii_digit) => self.number(),
            b'\'' | b'"' => {
                let text = self.quoted(first)?;
                self.separate("text")?;
                into_text(text).map(Token::Text)
            }
            b'`' => self.backticks(),
            b'@' => self.variable(),
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => self.word(),
            b'?' if self.has_parameters => {
                self.at += 1;
                self.separate("parameter")?;
                Ok(Token::Parameter)
            }
            _ => self.sign(),
        }
    }

    fn rest(&self) -> &'a [u8] {
        &self.sql[self.at..]
    }

    fn skip_line(&mut self) {
        let rest = self.rest();
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }

    /// A word right behind a token would be read as a part of it by one server and not by another.
    fn separate(&self, what: &'static str) -> Result<(), Refusal> {
        match self.rest().first() {
            Some(
                b'\'' | b'"' | b'`' | b'@' | b'\\' | b'$' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | 0x80..,
            ) => Err(Refusal::between("word or quote right behind a", what)),
            _ => Ok(()),
        }
    }

    fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.rest();
        let end = rest.iter().position(|byte| !belongs(*byte)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn number(&mut self) -> Result<Token<'a>, Refusal> {
        match self.rest() {
            [b'0', b'x', ..] => return self.digits_after_zero(u8::is_ascii_hexdigit, from_hex),
            [b'0', b'b', ..] => return self.digits_after_zero(|byte| matches!(byte, b'0' | b'1'), from_bits),
            _ => {}
        }
        let start = self.at;
        self.take_while(|byte| byte.is_ascii_digit());
        if let [b'.', rest @ ..] = self.rest() {
            if !rest.first().is_some_and(u8::is_ascii_digit) {
                return Err(Refusal::of("number that ends with a point"));
            }
            self.at += 1;
            self.take_while(|byte| byte.is_ascii_digit());
        }
        if let [b'e' | b'E', rest @ ..] = self.rest() {
            let sign = usize::from(matches!(rest.first(), Some(b'+' | b'-')));
            if !rest.get(sign).is_some_and(u8::is_ascii_digit) {
                return Err(Refusal::of("number with half an exponent"));
            }
            self.at += 1 + sign;
            self.take_while(|byte| byte.is_ascii_digit());
        }
        if self.rest().first() == Some(&b'.') {
            return Err(Refusal::of("number with two points"));
        }
        self.separate("number")?;
        Ok(Token::Number(ascii(&self.sql[start..self.at])))
    }

    /// Behind `0x` or `0b`.
    fn digits_after_zero(
        &mut self,
        belongs: impl Fn(&u8) -> bool,
        read: fn(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<Token<'a>, Refusal> {
        self.at += 2;
        let digits = self.take_while(|byte| belongs(&byte));
        self.separate("number")?;
        let bytes = read(digits).filter(|bytes| !bytes.is_empty()).ok_or(Refusal::of("number without digits"))?;
        Ok(Token::Bytes { charset: None, is_number: true, bytes: bytes.into() })
    }

    /// Between two of these quotes; two of them within stand for one, and a backslash changes what is behind it.
    fn quoted(&mut self, quote: u8) -> Result<Cow<'a, [u8]>, Refusal> {
        self.at += 1;
        let start = self.at;
        let mut own: Option<Vec<u8>> = None;
        loop {
            let plain = self.take_while(|byte| byte != quote && byte != b'\\');
            if let Some(own) = &mut own {
                own.extend_from_slice(plain);
            }
            let made = match self.rest() {
                [first, second, ..] if *first == quote && *second == quote => &[quote][..],
                [first, ..] if *first == quote => {
                    let whole = &self.sql[start..self.at];
                    self.at += 1;
                    return Ok(own.map_or(Cow::Borrowed(whole), Cow::Owned));
                }
                [_, escaped, ..] => unescaped(escaped),
                _ => return Err(Refusal::of("quote without an end")),
            };
            let before = &self.sql[start..self.at];
            own.get_or_insert_with(|| before.to_vec()).extend_from_slice(made);
            self.at += 2;
        }
    }

    fn backticks(&mut self) -> Result<Token<'a>, Refusal> {
        self.at += 1;
        let start = self.at;
        let mut is_doubled = false;
        loop {
            self.take_while(|byte| byte != b'`');
            match self.rest() {
                [_, b'`', ..] => {
                    is_doubled = true;
                    self.at += 2;
                }
                [_, ..] => break,
                [] => return Err(Refusal::of("quote without an end")),
            }
        }
        let name = str::from_utf8(&self.sql[start..self.at]).map_err(|_| Refusal::of("name that is not UTF-8"))?;
        self.at += 1;
        self.separate("name")?;
        let name = if is_doubled { Cow::Owned(name.replace("``", "`")) } else { Cow::Borrowed(name) };
        check_name(&name)?;
        Ok(Token::Name(name))
    }

    fn variable(&mut self) -> Result<Token<'a>, Refusal> {
        let [b'@', b'@', b'A'..=b'Z' | b'a'..=b'z' | b'_', ..] = self.rest() else {
            return Err(Refusal::of("variable of a user"));
        };
        self.at += 2;
        let name = self.take_while(is_of_word);
        self.separate("variable")?;
        Ok(Token::Variable(ascii(name)))
    }

    fn word(&mut self) -> Result<Token<'a>, Refusal> {
        let word = ascii(self.take_while(is_of_word));
        let Some(&next) = self.rest().first() else { return Ok(Token::Word(word)) };
        if matches!(next, b'\'' | b'"') {
            return self.introduced(word, next);
        }
        if matches!(next, b'`' | b'@' | b'\\' | 0x80..) {
            return Err(Refusal::of("word with a quote or a character beyond ASCII right behind it"));
        }
        // An introducer may have a blank behind it: it is no name then either.
        if let Some(charset) = charset(word) {
            self.skip_blanks()?;
            return match self.rest() {
                [quote @ (b'\'' | b'"'), ..] => self.introduced(word, *quote),
                [b'0', b'x', ..] => match self.number()? {
                    Token::Bytes { bytes, .. } => Ok(Token::Bytes { charset: Some(charset), is_number: false, bytes }),
                    _ => Err(Refusal::of("introducer without a text")),
                },
                [b'x' | b'X', quote @ b'\'', ..] => {
                    self.at += 1;
                    match self.introduced("x", *quote)? {
                        Token::Bytes { bytes, .. } => {
                            Ok(Token::Bytes { charset: Some(charset), is_number: false, bytes })
                        }
                        _ => Err(Refusal::of("introducer without a text")),
                    }
                }
                _ => Err(Refusal::of("introducer without a text")),
            };
        }
        Ok(Token::Word(word))
    }

    /// A text with a word right before its quote.
    fn introduced(&mut self, word: &str, quote: u8) -> Result<Token<'a>, Refusal> {
        let digits = match word {
            "x" | "X" => Some(from_hex as fn(&[u8]) -> Option<Vec<u8>>),
            "b" | "B" => Some(from_bits as fn(&[u8]) -> Option<Vec<u8>>),
            _ => None,
        };
        let charset = charset(word);
        if digits.is_none() && charset.is_none() || digits.is_some() && quote != b'\'' {
            return Err(Refusal::of("text with a word right before it"));
        }
        let text = self.quoted(quote)?;
        self.separate("text")?;
        let bytes = match digits {
            Some(read) => read(&text).ok_or(Refusal::of("text that is no number"))?.into(),
            None => text,
        };
        if charset == Some(Charset::Utf8mb4) && str::from_utf8(&bytes).is_err() {
            return Err(Refusal::of("text that is not UTF-8"));
        }
        let is_number = matches!(word, "b" | "B") && !bytes.is_empty();
        Ok(Token::Bytes { charset, is_number, bytes })
    }

    fn sign(&mut self) -> Result<Token<'a>, Refusal> {
        let (sign, length) = match self.rest() {
            [b'<', b'=', b'>', ..] => (Sign::NullSafeEqual, 3),
            [b'<', b'=', ..] => (Sign::LessOrEqual, 2),
            [b'<', b'>', ..] | [b'!', b'=', ..] => (Sign::NotEqual, 2),
            [b'<', b'<', ..] => (Sign::ShiftLeft, 2),
            [b'>', b'=', ..] => (Sign::GreaterOrEqual, 2),
            [b'>', b'>', ..] => (Sign::ShiftRight, 2),
            [b'&', b'&', ..] => (Sign::And, 2),
            [b'|', b'|', ..] => return Err(Refusal::of("'||', which servers read in two ways")),
            [b'-', b'>', ..] => return Err(Refusal::of("operator '->'")),
            [b':', b'=', ..] => return Err(Refusal::of("assignment to a variable")),
            [b'(', ..] => (Sign::Open, 1),
            [b')', ..] => (Sign::Close, 1),
            [b',', ..] => (Sign::Comma, 1),
            [b'.', ..] => (Sign::Dot, 1),
            [b';', ..] => (Sign::Semicolon, 1),
            [b'+', ..] => (Sign::Plus, 1),
            [b'-', ..] => (Sign::Minus, 1),
            [b'*', ..] => (Sign::Star, 1),
            [b'/', ..] => (Sign::Slash, 1),
            [b'%', ..] => (Sign::Percent, 1),
            [b'&', ..] => (Sign::Ampersand, 1),
            [b'|', ..] => (Sign::Bar, 1),
            [b'^', ..] => (Sign::Caret, 1),
            [b'~', ..] => (Sign::Tilde, 1),
            [b'=', ..] => (Sign::Equal, 1),
            [b'<', ..] => (Sign::Less, 1),
            [b'>', ..] => (Sign::Greater, 1),
            [byte, ..] if !byte.is_ascii() => return Err(Refusal::of("character beyond ASCII that is not quoted")),
            _ => return Err(Refusal::of("sign that it cannot read")),
        };
        self.at += length;
        Ok(Token::Sign(sign))
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

fn ascii(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("bytes that were seen to be ASCII")
}

fn charset(introducer: &str) -> Option<Charset> {
    let is = |name: &str| introducer.eq_ignore_ascii_case(name);
    match introducer.as_bytes().first() {
        Some(b'_') if is("_utf8mb4") || is("_utf8") || is("_utf8mb3") => Some(Charset::Utf8mb4),
        Some(b'_') if is("_binary") => Some(Charset::Binary),
        Some(b'_') if is("_latin1") => Some(Charset::Latin1),
        _ => None,
    }
}

/// What a backslash and this byte stand for (MySQL Reference Manual, "String Literals").
fn unescaped(byte: &u8) -> &[u8] {
    match byte {
        b'0' => b"\0",
        b'b' => b"\x08",
        b'n' => b"\n",
        b'r' => b"\r",
        b't' => b"\t",
        b'Z' => b"\x1A",
        // A pattern's: the backslash stays.
        b'%' => b"\\%",
        b'_' => b"\\_",
        other => std::slice::from_ref(other),
    }
}

fn into_text(text: Cow<'_, [u8]>) -> Result<Cow<'_, str>, Refusal> {
    let wrong = || Refusal::of("text that is not UTF-8");
    match text {
        Cow::Borrowed(bytes) => str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| wrong()),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| wrong()),
    }
}

/// Whether a server can have such a name: not empty, of the Basic Multilingual Plane, and no NUL.
pub fn check_name(name: &str) -> Result<(), Refusal> {
    let beyond = |character: char| character == '\0' || character > '\u{FFFF}';
    if name.is_empty() || name.chars().count() > LONGEST_NAME || name.contains(beyond) {
        return Err(Refusal::of("name that a server cannot have"));
    }
    Ok(())
}

/// An odd number of digits has a zero before them in `0x…`, and is refused by servers in `X'…'`.
fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    let (first, pairs) = digits.split_at(digits.len() % 2);
    let mut bytes = Vec::with_capacity(digits.len().div_ceil(2));
    for digit in first {
        bytes.push(value(digit)? as u8);
    }
    for pair in pairs.chunks_exact(2) {
        bytes.push((value(&pair[0])? << 4 | value(&pair[1])?) as u8);
    }
    Some(bytes)
}

fn from_bits(digits: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = vec![0; digits.len().div_ceil(8)];
    for (place, digit) in digits.iter().rev().enumerate() {
        let bit = match digit {
            b'0' => 0,
            b'1' => 1,
            _ => return None,
        };
        let last = bytes.len() - 1;
        bytes[last - place / 8] |= bit << (place % 8);
    }
    Some(bytes)
}
