//! Where a protected value may stand: by default nowhere, and each exception is a function here.

use super::Refusal;
use super::tree::{Expr, Type, Unary};
use crate::rules::{Catalogue, Predicates};

/// What a value of a statement holds, and of which kind it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// What is protected in it.
    pub taint: Taint,
    /// Its type, as far as comparisons must know.
    pub class: Class,
}

/// What is protected in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taint {
    /// Nothing.
    Clean,
    /// It is the value of one protected column, by its number in the catalogue.
    Bare(u32),
    /// It is made of protected columns.
    Mixed {
        /// By an expression, and not by UNION, MIN, MAX, SUM or AVG alone.
        is_expression: bool,
        /// All of them may stand anywhere.
        is_free: bool,
    },
}

/// Types that compare with each other without a conversion of the column's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Whole numbers.
    Integer,
    /// Exact numbers with a point.
    Decimal,
    /// Approximate numbers.
    Float,
    /// Numbers that are sent in one length, whatever their value: BIT, YEAR, ZEROFILL.
    Padded,
    /// By a hash of its collation.
    Text(u32),
    /// Bytes.
    Binary,
    /// Dates, with times of the day or without.
    Temporal,
    /// Times without a date: beside dates they are of the session's present day.
    Time,
    /// Moments: in another time zone of the session they are other dates and times.
    Timestamp,
    /// A literal NULL.
    Null,
    /// What is compared with nothing.
    Other,
}

/// The checks, each of which keeps protected values from getting out on its own. The campaign that attacks the gateway
/// switches one of them off and must find the leak (feature `weaken`, never in a release).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Check {
    Comparison,
    ComparedClass,
    Expression,
    Condition,
    Order,
    Group,
    Distinct,
    Union,
    Window,
    Aggregate,
    Stored,
    Weighing,
    Output,
    Returning,
    View,
    Derived,
}

impl Check {
    /// All of them, by the names that switch them off.
    pub const ALL: [(&'static str, Check); 16] = [
        ("comparison", Check::Comparison),
        ("compared-class", Check::ComparedClass),
        ("expression", Check::Expression),
        ("condition", Check::Condition),
        ("order", Check::Order),
        ("group", Check::Group),
        ("distinct", Check::Distinct),
        ("union", Check::Union),
        ("window", Check::Window),
        ("aggregate", Check::Aggregate),
        ("stored", Check::Stored),
        ("weighing", Check::Weighing),
        ("output", Check::Output),
        ("returning", Check::Returning),
        ("view", Check::View),
        ("derived", Check::Derived),
    ];

    /// It is always on, but in a build that is made to be attacked.
    #[cfg(not(feature = "weaken"))]
    pub const fn is_on(self) -> bool {
        true
    }

    /// Unless the environment's `COSTOF_WEAKEN` names it.
    #[cfg(feature = "weaken")]
    pub fn is_on(self) -> bool {
        use std::sync::OnceLock;
        static OFF: OnceLock<Option<Check>> = OnceLock::new();
        let off = OFF.get_or_init(|| {
            let name = std::env::var("COSTOF_WEAKEN").ok()?;
            let found = Check::ALL.iter().find(|(known, _)| *known == name);
            Some(found.unwrap_or_else(|| panic!("COSTOF_WEAKEN: there is no check '{name}'")).1)
        });
        *off != Some(self)
    }
}

impl Value {
    /// Of nothing that is protected.
    pub const CLEAN: Value = Value { taint: Taint::Clean, class: Class::Other };

