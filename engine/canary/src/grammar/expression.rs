//! Values and conditions. Of clean columns anything may be made; of protected ones what `Predicates` say.

use super::{DEEPEST, Generator, Predicates, Scope};
use crate::schema::{Column, Guard, Kind, written};

/// Values within values.
const DEEP: usize = 3;

impl Generator {
    /// Of this kind, more or less: servers convert.
    pub(super) fn value(&mut self, kind: Kind, scope: &Scope, deep: usize) -> String {
        if deep >= DEEP || self.rng.percent(35) {
            return self.atom(kind, scope);
        }
        match kind {
            Kind::Text => self.text(scope, deep + 1),
            Kind::Int | Kind::Decimal => self.number(scope, deep + 1),
            Kind::Date | Kind::DateTime => self.date(scope, deep + 1),
        }
    }

    fn atom(&mut self, kind: Kind, scope: &Scope) -> String {
        if self.rng.percent(60)
            && let Some((column, _)) = self.column(scope, |column| column.kind == kind)
        {
            return column;
        }
        self.literal(kind)
    }

    /// One that may be used for anything; qualified more often than not.
    pub(super) fn column(&mut self, scope: &Scope, fits: impl Fn(&Column) -> bool) -> Option<(String, Column)> {
        let guards = |generator: &mut Self, column: &Column| generator.may_use(column.guard) && fits(column);
        self.any_column(scope, guards)
    }

    /// One of which a protected column is made, and nothing else.
    pub(super) fn protected_column(&mut self, scope: &Scope) -> Option<(String, Column)> {
        self.any_column(scope, |_, column| column.guard == Guard::Protected)
    }

    pub(super) fn any_column(
        &mut self,
        scope: &Scope,
        fits: impl Fn(&mut Self, &Column) -> bool,
    ) -> Option<(String, Column)> {
        let mut found = Vec::new();
        for source in scope {
            for column in &source.columns {
                if fits(self, column) {
                    found.push((source.alias.as_str(), column));
                }
            }
        }
        if found.is_empty() {
            return None;
        }
        let (alias, column) = *self.rng.pick(&found);
        let is_unique =
            scope.iter().flat_map(|source| &source.columns).filter(|other| other.name == column.name).count() == 1;
        let shown = if is_unique && self.rng.percent(30) {
            self.name(&column.name)
        } else {
            self.qualified(alias, &column.name)
        };
        Some((shown, column.clone()))
    }

    fn qualified(&mut self, alias: &str, name: &str) -> String {
        let name = self.name(name);
        match self.rng.below(12) {
            0 => {
                self.hit("name: blanks around the dot");
                format!("{alias} . {name}")
            }
            1 => format!("`{alias}`.{name}"),
            _ => format!("{alias}.{name}"),
        }
    }

    fn name(&mut self, name: &str) -> String {
        match self.rng.below(10) {
            0 => {
                self.hit("name: in capitals");
                written(&name.to_ascii_uppercase())
            }
            1 => {
                self.hit("name: in backticks");
                format!("`{name}`")
            }
            _ => written(name),
        }
    }

    pub(super) fn literal(&mut self, kind: Kind) -> String {
        if let Some(parameters) = &mut self.parameters
            && self.rng.percent(40)
        {
            parameters.push(kind);
            self.hit("parameter");
            return "?".into();
        }
        match kind {
            Kind::Text => self.text_literal(),
            Kind::Int => {
                (*self.rng.pick(&["0", "1", "2", "3", "7", "5000", "-1", "12", "0x10", "NULL", "TRUE"])).into()
            }
            Kind::Decimal => (*self.rng.pick(&["1.5", "0.25", "20.50", ".5", "1e3", "-2.75"])).into(),
            Kind::Date => {
                self.hit("literal: date");
                (*self.rng.pick(&["DATE '2024-01-03'", "'1930-02-13'", "DATE '1900-02-10'"])).into()
            }
            Kind::DateTime => {
                self.hit("literal: timestamp");
                (*self.rng.pick(&["TIMESTAMP '2024-01-02 10:00:00'", "'2024-01-04 10:00:00'", "'2024-01-05'"])).into()
            }
        }
    }

