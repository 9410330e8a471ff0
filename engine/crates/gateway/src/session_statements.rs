//! Statements about the session that drivers send of their own: transactions, settings, and questions about settings. None
//! of them shows rows of a table, so none needs an approval.

use crate::statements::{Kind, Reading, SEPARATOR, Statement};

/// SQL modes that a session may have: none of them changes how a text is read. Not every server knows each.
pub const MODES: [&str; 15] = [
    "ALLOW_INVALID_DATES",
    "ERROR_FOR_DIVISION_BY_ZERO",
    "NO_AUTO_CREATE_USER",
    "NO_AUTO_VALUE_ON_ZERO",
    "NO_DIR_IN_CREATE",
    "NO_ENGINE_SUBSTITUTION",
    "NO_UNSIGNED_SUBTRACTION",
    "NO_ZERO_DATE",
    "NO_ZERO_IN_DATE",
    "ONLY_FULL_GROUP_BY",
    "PAD_CHAR_TO_FULL_LENGTH",
    "STRICT_ALL_TABLES",
    "STRICT_TRANS_TABLES",
    "TIME_ROUND_FRACTIONAL",
    "TIME_TRUNCATE_FRACTIONAL",
];

/// Server's diagnostics may quote data, so they are answered empty.
const NO_WARNINGS: &str = "SELECT '' AS `Level`, 0 AS `Code`, '' AS `Message` FROM DUAL WHERE (1 = 0)";
/// A statement that does nothing, where a setting is already as it must be.
const NOTHING: &str = "DO 0";
/// In seconds: a year, the servers' own limit.
const LONGEST_TIMEOUT: u64 = 31_536_000;
const LONGEST_NAME: usize = 64;

const SAME: [&str; 11] = [
    "BEGIN",
    "START TRANSACTION",
    "START TRANSACTION READ ONLY",
    "START TRANSACTION READ WRITE",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "COMMIT",
    "ROLLBACK",
    "SELECT 1",
    "SELECT DATABASE()",
    "SELECT VERSION()",
    "SELECT CONNECTION_ID()",
];
const TRANSACTIONS: [&str; 6] = [
    "ISOLATION LEVEL READ UNCOMMITTED",
    "ISOLATION LEVEL READ COMMITTED",
    "ISOLATION LEVEL REPEATABLE READ",
    "ISOLATION LEVEL SERIALIZABLE",
    "READ ONLY",
    "READ WRITE",
];
/// Variables that drivers ask for. None of them depends on rows.
const VARIABLES: [&str; 31] = [
    "auto_increment_increment",
    "autocommit",
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "character_set_server",
    "collation_connection",
    "collation_server",
    "init_connect",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "license",
    "lower_case_table_names",
    "max_allowed_packet",
    "max_execution_time",
    "net_read_timeout",
    "net_write_timeout",
    "performance_schema",
    "query_cache_size",
    "query_cache_type",
    "sql_mode",
    "system_time_zone",
    "time_zone",
    "transaction_isolation",
    "transaction_read_only",
    "tx_isolation",
    "tx_read_only",
    "version",
    "version_comment",
    "wait_timeout",
    "have_ssl",
];

/// Texts that are always the same, and what is sent for each.
pub fn fixed() -> Vec<(String, String)> {
    let same = SAME.iter().map(|text| (*text).to_owned());
    let transactions = TRANSACTIONS
        .iter()
        .flat_map(|what| [format!("SET SESSION TRANSACTION {what}"), format!("SET TRANSACTION {what}")]);
    let empty = ["SHOW WARNINGS", "SHOW ERRORS"].map(|text| (text.to_owned(), NO_WARNINGS.to_owned()));
    same.chain(transactions).map(|text| (text.clone(), text)).chain(empty).collect()
}

/// The statement about the session that a text is; None where it is another one.
pub fn read(reading: &Reading) -> Option<Statement> {
    let shape = str::from_utf8(reading.shape()).ok()?;
    let tokens: Vec<&str> = shape.split(char::from(SEPARATOR)).collect();
    match tokens[..] {
        ["use", name] => {
            let name = bare_name(name)?;
            let mut statement = Statement::of_session(format!("USE `{}`", name.replace('`', "``")));
            statement.uses = Some(name.into_bytes().into());
            Some(statement)
        }
        ["savepoint", name] => Some(Statement::of_session(format!("SAVEPOINT {}", word(name)?))),
        ["release", "savepoint", name] => Some(Statement::of_session(format!("RELEASE SAVEPOINT {}", word(name)?))),
        ["rollback", "to", name] | ["rollback", "to", "savepoint", name] => {
            Some(Statement::of_session(format!("ROLLBACK TO SAVEPOINT {}", word(name)?)))
        }
        ["set", ref settings @ ..] => set(settings, reading),
        ["select", ref items @ ..] => variables(items, reading),
        _ => None,
    }
}

/// A word without quotes.
fn word(token: &str) -> Option<&str> {
    let is_word = token.len() <= LONGEST_NAME && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let begins_well = token.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    (is_word && begins_well).then_some(token)
}

