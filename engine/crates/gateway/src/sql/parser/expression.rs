//! Values and conditions.

use super::Parser;
use super::call::bare;
use crate::sql::Refusal;
use crate::sql::lexer::{Sign, Token};
use crate::sql::tree::{Binary, Expr, Logic, Truth, Unary};
use crate::sql::words::{self, Unit};

/// Operators of one kind side by side, beside AND and OR: each is a level of the tree.
const LONGEST_CHAIN: u16 = 32;

/// How strongly operators bind, from the loosest (MySQL Reference Manual, "Operator Precedence").
fn binary(token: &Token<'_>) -> Option<(u8, Binary)> {
    let Token::Sign(sign) = token else {
        return match token {
            Token::Word(word) if word.eq_ignore_ascii_case("DIV") => Some((5, Binary::IntegerDivide)),
            Token::Word(word) if word.eq_ignore_ascii_case("MOD") => Some((5, Binary::Modulo)),
            _ => None,
        };
    };
    Some(match sign {
        Sign::Bar => (1, Binary::BitOr),
        Sign::Ampersand => (2, Binary::BitAnd),
        Sign::ShiftLeft => (3, Binary::ShiftLeft),
        Sign::ShiftRight => (3, Binary::ShiftRight),
        Sign::Plus => (4, Binary::Add),
        Sign::Minus => (4, Binary::Subtract),
        Sign::Star => (5, Binary::Multiply),
        Sign::Slash => (5, Binary::Divide),
        Sign::Percent => (5, Binary::Modulo),
        Sign::Caret => (6, Binary::BitXor),
        _ => return None,
    })
}

fn comparison(token: &Token<'_>) -> Option<Binary> {
    let Token::Sign(sign) = token else { return None };
    Some(match sign {
        Sign::Equal => Binary::Equal,
        Sign::NullSafeEqual => Binary::NullSafeEqual,
        Sign::NotEqual => Binary::NotEqual,
        Sign::Less => Binary::Less,
        Sign::LessOrEqual => Binary::LessOrEqual,
        Sign::Greater => Binary::Greater,
        Sign::GreaterOrEqual => Binary::GreaterOrEqual,
        _ => return None,
    })
}