    fn text_literal(&mut self) -> String {
        let word = self.word();
        match self.rng.below(14) {
            0 => {
                self.hit("literal: escapes");
                (*self.rng.pick(&[r"'a\'b'", r"'a\\'", r"'it''s'", r"'\n\t\0'", r"'\%\_'", r"'x\y'"])).into()
            }
            1 => {
                self.hit("literal: double quotes");
                format!("\"{word}\"")
            }
            2 => {
                self.hit("literal: hexadecimal");
                (*self.rng.pick(&["0x4142", "X'4d'", "x'6775657373'", "b'1000001'", "0b1001101"])).into()
            }
            3 => {
                self.hit("literal: introducer");
                (*self.rng.pick(&["_utf8mb4'M'", "_utf8mb4 x'4d'", "_latin1 'x'", "_binary'M'", "_binary X'4d'"]))
                    .into()
            }
            5 => "'Zoë'".into(),
            _ => format!("'{word}'"),
        }
    }

    fn text(&mut self, scope: &Scope, deep: usize) -> String {
        if self.rng.percent(8) {
            return self.chosen(Kind::Text, scope, deep);
        }
        let one = self.value(Kind::Text, scope, deep);
        let two = self.value(Kind::Text, scope, deep);
        let number = self.value(Kind::Int, scope, deep);
        const SHAPES: &[&str] = &[
            "CONCAT(1, 2)",
            "CONCAT_WS('-', 1, 2, 1)",
            "UPPER(1)",
            "LOWER(1)",
            "LEFT(1, #)",
            "RIGHT(1, #)",
            "SUBSTR(1, 2)",
            "SUBSTRING(1 FROM 2 FOR 3)",
            "SUBSTRING(1, #, 4)",
            "TRIM(1)",
            "TRIM(LEADING 'a' FROM 1)",
            "REPLACE(1, 'a', 2)",
            "REPEAT('x', 3)",
            "LPAD(1, 9, '-')",
            "RPAD(1, 9, 2)",
            "REVERSE(1)",
            "INSERT(1, 1, 1, 2)",
            "HEX(1)",
            "MD5(1)",
            "CAST(1 AS CHAR)",
            "CAST(# AS CHAR(5))",
            "CONVERT(1, CHAR)",
            "QUOTE(1)",
            "ELT(#, 1, 2)",
            "LTRIM(1)",
            "SUBSTRING_INDEX(1, '-', 1)",
            "FORMAT(#, 1)",
            "CONV(#, 10, 16)",
            "SHA1(1)",
            "TO_BASE64(1)",
            "SOUNDEX(1)",
            "JSON_QUOTE(1)",
            "JSON_OBJECT('k', 1)",
            "CHAR(65, #)",
            // Not blanks at the end: texts that differ in them alone are one group, and which of them it shows follows the plan.
            "CONCAT(SPACE(2), '.')",
            "BIN(#)",
            "UCASE(1)",
        ];
        self.hit("text function");
        let shape = *self.rng.pick(SHAPES);
        fill(shape, &one, &two, &number)
    }

