//! Values and what they are made of.

use super::{Column, Name, Order, Query, Table};
use crate::sql::lexer::Charset;
use crate::sql::words::{Function, Unit};
use std::borrow::Cow;

/// A value.
#[derive(Debug)]
pub enum Expr<'a> {
    Null,
    Boolean(bool),
    Number(&'a str),
    Text(Cow<'a, str>),
    Bytes {
        charset: Option<Charset>,
        /// It is a number among numbers.
        is_number: bool,
        bytes: Cow<'a, [u8]>,
    },
    /// `DATE '…'`, `TIME '…'`, `TIMESTAMP '…'`
    Temporal {
        kind: &'static str,
        text: Cow<'a, str>,
    },
    /// The number of its question mark, from 0.
    Parameter(u16),
    Column(Column<'a>),
    /// Where rows are ordered or grouped: an output, by its number, from 1.
    Place(usize),
    /// `@@…`, one of a list.
    Variable(&'static str),
    /// `NEXT VALUE FOR sequence`, which is MariaDB's.
    NextValue(Table<'a>),
    /// `DEFAULT` where a value is stored.
    Default,
    /// `VALUES(column)`
    Inserted(Column<'a>),
    Unary {
        operator: Unary,
        operand: Box<Expr<'a>>,
    },
    Binary {
        operator: Binary,
        left: Box<Expr<'a>>,
        right: Box<Expr<'a>>,
    },
    /// Two or more joined by AND, or by OR: as a list, since there may be thousands of them.
    Chain {
        operator: Logic,
        operands: Vec<Expr<'a>>,
    },
    /// `IS [NOT] {NULL | TRUE | FALSE | UNKNOWN}`
    Is {
        operand: Box<Expr<'a>>,
        is_not: bool,
        what: Truth,
    },
    Between {
        operand: Box<Expr<'a>>,
        is_not: bool,
        low: Box<Expr<'a>>,
        high: Box<Expr<'a>>,
    },
    In {
        operand: Box<Expr<'a>>,
        is_not: bool,
        list: Vec<Expr<'a>>,
    },
    InQuery {
        operand: Box<Expr<'a>>,
        is_not: bool,
        query: Box<Query<'a>>,
    },
    Like {
        operand: Box<Expr<'a>>,
        is_not: bool,
        pattern: Box<Expr<'a>>,
        escape: Option<Box<Expr<'a>>>,
    },
    Row(Vec<Expr<'a>>),
    Case {
        operand: Option<Box<Expr<'a>>>,
        branches: Vec<(Expr<'a>, Expr<'a>)>,
        otherwise: Option<Box<Expr<'a>>>,
    },
    Cast {
        operand: Box<Expr<'a>>,
        to: Type,
    },
    /// `CONVERT(… USING utf8mb4)`
    Convert {
        operand: Box<Expr<'a>>,
        charset: &'static str,
    },
    Collate {
        operand: Box<Expr<'a>>,
        collation: &'a str,
    },
    Call(Box<Call<'a>>),
    /// `left ± INTERVAL amount unit`
    AddInterval {
        operand: Box<Expr<'a>>,
        is_minus: bool,
        amount: Box<Expr<'a>>,
        unit: Unit,
    },
    Match {
        columns: Vec<Expr<'a>>,
        against: Box<Expr<'a>>,
        mode: &'static str,
    },
    Query(Box<Query<'a>>),
    Exists(Box<Query<'a>>),
    /// `operator {ALL | ANY} (query)`
    Quantified {
        operand: Box<Expr<'a>>,
        operator: Binary,
        is_all: bool,
        query: Box<Query<'a>>,
    },
}

/// A function, an aggregate or a window function.
#[derive(Debug)]
pub struct Call<'a> {
    pub function: &'static Function,
    pub arguments: Vec<Argument<'a>>,
    /// `COUNT(*)`
    pub has_star: bool,
    pub is_distinct: bool,
    /// Of GROUP_CONCAT.
    pub order: Vec<Order<'a>>,
    /// Of GROUP_CONCAT.
    pub separator: Option<Cow<'a, str>>,
    pub over: Option<Over<'a>>,
}

/// What stands before an argument, and it.
#[derive(Debug)]
pub struct Argument<'a> {
    /// Words or a comma, as they are printed before it: `, `, ` FROM `, ` FOR `, ` IN `.
    pub before: &'static str,
    pub value: ArgumentValue<'a>,
}

#[derive(Debug)]
pub enum ArgumentValue<'a> {
    Expr(Expr<'a>),
    Unit(Unit),
    /// `INTERVAL amount unit`
    Interval(Expr<'a>, Unit),
    /// `LEADING`, `TRAILING`, `BOTH`
    Word(&'static str),
}

#[derive(Debug)]
pub enum Over<'a> {
    Name(Name<'a>),
    Window(Window<'a>),
}

#[derive(Debug, Default)]
pub struct Window<'a> {
    pub base: Option<Name<'a>>,
    pub partition: Vec<Expr<'a>>,
    pub order: Vec<Order<'a>>,
    pub frame: Option<Frame>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// `ROWS` or `RANGE`
    pub unit: &'static str,
    pub start: Bound,
    pub end: Option<Bound>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    CurrentRow,
    UnboundedPreceding,
    UnboundedFollowing,
    Preceding(u64),
    Following(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unary {
    Not,
    Minus,
    Plus,
    Invert,
    Binary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logic {
    And,
    Or,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    Xor,
    Equal,
    NullSafeEqual,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Regexp,
    BitOr,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    IntegerDivide,
    Modulo,
    BitXor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    Null,
    True,
    False,
    Unknown,
}

/// What a value is cast to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Type {
    /// As it is printed.
    pub name: &'static str,
    pub length: Option<u32>,
    pub decimals: Option<u32>,
    /// Of CHAR.
    pub charset: Option<&'static str>,
}