    /// Made of what is in another, which may stand anywhere.
    pub fn computed(from: Taint) -> Self {
        let taint = match from {
            Taint::Clean => Taint::Clean,
            Taint::Bare(_) | Taint::Mixed { .. } => Taint::Mixed { is_expression: true, is_free: true },
        };
        Value { taint, class: Class::Other }
    }
}

impl Class {
    /// Of a column, by its type and collation as the server tells them.
    pub fn of(data_type: &str, collation: &str) -> Self {
        match &data_type.to_ascii_lowercase()[..] {
            "bit" | "year" => Class::Padded,
            padded if padded.ends_with(" zerofill") => Class::Padded,
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Class::Integer,
            "decimal" => Class::Decimal,
            "float" | "double" => Class::Float,
            "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "enum" | "set" => {
                // FNV-1a: two collations that share a number would have to be made on purpose.
                let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
                Class::Text(collation.bytes().fold(0x811C_9DC5, mix))
            }
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Class::Binary,
            "date" | "datetime" => Class::Temporal,
            "time" => Class::Time,
            "timestamp" => Class::Timestamp,
            _ => Class::Other,
        }
    }

    /// Of what is cast to this type.
    pub fn of_cast(to: Type) -> Self {
        match (to.name, to.charset) {
            ("CHAR" | "VARCHAR", None | Some("utf8mb4" | "utf8" | "utf8mb3" | "latin1" | "ascii")) => Class::Text(0),
            ("BINARY", None) => Class::Binary,
            ("SIGNED" | "UNSIGNED" | "INTEGER" | "INT", None) => Class::Integer,
            ("DECIMAL", None) => Class::Decimal,
            ("DATE" | "DATETIME", None) => Class::Temporal,
            ("TIME", None) => Class::Time,
            _ => Class::Other,
        }
    }

    /// Of a value that the client gives; None for what is not one.
    pub fn of_literal(expr: &Expr<'_>) -> Option<Self> {
        Some(match expr {
            Expr::Null => Class::Null,
            Expr::Number(digits) if digits.contains(['e', 'E']) => Class::Float,
            Expr::Number(digits) if digits.contains('.') => Class::Decimal,
            Expr::Number(_) => Class::Integer,
            Expr::Unary { operator: Unary::Minus, operand } if matches!(**operand, Expr::Number(_)) => {
                return Class::of_literal(operand);
            }
            Expr::Text(_) => Class::Text(0),
            Expr::Bytes { charset: None, .. } => Class::Binary,
            Expr::Temporal { kind: "TIME", .. } => Class::Time,
            Expr::Temporal { .. } => Class::Temporal,
            _ => return None,
        })
    }

    /// Whether a value of this class is sent in as many bytes where it is in one column of a set with values of another class.
    fn keeps_its_length_beside(self, other: Class) -> bool {
        match (self, other) {
            (Class::Null, _) => true,
            // What is padded is so no longer, even beside NULL.
            (Class::Padded, _) => false,
            (_, Class::Null) => true,
            // FLOAT becomes DOUBLE, with more digits.
            (Class::Float | Class::Other, _) => false,
            (Class::Integer | Class::Decimal, other) => self == other,
            // As an address or a UUID (`Other`) it is written anew, or NULL; beside bytes, or BIT, it keeps the bytes of its own
            // character set.
            (Class::Text(_), other) => !matches!(other, Class::Binary | Class::Padded | Class::Other),
            (Class::Binary, other) => matches!(other, Class::Binary | Class::Text(_)),
            (Class::Time, other) => matches!(other, Class::Time | Class::Text(_)),
            (Class::Temporal | Class::Timestamp, other) => {
                matches!(other, Class::Temporal | Class::Timestamp | Class::Text(_))
            }
        }
    }

    /// Whether a column of this class is compared with such a literal as it is.
    fn takes(self, literal: Class) -> bool {
        match (self, literal) {
            (_, Class::Null) => true,
            (Class::Integer | Class::Padded, literal) => literal == Class::Integer,
            (Class::Decimal, literal) => matches!(literal, Class::Integer | Class::Decimal),
            (Class::Float, literal) => matches!(literal, Class::Integer | Class::Decimal | Class::Float),
            (Class::Text(_), literal) => matches!(literal, Class::Text(_)),
            (Class::Binary, literal) => matches!(literal, Class::Text(_) | Class::Binary),
            (Class::Temporal | Class::Timestamp, literal) => matches!(literal, Class::Text(_) | Class::Temporal),
            (Class::Time, literal) => matches!(literal, Class::Text(_) | Class::Time),
            (Class::Null | Class::Other, _) => false,
        }
    }

