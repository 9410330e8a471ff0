//! The words that are understood; all lists are in order.

/// A function that may be called: its only effect is its value, or a lock of a name. Not among them: what reads files, sleeps,
/// sets a sequence, makes tables of its argument, or quotes its argument in an error where that is not needed; and whatever
/// functions a database has of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// As it is printed.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
}

/// What a function makes its value of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its arguments, row by row.
    Scalar,
    /// A lock of a name, which other sessions notice.
    Lock,
    /// How many rows there are: nothing of what they hold.
    Count,
    /// One value of all rows' that is as secret as they are, and no more than that can be read from it.
    Combine,
    /// All rows.
    Aggregate,
    /// A window's rows.
    Window,
}

/// Of intervals, as it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit(pub &'static str);

/// The function of this name.
pub fn function_named(word: &str) -> Option<&'static Function> {
    let mut capitals = [0; LONGEST];
    let capitals = in_capitals(word, &mut capitals)?;
    FUNCTIONS.binary_search_by(|function| function.name.cmp(capitals)).ok().map(|at| &FUNCTIONS[at])
}

/// Whether a name of this kind must be quoted.
pub fn is_reserved(word: &str) -> bool {
    let mut capitals = [0; LONGEST];
    in_capitals(word, &mut capitals).is_some_and(|capitals| RESERVED.contains(capitals))
}

/// The unit of this name.
pub fn unit(word: &str) -> Option<Unit> {
    find(word, UNITS).map(Unit)
}

/// The server's variable of this name, where it may be read.
pub fn variable(name: &str) -> Option<&'static str> {
    VARIABLES
        .binary_search_by(|known| {
            known.as_bytes().iter().copied().cmp(name.bytes().map(|byte| byte.to_ascii_lowercase()))
        })
        .ok()
        .map(|at| VARIABLES[at])
}

/// The server's variables that tell which id a new row was given.
pub fn tells_id(variable: &str) -> bool {
    matches!(variable, "identity" | "last_insert_id")
}

const LONGEST: usize = 32;

fn find(word: &str, words: &'static [&'static str]) -> Option<&'static str> {
    let mut capitals = [0; LONGEST];
    let capitals = in_capitals(word, &mut capitals)?;
    words.binary_search_by(|known| (*known).cmp(capitals)).ok().map(|at| words[at])
}

fn in_capitals<'a>(word: &str, place: &'a mut [u8; LONGEST]) -> Option<&'a str> {
    let capitals = place.get_mut(..word.len())?;
    capitals.copy_from_slice(word.as_bytes());
    capitals.make_ascii_uppercase();
    std::str::from_utf8(capitals).ok()
}

const fn function(name: &'static str, kind: Kind) -> Function {
    Function { name, kind }
}

