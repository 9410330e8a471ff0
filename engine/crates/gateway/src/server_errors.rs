//! A server's errors in the gateway's words. A server's own words may quote rows. Its error numbers are passed on where
//! programs act on them.

use base::error::Result;
use mysql::packet::{STATE, ServerError};

/// ER_UNKNOWN_ERROR, for numbers that are not listed.
const UNKNOWN: u16 = 1105;
const WORDLESS: &str = "The server refused this; the gateway holds back its words, which may quote data";
/// The length of an SQL state's class.
const CLASS: usize = 2;

/// Append a server's error for a guarded account. An error that is not listed keeps the class of its SQL state.
///
/// # Errors
/// `protocol`.
pub fn append_server_error(payload: &[u8], sequence: u8, out: &mut Vec<u8>) -> Result<()> {
    let ServerError { code, state: told, .. } = ServerError::parse(payload)?;
    let mut state = *b"HY000";
    if let Some(told) = told {
        let kept = if words(code).is_some() { STATE } else { CLASS };
        if told.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()) {
            state = *b"00000";
            state[..kept].copy_from_slice(&told[..kept]);
        }
    }
    let (code, words) = words(code).map_or((UNKNOWN, WORDLESS), |words| (code, words));
    ServerError { code, state: Some(&state), words: words.as_bytes() }.append(sequence, out);
    Ok(())
}

/// The words for a number that is passed on. MariaDB and MySQL agree up to 1879; what follows is of one of them, or of both by
/// chance. A number shows no more than whether the statement succeeded, which is in the hands of whoever approved it.
fn words(code: u16) -> Option<&'static str> {
    of_names(code).or_else(|| of_statements(code)).or_else(|| of_values(code)).or_else(|| of_sessions(code))
}

/// Errors about names and privileges.
fn of_names(code: u16) -> Option<&'static str> {
    Some(match code {
        1044 => "Access denied to this database",
        1046 => "No database selected",
        1049 => "Unknown database",
        1050 => "There is a table of this name",
        1051 => "Unknown table",
        1052 => "A column's name is ambiguous",
        1054 => "Unknown column",
        1060 => "A column's name is there twice",
        1066 => "A table's name or alias is there twice",
        1109 => "Unknown table in this statement",
        1115 => "Unknown character set",
        1142 => "Command denied for a table",
        1143 => "Command denied for a column",
        1146 => "A table does not exist",
        1193 => "Unknown system variable",
        1227 => "Access denied: a privilege is missing",
        1247 => "A reference is not supported",
        1273 => "Unknown collation",
        1298 => "Unknown or incorrect time zone",
        1305 => "A function or savepoint does not exist",
        1356 => "A view is invalid, or its definer lacks a privilege",
        1370 => "Routine denied",
        1630 => "A function does not exist",
        _ => return None,
    })
}

/// Errors about statements, whatever the rows are.
fn of_statements(code: u16) -> Option<&'static str> {
    Some(match code {
        1055 => "A column is neither grouped by nor aggregated (only_full_group_by)",
        1056 => "Cannot group by this column",
        1064 => "You have an error in your SQL syntax",
        1065 => "Query was empty",
        1093 => "A table that is changed cannot be read in the same statement",
        1104 => "The statement would examine more rows than MAX_JOIN_SIZE",
        1110 => "A column is specified twice",
        1111 => "Invalid use of a group function",
        1116 => "Too many tables in a join",
        1136 => "Column count does not match value count",
        1140 => "Columns with and without aggregation are mixed without GROUP BY",
        1175 => "Safe update mode: a WHERE that uses a key is needed",
        1210 => "Incorrect arguments",
        1221 => "Incorrect usage",
        1222 => "The SELECTs have different numbers of columns",
        1231 => "A variable cannot be set to this value",
        1232 => "Incorrect argument type to a variable",
        1235 => "The server does not support this yet",
        1238 => "A variable cannot be set in this way",
        1241 => "An operand has the wrong number of columns",
        1243 => "Unknown prepared statement",
        1248 => "Every derived table must have an alias",
        1250 => "A table from one of the SELECTs cannot be used here",
        1253 => "A collation is not valid for this character set",
        1267 | 1270 | 1271 => "Illegal mix of collations",
        1288 => "The target of this statement is not updatable",
        1390 => "A prepared statement contains too many placeholders",
        1393 => "A join view cannot be changed in more than one base table",
        1394 => "A join view cannot be inserted into without a list of columns",
        1395 => "Rows cannot be deleted from a join view",
        1415 => "A result set is not allowed here",
        1442 => "A table is used by the statement that fired this trigger",
        1471 => "The target of this statement is not insertable",
        1582..=1584 => "Incorrect parameters in a call to a native function",
        1615 => "The prepared statement needs to be prepared again",
        1906 | 3105 => "A generated column cannot be given a value",
        4078 => "Illegal types of parameters for an operation",
        _ => return None,
    })
}