    fn number(&mut self, scope: &Scope, deep: usize) -> String {
        match self.rng.below(12) {
            0 => return self.chosen(Kind::Int, scope, deep),
            1 if self.depth < DEEPEST => {
                self.hit("scalar subquery: count");
                return self.count_of_a_table();
            }
            2 => {
                self.hit("condition as a value");
                return format!("({})", self.condition(scope, deep));
            }
            _ => {}
        }
        let text = self.value(Kind::Text, scope, deep);
        let other = self.value(Kind::Text, scope, deep);
        let number = self.value(Kind::Int, scope, deep);
        if self.rng.percent(50) {
            self.hit("operator");
            let second = self.value(Kind::Int, scope, deep);
            let operator = *self.rng.pick(&["+", "-", "*", "/", "DIV", "MOD", "%", "&", "|", "^", "<<", ">>"]);
            let shown = format!("{number} {operator} {second}");
            return if self.rng.percent(60) { format!("({shown})") } else { shown };
        }
        const SHAPES: &[&str] = &[
            "LENGTH(1)",
            "CHAR_LENGTH(1)",
            "ORD(1)",
            "ASCII(1)",
            "INSTR(1, 2)",
            "LOCATE(1, 2)",
            "POSITION(1 IN 2)",
            "ABS(#)",
            "FLOOR(#)",
            "CEIL(# / 3)",
            "ROUND(# / 7, 2)",
            "SIGN(#)",
            "STRCMP(1, 2)",
            "FIELD(1, 2, 'x')",
            "CRC32(1)",
            "-#",
            "~#",
            "CAST(1 AS SIGNED)",
            "CAST(# AS DECIMAL(10,2))",
            "CAST(# AS UNSIGNED)",
            "MOD(#, 3)",
            "POW(#, 2)",
            "SQRT(4)",
            "GREATEST(#, 3)",
            "LEAST(#, 3)",
            "BIT_COUNT(#)",
            "FIND_IN_SET(1, 2)",
            "TRUNCATE(#, 1)",
            "NULLIF(#, 1)",
            "ISNULL(1)",
            "BIT_LENGTH(1)",
            "LOG(#)",
            "EXTRACT(YEAR FROM '2024-01-02')",
            "YEAR('2024-01-02')",
        ];
        self.hit("number function");
        fill(self.rng.pick::<&str>(SHAPES), &text, &other, &number)
    }

    fn date(&mut self, scope: &Scope, deep: usize) -> String {
        let date = self.value(Kind::Date, scope, deep);
        const SHAPES: &[&str] = &[
            "DATE_ADD(1, INTERVAL 3 DAY)",
            "1 + INTERVAL 1 MONTH",
            "DATE_SUB(1, INTERVAL '1 2' DAY_HOUR)",
            "LAST_DAY(1)",
            "CAST(1 AS DATE)",
            "DATE(1)",
            "ADDDATE(1, 3)",
            "MAKEDATE(2024, 5)",
            "STR_TO_DATE('2024-01-09', '%Y-%m-%d')",
        ];
        self.hit("date function");
        fill(self.rng.pick::<&str>(SHAPES), &date, &date, "1")
    }

    /// IF, CASE and the like.
    fn chosen(&mut self, kind: Kind, scope: &Scope, deep: usize) -> String {
        let condition = self.condition(scope, deep);
        let one = self.value(kind, scope, deep);
        let two = self.value(kind, scope, deep);
        match self.rng.below(6) {
            0 => {
                self.hit("IF");
                format!("IF({condition}, {one}, {two})")
            }
            1 => {
                self.hit("CASE WHEN");
                format!("CASE WHEN {condition} THEN {one} ELSE {two} END")
            }
            2 => {
                self.hit("CASE of a value");
                format!("CASE {one} WHEN {two} THEN {one} END")
            }
            3 => {
                self.hit("IFNULL");
                format!("IFNULL({one}, {two})")
            }
            4 => {
                self.hit("COALESCE");
                format!("COALESCE(NULL, {one}, {two})")
            }
            _ => format!("NULLIF({one}, {two})"),
        }
    }

    pub(super) fn condition(&mut self, scope: &Scope, deep: usize) -> String {
        if deep < DEEP && self.rng.percent(30) {
            let (one, two) = (self.condition(scope, deep + 1), self.condition(scope, deep + 1));
            self.hit("condition: joined");
            return match self.rng.below(5) {
                0 => format!("NOT ({one})"),
                1 => format!("({one} OR {two})"),
                2 => format!("({one}) XOR ({two})"),
                3 => format!("{one} && {two}"),
                _ => format!("{one} AND {two}"),
            };
        }
        if self.rng.percent(30)
            && let Some(condition) = self.protected_condition(scope)
        {
            return condition;
        }
        self.clean_condition(scope, deep)
    }