/// Of MySQL and MariaDB: what one of them does not have, as ANY_VALUE, could be a stored function there.
static FUNCTIONS: &[Function] = &[
    function("ABS", Kind::Scalar),
    function("ACOS", Kind::Scalar),
    function("ADDDATE", Kind::Scalar),
    function("ADDTIME", Kind::Scalar),
    function("ASCII", Kind::Scalar),
    function("ASIN", Kind::Scalar),
    function("ATAN", Kind::Scalar),
    function("ATAN2", Kind::Scalar),
    function("AVG", Kind::Combine),
    function("BIN", Kind::Scalar),
    function("BIT_AND", Kind::Aggregate),
    function("BIT_COUNT", Kind::Scalar),
    function("BIT_LENGTH", Kind::Scalar),
    function("BIT_OR", Kind::Aggregate),
    function("BIT_XOR", Kind::Aggregate),
    function("CEIL", Kind::Scalar),
    function("CEILING", Kind::Scalar),
    function("CHAR", Kind::Scalar),
    function("CHARACTER_LENGTH", Kind::Scalar),
    function("CHARSET", Kind::Scalar),
    function("CHAR_LENGTH", Kind::Scalar),
    function("CHR", Kind::Scalar),
    function("COALESCE", Kind::Scalar),
    function("COLLATION", Kind::Scalar),
    function("CONCAT", Kind::Scalar),
    function("CONCAT_WS", Kind::Scalar),
    function("CONNECTION_ID", Kind::Scalar),
    function("CONV", Kind::Scalar),
    function("CONVERT_TZ", Kind::Scalar),
    function("COS", Kind::Scalar),
    function("COT", Kind::Scalar),
    function("COUNT", Kind::Count),
    function("CRC32", Kind::Scalar),
    function("CUME_DIST", Kind::Window),
    function("CURDATE", Kind::Scalar),
    function("CURRENT_DATE", Kind::Scalar),
    function("CURRENT_TIME", Kind::Scalar),
    function("CURRENT_TIMESTAMP", Kind::Scalar),
    function("CURRENT_USER", Kind::Scalar),
    function("CURTIME", Kind::Scalar),
    function("DATABASE", Kind::Scalar),
    function("DATE", Kind::Scalar),
    function("DATEDIFF", Kind::Scalar),
    function("DATE_ADD", Kind::Scalar),
    function("DATE_FORMAT", Kind::Scalar),
    function("DATE_SUB", Kind::Scalar),
    function("DAY", Kind::Scalar),
    function("DAYNAME", Kind::Scalar),
    function("DAYOFMONTH", Kind::Scalar),
    function("DAYOFWEEK", Kind::Scalar),
    function("DAYOFYEAR", Kind::Scalar),
    function("DEGREES", Kind::Scalar),
    function("DENSE_RANK", Kind::Window),
    function("ELT", Kind::Scalar),
    function("EXP", Kind::Scalar),
    function("EXTRACT", Kind::Scalar),
    function("FIELD", Kind::Scalar),
    function("FIND_IN_SET", Kind::Scalar),
    function("FIRST_VALUE", Kind::Window),
    function("FLOOR", Kind::Scalar),
    function("FORMAT", Kind::Scalar),
    function("FOUND_ROWS", Kind::Scalar),
    function("FROM_BASE64", Kind::Scalar),
    function("FROM_DAYS", Kind::Scalar),
    function("FROM_UNIXTIME", Kind::Scalar),
    function("GET_LOCK", Kind::Lock),
    function("GREATEST", Kind::Scalar),
    function("GROUP_CONCAT", Kind::Aggregate),
    function("HEX", Kind::Scalar),
    function("HOUR", Kind::Scalar),
    function("IF", Kind::Scalar),
    function("IFNULL", Kind::Scalar),
    function("INET6_ATON", Kind::Scalar),
    function("INET6_NTOA", Kind::Scalar),
    function("INET_ATON", Kind::Scalar),
    function("INET_NTOA", Kind::Scalar),
    function("INSERT", Kind::Scalar),
    function("INSTR", Kind::Scalar),
    function("ISNULL", Kind::Scalar),
    function("IS_FREE_LOCK", Kind::Lock),
    function("IS_IPV4", Kind::Scalar),
    function("IS_IPV6", Kind::Scalar),
    function("IS_USED_LOCK", Kind::Lock),
    function("JSON_ARRAY", Kind::Scalar),
    function("JSON_ARRAYAGG", Kind::Aggregate),
    function("JSON_ARRAY_APPEND", Kind::Scalar),
    function("JSON_ARRAY_INSERT", Kind::Scalar),
    function("JSON_CONTAINS", Kind::Scalar),
    function("JSON_CONTAINS_PATH", Kind::Scalar),
    function("JSON_DEPTH", Kind::Scalar),
    function("JSON_EXTRACT", Kind::Scalar),
    function("JSON_INSERT", Kind::Scalar),
    function("JSON_KEYS", Kind::Scalar),
    function("JSON_LENGTH", Kind::Scalar),
    function("JSON_MERGE_PATCH", Kind::Scalar),
    function("JSON_MERGE_PRESERVE", Kind::Scalar),
    function("JSON_OBJECT", Kind::Scalar),
    function("JSON_OBJECTAGG", Kind::Aggregate),
    function("JSON_QUOTE", Kind::Scalar),
    function("JSON_REMOVE", Kind::Scalar),
    function("JSON_REPLACE", Kind::Scalar),
    function("JSON_SEARCH", Kind::Scalar),
    function("JSON_SET", Kind::Scalar),
    function("JSON_TYPE", Kind::Scalar),
    function("JSON_UNQUOTE", Kind::Scalar),
    function("JSON_VALID", Kind::Scalar),
    function("JSON_VALUE", Kind::Scalar),
    function("LAG", Kind::Window),
    function("LAST_DAY", Kind::Scalar),
    function("LAST_INSERT_ID", Kind::Scalar),
    function("LAST_VALUE", Kind::Window),
    function("LCASE", Kind::Scalar),
    function("LEAD", Kind::Window),
    function("LEAST", Kind::Scalar),
    function("LEFT", Kind::Scalar),
    function("LENGTH", Kind::Scalar),
    function("LN", Kind::Scalar),
    function("LOCALTIME", Kind::Scalar),
    function("LOCALTIMESTAMP", Kind::Scalar),
    function("LOCATE", Kind::Scalar),
    function("LOG", Kind::Scalar),
    function("LOG10", Kind::Scalar),
    function("LOG2", Kind::Scalar),
    function("LOWER", Kind::Scalar),
    function("LPAD", Kind::Scalar),
    function("LTRIM", Kind::Scalar),
    function("MAKEDATE", Kind::Scalar),
    function("MAKETIME", Kind::Scalar),
    function("MAX", Kind::Combine),
    function("MD5", Kind::Scalar),
    function("MICROSECOND", Kind::Scalar),
    function("MID", Kind::Scalar),
    function("MIN", Kind::Combine),
    function("MINUTE", Kind::Scalar),
    function("MOD", Kind::Scalar),
    function("MONTH", Kind::Scalar),
    function("MONTHNAME", Kind::Scalar),
    function("NOW", Kind::Scalar),
    function("NTH_VALUE", Kind::Window),
    function("NTILE", Kind::Window),
    function("NULLIF", Kind::Scalar),
    function("NVL", Kind::Scalar),
    function("NVL2", Kind::Scalar),
    function("OCT", Kind::Scalar),
    function("OCTET_LENGTH", Kind::Scalar),
    function("ORD", Kind::Scalar),
    function("PERCENT_RANK", Kind::Window),
    function("PERIOD_ADD", Kind::Scalar),
    function("PERIOD_DIFF", Kind::Scalar),
    function("PI", Kind::Scalar),
    function("POSITION", Kind::Scalar),
    function("POW", Kind::Scalar),
    function("POWER", Kind::Scalar),
    function("QUARTER", Kind::Scalar),
    function("QUOTE", Kind::Scalar),
    function("RADIANS", Kind::Scalar),
    function("RAND", Kind::Scalar),
    function("RANK", Kind::Window),
    function("REGEXP_INSTR", Kind::Scalar),
    function("REGEXP_REPLACE", Kind::Scalar),
    function("REGEXP_SUBSTR", Kind::Scalar),
    function("RELEASE_ALL_LOCKS", Kind::Lock),
    function("RELEASE_LOCK", Kind::Lock),
    function("REPEAT", Kind::Scalar),
    function("REPLACE", Kind::Scalar),
    function("REVERSE", Kind::Scalar),
    function("RIGHT", Kind::Scalar),
    function("ROUND", Kind::Scalar),
    function("ROW_COUNT", Kind::Scalar),
    function("ROW_NUMBER", Kind::Window),
    function("RPAD", Kind::Scalar),
    function("RTRIM", Kind::Scalar),
    function("SCHEMA", Kind::Scalar),
    function("SECOND", Kind::Scalar),
    function("SEC_TO_TIME", Kind::Scalar),
    function("SESSION_USER", Kind::Scalar),
    function("SHA", Kind::Scalar),
    function("SHA1", Kind::Scalar),
    function("SHA2", Kind::Scalar),
    function("SIGN", Kind::Scalar),
    function("SIN", Kind::Scalar),
    function("SOUNDEX", Kind::Scalar),
    function("SPACE", Kind::Scalar),
    function("SQRT", Kind::Scalar),
    function("STD", Kind::Aggregate),
    function("STDDEV", Kind::Aggregate),
    function("STDDEV_POP", Kind::Aggregate),
    function("STDDEV_SAMP", Kind::Aggregate),
    function("STRCMP", Kind::Scalar),
    function("STR_TO_DATE", Kind::Scalar),
    function("SUBDATE", Kind::Scalar),
    function("SUBSTR", Kind::Scalar),
    function("SUBSTRING", Kind::Scalar),
    function("SUBSTRING_INDEX", Kind::Scalar),
    function("SUBTIME", Kind::Scalar),
    function("SUM", Kind::Combine),
    function("SYSDATE", Kind::Scalar),
    function("SYSTEM_USER", Kind::Scalar),
    function("TAN", Kind::Scalar),
    function("TIME", Kind::Scalar),
    function("TIMEDIFF", Kind::Scalar),
    function("TIMESTAMP", Kind::Scalar),
    function("TIMESTAMPADD", Kind::Scalar),
    function("TIMESTAMPDIFF", Kind::Scalar),
    function("TIME_FORMAT", Kind::Scalar),
    function("TIME_TO_SEC", Kind::Scalar),
    function("TO_BASE64", Kind::Scalar),
    function("TO_DAYS", Kind::Scalar),
    function("TO_SECONDS", Kind::Scalar),
    function("TRIM", Kind::Scalar),
    function("TRUNCATE", Kind::Scalar),
    function("UCASE", Kind::Scalar),
    function("UNHEX", Kind::Scalar),
    function("UNIX_TIMESTAMP", Kind::Scalar),
    function("UPPER", Kind::Scalar),
    function("USER", Kind::Scalar),
    function("UTC_DATE", Kind::Scalar),
    function("UTC_TIME", Kind::Scalar),
    function("UTC_TIMESTAMP", Kind::Scalar),
    function("UUID", Kind::Scalar),
    function("VARIANCE", Kind::Aggregate),
    function("VAR_POP", Kind::Aggregate),
    function("VAR_SAMP", Kind::Aggregate),
    function("VERSION", Kind::Scalar),
    function("WEEK", Kind::Scalar),
    function("WEEKDAY", Kind::Scalar),
    function("WEEKOFYEAR", Kind::Scalar),
    function("YEAR", Kind::Scalar),
    function("YEARWEEK", Kind::Scalar),
];

