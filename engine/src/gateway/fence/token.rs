//! SQL, cut into tokens as MySQL's and MariaDB's own lexers cut it. What could be cut in two ways is refused.

use super::Refusal;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A keyword, a function's name, or any name that is not quoted.
    Word,
    /// A name between backticks.
    Name,
    /// Between single quotes.
    Text,
    /// Between double quotes: a text, or a name where the SQL mode has ANSI_QUOTES.
    TextOrName,
    Number,
    /// A question mark.
    Parameter,
    /// `@name`, a user's variable.
    Variable,
    /// `@@name`, the server's; what follows a point is a token of its own.
    ServerVariable,
    /// Any other sign, alone but for `:=`.
    Sign,
    /// There is no more.
    End,
}

/// One of a statement's.
#[derive(Debug, Clone, Copy)]
pub struct Token<'a> {
    pub kind: Kind,
    /// Without quotes and at signs.
    pub text: &'a [u8],
}

impl Token<'_> {
    /// Whether it is this word, which is given in capitals.
    pub fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word.as_bytes())
    }

    /// Whether it is this sign.
    pub fn is_sign(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign.as_bytes()
    }

    /// Whether it may be a table's or a column's name, or a part of one.
    pub fn is_name(&self) -> bool {
        matches!(self.kind, Kind::Word | Kind::Name | Kind::TextOrName)
    }
}

/// A statement and the place where it is read.
#[derive(Clone)]
pub struct Tokens<'a> {
    sql: &'a [u8],
    at: usize,
    /// A backslash in a text takes the next sign's meaning.
    backslash_escapes: bool,
}

pub const END: Token<'static> = Token { kind: Kind::End, text: b"" };

impl<'a> Tokens<'a> {
    pub fn new(sql: &'a [u8], backslash_escapes: bool) -> Self {
        Tokens { sql, at: 0, backslash_escapes }
    }

