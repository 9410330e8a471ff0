//! The words that the fence understands; all lists are in capitals and in order.

/// Whether it is one of these words, by any case.
pub fn is_among(word: &[u8], words: &[&str]) -> bool {
    const LONGEST: usize = 32;
    let mut capitals = [0; LONGEST];
    let Some(capitals) = capitals.get_mut(..word.len()) else { return false };
    capitals.copy_from_slice(word);
    capitals.make_ascii_uppercase();
    words.binary_search_by(|known| known.as_bytes().cmp(capitals)).is_ok()
}

/// Functions of MySQL and MariaDB whose only effect is their value. Not among them: what reads files, waits, locks, sets a
/// sequence, or makes tables of its argument (JSON_TABLE); and whatever functions a database has of its own.
pub const FUNCTIONS: &[&str] = &[
    "ABS", "ACOS", "ADDDATE", "ADDTIME", "ANY_VALUE", "ASCII", "ASIN", "ATAN", "ATAN2", "AVG", "BIN", "BIT_AND",
    "BIT_COUNT", "BIT_LENGTH", "BIT_OR", "BIT_XOR", "CAST", "CEIL", "CEILING", "CHAR", "CHARACTER_LENGTH", "CHARSET",
    "CHAR_LENGTH", "CHR", "COALESCE", "COLLATION", "CONCAT", "CONCAT_WS", "CONNECTION_ID", "CONV", "CONVERT",
    "CONVERT_TZ", "COS", "COT", "COUNT", "CRC32", "CUME_DIST", "CURDATE", "CURRENT_DATE", "CURRENT_TIME",
    "CURRENT_TIMESTAMP", "CURRENT_USER", "CURTIME", "DATABASE", "DATE", "DATEDIFF", "DATE_ADD", "DATE_FORMAT",
    "DATE_SUB", "DAY", "DAYNAME", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "DEGREES", "DENSE_RANK", "ELT", "EXP",
    "EXTRACT", "FIELD", "FIND_IN_SET", "FIRST_VALUE", "FLOOR", "FORMAT", "FOUND_ROWS", "FROM_BASE64", "FROM_DAYS",
    "FROM_UNIXTIME", "GREATEST", "GROUPING", "GROUP_CONCAT", "HEX", "HOUR", "IF", "IFNULL", "INET_ATON", "INET_NTOA",
    "INSERT", "INSTR", "ISNULL", "JSON_ARRAY", "JSON_ARRAYAGG", "JSON_CONTAINS", "JSON_EXTRACT", "JSON_KEYS",
    "JSON_LENGTH", "JSON_OBJECT", "JSON_OBJECTAGG", "JSON_QUOTE", "JSON_TYPE", "JSON_UNQUOTE", "JSON_VALID",
    "JSON_VALUE", "LAG", "LAST_DAY", "LAST_INSERT_ID", "LAST_VALUE", "LCASE", "LEAD", "LEAST", "LEFT", "LENGTH", "LN",
    "LOCALTIME", "LOCALTIMESTAMP", "LOCATE", "LOG", "LOG10", "LOG2", "LOWER", "LPAD", "LTRIM", "MAKEDATE", "MAKETIME",
    "MAX", "MD5", "MICROSECOND", "MID", "MIN", "MINUTE", "MOD", "MONTH", "MONTHNAME", "NOW", "NTH_VALUE", "NTILE",
    "NULLIF", "NVL", "NVL2", "OCT", "OCTET_LENGTH", "ORD", "PERCENT_RANK", "PERIOD_ADD", "PERIOD_DIFF", "PI",
    "POSITION", "POW", "POWER", "QUARTER", "QUOTE", "RADIANS", "RAND", "RANK", "REGEXP_INSTR", "REGEXP_LIKE",
    "REGEXP_REPLACE", "REGEXP_SUBSTR", "REPEAT", "REPLACE", "REVERSE", "RIGHT", "ROUND", "ROW", "ROW_COUNT",
    "ROW_NUMBER", "RPAD", "RTRIM", "SCHEMA", "SECOND", "SEC_TO_TIME", "SESSION_USER", "SHA", "SHA1", "SHA2", "SIGN",
    "SIN", "SOUNDEX", "SPACE", "SQRT", "STD", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "STRCMP", "STR_TO_DATE",
    "SUBDATE", "SUBSTR", "SUBSTRING", "SUBSTRING_INDEX", "SUBTIME", "SUM", "SYSDATE", "SYSTEM_USER", "TAN", "TIME",
    "TIMEDIFF", "TIMESTAMP", "TIMESTAMPADD", "TIMESTAMPDIFF", "TIME_FORMAT", "TIME_TO_SEC", "TO_BASE64", "TO_DAYS",
    "TO_SECONDS", "TRIM", "TRUNCATE", "UCASE", "UNHEX", "UNIX_TIMESTAMP", "UPPER", "USER", "UTC_DATE", "UTC_TIME",
    "UTC_TIMESTAMP", "UUID", "VARIANCE", "VAR_POP", "VAR_SAMP", "VERSION", "WEEK", "WEEKDAY", "WEEKOFYEAR", "YEAR",
    "YEARWEEK",
];

