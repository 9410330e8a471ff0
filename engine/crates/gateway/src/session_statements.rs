//! Statements about the session. Drivers send them without a request of the application, to control transactions and
//! to set and query settings. They return no rows of tables, so they need no approval.

use crate::statements::{Kind, Reading, Statement};

/// The SQL modes that a client may set. None of them changes how servers parse a text. Some servers lack some of them.
pub const MODES: &str = "ALLOW_INVALID_DATES ERROR_FOR_DIVISION_BY_ZERO NO_AUTO_CREATE_USER NO_AUTO_VALUE_ON_ZERO \
    NO_DIR_IN_CREATE NO_ENGINE_SUBSTITUTION NO_UNSIGNED_SUBTRACTION NO_ZERO_DATE NO_ZERO_IN_DATE ONLY_FULL_GROUP_BY \
    PAD_CHAR_TO_FULL_LENGTH STRICT_ALL_TABLES STRICT_TRANS_TABLES TIME_ROUND_FRACTIONAL TIME_TRUNCATE_FRACTIONAL";
/// The variables that a client may query, because drivers do so. Their values do not depend on the rows of tables.
const VARIABLES: &str = "auto_increment_increment autocommit character_set_client character_set_connection \
    character_set_results character_set_server collation_connection collation_server have_ssl init_connect \
    innodb_lock_wait_timeout interactive_timeout license lower_case_table_names max_allowed_packet max_execution_time \
    net_read_timeout net_write_timeout performance_schema query_cache_size query_cache_type sql_mode system_time_zone \
    time_zone transaction_isolation transaction_read_only tx_isolation tx_read_only version version_comment wait_timeout";
const UNCHANGED: &str = "BEGIN|START TRANSACTION|START TRANSACTION READ ONLY|START TRANSACTION READ WRITE|\
    START TRANSACTION WITH CONSISTENT SNAPSHOT|COMMIT|ROLLBACK|SELECT 1|SELECT DATABASE()|SELECT VERSION()|\
    SELECT CONNECTION_ID()";
const TRANSACTIONS: &str = "ISOLATION LEVEL READ UNCOMMITTED|ISOLATION LEVEL READ COMMITTED|\
    ISOLATION LEVEL REPEATABLE READ|ISOLATION LEVEL SERIALIZABLE|READ ONLY|READ WRITE";
/// The statement sent instead of SHOW WARNINGS and SHOW ERRORS, with an empty result: warnings may quote data.
const NO_WARNINGS: &str = "SELECT '' AS `Level`, 0 AS `Code`, '' AS `Message` FROM DUAL WHERE (1 = 0)";
/// A statement without effect. The gateway sends it instead of a SET whose settings already have the required values.
const NOTHING: &str = "DO 0";
/// The maximum of a timeout in seconds: one year, which is the limit of MySQL and of MariaDB.
const LONGEST_TIMEOUT: u64 = 31_536_000;
const LONGEST_NAME: usize = 64;

/// Return the allowed statements with a fixed text, such as `COMMIT`, and the text that the gateway sends for each.
pub fn fixed() -> Vec<(String, String)> {
    let set = |what: &str| ["SET SESSION", "SET"].map(|set| format!("{set} TRANSACTION {what}"));
    let unchanged = UNCHANGED.split('|').map(str::to_owned).chain(TRANSACTIONS.split('|').flat_map(set));
    let empty = ["SHOW WARNINGS", "SHOW ERRORS"].map(|text| (text.to_owned(), NO_WARNINGS.to_owned()));
    unchanged.map(|text| (text.clone(), text)).chain(empty).collect()
}

/// Return the statement about the session, such as `COMMIT`, that a parsed text contains. Return None if the text is
/// not such a statement or the statement is not allowed.
pub fn read(reading: &Reading) -> Option<Statement> {
    let tokens = reading.shape_tokens().map(|token| str::from_utf8(token).ok()).collect::<Option<Vec<_>>>()?;
    match tokens[..] {
        ["use", name] => {
            let name = unquoted_name(name)?;
            let text = format!("USE `{}`", name.replace('`', "``"));
            let mut statement = Statement::for_session(text);
            statement.uses = Some(name.into());
            Some(statement)
        }
        ["savepoint", name] => Some(Statement::for_session(format!("SAVEPOINT {}", word(name)?))),
        ["release", "savepoint", name] => Some(Statement::for_session(format!("RELEASE SAVEPOINT {}", word(name)?))),
        ["rollback", "to", name] | ["rollback", "to", "savepoint", name] => {
            Some(Statement::for_session(format!("ROLLBACK TO SAVEPOINT {}", word(name)?)))
        }
        ["set", ref settings @ ..] => set(settings, reading),
        ["select", ref items @ ..] => variables(items, reading),
        _ => None,
    }
}

/// Return the token if it is an unquoted word. Otherwise return None.
fn word(token: &str) -> Option<&str> {
    let is_word = token.len() <= LONGEST_NAME && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let starts_without_digit = token.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    (is_word && starts_without_digit).then_some(token)
}

/// Return the name of a database without its quotes, or None if the name is not valid. The gateway converts unquoted
/// tokens to lower case. On a server that distinguishes case, clients must quote a name with capital letters.
fn unquoted_name(token: &str) -> Option<String> {
    let name = match token.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) {
        Some(quoted) => quoted.replace("``", "`"),
        None => word(token)?.to_owned(),
    };
    is_plain_name(name.as_bytes()).then_some(name)
}

