//! INSERT, REPLACE, UPDATE and DELETE.

use super::Parser;
use crate::sql::Refusal;
use crate::sql::lexer::Sign;
use crate::sql::tree::{Assignment, Column, Delete, Expr, Insert, Joined, Output, Table, Update};

impl<'a> Parser<'a> {
    /// `{INSERT | REPLACE} [INTO] table [(columns)] {VALUES … | SET …} [ON DUPLICATE KEY UPDATE …] [RETURNING …]`
    pub(super) fn insert(&mut self) -> Result<Insert<'a>, Refusal> {
        let replaces = self.is("REPLACE");
        self.take()?;
        let ignores = self.modifiers()?;
        self.take_word("INTO")?;
        let table = self.table_name()?;
        let mut columns = Vec::new();
        if self.is_sign(Sign::Open) {
            if self.opens_query() {
                return Err(Refusal::of("INSERT of anything but VALUES"));
            }
            self.expect(Sign::Open)?;
            if !self.is_sign(Sign::Close) {
                columns = self.list(Self::plain_column)?;
            }
            self.expect(Sign::Close)?;
        }
        let rows = match () {
            () if self.take_word("VALUES")? || self.take_word("VALUE")? => self.list(Self::row)?,
            () if columns.is_empty() && self.take_word("SET")? => {
                let (names, row) =
                    self.list(Self::assignment)?.into_iter().map(|set| (set.column.name, set.value)).unzip();
                columns = names;
                vec![row]
            }
            () => return Err(Refusal::of("INSERT of anything but VALUES")),
        };
        let updates = match !replaces && self.take_words(&["ON", "DUPLICATE", "KEY", "UPDATE"])? {
            true => self.list(Self::assignment)?,
            false => Vec::new(),
        };
        Ok(Insert { replaces, ignores, table, columns, rows, updates, returning: self.returning()? })
    }

    fn plain_column(&mut self) -> Result<std::borrow::Cow<'a, str>, Refusal> {
        let Column { database, table, name } = self.column()?;
        if database.is_some() || table.is_some() { Err(Refusal::of("INSERT of this form")) } else { Ok(name) }
    }

    /// Empty parentheses are a row of defaults.
    fn row(&mut self) -> Result<Vec<Expr<'a>>, Refusal> {
        self.take_word("ROW")?;
        self.expect(Sign::Open)?;
        let row = if self.is_sign(Sign::Close) { Vec::new() } else { self.list(Self::expr)? };
        self.expect(Sign::Close)?;
        Ok(row)
    }

    fn assignment(&mut self) -> Result<Assignment<'a>, Refusal> {
        let column = self.column()?;
        self.expect(Sign::Equal)?;
        Ok(Assignment { column, value: self.expr()? })
    }

    /// `RETURNING` is MariaDB's.
    fn returning(&mut self) -> Result<Vec<Output<'a>>, Refusal> {
        if self.take_word("RETURNING")? { self.list(Self::output) } else { Ok(Vec::new()) }
    }

    /// Priorities and delays are the table locks' of old: they fall away. Whether errors are ignored does not.
    fn modifiers(&mut self) -> Result<bool, Refusal> {
        let mut ignores = false;
        loop {
            match () {
                () if self.take_word("IGNORE")? => ignores = true,
                () if self.take_word("LOW_PRIORITY")?
                    || self.take_word("HIGH_PRIORITY")?
                    || self.take_word("QUICK")? => {}
                () => return Ok(ignores),
            }
        }
    }

    /// `UPDATE tables SET … [WHERE …] [ORDER BY …] [LIMIT …]`
    pub(super) fn update(&mut self) -> Result<Update<'a>, Refusal> {
        self.take()?;
        let ignores = self.modifiers()?;
        let from = self.list(Self::joined)?;
        self.expect_word("SET")?;
        let assignments = self.list(Self::assignment)?;
        let condition = self.where_condition()?;
        Ok(Update { ignores, from, assignments, condition, order: self.order()?, limit: self.limit()? })
    }

    /// `DELETE FROM table …`, `DELETE tables FROM tables …` or `DELETE FROM tables USING tables …`
    pub(super) fn delete(&mut self) -> Result<Delete<'a>, Refusal> {
        self.take()?;
        let ignores = self.modifiers()?;
        let (targets, from) = match self.take_word("FROM")? {
            false => {
                let targets = self.list(Self::target)?;
                self.expect_word("FROM")?;
                (targets, self.list(Self::joined)?)
            }
            true => {
                let named = self.list(Self::target)?;
                match self.take_word("USING")? {
                    true => (named, self.list(Self::joined)?),
                    false => (Vec::new(), named.into_iter().map(Joined::Table).collect()),
                }
            }
        };
        let condition = self.where_condition()?;
        let (order, limit) = (self.order()?, self.limit()?);
        Ok(Delete { ignores, targets, from, condition, order, limit, returning: self.returning()? })
    }

    /// `[database.]table[.*]`
    fn target(&mut self) -> Result<Table<'a>, Refusal> {
        let mut table = Table { database: None, name: self.name()?, alias: None, hints: Vec::new() };
        for _ in 0..2 {
            if !self.take_if(Sign::Dot)? || self.take_if(Sign::Star)? {
                break;
            }
            let name = self.name_behind_a_point()?;
            if table.database.is_some() {
                return Err(self.unexpected());
            }
            table.database = Some(std::mem::replace(&mut table.name, name));
        }
        if self.is("AS") || self.is_name() {
            table.alias = self.alias()?;
        }
        Ok(table)
    }
}