/// Words before which a parenthesis is no function's.
pub const BEFORE_PARENTHESES: &[&str] = &[
    "AGAINST", "ALL", "AND", "ANY", "AS", "BETWEEN", "BINARY", "BY", "CASE", "DECIMAL", "DISTINCT", "DISTINCTROW",
    "DIV", "ELSE", "ESCAPE", "EXCEPT", "EXISTS", "FROM", "HAVING", "IN", "INDEX", "INTERSECT", "INTERVAL", "JOIN",
    "KEY", "LATERAL", "LIKE", "LIMIT", "MATCH", "NOT", "OFFSET", "ON", "OR", "OVER", "PARTITION", "REGEXP",
    "RETURNING", "RLIKE", "SELECT", "SOME", "STRAIGHT_JOIN", "THEN", "UNION", "USING", "VALUE", "VALUES", "WHEN",
    "WHERE", "XOR",
];

/// Before a parenthesis with a SELECT in it: its value is used where it stands, and no table is made of it.
pub const BEFORE_VALUES: &[&str] = &["ALL", "ANY", "EXISTS", "IN", "SOME"];

/// Between two SELECTs of one set.
pub const BETWEEN_SELECTS: &[&str] = &["ALL", "DISTINCT", "EXCEPT", "INTERSECT", "MINUS", "UNION"];

/// Reserved words of expressions: no column has such a name unless it is quoted.
pub const EXPRESSION_WORDS: &[&str] = &[
    "AND", "BETWEEN", "BINARY", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "DEFAULT", "DIV", "FALSE", "IN",
    "IS", "LIKE", "LOCALTIME", "LOCALTIMESTAMP", "MOD", "NOT", "NULL", "OR", "REGEXP", "RLIKE", "TRUE", "UTC_DATE",
    "UTC_TIME", "UTC_TIMESTAMP", "XOR",
];

/// Of intervals.
pub const UNITS: &[&str] = &[
    "DAY", "DAY_HOUR", "DAY_MICROSECOND", "DAY_MINUTE", "DAY_SECOND", "HOUR", "HOUR_MICROSECOND", "HOUR_MINUTE",
    "HOUR_SECOND", "MICROSECOND", "MINUTE", "MINUTE_MICROSECOND", "MINUTE_SECOND", "MONTH", "QUARTER", "SECOND",
    "SECOND_MICROSECOND", "WEEK", "YEAR", "YEAR_MONTH",
];

/// To which a value may be cast.
pub const TYPES: &[&str] = &[
    "BINARY", "CHAR", "DATE", "DATETIME", "DECIMAL", "DOUBLE", "FLOAT", "INTEGER", "JSON", "SIGNED", "TIME", "UNSIGNED",
    "VARCHAR",
];

/// Functions whose value tells of data, or of what was done with them.
pub const TELLING_FUNCTIONS: &[&str] = &["FOUND_ROWS", "LAST_INSERT_ID", "ROW_COUNT"];

/// The server's variables that tell of data.
pub const TELLING_VARIABLES: &[&str] = &["IDENTITY", "INSERT_ID", "LAST_INSERT_ID", "RAND_SEED1", "RAND_SEED2"];

/// Whose texts are cut into characters so that no byte below 0x80 is a part of a longer one.
pub const CHARSETS: &[&str] = &["ASCII", "BINARY", "LATIN1", "UTF8", "UTF8MB3", "UTF8MB4"];

/// The server's variables that may be set for a session.
pub const SETTABLE: &[&str] = &[
    "AUTOCOMMIT", "CHARACTER_SET_RESULTS", "FOREIGN_KEY_CHECKS", "GROUP_CONCAT_MAX_LEN", "INNODB_LOCK_WAIT_TIMEOUT",
    "INTERACTIVE_TIMEOUT", "LOCK_WAIT_TIMEOUT", "MAX_EXECUTION_TIME", "MAX_STATEMENT_TIME", "NET_READ_TIMEOUT",
    "NET_WRITE_TIMEOUT", "SESSION_TRACK_SCHEMA", "SESSION_TRACK_SYSTEM_VARIABLES", "SESSION_TRACK_TRANSACTION_INFO",
    "SQL_AUTO_IS_NULL", "SQL_MODE", "SQL_SAFE_UPDATES", "SQL_SELECT_LIMIT", "TIME_ZONE", "TRANSACTION_ISOLATION",
    "TRANSACTION_READ_ONLY", "TX_ISOLATION", "TX_READ_ONLY", "UNIQUE_CHECKS", "WAIT_TIMEOUT",
];

/// Those whose value is a charset.
pub const CHARSET_VARIABLES: &[&str] = &["CHARACTER_SET_CLIENT", "CHARACTER_SET_CONNECTION"];

/// What SHOW may tell of.
pub const SHOWN: &[&str] = &[
    "CHARACTER", "CHARSET", "COLLATION", "COLUMNS", "COUNT", "DATABASES", "ENGINES", "ERRORS", "FIELDS", "INDEX",
    "INDEXES", "KEYS", "SCHEMAS", "STATUS", "TABLES", "WARNINGS",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_order() {
        for list in [
            FUNCTIONS, BEFORE_PARENTHESES, BEFORE_VALUES, BETWEEN_SELECTS, EXPRESSION_WORDS, UNITS, TYPES,
            TELLING_FUNCTIONS, TELLING_VARIABLES, CHARSETS, SETTABLE, CHARSET_VARIABLES, SHOWN,
        ] {
            assert!(list.is_sorted_by(|one, other| one < other), "{list:?}");
            assert!(list.iter().all(|word| is_among(word.to_ascii_lowercase().as_bytes(), list)));
        }
        assert!(!is_among(b"sleep", FUNCTIONS) && !is_among(&[b'A'; 99], FUNCTIONS));
    }
}