/// What both servers reserve, and what one does that stands where a name could.
#[rustfmt::skip]
static RESERVED: phf::Set<&str> = phf::phf_set! {
    "ALL", "ALTER", "ANALYZE", "AND", "AS", "ASC", "BEFORE", "BETWEEN", "BOTH", "BY", "CALL", "CASCADE", "CASE",
    "CHANGE", "CHECK", "COLLATE", "COLUMN", "CONDITION", "CONSTRAINT", "CONTINUE", "CONVERT", "CREATE", "CROSS",
    "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "CURSOR", "DATABASE", "DATABASES",
    "DECLARE", "DEFAULT", "DELAYED", "DELETE", "DESC", "DESCRIBE", "DISTINCT", "DISTINCTROW", "DIV", "DROP", "DUAL",
    "EACH", "ELSE", "ELSEIF", "ENCLOSED", "ESCAPED", "EXCEPT", "EXISTS", "EXIT", "EXPLAIN", "FALSE", "FETCH", "FOR",
    "FORCE", "FOREIGN", "FROM", "FULLTEXT", "GRANT", "GROUP", "HAVING", "HIGH_PRIORITY", "IF", "IGNORE", "IN",
    "INDEX", "INFILE", "INNER", "INOUT", "INSERT", "INTERSECT", "INTERVAL", "INTO", "IS", "ITERATE", "JOIN", "KEY",
    "KEYS", "KILL", "LATERAL", "LEADING", "LEAVE", "LEFT", "LIKE", "LIMIT", "LINES", "LOAD", "LOCALTIME",
    "LOCALTIMESTAMP", "LOCK", "LOOP", "LOW_PRIORITY", "MATCH", "MOD", "NATURAL", "NOT", "NULL", "ON", "OPTIMIZE",
    "OPTION", "OPTIONALLY", "OR", "ORDER", "OUT", "OUTER", "OUTFILE", "OVER", "PARTITION", "PRIMARY", "PROCEDURE",
    "PURGE", "READ", "READS", "RECURSIVE", "REFERENCES", "REGEXP", "RELEASE", "RENAME", "REPEAT", "REPLACE",
    "REQUIRE", "RESTRICT", "RETURN", "RETURNING", "REVOKE", "RIGHT", "RLIKE", "ROWS", "SCHEMA", "SCHEMAS", "SELECT",
    "SEPARATOR", "SET", "SHOW", "SPATIAL", "SQL", "SQL_BIG_RESULT", "SQL_CALC_FOUND_ROWS", "SQL_SMALL_RESULT",
    "STARTING", "STRAIGHT_JOIN", "TABLE", "TERMINATED", "THEN", "TO", "TRAILING", "TRIGGER", "TRUE", "UNDO", "UNION",
    "UNIQUE", "UNLOCK", "UPDATE", "USAGE", "USE", "USING", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP", "VALUES", "WHEN",
    "WHERE", "WHILE", "WINDOW", "WITH", "WRITE", "XOR",
};