/// Return whether this database name means the same database on every server. Servers could shorten or decode other
/// names, and so use another database.
pub fn is_plain_name(name: &[u8]) -> bool {
    // The prefix marks a name in the encoding of MySQL 5.0. Servers find the same database with and without the prefix.
    const OLD: &[u8] = b"#mysql50#";
    let Ok(text) = str::from_utf8(name) else { return false };
    let is_old = name.get(..OLD.len()).is_some_and(|start| start.eq_ignore_ascii_case(OLD));
    let is_valid_length = !text.is_empty() && text.chars().count() <= LONGEST_NAME && !text.ends_with(' ');
    is_valid_length && !is_old && text.chars().all(|each| each != '\0' && each <= '\u{FFFF}')
}

/// Parse a query of variables, `@@name [AS word], …`. Return None if a variable may not be queried.
fn variables(items: &[&str], reading: &Reading) -> Option<Statement> {
    let (items, limit) = match items {
        [items @ .., "limit", "?"] => (items, Some(reading.values().first()?)),
        items => (items, None),
    };
    for item in items.split(|token| *token == ",") {
        let (name, alias) = match item {
            [name] => (name, None),
            [name, "as", alias] => (name, Some(alias)),
            _ => return None,
        };
        let name = name.strip_prefix("@@")?;
        let name = ["session.", "global."].iter().find_map(|scope| name.strip_prefix(scope)).unwrap_or(name);
        if VARIABLES.split(' ').all(|known| known != name) || alias.is_some_and(|alias| word(alias).is_none()) {
            return None;
        }
    }
    let mut text = format!("SELECT {}", items.join(" "));
    if let Some(limit) = limit {
        let limit: u32 = str::from_utf8(reading.written(limit)).ok()?.parse().ok()?;
        text.push_str(&format!(" LIMIT {limit}"));
    }
    Some(Statement::for_session(text))
}

/// Parse the settings of SET: `name = value, …`, `NAMES charset [COLLATE collation]` or `CHARACTER SET charset`. Return
/// None if a setting is refused.
fn set(settings: &[&str], reading: &Reading) -> Option<Statement> {
    let mut values = reading.values().iter();
    let mut sent = Vec::new();
    for setting in settings.split(|token| *token == ",") {
        match setting {
            ["names", charset] | ["names", charset, "collate", _] | ["character", "set", charset] => {
                is_utf8(unquoted(charset)).then_some(())?;
            }
            [name, "=", value] | ["session" | "local", name, "=", value] => {
                let (text, kind) = match *value {
                    "?" => {
                        let value = values.next()?;
                        (unquoted(str::from_utf8(reading.written(value)).ok()?), value.kind?)
                    }
                    word => (word, Kind::Text),
                };
                let name: &str = name.strip_prefix("@@").unwrap_or(name);
                let name = ["session.", "local."].iter().find_map(|scope| name.strip_prefix(scope)).unwrap_or(name);
                sent.extend(assignment(name, text, kind)?);
            }
            _ => return None,
        }
    }
    let text = if sent.is_empty() { NOTHING.into() } else { format!("SET {}", sent.join(", ")) };
    Some(Statement::for_session(text))
}

/// Return the assignment to send for a setting, such as `@@session.autocommit = 1`. Return `Some(None)` if the session
/// already has the value. Return None if the setting or the value is not allowed.
fn assignment(name: &str, text: &str, kind: Kind) -> Option<Option<String>> {
    let is = |known: &[&str]| known.iter().any(|known| text.eq_ignore_ascii_case(known));
    let number = |limit: u64| {
        let number = text.parse().ok().filter(|number| kind == Kind::Number && *number <= limit);
        number.map(|number: u64| number.to_string())
    };
    let sent = match name {
        "autocommit" | "foreign_key_checks" | "unique_checks" | "transaction_read_only" | "tx_read_only" => match () {
            () if is(&["1", "on", "true"]) => "1".into(),
            () if is(&["0", "off", "false"]) => "0".into(),
            () => return None,
        },
        "innodb_lock_wait_timeout" | "interactive_timeout" | "lock_wait_timeout" | "max_statement_time" => {
            number(LONGEST_TIMEOUT)?
        }
        "net_read_timeout" | "net_write_timeout" | "wait_timeout" => number(LONGEST_TIMEOUT)?,
        "max_execution_time" => number(u32::MAX.into())?,
        "sql_select_limit" if is(&["default"]) => "DEFAULT".into(),
        "sql_select_limit" => number(u64::MAX)?,
        "transaction_isolation" | "tx_isolation" => {
            let known = ["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"];
            format!("'{}'", known.iter().find(|known| text.eq_ignore_ascii_case(known))?)
        }
        "sql_mode" if kind == Kind::Text => {
            let modes = text.split(',').map(str::trim).filter(|mode| !mode.is_empty());
            let known = |mode: &str| MODES.split(' ').find(|known| known.eq_ignore_ascii_case(mode));
            format!("'{}'", modes.map(known).collect::<Option<Vec<_>>>()?.join(","))
        }
        "time_zone" => {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+-:/_".contains(&byte);
            (!text.is_empty() && text.len() <= LONGEST_NAME && text.bytes().all(is_allowed))
                .then(|| format!("'{text}'"))?
        }
        "character_set_results" if is(&["null"]) => return Some(None),
        "character_set_client" | "character_set_connection" | "character_set_results" => {
            return is_utf8(text).then_some(None);
        }
        "sql_auto_is_null" => return is(&["0", "off", "false"]).then_some(None),
        _ => return None,
    };
    Some(Some(format!("@@session.{name} = {sent}")))
}

/// Return whether the character set is utf8mb4 or a subset of it. The gateway accepts these character sets, but does
/// not pass them on: the session already uses utf8mb4.
fn is_utf8(charset: &str) -> bool {
    ["utf8mb4", "utf8", "utf8mb3"].iter().any(|known| charset.eq_ignore_ascii_case(known))
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(text)
}
