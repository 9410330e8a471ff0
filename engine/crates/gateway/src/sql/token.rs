//! What a statement is cut into.

use std::borrow::Cow;

/// What a token is.
#[derive(Debug, Clone, PartialEq)]
pub enum Token<'a> {
    /// A keyword, a function's name, or any name that is not quoted.
    Word(&'a str),
    /// A name between backticks.
    Name(Cow<'a, str>),
    /// Between quotes, with its escapes resolved.
    Text(Cow<'a, str>),
    /// `0x…`, `X'…'`, `0b…`, `b'…'`, and a text with an introducer, as bytes.
    Bytes {
        /// Of an introducer.
        charset: Option<Charset>,
        /// `0x…`, `0b…` and `b'…'`, which are numbers among numbers; `X'…'` is not to every server.
        is_number: bool,
        /// What it stands for.
        bytes: Cow<'a, [u8]>,
    },
    /// Digits and at most one point and an exponent, as they stand.
    Number(&'a str),
    /// A question mark.
    Parameter,
    /// `@@name`; what follows a point is a token of its own.
    Variable(&'a str),
    /// An operator or a punctuation mark.
    Sign(Sign),
    /// There is no more.
    End,
}

/// Operators and punctuation marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Sign {
    Open,
    Close,
    Comma,
    Dot,
    Semicolon,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Ampersand,
    And,
    Bar,
    Caret,
    Tilde,
    Equal,
    NullSafeEqual,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    ShiftLeft,
    ShiftRight,
}

/// Introducers that the printer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charset {
    /// `_utf8mb4`, and `_utf8` and `_utf8mb3`, whose characters are among its.
    Utf8mb4,
    /// `_binary`
    Binary,
    /// `_latin1`
    Latin1,
}