/// A database's name, which may be quoted. Servers tell names apart by case, which a shape does not keep outside quotes.
fn bare_name(token: &str) -> Option<String> {
    let name = match token.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) {
        Some(quoted) => quoted.replace("``", "`"),
        None => word(token)?.to_owned(),
    };
    let fits = !name.is_empty() && name.chars().count() <= LONGEST_NAME && !name.ends_with(' ');
    let is_old = name.get(.."#mysql50#".len()).is_some_and(|start| start.eq_ignore_ascii_case("#mysql50#"));
    (fits && !is_old && name.chars().all(|each| each != '\0' && each <= '\u{FFFF}')).then_some(name)
}

/// `@@name [AS word], …`
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
        if !VARIABLES.contains(&name) || alias.is_some_and(|alias| word(alias).is_none()) {
            return None;
        }
    }
    let mut text = format!("SELECT {}", items.join(" "));
    if let Some(limit) = limit {
        let limit = str::from_utf8(reading.written(limit)).ok()?;
        text.push_str(&format!(" LIMIT {}", limit.parse::<u32>().ok()?));
    }
    Some(Statement::of_session(text))
}

/// `name = value, …`, `NAMES charset [COLLATE collation]`
fn set(settings: &[&str], reading: &Reading) -> Option<Statement> {
    let mut values = reading.values().iter();
    let mut sent = Vec::new();
    for setting in settings.split(|token| *token == ",") {
        let setting = match setting {
            ["session" | "local", rest @ ..] => rest,
            all => all,
        };
        match setting {
            ["names", charset] | ["names", charset, "collate", _] | ["character", "set", charset] => {
                is_utf8(unquoted(charset)).then_some(())?;
            }
            [name, "=", value] => {
                let value = match *value {
                    "?" => {
                        let value = values.next()?;
                        let written = str::from_utf8(reading.written(value)).ok()?;
                        SettingValue { text: unquoted(written), kind: value.kind? }
                    }
                    word => SettingValue { text: word, kind: Kind::Text },
                };
                let name: &str = name.strip_prefix("@@").unwrap_or(name);
                let name = ["session.", "local."].iter().find_map(|scope| name.strip_prefix(scope)).unwrap_or(name);
                sent.extend(assignment(name, &value)?);
            }
            _ => return None,
        }
    }
    Some(Statement::of_session(match sent.is_empty() {
        true => NOTHING.into(),
        false => format!("SET {}", sent.join(", ")),
    }))
}

struct SettingValue<'a> {
    text: &'a str,
    kind: Kind,
}

/// What is sent for a setting: nothing where the session has it already; None where it may not be set so.
fn assignment(name: &str, value: &SettingValue<'_>) -> Option<Option<String>> {
    let SettingValue { text, kind } = *value;
    let is = |known: &[&str]| known.iter().any(|known| text.eq_ignore_ascii_case(known));
    let sent: String = match name {
        "autocommit" | "foreign_key_checks" | "unique_checks" | "transaction_read_only" | "tx_read_only" => match () {
            () if is(&["1", "on", "true"]) => "1".into(),
            () if is(&["0", "off", "false"]) => "0".into(),
            () => return None,
        },
        "innodb_lock_wait_timeout"
        | "interactive_timeout"
        | "lock_wait_timeout"
        | "max_statement_time"
        | "net_read_timeout"
        | "net_write_timeout"
        | "wait_timeout" => number(value, LONGEST_TIMEOUT)?,
        "max_execution_time" => number(value, u32::MAX.into())?,
        "sql_select_limit" if is(&["default"]) => "DEFAULT".into(),
        "sql_select_limit" => number(value, u64::MAX)?,
        "transaction_isolation" | "tx_isolation" => {
            let known = ["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"];
            format!("'{}'", known.iter().find(|known| text.eq_ignore_ascii_case(known))?)
        }
        "sql_mode" if kind == Kind::Text => {
            let modes = text.split(',').map(str::trim).filter(|mode| !mode.is_empty());
            let known = |mode: &str| MODES.iter().find(|known| known.eq_ignore_ascii_case(mode));
            format!(
                "'{}'",
                modes.map(known).collect::<Option<Vec<_>>>()?.into_iter().copied().collect::<Vec<_>>().join(",")
            )
        }
        "time_zone" => {
            let belongs = |byte: u8| byte.is_ascii_alphanumeric() || b"+-:/_".contains(&byte);
            (!text.is_empty() && text.len() <= LONGEST_NAME && text.bytes().all(belongs)).then_some(())?;
            format!("'{text}'")
        }
        "character_set_results" if is(&["null"]) => return Some(None),
        "character_set_client" | "character_set_connection" | "character_set_results" => {
            return is_utf8(text).then_some(None);
        }
        "sql_auto_is_null" | "profiling" => return is(&["0", "off", "false"]).then_some(None),
        _ => return None,
    };
    Some(Some(format!("@@session.{name} = {sent}")))
}

fn number(value: &SettingValue<'_>, most: u64) -> Option<String> {
    let number: u64 = value.text.parse().ok()?;
    (value.kind == Kind::Number && number <= most).then(|| number.to_string())
}

/// utf8mb4 and what is a part of it: a session has utf8mb4 whatever it asks for.
fn is_utf8(charset: &str) -> bool {
    ["utf8mb4", "utf8", "utf8mb3"].iter().any(|known| charset.eq_ignore_ascii_case(known))
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(text)
}