    /// Whether a column of this class is compared as it is with a parameter that a client sends as this type
    /// (`MYSQL_TYPE_…`).
    pub fn takes_parameter(self, kind: u8) -> bool {
        let is_integer = matches!(kind, 0x01..=0x03 | 0x08 | 0x09);
        let is_decimal = matches!(kind, 0x00 | 0xF6);
        let is_text = matches!(kind, 0x0F | 0xFD | 0xFE);
        let is_null = kind == 0x06;
        let takes = match self {
            Class::Integer | Class::Padded => is_integer,
            Class::Decimal => is_integer || is_decimal,
            Class::Float => is_integer || is_decimal || matches!(kind, 0x04 | 0x05),
            Class::Text(_) => is_text,
            Class::Binary => is_text || matches!(kind, 0xF9..=0xFC),
            Class::Temporal | Class::Timestamp => is_text || matches!(kind, 0x07 | 0x0A | 0x0C),
            Class::Time => is_text || kind == 0x0B,
            Class::Null | Class::Other => false,
        };
        is_null || takes || !Check::ComparedClass.is_on()
    }
}

/// Decides by the rules of each column.
pub struct Policy<'c> {
    catalogue: &'c Catalogue,
}

impl<'c> Policy<'c> {
    /// With these tables.
    pub fn new(catalogue: &'c Catalogue) -> Self {
        Policy { catalogue }
    }

    /// Whether it may stand anywhere.
    pub fn is_free(&self, taint: Taint) -> bool {
        match taint {
            Taint::Clean => true,
            Taint::Bare(number) => self.catalogue.protection(number).predicates == Predicates::Allow,
            Taint::Mixed { is_free, .. } => is_free,
        }
    }

    /// A value that is put to a use that tells more of it than whether it is equal.
    ///
    /// # Errors
    /// Where its column may not be used so.
    pub fn may_use(&self, check: Check, taint: Taint, what: &'static str) -> Result<(), Refusal> {
        if !check.is_on() || self.is_free(taint) {
            return Ok(());
        }
        Err(match taint {
            Taint::Bare(number) => Refusal::column(what, &self.catalogue.protection(number).name),
            Taint::Clean | Taint::Mixed { .. } => Refusal::made_of_columns(what),
        })
    }

    /// A column that is compared for equality with what a client gives. Where that is a parameter its class is to be looked
    /// at with its value.
    ///
    /// # Errors
    /// Where its column may not be compared, or not with that.
    pub fn may_equal_literal(&self, column: Value, literal: &Expr<'_>) -> Result<Option<u16>, Refusal> {
        let Taint::Bare(number) = column.taint else {
            return self.may_use(Check::Comparison, column.taint, COMPARED).map(|()| None);
        };
        let protection = self.catalogue.protection(number);
        match protection.predicates {
            Predicates::Allow => return Ok(None),
            Predicates::Refuse if Check::Comparison.is_on() => return Err(Refusal::column(COMPARED, &protection.name)),
            Predicates::Refuse | Predicates::Equality => {}
        }
        if let Expr::Parameter(parameter) = literal {
            return Ok(Some(*parameter));
        }
        let class = Class::of_literal(literal);
        let is_right = class.is_some_and(|class| column.class.takes(class));
        match is_right || !Check::ComparedClass.is_on() {
            true => Ok(None),
            false => {
                Err(Refusal::column("comparison with a value of another type or with an expression", &protection.name))
            }
        }
    }