    /// The next token, which is taken.
    pub fn next(&mut self) -> Result<Token<'a>, Refusal> {
        self.skip_blanks()?;
        let Some(&first) = self.sql.get(self.at) else { return Ok(END) };
        let (kind, text) = match first {
            b'\'' => (Kind::Text, self.quoted(first, self.backslash_escapes)?),
            b'"' => (Kind::TextOrName, self.text_or_name()?),
            b'`' => (Kind::Name, self.quoted(first, false)?),
            b'?' => (Kind::Parameter, self.take(1)),
            b'@' => self.variable()?,
            b'.' if self.begins_a_fraction() => (Kind::Number, self.number()),
            _ if first.is_ascii_digit() && self.follows_a_point() => (Kind::Word, self.word()),
            _ if first.is_ascii_digit() => self.number_or_word(),
            _ if is_part_of_a_word(first) => (Kind::Word, self.word()),
            b':' if self.sql.get(self.at + 1) == Some(&b'=') => (Kind::Sign, self.take(2)),
            0x21..=0x7e => (Kind::Sign, self.take(1)),
            _ => return Err(Refusal::of("an unquoted character that is not ASCII")),
        };
        Ok(Token { kind, text })
    }

    /// The next token, which stays.
    pub fn peek(&self) -> Result<Token<'a>, Refusal> {
        self.clone().next()
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let taken = &self.sql[self.at..self.at + count];
        self.at += count;
        taken
    }

    fn word(&mut self) -> &'a [u8] {
        let rest = &self.sql[self.at..];
        self.take(rest.iter().position(|byte| !is_part_of_a_word(*byte)).unwrap_or(rest.len()))
    }

    fn skip_blanks(&mut self) -> Result<(), Refusal> {
        loop {
            match &self.sql[self.at..] {
                [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => self.at += 1,
                [b'#', ..] => self.skip_line(),
                [b'-', b'-'] => self.at += 2,
                // Without a blank behind them these are two signs.
                [b'-', b'-', after, ..] if after.is_ascii_whitespace() || after.is_ascii_control() => self.skip_line(),
                [b'/', b'*', b'!', ..] | [b'/', b'*', b'M', b'!', ..] => {
                    return Err(Refusal::of("a comment that some servers execute"));
                }
                [b'/', b'*', rest @ ..] => {
                    let end = rest.windows(2).position(|two| two == b"*/");
                    self.at += end.ok_or(Refusal::of("a comment without an end"))? + 4;
                }
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.sql[self.at..];
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }

    /// A quote within is doubled, or comes behind a backslash.
    fn quoted(&mut self, quote: u8, backslash_escapes: bool) -> Result<&'a [u8], Refusal> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            match &self.sql[at.min(self.sql.len())..] {
                [] => return Err(Refusal::of("a quote without an end")),
                [first, second, ..] if *first == quote && *second == quote => at += 2,
                [first, ..] if *first == quote => {
                    self.at = at + 1;
                    return Ok(&self.sql[start..at]);
                }
                [b'\\', ..] if backslash_escapes => at += 2,
                _ => at += 1,
            }
        }
    }

    fn text_or_name(&mut self) -> Result<&'a [u8], Refusal> {
        let text = self.quoted(b'"', false)?;
        match text.contains(&b'\\') {
            // It ends elsewhere under another SQL mode.
            true => Err(Refusal::of("a backslash between double quotes; use single quotes")),
            false => Ok(text),
        }
    }

    fn variable(&mut self) -> Result<(Kind, &'a [u8]), Refusal> {
        self.at += 1;
        match self.sql.get(self.at) {
            Some(b'@') => {
                self.at += 1;
                match self.sql.get(self.at) {
                    Some(b'`') => Ok((Kind::ServerVariable, self.quoted(b'`', false)?)),
                    _ => Ok((Kind::ServerVariable, self.word())),
                }
            }
            Some(b'`') => Ok((Kind::Variable, self.quoted(b'`', false)?)),
            Some(b'\'') => Ok((Kind::Variable, self.quoted(b'\'', self.backslash_escapes)?)),
            Some(b'"') => Ok((Kind::Variable, self.text_or_name()?)),
            _ => {
                let rest = &self.sql[self.at..];
                let part = |byte: &u8| is_part_of_a_word(*byte) || *byte == b'.';
                let length = rest.iter().position(|byte| !part(byte)).unwrap_or(rest.len());
                Ok((Kind::Variable, self.take(length)))
            }
        }
    }

    fn begins_a_fraction(&self) -> bool {
        let before = self.at.checked_sub(1).map(|at| self.sql[at]);
        let after_a_name = before.is_some_and(|byte| is_part_of_a_word(byte) || matches!(byte, b'`' | b'"'));
        !after_a_name && self.sql.get(self.at + 1).is_some_and(u8::is_ascii_digit)
    }

    fn follows_a_point(&self) -> bool {
        self.at > 0 && self.sql[self.at - 1] == b'.'
    }

    /// `1`, `1.5`, `1e-5`, `0x1F`; `1st` is a name.
    fn number_or_word(&mut self) -> (Kind, &'a [u8]) {
        let run = self.clone().word();
        let digits = run.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let kind = match &run[digits..] {
            [] => return (Kind::Number, self.number()),
            [b'e' | b'E', exponent @ ..] if exponent.iter().all(u8::is_ascii_digit) && self.has_exponent(digits) => {
                return (Kind::Number, self.number());
            }
            [b'x', digits @ ..] if run[0] == b'0' && digits.iter().all(u8::is_ascii_hexdigit) => Kind::Number,
            [b'b', digits @ ..] if run[0] == b'0' && digits.iter().all(|byte| matches!(byte, b'0' | b'1')) => {
                Kind::Number
            }
            _ => Kind::Word,
        };
        (kind, self.word())
    }

    fn number(&mut self) -> &'a [u8] {
        let start = self.at;
        self.skip_digits();
        if self.sql.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.skip_digits();
        }
        if self.has_exponent(0) {
            self.at += 1;
            if matches!(self.sql[self.at], b'+' | b'-') {
                self.at += 1;
            }
            self.skip_digits();
        }
        &self.sql[start..self.at]
    }

    /// So many bytes on.
    fn has_exponent(&self, skipped: usize) -> bool {
        match &self.sql[self.at + skipped..] {
            [b'e' | b'E', b'+' | b'-', digit, ..] | [b'e' | b'E', digit, ..] => digit.is_ascii_digit(),
            _ => false,
        }
    }

    fn skip_digits(&mut self) {
        while self.sql.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }
}