impl<'a> Parser<'a> {
    /// Any value.
    pub(super) fn expr(&mut self) -> Result<Expr<'a>, Refusal> {
        self.nested(|parser| parser.chain(Logic::Or, Self::exclusive, |parser| parser.take_word("OR")))
    }

    /// One operand, or as many as `and` finds behind one another.
    fn chain(
        &mut self,
        operator: Logic,
        operand: fn(&mut Self) -> Result<Expr<'a>, Refusal>,
        and: fn(&mut Self) -> Result<bool, Refusal>,
    ) -> Result<Expr<'a>, Refusal> {
        let first = operand(self)?;
        if !and(self)? {
            return Ok(first);
        }
        let mut operands = vec![first, operand(self)?];
        while and(self)? {
            operands.push(operand(self)?);
        }
        Ok(Expr::Chain { operator, operands })
    }

    fn exclusive(&mut self) -> Result<Expr<'a>, Refusal> {
        let mut left = self.conjunction()?;
        let mut length = 0;
        while self.take_word("XOR")? {
            lengthen(&mut length)?;
            left = of_two(Binary::Xor, left, self.conjunction()?);
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Expr<'a>, Refusal> {
        self.chain(Logic::And, Self::negation, |parser| Ok(parser.take_word("AND")? || parser.take_if(Sign::And)?))
    }

    fn negation(&mut self) -> Result<Expr<'a>, Refusal> {
        if !self.take_word("NOT")? {
            return self.comparison();
        }
        let operand = self.nested(Self::negation)?;
        Ok(Expr::Unary { operator: Unary::Not, operand: operand.into() })
    }

    fn comparison(&mut self) -> Result<Expr<'a>, Refusal> {
        let mut left = self.predicate()?;
        let mut length = 0;
        loop {
            if self.take_word("IS")? {
                let is_not = self.take_word("NOT")?;
                left = Expr::Is { operand: left.into(), is_not, what: self.truth()? };
            } else if let Some(operator) = comparison(&self.next) {
                self.take()?;
                left = match self.is("ALL") || self.is("ANY") || self.is("SOME") {
                    true => {
                        let is_all = self.is("ALL");
                        self.take()?;
                        let query = self.query_in_parentheses()?.into();
                        Expr::Quantified { operand: left.into(), operator, is_all, query }
                    }
                    false => of_two(operator, left, self.predicate()?),
                };
            } else {
                return Ok(left);
            }
            lengthen(&mut length)?;
        }
    }

    fn truth(&mut self) -> Result<Truth, Refusal> {
        for (word, truth) in
            [("NULL", Truth::Null), ("TRUE", Truth::True), ("FALSE", Truth::False), ("UNKNOWN", Truth::Unknown)]
        {
            if self.take_word(word)? {
                return Ok(truth);
            }
        }
        Err(self.unexpected())
    }

    fn predicate(&mut self) -> Result<Expr<'a>, Refusal> {
        let operand = self.operation(1)?;
        let is_not = self.is("NOT") && self.take_word("NOT")?;
        if self.take_word("IN")? {
            return self.in_list(operand, is_not);
        }
        if self.take_word("BETWEEN")? {
            let low = self.operation(1)?.into();
            self.expect_word("AND")?;
            let high = self.nested(Self::predicate)?.into();
            return Ok(Expr::Between { operand: operand.into(), is_not, low, high });
        }
        if self.take_word("LIKE")? {
            let pattern = self.simple()?.into();
            let escape = if self.take_word("ESCAPE")? { Some(self.simple()?.into()) } else { None };
            return Ok(Expr::Like { operand: operand.into(), is_not, pattern, escape });
        }
        if self.take_word("REGEXP")? || self.take_word("RLIKE")? {
            let matched = of_two(Binary::Regexp, operand, self.operation(1)?);
            return Ok(match is_not {
                true => Expr::Unary { operator: Unary::Not, operand: matched.into() },
                false => matched,
            });
        }
        if is_not { Err(self.unexpected()) } else { Ok(operand) }
    }

    fn in_list(&mut self, operand: Expr<'a>, is_not: bool) -> Result<Expr<'a>, Refusal> {
        let operand = operand.into();
        if self.opens_query() {
            let query = self.query_in_parentheses()?.into();
            return Ok(Expr::InQuery { operand, is_not, query });
        }
        let list = self.list_in_parentheses(Self::expr)?;
        Ok(Expr::In { operand, is_not, list })
    }

    /// Operators that bind at least so strongly.
    pub(super) fn operation(&mut self, least: u8) -> Result<Expr<'a>, Refusal> {
        let mut left = self.simple()?;
        let mut length = 0;
        while let Some((strength, operator)) = binary(&self.next)
            && strength >= least
        {
            self.take()?;
            lengthen(&mut length)?;
            if self.is("INTERVAL") && matches!(operator, Binary::Add | Binary::Subtract) {
                let (amount, unit) = self.interval()?;
                let is_minus = operator == Binary::Subtract;
                left = Expr::AddInterval { operand: left.into(), is_minus, amount: amount.into(), unit };
            } else {
                left = of_two(operator, left, self.operation(strength + 1)?);
            }
        }
        Ok(left)
    }

    pub(super) fn interval(&mut self) -> Result<(Expr<'a>, Unit), Refusal> {
        self.expect_word("INTERVAL")?;
        let amount = self.expr()?;
        Ok((amount, self.unit()?))
    }

    pub(super) fn unit(&mut self) -> Result<Unit, Refusal> {
        let unit = match self.next {
            Token::Word(word) => words::unit(word),
            _ => None,
        };
        let unit = unit.ok_or_else(|| self.unexpected())?;
        self.take()?;
        Ok(unit)
    }

    /// What no operator stands in, but for those before one value.
    fn simple(&mut self) -> Result<Expr<'a>, Refusal> {
        let operator = match &self.next {
            Token::Sign(Sign::Minus) => Some(Unary::Minus),
            Token::Sign(Sign::Plus) => Some(Unary::Plus),
            Token::Sign(Sign::Tilde) => Some(Unary::Invert),
            Token::Word(word) if word.eq_ignore_ascii_case("BINARY") => Some(Unary::Binary),
            _ => None,
        };
        let mut value = match operator {
            Some(operator) => {
                self.take()?;
                Expr::Unary { operator, operand: self.nested(Self::simple)?.into() }
            }
            None => self.primary()?,
        };
        while self.take_word("COLLATE")? {
            let collation = self.collation()?;
            self.deepen(1)?;
            value = Expr::Collate { operand: value.into(), collation };
            self.depth -= 1;
        }
        Ok(value)
    }

    fn collation(&mut self) -> Result<&'a str, Refusal> {
        const LONGEST: usize = 64;
        match self.take()? {
            Token::Word(word) if word.len() <= LONGEST && !word.contains('$') => Ok(word),
            _ => Err(Refusal::of("collation of this form")),
        }
    }

    /// A value without an operator.
    pub(super) fn primary(&mut self) -> Result<Expr<'a>, Refusal> {
        match &self.next {
            Token::Word(word) => {
                let word = *word;
                self.worded(word)
            }
            Token::Sign(Sign::Open) => self.parentheses(),
            Token::Name(_) => Ok(Expr::Column(self.column()?)),
            Token::Parameter => {
                // The protocol has their number in two bytes.
                let number = self.parameters;
                self.parameters = number.checked_add(1).ok_or(Refusal::of("statement with so many parameters"))?;
                self.take()?;
                Ok(Expr::Parameter(number))
            }
            Token::Variable(name) => {
                let name = *name;
                self.take()?;
                self.variable(name).map(Expr::Variable)
            }
            Token::Number(_) | Token::Text(_) | Token::Bytes { .. } => self.literal(),
            Token::Sign(_) | Token::End => Err(self.unexpected()),
        }
    }

    fn literal(&mut self) -> Result<Expr<'a>, Refusal> {
        Ok(match self.take()? {
            Token::Number(digits) => Expr::Number(digits),
            Token::Text(text) => Expr::Text(text),
            Token::Bytes { charset, is_number, bytes } => Expr::Bytes { charset, is_number, bytes },
            _ => return Err(Refusal::of("statement without a value where one must be")),
        })
    }

    /// `@@[session. | global. | local.]name`, behind the first word. What it is globally is as harmless.
    pub(super) fn variable(&mut self, first: &'a str) -> Result<&'static str, Refusal> {
        let is_scope = ["session", "global", "local"].iter().any(|scope| first.eq_ignore_ascii_case(scope));
        let name = match is_scope && self.take_if(Sign::Dot)? {
            true => match self.take()? {
                Token::Word(word) => word,
                _ => return Err(Refusal::of("variable of this form")),
            },
            false => first,
        };
        words::variable(name).ok_or_else(|| Refusal::word("variable", name))
    }

    fn parentheses(&mut self) -> Result<Expr<'a>, Refusal> {
        if self.opens_query() {
            return Ok(Expr::Query(self.query_in_parentheses()?.into()));
        }
        let mut values = self.list_in_parentheses(Self::expr)?;
        match values.len() {
            1 => Ok(values.remove(0)),
            _ => Ok(Expr::Row(values)),
        }
    }

    fn worded(&mut self, word: &'a str) -> Result<Expr<'a>, Refusal> {
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        if self.is_call() {
            return match () {
                () if is("CAST") => self.cast(),
                () if is("CONVERT") => self.convert(),
                () if is("VALUES") || is("VALUE") => self.inserted(),
                () if is("EXISTS") => {
                    self.take()?;
                    Ok(Expr::Exists(self.query_in_parentheses()?.into()))
                }
                () if is("MATCH") => self.full_text(),
                () if is("ROW") => {
                    self.take()?;
                    self.list_in_parentheses(Self::expr).map(Expr::Row)
                }
                () if is("CASE") => self.case(),
                () if is("NEXTVAL") => {
                    self.take()?;
                    self.expect(Sign::Open)?;
                    let sequence = self.table_name()?;
                    self.expect(Sign::Close)?;
                    Ok(Expr::NextValue(sequence))
                }
                () => self.call(word),
            };
        }
        match () {
            () if is("NULL") => self.take().map(|_| Expr::Null),
            () if is("TRUE") => self.take().map(|_| Expr::Boolean(true)),
            () if is("FALSE") => self.take().map(|_| Expr::Boolean(false)),
            () if is("CASE") => self.case(),
            () if is("DEFAULT") => self.take().map(|_| Expr::Default),
            () if is("MATCH") => self.full_text(),
            () => match WITHOUT_PARENTHESES.iter().find(|name| is(name)) {
                Some(name) => {
                    self.take()?;
                    let function = words::function_named(name).ok_or(Refusal::of("function"))?;
                    Ok(Expr::Call(bare(function).into()))
                }
                None => self.named(word),
            },
        }
    }

    /// A column, `DATE '…'` or `NEXT VALUE FOR …`.
    fn named(&mut self, word: &'a str) -> Result<Expr<'a>, Refusal> {
        let first = self.name()?;
        if word.eq_ignore_ascii_case("NEXT") && self.take_words(&["VALUE", "FOR"])? {
            return Ok(Expr::NextValue(self.table_name()?));
        }
        let kind = ["DATE", "TIME", "TIMESTAMP"].into_iter().find(|kind| word.eq_ignore_ascii_case(kind));
        match (kind, &self.next) {
            (Some(kind), Token::Text(_)) => match self.take()? {
                Token::Text(text) => Ok(Expr::Temporal { kind, text }),
                _ => Err(self.unexpected()),
            },
            _ => Ok(Expr::Column(self.column_from(first)?)),
        }
    }

    /// `CASE [operand] WHEN … THEN … [ELSE …] END`
    fn case(&mut self) -> Result<Expr<'a>, Refusal> {
        self.take()?;
        let operand = if self.is("WHEN") { None } else { Some(self.expr()?.into()) };
        let mut branches = Vec::new();
        while self.take_word("WHEN")? {
            let when = self.expr()?;
            self.expect_word("THEN")?;
            branches.push((when, self.expr()?));
        }
        let otherwise = if self.take_word("ELSE")? { Some(self.expr()?.into()) } else { None };
        self.expect_word("END")?;
        if branches.is_empty() { Err(self.unexpected()) } else { Ok(Expr::Case { operand, branches, otherwise }) }
    }
}

/// Functions that may be called without parentheses.
const WITHOUT_PARENTHESES: [&str; 9] = [
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "CURRENT_USER",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "UTC_DATE",
    "UTC_TIME",
    "UTC_TIMESTAMP",
];

fn of_two<'a>(operator: Binary, left: Expr<'a>, right: Expr<'a>) -> Expr<'a> {
    Expr::Binary { operator, left: left.into(), right: right.into() }
}

fn lengthen(chain: &mut u16) -> Result<(), Refusal> {
    *chain += 1;
    if *chain > LONGEST_CHAIN { Err(Refusal::of("chain of so many operators")) } else { Ok(()) }
}