/// Errors about values and constraints.
fn of_values(code: u16) -> Option<&'static str> {
    Some(match code {
        1048 => "A column cannot be null",
        1062 | 1586 => "Duplicate entry for a key",
        1216 | 1452 => "Cannot add or update a row: a foreign key constraint fails",
        1217 | 1451 => "Cannot delete or update a row: a foreign key constraint fails",
        1242 => "A subquery returns more than one row",
        1264 => "A value is out of range for its column",
        1265 => "A value was truncated for its column",
        1292 => "A value is incorrect for its type",
        1300 => "Invalid character string",
        1364 => "A field has no default value",
        1365 => "Division by 0",
        1366 => "A value is incorrect for its column",
        1369 => "CHECK OPTION of a view failed",
        1406 => "A value is too long for its column",
        1411 => "A value is incorrect for a function",
        1526 => "The table has no partition for a value",
        1557 => "A foreign key constraint would lead to a duplicate entry",
        1644 => "A trigger raised a condition",
        1690 => "A value is out of range",
        3140 | 3141 => "Invalid JSON",
        3819 | 4025 => "A CHECK constraint is violated",
        _ => return None,
    })
}

/// Errors that end a statement, a transaction, a login or a session.
fn of_sessions(code: u16) -> Option<&'static str> {
    Some(match code {
        1040 => "Too many connections at the server",
        1043 => "Bad handshake",
        1045 | 1698 => "Access denied for this account",
        1047 => "Unknown command",
        1053 => "The server is shutting down",
        1094 => "Unknown connection",
        1095 => "Not the owner of this connection",
        1114 => "A table, or the disk, is full",
        1129 | 1130 => "The server takes no connection from this host",
        1153 => "A packet was larger than the server's max_allowed_packet",
        1158..=1161 => "The server could not read from or write to this connection",
        1180 => "An error during COMMIT",
        1203 | 1226 => "The account has used up a resource at the server",
        1205 => "Lock wait timeout exceeded; try restarting transaction",
        1206 => "The number of locks is exhausted",
        1207 => "An update lock cannot be acquired in a READ UNCOMMITTED transaction",
        1213 => "Deadlock found when trying to get lock; try restarting transaction",
        1223 => "A conflicting read lock is held",
        1251 | 1275 => "The server wants another authentication than this client's",
        1290 | 1836 => "The server is read-only, or runs with an option that forbids this",
        1317 => "Query execution was interrupted",
        1461 => "The server holds too many prepared statements",
        1568 => "Transaction characteristics cannot be changed within a transaction",
        1637 => "Too many active transactions",
        1792 => "Cannot execute statement in a READ ONLY transaction",
        1820 | 1862 => "The account's password has expired",
        1927 | 3169 => "The connection was killed",
        1969 | 3024 => "Query execution was interrupted: it took too long",
        3101 => "The transaction was rolled back; try restarting transaction",
        3118 | 4151 => "The account is locked",
        3159 => "Connections using insecure transport are prohibited",
        3572 => "A row is locked, and NOWAIT is set",
        4031 => "The client was disconnected by the server because of inactivity",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(payload: &[u8]) -> (u16, String, String) {
        let mut out = Vec::new();
        append_server_error(payload, 1, &mut out).unwrap();
        assert_eq!((out[0] as usize, out[3], out[4], out[7]), (out.len() - 4, 1, 0xFF, b'#'));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (u16::from_le_bytes([out[5], out[6]]), text(&out[8..13]), text(&out[13..]))
    }

    #[test]
    fn listed_numbers_go_on_in_our_words() {
        for (payload, code, state, start) in [
            (&b"\xff\x26\x04#23000Duplicate entry 'O'Brien' for key 'name'"[..], 1062, "23000", "Duplicate entry for"),
            (b"\xff\xbd\x04#40001Deadlock found O'Brien", 1213, "40001", "Deadlock found when"),
            (b"\xff\x9a\x06#22003BIGINT value is out of range in 'O'Brien'", 1690, "22003", "A value is out of"),
            (b"\xff\x6c\x06#45001O'Brien", 1644, "45001", "A trigger raised"),
            (b"\xff\xb9\x0f#HY000O'Brien", 4025, "HY000", "A CHECK constraint"),
        ] {
            let (told_code, told_state, words) = told(payload);
            assert_eq!((told_code, told_state.as_str()), (code, state));
            assert!(words.starts_with(start) && !words.contains("Brien"), "{words}");
        }
    }

    #[test]
    fn others_are_one_number_and_keep_the_class_of_their_state() {
        for (payload, state) in [
            (&b"\xff\x51\x04#23S77XPATH syntax error: '~smith'"[..], "23000"),
            (b"\xff\x51\x04#sm'thXPATH syntax error: '~smith'", "HY000"),
            (b"\xff\x51\x04XPATH syntax error: '~smith'", "HY000"),
        ] {
            assert_eq!(told(payload), (1105, state.into(), WORDLESS.into()));
        }
    }

    proptest! {
        #[test]
        fn no_word_of_a_servers_goes_on(code: u16, message in "[a-z]{1,40}QXQ[a-z]{0,40}") {
            let (_, _, words) = told(&[&b"\xff"[..], &code.to_le_bytes(), b"#42000", message.as_bytes()].concat());
            prop_assert!(!words.contains("QXQ"));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = append_server_error(&bytes, 0, &mut Vec::new());
        }
    }
}
