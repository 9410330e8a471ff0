//! What a session may set for itself. What the gateway has pinned stays: to set it to what it is changes nothing.

use super::Refusal;
use super::print::append_text;
use std::borrow::Cow;

/// GROUP_CONCAT may make so many bytes.
const LONGEST_GROUP: u64 = 1 << 20;
/// Seconds of any time-out: a year, the servers' own limit.
const LONGEST_TIMEOUT: u64 = 31_536_000;

/// SQL modes that a session may have: none of them changes how a statement is read, what it is assigned to, or which of two
/// values is the greater one. Not every server knows each.
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

/// Of these a client changes none: a server computes generated columns and CHECKs by them, of the same stored values another
/// outcome.
const FIXED: [&str; 5] = [
    "ALLOW_INVALID_DATES",
    "NO_UNSIGNED_SUBTRACTION",
    "PAD_CHAR_TO_FULL_LENGTH",
    "TIME_ROUND_FRACTIONAL",
    "TIME_TRUNCATE_FRACTIONAL",
];

const ISOLATION_LEVELS: [&str; 4] = ["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"];

/// A value that a client gives.
#[derive(Debug)]
pub enum Value<'a> {
    Number(u64),
    Text(Cow<'a, str>),
    Word(&'a str),
    /// What becomes of the present SQL modes, as it is printed.
    ChangedModes(String),
}

/// What a variable may be set to.
enum Setting {
    /// 0 or 1.
    Switch,
    /// Up to this.
    Number(u64),
    Modes,
    IsolationLevel,
    TimeZone,
    /// A collation of utf8mb4.
    Collation,
    /// It is utf8mb4, and stays so.
    Charset,
    /// It is off, and stays so.
    Off,
    /// It changes nothing that the gateway lets through.
    Ignored,
}

fn setting(name: &str) -> Option<Setting> {
    let name = name.to_ascii_lowercase();
    Some(match &name[..] {
        "autocommit"
        | "foreign_key_checks"
        | "unique_checks"
        | "sql_safe_updates"
        | "transaction_read_only"
        | "tx_read_only" => Setting::Switch,
        "innodb_lock_wait_timeout"
        | "interactive_timeout"
        | "lock_wait_timeout"
        | "net_read_timeout"
        | "net_write_timeout"
        | "wait_timeout"
        | "max_statement_time" => Setting::Number(LONGEST_TIMEOUT),
        "max_execution_time" => Setting::Number(u32::MAX.into()),
        "sql_select_limit" => Setting::Number(u64::MAX),
        "group_concat_max_len" => Setting::Number(LONGEST_GROUP),
        "sql_mode" => Setting::Modes,
        "transaction_isolation" | "tx_isolation" => Setting::IsolationLevel,
        "time_zone" => Setting::TimeZone,
        "collation_connection" => Setting::Collation,
        "character_set_client" | "character_set_connection" | "character_set_results" => Setting::Charset,
        "sql_auto_is_null" | "profiling" => Setting::Off,
        "session_track_schema"
        | "session_track_system_variables"
        | "session_track_transaction_info"
        | "session_track_state_change"
        | "session_track_gtids"
        | "sql_notes" => Setting::Ignored,
        _ => return None,
    })
}

/// `name = value` as it is sent; None, where it is so already.
///
/// # Errors
/// What may not be set, or not to this.
pub fn printed(name: &str, value: &Value<'_>) -> Result<Option<String>, Refusal> {
    let setting = setting(name).ok_or_else(|| Refusal::word("SET of", name))?;
    let wrong = || Refusal::word("such value of the setting", name);
    let name = name.to_ascii_lowercase();
    let value = match setting {
        Setting::Switch => switch(value).ok_or_else(wrong)?.to_string(),
        Setting::Number(most) => match value {
            Value::Number(number) if *number <= most => number.to_string(),
            Value::Word(word) if word.eq_ignore_ascii_case("DEFAULT") && name != "group_concat_max_len" => {
                "DEFAULT".into()
            }
            _ => return Err(wrong()),
        },
        Setting::Modes => modes(value).ok_or_else(wrong)?,
        Setting::IsolationLevel => {
            let level = text(value).ok_or_else(wrong)?;
            let known = ISOLATION_LEVELS.iter().find(|known| known.eq_ignore_ascii_case(level));
            format!("'{}'", known.ok_or_else(wrong)?)
        }
        Setting::TimeZone => quoted(text(value).filter(|zone| is_time_zone(zone)).ok_or_else(wrong)?),
        Setting::Collation => match collation(text(value).ok_or_else(wrong)?)? {
            Some(collation) => collation,
            None => return Ok(None),
        },
        Setting::Charset => {
            let is_null = matches!(value, Value::Word(word) if word.eq_ignore_ascii_case("NULL"));
            if !is_null || name != "character_set_results" {
                charset(text(value).ok_or_else(wrong)?)?;
            }
            return Ok(None);
        }
        Setting::Off if switch(value) == Some(0) => return Ok(None),
        Setting::Off => return Err(wrong()),
        Setting::Ignored => return Ok(None),
    };
    Ok(Some(format!("@@session.{name} = {value}")))
}

/// `NAMES` with this collation, as it is sent; None, where it is so already.
///
/// # Errors
/// A collation of another character set.
pub fn names(asked: Option<&str>) -> Result<Option<String>, Refusal> {
    let printed = |collation| format!("@@session.collation_connection = {collation}");
    Ok(asked.map(collation).transpose()?.flatten().map(printed))
}

/// Only utf8mb4, and what is a part of it, may be said to be a client's.
///
/// # Errors
/// Another one.
pub fn charset(name: &str) -> Result<(), Refusal> {
    match ["utf8mb4", "utf8", "utf8mb3"].iter().any(|known| known.eq_ignore_ascii_case(name)) {
        true => Ok(()),
        false => Err(Refusal::of("character set but utf8mb4")),
    }
}

/// A collation as it is printed; None for those of utf8mb3, which utf8mb4 has others for.
fn collation(name: &str) -> Result<Option<String>, Refusal> {
    const LONGEST: usize = 64;
    let is_word =
        |name: &str| name.len() <= LONGEST && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let name = name.to_ascii_lowercase();
    match () {
        () if name.starts_with("utf8mb4_") && is_word(&name) => Ok(Some(name)),
        () if name.starts_with("utf8_") || name.starts_with("utf8mb3_") => Ok(None),
        () => Err(Refusal::of("collation but one of utf8mb4")),
    }
}

fn switch(value: &Value<'_>) -> Option<u8> {
    let word = match value {
        Value::Number(0) => return Some(0),
        Value::Number(1) => return Some(1),
        Value::Word(word) => word,
        Value::Text(text) => &**text,
        Value::Number(_) | Value::ChangedModes(_) => return None,
    };
    let is = |known: &[&str]| known.iter().any(|known| word.eq_ignore_ascii_case(known));
    if is(&["ON", "TRUE", "1"]) {
        return Some(1);
    }
    is(&["OFF", "FALSE", "0"]).then_some(0)
}

fn text<'a>(value: &'a Value<'_>) -> Option<&'a str> {
    match value {
        Value::Text(text) => Some(text),
        Value::Word(word) => Some(word),
        Value::Number(_) | Value::ChangedModes(_) => None,
    }
}

fn modes(value: &Value<'_>) -> Option<String> {
    match value {
        Value::ChangedModes(printed) => Some(printed.clone()),
        Value::Number(_) => None,
        Value::Text(_) | Value::Word(_) => {
            let modes = known_modes(text(value)?)?;
            Some(format!("CONCAT_WS(',', '{modes}', {})", FIXED.map(kept_mode).join(", ")))
        }
    }
}

/// An SQL mode where the session has it, NULL where not, as it is printed.
pub fn kept_mode(mode: &str) -> String {
    format!("IF(FIND_IN_SET('{mode}', @@session.sql_mode), '{mode}', NULL)")
}

/// SQL modes with commas between them, as they are printed; None, where one of them may not be changed.
pub fn known_modes(written: &str) -> Option<String> {
    let mut known = Vec::new();
    for mode in written.split(',').map(str::trim).filter(|mode| !mode.is_empty()) {
        // Which stands for several of them.
        let all = MODES.iter().filter(|mode| !FIXED.contains(mode)).chain(&["TRADITIONAL"]);
        known.push(*all.into_iter().find(|known| known.eq_ignore_ascii_case(mode))?);
    }
    Some(known.join(","))
}

/// `SYSTEM`, `+01:00` or `Europe/Berlin`.
fn is_time_zone(zone: &str) -> bool {
    const LONGEST: usize = 64;
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b':' | b'/' | b'_');
    !zone.is_empty() && zone.len() <= LONGEST && zone.bytes().all(belongs)
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    append_text(&mut out, text);
    out
}