fn is_part_of_a_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(sql: &str, backslash_escapes: bool) -> Result<Vec<(Kind, String)>, Refusal> {
        let mut tokens = Tokens::new(sql.as_bytes(), backslash_escapes);
        let mut read = Vec::new();
        loop {
            let token = tokens.next()?;
            if token.kind == Kind::End {
                return Ok(read);
            }
            read.push((token.kind, String::from_utf8_lossy(token.text).into_owned()));
        }
    }

    fn shown(sql: &str) -> String {
        let told = |(kind, text)| format!("{kind:?}:{text}");
        read(sql, true).unwrap().into_iter().map(told).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_kind() {
        for (sql, expected) in [
            ("SELECT c_last", "Word:SELECT Word:c_last"),
            ("`a``b`.\"c\"", "Name:a``b Sign:. TextOrName:c"),
            ("'it''s' 'a\\'b'", "Text:it''s Text:a\\'b"),
            ("? @x @'y z'", "Parameter:? Variable:x Variable:y z"),
            ("@@a @@session.b", "ServerVariable:a ServerVariable:session Sign:. Word:b"),
            ("1 1.5 .5 1e5 1.e-3", "Number:1 Number:1.5 Number:.5 Number:1e5 Number:1.e-3"),
            ("0x1F 0b01 0xg 1st t.1e5", "Number:0x1F Number:0b01 Word:0xg Word:1st Word:t Sign:. Word:1e5"),
            ("a:=b<=>c", "Word:a Sign::= Word:b Sign:< Sign:= Sign:> Word:c"),
            ("x'41' _utf8'a'", "Word:x Text:41 Word:_utf8 Text:a"),
            ("a.`b`.5", "Word:a Sign:. Name:b Sign:. Word:5"),
        ] {
            assert_eq!(shown(sql), expected);
        }
    }

    #[test]
    fn comments_are_nothing_unless_a_server_may_execute_them() {
        assert_eq!(shown("a/* ' */b -- '\n c # \"\n d --"), "Word:a Word:b Word:c Word:d");
        assert_eq!(shown("1--1"), "Number:1 Sign:- Sign:- Number:1");
        for sql in ["/*! SELECT */", "/*!50000 a*/", "/*M!100100 a*/", "/* a", "a /*"] {
            assert!(read(sql, true).is_err(), "{sql}");
        }
    }

    #[test]
    fn what_ends_elsewhere_in_another_mode_is_refused() {
        assert!(read("\"a\\\" INTO", true).is_err());
        assert_eq!(read("'a\\' b", false).unwrap().len(), 2, "without escapes the text ends at the second quote");
        assert!(read("'a\\' b", true).is_err());
        for sql in ["'a", "`a", "\"a", "a\u{a0}INTO", "\0", "'a\\"] {
            assert!(read(sql, true).is_err(), "{sql:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_and_always_end(sql in prop::collection::vec(any::<u8>(), 0..60), escapes: bool) {
            let mut tokens = Tokens::new(&sql, escapes);
            while tokens.next().is_ok_and(|token| token.kind != Kind::End) {}
        }

        #[test]
        fn signs_of_sql_never_panic(sql in "[-'\"`@a0.e+:=/*!# x?\\\\]{0,30}", escapes: bool) {
            let _ = read(&sql, escapes);
        }

        /// Whatever its content, a text that PyMySQL has escaped is one token.
        #[test]
        fn an_escaped_text_is_one_token(content in "[ -~\\n\u{e9}]{0,20}") {
            let escaped = content.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n").replace('"', "\\\"");
            prop_assert_eq!(read(&format!("'{escaped}'"), true).unwrap(), [(Kind::Text, escaped)]);
            let doubled = content.replace('\'', "''");
            prop_assert_eq!(read(&format!("'{doubled}'"), false).unwrap(), [(Kind::Text, doubled)]);
        }
    }
}