    /// Two values that are compared for equality, one of them protected at least.
    ///
    /// # Errors
    /// But for two columns of one type that both may be.
    pub fn may_equal(&self, left: Value, right: Value) -> Result<(), Refusal> {
        if self.is_free(left.taint) && self.is_free(right.taint) || !Check::Comparison.is_on() {
            return Ok(());
        }
        if let (Taint::Bare(one), Taint::Bare(other)) = (left.taint, right.taint) {
            let may = |number| self.catalogue.protection(number).predicates != Predicates::Refuse;
            if may(one) && may(other) && left.class == right.class && left.class != Class::Other {
                return Ok(());
            }
        }
        let protected = if self.is_free(left.taint) { right.taint } else { left.taint };
        self.may_use(Check::Comparison, protected, "comparison with what is no value of the same kind")
    }

    /// A column that is read.
    ///
    /// # Errors
    /// Where it is computed anew for the session's time zone: its length, or a NULL, would tell the time of a protected moment.
    pub fn may_read(&self, column: Value) -> Result<(), Refusal> {
        match column.taint {
            Taint::Bare(number) if self.catalogue.protection(number).is_by_clock => {
                self.may_use(Check::Weighing, column.taint, "computing for the session's time zone")
            }
            Taint::Bare(_) | Taint::Clean | Taint::Mixed { .. } => Ok(()),
        }
    }

    /// The value of a scalar subquery.
    ///
    /// # Errors
    /// Where that has lost its leading zeros: how long it is then depends on its value.
    pub fn may_be_subquery(&self, value: Value) -> Result<(), Refusal> {
        match value.class {
            Class::Padded => self.may_use(Check::Union, value.taint, "scalar subquery without the leading zeros"),
            _ => Ok(()),
        }
    }

    /// A value that is put into a column.
    ///
    /// # Errors
    /// Where it holds what is protected, whatever the rules: there it would be read in plain.
    pub fn may_store(&self, value: Taint) -> Result<(), Refusal> {
        match value {
            Taint::Clean => Ok(()),
            _ if !Check::Stored.is_on() => Ok(()),
            Taint::Bare(number) => Err(Refusal::column("copy", &self.catalogue.protection(number).name)),
            Taint::Mixed { .. } => Err(Refusal::made_of_columns("copy")),
        }
    }

    /// Two values of one column of a set.
    ///
    /// # Errors
    /// Where the set's type would be another than a protected number's: how long it is then depends on its value.
    pub fn united(&self, left: Value, right: Value) -> Result<Value, Refusal> {
        if !Check::Union.is_on() {
            return Ok(left);
        }
        for (one, other) in [(left, right), (right, left)] {
            if !one.class.keeps_its_length_beside(other.class) {
                self.may_use(Check::Union, one.taint, "union with another type, or with an expression without CAST,")?;
            }
        }
        let class = match (left.class, right.class) {
            (one, other) if one == other => one,
            (Class::Null, one) | (one, Class::Null) => one,
            (Class::Text(_), one) | (one, Class::Text(_)) if Class::Text(0).keeps_its_length_beside(one) => {
                Class::Text(0)
            }
            (Class::Text(_), Class::Binary) | (Class::Binary, Class::Text(_)) => Class::Binary,
            (Class::Temporal, Class::Timestamp) | (Class::Timestamp, Class::Temporal) => Class::Temporal,
            _ => Class::Other,
        };
        Ok(Value { taint: self.joined(left.taint, right.taint), class })
    }

    /// What holds one of two values, or the least or the sum of some.
    pub fn joined(&self, left: Taint, right: Taint) -> Taint {
        if left == Taint::Clean && right == Taint::Clean {
            return Taint::Clean;
        }
        let is_expression = |taint| matches!(taint, Taint::Mixed { is_expression: true, .. });
        Taint::Mixed {
            is_expression: is_expression(left) || is_expression(right),
            is_free: self.is_free(left) && self.is_free(right),
        }
    }
}

const COMPARED: &str = "comparison";