#[rustfmt::skip]
const UNITS: &[&str] = &[
    "DAY", "DAY_HOUR", "DAY_MICROSECOND", "DAY_MINUTE", "DAY_SECOND", "HOUR", "HOUR_MICROSECOND", "HOUR_MINUTE",
    "HOUR_SECOND", "MICROSECOND", "MINUTE", "MINUTE_MICROSECOND", "MINUTE_SECOND", "MONTH", "QUARTER", "SECOND",
    "SECOND_MICROSECOND", "WEEK", "YEAR", "YEAR_MONTH",
];

/// None of them holds data, but for the last id, which is decided where it is read.
#[rustfmt::skip]
const VARIABLES: &[&str] = &[
    "auto_increment_increment", "auto_increment_offset", "autocommit", "character_set_client",
    "character_set_connection", "character_set_database", "character_set_results", "character_set_server",
    "collation_connection", "collation_database", "collation_server", "default_storage_engine", "foreign_key_checks",
    "group_concat_max_len", "have_ssl", "hostname", "identity", "init_connect", "innodb_lock_wait_timeout",
    "interactive_timeout", "last_insert_id", "license", "lock_wait_timeout", "lower_case_table_names",
    "max_allowed_packet", "max_execution_time", "max_prepared_stmt_count", "max_statement_time", "net_buffer_length",
    "net_read_timeout", "net_write_timeout", "performance_schema", "port", "protocol_version", "query_cache_size",
    "query_cache_type", "read_only", "sql_auto_is_null", "sql_mode", "sql_safe_updates", "sql_select_limit", "system_time_zone",
    "time_zone", "transaction_isolation", "transaction_read_only", "tx_isolation", "tx_read_only", "unique_checks",
    "version", "version_comment", "version_compile_machine", "version_compile_os", "wait_timeout",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_order() {
        for list in [UNITS, VARIABLES] {
            assert!(list.is_sorted_by(|one, other| one < other), "{list:?}");
        }
        assert!(FUNCTIONS.is_sorted_by(|one, other| one.name < other.name));
        assert!(RESERVED.iter().all(|word| is_reserved(&word.to_lowercase())));
        assert!(VARIABLES.iter().all(|name| variable(&name.to_uppercase()) == Some(name)));
        assert_eq!(function_named("Concat").unwrap().name, "CONCAT");
        assert!(function_named("sleep").is_none() && function_named(&"a".repeat(99)).is_none());
    }
}
