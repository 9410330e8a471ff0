//! Functions, casts and windows.

use super::Parser;
use crate::sql::Refusal;
use crate::sql::lexer::{Sign, Token};
use crate::sql::tree::{Argument, ArgumentValue, Bound, Call, Column, Expr, Frame, Over, Type, Window};
use crate::sql::words::{self, Function, Kind};

impl<'a> Parser<'a> {
    pub(super) fn cast(&mut self) -> Result<Expr<'a>, Refusal> {
        self.take()?;
        self.expect(Sign::Open)?;
        let operand = self.expr()?.into();
        self.expect_word("AS")?;
        let to = self.cast_type()?;
        self.expect(Sign::Close)?;
        Ok(Expr::Cast { operand, to })
    }

    /// `CONVERT(value, type)` or `CONVERT(value USING charset)`
    pub(super) fn convert(&mut self) -> Result<Expr<'a>, Refusal> {
        self.take()?;
        self.expect(Sign::Open)?;
        let operand = self.expr()?.into();
        let converted = match self.take_word("USING")? {
            true => Expr::Convert { operand, charset: self.charset()? },
            false => {
                self.expect(Sign::Comma)?;
                Expr::Cast { operand, to: self.cast_type()? }
            }
        };
        self.expect(Sign::Close)?;
        Ok(converted)
    }

    fn charset(&mut self) -> Result<&'static str, Refusal> {
        let known = ["utf8mb4", "utf8", "utf8mb3", "binary", "latin1", "ascii"];
        let charset = known.into_iter().find(|charset| self.is(charset)).ok_or_else(|| self.unexpected())?;
        self.take()?;
        Ok(charset)
    }

    fn cast_type(&mut self) -> Result<Type, Refusal> {
        let known = [
            "BINARY", "CHAR", "VARCHAR", "DATE", "DATETIME", "DECIMAL", "DOUBLE", "FLOAT", "INTEGER", "INT", "JSON",
            "NCHAR", "SIGNED", "TIME", "UNSIGNED", "YEAR",
        ];
        let name = known.into_iter().find(|name| self.is(name)).ok_or_else(|| self.unexpected())?;
        self.take()?;
        if matches!(name, "SIGNED" | "UNSIGNED") && !self.take_word("INTEGER")? {
            self.take_word("INT")?;
        }
        let small = |number: u64| u32::try_from(number).map_err(|_| Refusal::of("type of this size"));
        let (mut length, mut decimals, mut charset) = (None, None, None);
        if self.take_if(Sign::Open)? {
            length = Some(small(self.integer()?)?);
            if self.take_if(Sign::Comma)? {
                decimals = Some(small(self.integer()?)?);
            }
            self.expect(Sign::Close)?;
        }
        if matches!(name, "CHAR" | "VARCHAR")
            && (self.take_words(&["CHARACTER", "SET"])? || self.take_word("CHARSET")?)
        {
            charset = Some(self.charset()?);
        }
        Ok(Type { name, length, decimals, charset })
    }

    /// `VALUES(column)`
    pub(super) fn inserted(&mut self) -> Result<Expr<'a>, Refusal> {
        self.take()?;
        self.expect(Sign::Open)?;
        let column: Column<'a> = self.column()?;
        self.expect(Sign::Close)?;
        Ok(Expr::Inserted(column))
    }

    /// `MATCH (columns) AGAINST (value [IN … MODE])`
    pub(super) fn full_text(&mut self) -> Result<Expr<'a>, Refusal> {
        self.take()?;
        let columns = self.list_in_parentheses(|parser| Ok(Expr::Column(parser.column()?)))?;
        self.expect_word("AGAINST")?;
        self.expect(Sign::Open)?;
        let against = self.operation(1)?.into();
        let mode = match self.take_word("IN")? {
            true if self.take_word("BOOLEAN")? => " IN BOOLEAN MODE",
            true => {
                self.expect_word("NATURAL")?;
                self.expect_word("LANGUAGE")?;
                " IN NATURAL LANGUAGE MODE"
            }
            false => "",
        };
        if !mode.is_empty() {
            self.expect_word("MODE")?;
        }
        self.expect(Sign::Close)?;
        Ok(Expr::Match { columns, against, mode })
    }

    pub(super) fn call(&mut self, word: &'a str) -> Result<Expr<'a>, Refusal> {
        let function = words::function_named(word).ok_or_else(|| Refusal::word("function", word))?;
        self.take()?;
        self.expect(Sign::Open)?;
        let mut call = bare(function);
        if !self.is_sign(Sign::Close) {
            self.arguments(&mut call)?;
        }
        self.expect(Sign::Close)?;
        if self.take_word("OVER")? {
            call.over = Some(match self.is_sign(Sign::Open) {
                true => Over::Window(self.window()?),
                false => Over::Name(self.name()?),
            });
        }
        let is_misused = match function.kind {
            Kind::Scalar | Kind::Lock => call.over.is_some(),
            Kind::Window => call.over.is_none(),
            Kind::Count | Kind::Combine | Kind::Aggregate => false,
        };
        if is_misused {
            return Err(Refusal::word("such use of the function", function.name));
        }
        Ok(Expr::Call(call.into()))
    }

    fn arguments(&mut self, call: &mut Call<'a>) -> Result<(), Refusal> {
        let name = call.function.name;
        match call.function.kind {
            Kind::Count if self.is_sign(Sign::Star) => {
                self.take()?;
                call.has_star = true;
                return Ok(());
            }
            Kind::Count | Kind::Combine | Kind::Aggregate => call.is_distinct = self.take_word("DISTINCT")?,
            Kind::Scalar | Kind::Lock | Kind::Window => {}
        }
        match name {
            "TRIM" => return self.trim(call),
            "EXTRACT" | "TIMESTAMPADD" | "TIMESTAMPDIFF" => {
                let unit = self.unit()?;
                push(call, "", ArgumentValue::Unit(unit));
                let before = if name == "EXTRACT" { " FROM " } else { ", " };
                match before {
                    ", " => self.expect(Sign::Comma)?,
                    _ => self.expect_word("FROM")?,
                }
                let value = self.expr()?;
                push(call, before, ArgumentValue::Expr(value));
            }
            // Its second part is behind IN, which would be an operator in a value.
            "POSITION" => {
                let value = self.operation(1)?;
                push(call, "", ArgumentValue::Expr(value));
                self.expect_word("IN")?;
                let value = self.expr()?;
                push(call, " IN ", ArgumentValue::Expr(value));
                return Ok(());
            }
            _ => {
                let value = self.expr()?;
                push(call, "", ArgumentValue::Expr(value));
            }
        }
        self.more_arguments(call)
    }

    fn more_arguments(&mut self, call: &mut Call<'a>) -> Result<(), Refusal> {
        let name = call.function.name;
        let takes_words = matches!(name, "SUBSTRING" | "SUBSTR" | "MID");
        loop {
            let before = if self.take_if(Sign::Comma)? {
                ", "
            } else if takes_words && self.take_word("FROM")? {
                " FROM "
            } else if takes_words && self.take_word("FOR")? {
                " FOR "
            } else {
                break;
            };
            let is_date = matches!(name, "DATE_ADD" | "DATE_SUB" | "ADDDATE" | "SUBDATE");
            let value = match is_date && self.is("INTERVAL") {
                true => {
                    let (amount, unit) = self.interval()?;
                    ArgumentValue::Interval(amount, unit)
                }
                false => ArgumentValue::Expr(self.expr()?),
            };
            push(call, before, value);
        }
        if name == "GROUP_CONCAT" {
            call.order = self.order()?;
            if self.take_word("SEPARATOR")? {
                call.separator = match self.take()? {
                    Token::Text(text) => Some(text),
                    _ => return Err(Refusal::of("separator of this form")),
                };
            }
        }
        if name == "CHAR" && self.take_word("USING")? {
            return Err(Refusal::of("CHAR with a character set; use CONVERT"));
        }
        Ok(())
    }

    /// `TRIM([{LEADING | TRAILING | BOTH} [what] FROM] text)`
    fn trim(&mut self, call: &mut Call<'a>) -> Result<(), Refusal> {
        let side = ["LEADING", "TRAILING", "BOTH"].into_iter().find(|side| self.is(side));
        if let Some(side) = side {
            self.take()?;
            push(call, "", ArgumentValue::Word(side));
        }
        if side.is_none() || !self.is("FROM") {
            let value = self.expr()?;
            push(call, if side.is_some() { " " } else { "" }, ArgumentValue::Expr(value));
        }
        if self.take_word("FROM")? {
            let value = self.expr()?;
            push(call, " FROM ", ArgumentValue::Expr(value));
        } else if side.is_some() {
            return Err(self.unexpected());
        }
        Ok(())
    }

    /// `([name] [PARTITION BY …] [ORDER BY …] [frame])`
    pub(super) fn window(&mut self) -> Result<Window<'a>, Refusal> {
        self.expect(Sign::Open)?;
        let mut window = Window::default();
        if self.is_name() && !self.is("ROWS") && !self.is("RANGE") {
            window.base = Some(self.name()?);
        }
        if self.take_words(&["PARTITION", "BY"])? {
            window.partition = self.list(Self::expr)?;
        }
        window.order = self.order()?;
        for unit in ["ROWS", "RANGE"] {
            if self.take_word(unit)? {
                window.frame = Some(self.frame(unit)?);
            }
        }
        self.expect(Sign::Close)?;
        Ok(window)
    }

    fn frame(&mut self, unit: &'static str) -> Result<Frame, Refusal> {
        if !self.take_word("BETWEEN")? {
            return Ok(Frame { unit, start: self.bound()?, end: None });
        }
        let start = self.bound()?;
        self.expect_word("AND")?;
        Ok(Frame { unit, start, end: Some(self.bound()?) })
    }

    fn bound(&mut self) -> Result<Bound, Refusal> {
        if self.take_words(&["CURRENT", "ROW"])? {
            return Ok(Bound::CurrentRow);
        }
        let rows = if self.take_word("UNBOUNDED")? { None } else { Some(self.integer()?) };
        let precedes = self.take_word("PRECEDING")?;
        if !precedes {
            self.expect_word("FOLLOWING")?;
        }
        Ok(match (rows, precedes) {
            (None, true) => Bound::UnboundedPreceding,
            (None, false) => Bound::UnboundedFollowing,
            (Some(rows), true) => Bound::Preceding(rows),
            (Some(rows), false) => Bound::Following(rows),
        })
    }
}

/// Of no arguments yet.
pub(super) fn bare(function: &'static Function) -> Call<'static> {
    Call {
        function,
        arguments: Vec::new(),
        has_star: false,
        is_distinct: false,
        order: Vec::new(),
        separator: None,
        over: None,
    }
}

fn push<'a>(call: &mut Call<'a>, before: &'static str, value: ArgumentValue<'a>) {
    call.arguments.push(Argument { before, value });
}
