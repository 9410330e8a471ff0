//! SELECT, and what is made of several.

use super::Parser;
use crate::sql::Refusal;
use crate::sql::lexer::{Sign, Token};
use crate::sql::tree::{
    Body, CommonTable, Expr, IndexHint, JoinCondition, JoinKind, Joined, Limit, Lock, LockStrength, LockWait, Order,
    Output, Query, Select, SetOperator, Table,
};

/// SELECTs of one set side by side: each is a level of the tree.
const LONGEST_SET: u16 = 64;

impl<'a> Parser<'a> {
    /// An opening parenthesis, and behind it a query's first word.
    pub(super) fn opens_query(&self) -> bool {
        let mut behind = self.lexer;
        self.is_sign(Sign::Open)
            && matches!(behind.token(), Ok(Token::Word(word))
                if ["SELECT", "WITH"].iter().any(|start| word.eq_ignore_ascii_case(start)))
    }

    pub(super) fn query_in_parentheses(&mut self) -> Result<Query<'a>, Refusal> {
        self.expect(Sign::Open)?;
        let query = self.query()?;
        self.expect(Sign::Close)?;
        Ok(query)
    }

    /// `[WITH …] body [ORDER BY …] [LIMIT …] [FOR UPDATE]`
    pub(super) fn query(&mut self) -> Result<Query<'a>, Refusal> {
        self.nested(|parser| {
            let with = if parser.take_word("WITH")? { parser.common_tables()? } else { Vec::new() };
            let body = parser.body()?;
            let order = parser.order()?;
            let limit = parser.limit()?;
            let lock = parser.lock()?;
            Ok(Query { with, body, order, limit, lock })
        })
    }

    fn common_tables(&mut self) -> Result<Vec<CommonTable<'a>>, Refusal> {
        if self.is("RECURSIVE") {
            return Err(Refusal::of("recursive WITH"));
        }
        self.list(|parser| {
            let name = parser.name()?;
            let columns = parser.column_names()?;
            parser.expect_word("AS")?;
            Ok(CommonTable { name, columns, query: parser.query_in_parentheses()? })
        })
    }

    /// `[(name, …)]`
    pub(super) fn column_names(&mut self) -> Result<Vec<std::borrow::Cow<'a, str>>, Refusal> {
        if self.is_sign(Sign::Open) { self.list_in_parentheses(Self::name) } else { Ok(Vec::new()) }
    }

    /// INTERSECT binds more strongly than the others; those are joined from the left.
    fn body(&mut self) -> Result<Body<'a>, Refusal> {
        let mut left = self.intersection()?;
        let mut length = 0;
        loop {
            let operator = match () {
                () if self.take_word("UNION")? => SetOperator::Union,
                () if self.take_word("EXCEPT")? => SetOperator::Except,
                () => return Ok(left),
            };
            left = self.set_of(operator, left, &mut length, Self::intersection)?;
        }
    }

    fn intersection(&mut self) -> Result<Body<'a>, Refusal> {
        let mut left = self.member()?;
        let mut length = 0;
        while self.take_word("INTERSECT")? {
            left = self.set_of(SetOperator::Intersect, left, &mut length, Self::member)?;
        }
        Ok(left)
    }

    fn set_of(
        &mut self,
        operator: SetOperator,
        left: Body<'a>,
        length: &mut u16,
        right: fn(&mut Self) -> Result<Body<'a>, Refusal>,
    ) -> Result<Body<'a>, Refusal> {
        *length += 1;
        if *length > LONGEST_SET {
            return Err(Refusal::of("union of so many queries"));
        }
        let is_distinct = !self.take_word("ALL")?;
        if is_distinct {
            self.take_word("DISTINCT")?;
        }
        Ok(Body::Set { operator, is_distinct, left: left.into(), right: right(self)?.into() })
    }

    fn member(&mut self) -> Result<Body<'a>, Refusal> {
        if self.is_sign(Sign::Open) {
            return Ok(Body::Nested(self.query_in_parentheses()?.into()));
        }
        self.expect_word("SELECT")?;
        self.select().map(|select| Body::Select(select.into()))
    }

    fn select(&mut self) -> Result<Select<'a>, Refusal> {
        let (mut is_distinct, mut is_straight, mut counts_all) = (false, false, false);
        loop {
            match () {
                () if self.take_word("DISTINCT")? || self.take_word("DISTINCTROW")? => is_distinct = true,
                () if self.take_word("STRAIGHT_JOIN")? => is_straight = true,
                () if self.take_word("SQL_CALC_FOUND_ROWS")? => counts_all = true,
                () if self.take_word("ALL")?
                    || self.take_word("SQL_NO_CACHE")?
                    || self.take_word("HIGH_PRIORITY")? => {}
                () => break,
            }
        }
        let outputs = self.list(Self::output)?;
        let from = match self.take_word("FROM")? {
            true if self.take_word("DUAL")? => Vec::new(),
            true => self.list(Self::joined)?,
            false => Vec::new(),
        };
        let condition = self.where_condition()?;
        let groups = if self.take_words(&["GROUP", "BY"])? { self.list(Self::group)? } else { Vec::new() };
        let has_rollup = !groups.is_empty() && self.take_words(&["WITH", "ROLLUP"])?;
        let having = if self.take_word("HAVING")? { Some(self.expr()?) } else { None };
        let windows = match self.take_word("WINDOW")? {
            true => self.list(|parser| {
                let name = parser.name()?;
                parser.expect_word("AS")?;
                Ok((name, parser.window()?))
            })?,
            false => Vec::new(),
        };
        Ok(Select {
            is_distinct,
            is_straight,
            counts_all,
            outputs,
            from,
            condition,
            groups,
            has_rollup,
            having,
            windows,
        })
    }

    /// ASC and DESC behind a group are MySQL 5.7's.
    fn group(&mut self) -> Result<Expr<'a>, Refusal> {
        let group = self.expr()?;
        if self.is("ASC") || self.is("DESC") { Err(self.unexpected()) } else { Ok(group) }
    }

    pub(super) fn where_condition(&mut self) -> Result<Option<Expr<'a>>, Refusal> {
        if self.take_word("WHERE")? { self.expr().map(Some) } else { Ok(None) }
    }

    pub(super) fn output(&mut self) -> Result<Output<'a>, Refusal> {
        if self.take_if(Sign::Star)? {
            return Ok(Output::Star { database: None, table: None });
        }
        if let Some(star) = self.star_of_table()? {
            return Ok(star);
        }
        let start = self.start;
        let expr = self.expr()?;
        let source = self.lexer.source(start, self.end);
        Ok(Output::Expr { expr, alias: self.alias()?, source })
    }

    /// `table.*` or `database.table.*`, looked for ahead.
    fn star_of_table(&mut self) -> Result<Option<Output<'a>>, Refusal> {
        if !self.is_name() {
            return Ok(None);
        }
        let mut ahead = self.lexer;
        for points in 1..=2 {
            if !matches!(ahead.token(), Ok(Token::Sign(Sign::Dot))) {
                return Ok(None);
            }
            match ahead.token() {
                Ok(Token::Sign(Sign::Star)) => {
                    let first = self.name()?;
                    self.expect(Sign::Dot)?;
                    let (database, table) = match points {
                        1 => (None, first),
                        _ => {
                            let table = self.name_behind_a_point()?;
                            self.expect(Sign::Dot)?;
                            (Some(first), table)
                        }
                    };
                    self.expect(Sign::Star)?;
                    return Ok(Some(Output::Star { database, table: Some(table) }));
                }
                Ok(Token::Word(_) | Token::Name(_)) => {}
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// A table and what is joined to it, from the left.
    pub(super) fn joined(&mut self) -> Result<Joined<'a>, Refusal> {
        self.nested(|parser| {
            let mut left = parser.table_factor()?;
            let mut length = 0;
            while let Some((kind, is_natural)) = parser.join_kind()? {
                length += 1;
                if length > LONGEST_SET {
                    return Err(Refusal::of("join of so many tables"));
                }
                let right = parser.table_factor()?;
                let on = match () {
                    () if is_natural => JoinCondition::Natural,
                    () if parser.take_word("ON")? => JoinCondition::On(parser.expr()?),
                    () if parser.take_word("USING")? => JoinCondition::Using(parser.list_in_parentheses(Self::name)?),
                    // Without, an outer join would take the condition of the next one.
                    () if matches!(kind, JoinKind::Inner | JoinKind::Straight) => JoinCondition::None,
                    () => return Err(parser.unexpected()),
                };
                left = Joined::Join { kind, left: left.into(), right: right.into(), on };
            }
            Ok(left)
        })
    }

    /// Which join follows, and whether it is a natural one.
    fn join_kind(&mut self) -> Result<Option<(JoinKind, bool)>, Refusal> {
        if self.take_word("STRAIGHT_JOIN")? {
            return Ok(Some((JoinKind::Straight, false)));
        }
        let is_natural = self.take_word("NATURAL")?;
        let kind = match () {
            () if self.take_word("LEFT")? => JoinKind::Left,
            () if self.take_word("RIGHT")? => JoinKind::Right,
            () if self.take_word("INNER")? || !is_natural && self.take_word("CROSS")? => {
                self.expect_word("JOIN")?;
                return Ok(Some((JoinKind::Inner, is_natural)));
            }
            () if self.take_word("JOIN")? => return Ok(Some((JoinKind::Inner, is_natural))),
            () if is_natural => return Err(self.unexpected()),
            () => return Ok(None),
        };
        self.take_word("OUTER")?;
        self.expect_word("JOIN")?;
        Ok(Some((kind, is_natural)))
    }

    fn table_factor(&mut self) -> Result<Joined<'a>, Refusal> {
        if self.is("LATERAL") {
            return Err(self.unexpected());
        }
        if self.opens_query() {
            let query = self.query_in_parentheses()?.into();
            return self.derived(query);
        }
        if !self.is_sign(Sign::Open) {
            return self.table().map(Joined::Table);
        }
        // `((SELECT …) UNION …) AS t`, or joined tables.
        if self.opens_nested_query() {
            let query = self.query_in_parentheses()?.into();
            return self.derived(query);
        }
        self.expect(Sign::Open)?;
        let joined = self.joined()?;
        self.expect(Sign::Close)?;
        Ok(joined)
    }

    /// Parentheses, behind them a query's first word, and behind the second one's end what goes on with a query: anything
    /// else makes a derived table of it, which others are joined to.
    fn opens_nested_query(&self) -> bool {
        let mut ahead = self.lexer;
        let mut first = ahead.token();
        let mut depth = 0_u32;
        while let Ok(Token::Sign(Sign::Open)) = first {
            depth += 1;
            first = ahead.token();
        }
        if !matches!(first, Ok(Token::Word(word)) if ["SELECT", "WITH"].iter().any(|known| word.eq_ignore_ascii_case(known)))
        {
            return false;
        }
        while depth > 0 {
            match ahead.token() {
                Ok(Token::Sign(Sign::Open)) => depth += 1,
                Ok(Token::Sign(Sign::Close)) => depth -= 1,
                Ok(Token::End) | Err(_) => return false,
                Ok(_) => {}
            }
        }
        match ahead.token() {
            Ok(Token::Sign(Sign::Close)) => true,
            Ok(Token::Word(word)) => {
                ["UNION", "EXCEPT", "INTERSECT", "ORDER", "LIMIT"].iter().any(|known| word.eq_ignore_ascii_case(known))
            }
            _ => false,
        }
    }

    fn derived(&mut self, query: Box<Query<'a>>) -> Result<Joined<'a>, Refusal> {
        let alias = self.alias()?.ok_or(Refusal::of("derived table without an alias"))?;
        Ok(Joined::Derived { query, alias, columns: self.column_names()? })
    }

    /// `[database.]name [[AS] alias] [index hints]`
    pub(super) fn table(&mut self) -> Result<Table<'a>, Refusal> {
        let mut table = self.table_name()?;
        if self.is_sign(Sign::Open) {
            return Err(Refusal::of("table made by a function"));
        }
        table.alias = self.alias()?;
        while let Some(what) = ["USE", "FORCE", "IGNORE"].into_iter().find(|what| self.is(what)) {
            self.take()?;
            if !self.take_word("INDEX")? && !self.take_word("KEY")? {
                return Err(self.unexpected());
            }
            let indexes = self.list_in_parentheses(|parser| match parser.take_word("PRIMARY")? {
                true => Ok("PRIMARY".into()),
                false => parser.name(),
            })?;
            table.hints.push(IndexHint { what, indexes });
        }
        Ok(table)
    }

    pub(super) fn order(&mut self) -> Result<Vec<Order<'a>>, Refusal> {
        if !self.take_words(&["ORDER", "BY"])? {
            return Ok(Vec::new());
        }
        self.list(|parser| {
            let expr = parser.expr()?;
            let is_descending = parser.take_word("DESC")?;
            if !is_descending {
                parser.take_word("ASC")?;
            }
            Ok(Order { expr, is_descending })
        })
    }

    /// `LIMIT count`, `LIMIT offset, count`, `LIMIT count OFFSET offset`
    pub(super) fn limit(&mut self) -> Result<Option<Limit<'a>>, Refusal> {
        if !self.take_word("LIMIT")? {
            return Ok(None);
        }
        let first = self.limit_value()?;
        Ok(Some(match () {
            () if self.take_if(Sign::Comma)? => {
                Limit { offset: Some(first), count: self.limit_value()?, is_offset_first: true }
            }
            () if self.take_word("OFFSET")? => {
                Limit { offset: Some(self.limit_value()?), count: first, is_offset_first: false }
            }
            () => Limit { offset: None, count: first, is_offset_first: false },
        }))
    }

    fn limit_value(&mut self) -> Result<Expr<'a>, Refusal> {
        match self.primary()? {
            Expr::Number(digits) if !digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                Err(Refusal::of("LIMIT of this form"))
            }
            value @ (Expr::Number(_) | Expr::Parameter(_)) => Ok(value),
            _ => Err(Refusal::of("LIMIT of this form")),
        }
    }

    fn lock(&mut self) -> Result<Option<Lock>, Refusal> {
        let strength = match () {
            () if self.take_words(&["LOCK", "IN", "SHARE", "MODE"])? => LockStrength::Share,
            () if self.take_word("FOR")? => match self.take_word("SHARE")? {
                true => LockStrength::Share,
                false => {
                    self.expect_word("UPDATE")?;
                    LockStrength::Update
                }
            },
            () => return Ok(None),
        };
        let wait = match () {
            () if self.take_word("NOWAIT")? => LockWait::NoWait,
            () if self.take_words(&["SKIP", "LOCKED"])? => LockWait::SkipLocked,
            () => LockWait::Default,
        };
        Ok(Some(Lock { strength, wait }))
    }
}
