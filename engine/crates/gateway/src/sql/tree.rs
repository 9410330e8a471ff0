//! A statement as a tree. What is not here does not pass: a match over it has no wildcard arm where something is decided.

mod expression;

pub use expression::*;

use std::borrow::Cow;

/// A name or a part of one.
pub type Name<'a> = Cow<'a, str>;

/// A statement that reads or changes tables.
#[derive(Debug)]
pub enum Statement<'a> {
    /// `[WITH …] SELECT …`
    Query(Query<'a>),
    /// `INSERT` or `REPLACE`
    Insert(Insert<'a>),
    /// `UPDATE`
    Update(Update<'a>),
    /// `DELETE`
    Delete(Delete<'a>),
}

/// `[WITH …] body [ORDER BY …] [LIMIT …] [FOR UPDATE]`
#[derive(Debug)]
pub struct Query<'a> {
    /// None of them recursive.
    pub with: Vec<CommonTable<'a>>,
    /// SELECTs and what joins them.
    pub body: Body<'a>,
    /// Of all of it.
    pub order: Vec<Order<'a>>,
    /// Of all of it.
    pub limit: Option<Limit<'a>>,
    /// The rows that are read are locked.
    pub lock: Option<Lock>,
}

/// `name [(columns)] AS (query)`
#[derive(Debug)]
pub struct CommonTable<'a> {
    pub name: Name<'a>,
    pub columns: Vec<Name<'a>>,
    pub query: Query<'a>,
}

/// What a query's rows come from.
#[derive(Debug)]
pub enum Body<'a> {
    Select(Box<Select<'a>>),
    /// A query in parentheses.
    Nested(Box<Query<'a>>),
    /// Two bodies, the first ones of a chain joined first.
    Set {
        operator: SetOperator,
        /// Equal rows are one.
        is_distinct: bool,
        left: Box<Body<'a>>,
        right: Box<Body<'a>>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOperator {
    Union,
    Except,
    Intersect,
}

#[derive(Debug)]
pub struct Select<'a> {
    pub is_distinct: bool,
    /// `STRAIGHT_JOIN` as a modifier.
    pub is_straight: bool,
    /// `SQL_CALC_FOUND_ROWS`
    pub counts_all: bool,
    pub outputs: Vec<Output<'a>>,
    pub from: Vec<Joined<'a>>,
    pub condition: Option<Expr<'a>>,
    pub groups: Vec<Expr<'a>>,
    pub has_rollup: bool,
    pub having: Option<Expr<'a>>,
    pub windows: Vec<(Name<'a>, Window<'a>)>,
}

/// What a SELECT gives.
#[derive(Debug)]
pub enum Output<'a> {
    /// `*`, `table.*` or `database.table.*`; none of these is left once names are resolved.
    Star { database: Option<Name<'a>>, table: Option<Name<'a>> },
    Expr {
        expr: Expr<'a>,
        /// Where the statement gives none, resolving finds the one that the server would.
        alias: Option<Name<'a>>,
        /// The expression's own text.
        source: &'a [u8],
    },
}

/// A table, or several.
#[derive(Debug)]
pub enum Joined<'a> {
    Table(Table<'a>),
    /// `(query) [AS] alias [(columns)]`
    Derived {
        query: Box<Query<'a>>,
        alias: Name<'a>,
        columns: Vec<Name<'a>>,
    },
    Join {
        kind: JoinKind,
        left: Box<Joined<'a>>,
        right: Box<Joined<'a>>,
        on: JoinCondition<'a>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Straight,
    Left,
    Right,
}

#[derive(Debug)]
pub enum JoinCondition<'a> {
    None,
    On(Expr<'a>),
    /// Becomes `On` when names are resolved.
    Using(Vec<Name<'a>>),
    /// Becomes `Using`.
    Natural,
}

/// A table by its name.
#[derive(Debug, Clone)]
pub struct Table<'a> {
    /// Once resolved there is one, but for a common table.
    pub database: Option<Name<'a>>,
    pub name: Name<'a>,
    pub alias: Option<Name<'a>>,
    pub hints: Vec<IndexHint<'a>>,
}

/// `USE INDEX (…)` and its like.
#[derive(Debug, Clone)]
pub struct IndexHint<'a> {
    /// `USE`, `FORCE` or `IGNORE`
    pub what: &'static str,
    pub indexes: Vec<Name<'a>>,
}

#[derive(Debug)]
pub struct Order<'a> {
    pub expr: Expr<'a>,
    pub is_descending: bool,
}

#[derive(Debug)]
pub struct Limit<'a> {
    /// A number or a parameter.
    pub offset: Option<Expr<'a>>,
    pub count: Expr<'a>,
    /// As it was written: parameters keep their order.
    pub is_offset_first: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    pub strength: LockStrength,
    pub wait: LockWait,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockStrength {
    /// `FOR UPDATE`
    Update,
    /// `LOCK IN SHARE MODE`
    Share,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWait {
    Default,
    NoWait,
    SkipLocked,
}

#[derive(Debug)]
pub struct Insert<'a> {
    pub replaces: bool,
    pub ignores: bool,
    pub table: Table<'a>,
    /// Empty where the statement has none; once resolved there are.
    pub columns: Vec<Name<'a>>,
    pub rows: Vec<Vec<Expr<'a>>>,
    /// `ON DUPLICATE KEY UPDATE`
    pub updates: Vec<Assignment<'a>>,
    pub returning: Vec<Output<'a>>,
}

#[derive(Debug)]
pub struct Update<'a> {
    pub ignores: bool,
    pub from: Vec<Joined<'a>>,
    pub assignments: Vec<Assignment<'a>>,
    pub condition: Option<Expr<'a>>,
    pub order: Vec<Order<'a>>,
    pub limit: Option<Limit<'a>>,
}

#[derive(Debug)]
pub struct Delete<'a> {
    pub ignores: bool,
    /// Of several tables, those whose rows go; empty where there is one.
    pub targets: Vec<Table<'a>>,
    pub from: Vec<Joined<'a>>,
    pub condition: Option<Expr<'a>>,
    pub order: Vec<Order<'a>>,
    pub limit: Option<Limit<'a>>,
    pub returning: Vec<Output<'a>>,
}

/// `column = value`
#[derive(Debug)]
pub struct Assignment<'a> {
    pub column: Column<'a>,
    pub value: Expr<'a>,
}

/// `[database.][table.]name`. Once resolved, the table is its alias, or absent where the server takes the bare name alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Column<'a> {
    pub database: Option<Name<'a>>,
    pub table: Option<Name<'a>>,
    pub name: Name<'a>,
}