    fn clean_condition(&mut self, scope: &Scope, deep: usize) -> String {
        let kind = *self.rng.pick(&[Kind::Int, Kind::Text, Kind::Int, Kind::Decimal, Kind::Date]);
        let one = self.value(kind, scope, deep + 1);
        let two = self.value(kind, scope, deep + 1);
        match self.rng.below(14) {
            0 => {
                self.hit("BETWEEN");
                format!("{one} BETWEEN {two} AND {}", self.literal(kind))
            }
            1 => {
                self.hit("IN");
                let not = if self.rng.percent(30) { "NOT " } else { "" };
                format!("{one} {not}IN ({two}, {})", self.literal(kind))
            }
            2 => {
                self.hit("LIKE");
                let pattern = *self.rng.pick(&["'c%'", "'%1'", "'a|_b%' ESCAPE '|'", "'\\_%'"]);
                format!("{one} LIKE {pattern}")
            }
            3 => {
                self.hit("REGEXP");
                format!("{one} REGEXP '^[a-m]'")
            }
            4 => {
                self.hit("IS");
                let what = *self.rng.pick(&["NULL", "NOT NULL", "TRUE", "NOT FALSE", "UNKNOWN"]);
                format!("({one}) IS {what}")
            }
            5 if self.depth < DEEPEST => self.exists(scope),
            6 if self.depth < DEEPEST => self.in_a_subquery(&one),
            7 => {
                self.hit("row comparison");
                format!("({one}, 1) = ({two}, 1)")
            }
            8 => {
                self.hit("COLLATE");
                format!("'a' COLLATE utf8mb4_general_ci = {}", self.value(Kind::Text, scope, deep + 1))
            }
            _ => {
                self.hit("comparison");
                let operator = *self.rng.pick(&["=", "<", ">", "<=", ">=", "<>", "!=", "<=>"]);
                format!("{one} {operator} {two}")
            }
        }
    }

    /// What may be asked of a protected column, if there is one.
    fn protected_condition(&mut self, scope: &Scope) -> Option<String> {
        let (name, column) = self.protected_column(scope)?;
        if self.rng.percent(25) || self.predicates == Predicates::Refuse {
            self.hit("protected: IS NULL");
            let not = if self.rng.percent(50) { "NOT " } else { "" };
            return Some(format!("{name} IS {not}NULL"));
        }
        let literal = self.plain_literal(&column);
        Some(match self.rng.below(6) {
            0 => {
                self.hit("protected: IN");
                let other = self.plain_literal(&column);
                format!("{name} IN ({literal}, {other})")
            }
            1 => {
                self.hit("protected: <=>");
                format!("{name} <=> {literal}")
            }
            2 => {
                self.hit("protected: <>");
                format!("{name} <> {literal}")
            }
            3 => {
                let same = |_: &mut Self, other: &Column| other.guard == Guard::Protected && other.kind == column.kind;
                let (other, _) = self.any_column(scope, same)?;
                self.hit("protected: another protected one");
                format!("{name} = {other}")
            }
            4 => {
                self.hit("protected: the literal first");
                format!("{literal} = {name}")
            }
            _ => {
                self.hit("protected: =");
                format!("{name} = {literal}")
            }
        })
    }

    /// Of the column's own type, and no other.
    pub(super) fn plain_literal(&mut self, column: &Column) -> String {
        if let Some(parameters) = &mut self.parameters
            && self.rng.percent(50)
        {
            parameters.push(column.kind);
            return "?".into();
        }
        match column.kind {
            Kind::Int => (*self.rng.pick(&["5000", "7000", "1"])).into(),
            Kind::DateTime => (*self.rng.pick(&["'2024-06-01 10:30:00'", "'2024-06-02 11:30:00'"])).into(),
            _ => (*self.rng.pick(&["'guess'", "'Alice'", "'nobody'", "'Zoë'", "'O''Hara'"])).into(),
        }
    }
}

/// `1` and `2` stand for texts, `#` for a number, where they are arguments of their own.
fn fill(shape: &str, one: &str, two: &str, number: &str) -> String {
    let mut out = String::new();
    let bytes = shape.as_bytes();
    for (at, letter) in shape.char_indices() {
        let before = at.checked_sub(1).map_or(b' ', |before| bytes[before]);
        let behind = bytes.get(at + 1).copied().unwrap_or(b' ');
        let stands_alone = matches!(before, b'(' | b' ') && matches!(behind, b')' | b',' | b' ');
        match letter {
            '#' => out.push_str(number),
            '1' if stands_alone => out.push_str(one),
            '2' if stands_alone => out.push_str(two),
            other => out.push(other),
        }
    }
    out
}
