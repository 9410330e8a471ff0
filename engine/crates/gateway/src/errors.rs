//! Packets that the gateway sends to a client: errors of the gateway, and the server's answers without text that could
//! quote data.

use base::error::{Failure, Result};
use mysql::bytes::{Reader, append_length};
use mysql::packet::{self, OkPacket, STATE, ServerError};

/// The status flags that the gateway passes on to clients: IN_TRANSACTION, AUTOCOMMIT, MORE_RESULTS and
/// IN_READONLY_TRANSACTION, which drivers need. Other flags could show how the server executed a statement. In the
/// server's answer to the login, other flags could also be out of date, because the gateway changes the session's
/// settings after this answer.
const STATUS_FOR_DRIVERS: u16 = 1 | 1 << 1 | 1 << 3 | 1 << 13;
/// The code ER_UNKNOWN_ERROR. It replaces the code of every server error that has no entry in `known_message`.
const UNKNOWN: u16 = 1105;
const WITHHELD: &str = "The server refused this; the gateway withholds the server's message, which may quote data";
const CLASS: usize = 2;

/// An error that the gateway sends to a client, as a MySQL error packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrPacket {
    kind: Kind,
    message: String,
}

type Kind = (u16, &'static [u8; STATE]);

pub const TOO_MANY_CONNECTIONS: Kind = (1040, b"08004");
pub const ACCESS_DENIED: Kind = (1045, b"28000");
pub const UNKNOWN_COMMAND: Kind = (1047, b"08S01");
pub const PACKET_TOO_LARGE: Kind = (1153, b"08S01");
pub const SERVER_LOST: Kind = (1158, b"08S01");
pub const READ_INTERRUPTED: Kind = (1159, b"08S01");
pub const REFUSED: Kind = (1227, b"42000");
const UNKNOWN_STATEMENT: Kind = (1243, b"HY000");
pub const TOO_MANY_STATEMENTS: Kind = (1461, b"42000");
pub const NEEDS_PREPARING: Kind = (1615, b"HY000");
const MALFORMED: Kind = (1835, b"08S01");
pub const TLS_REQUIRED: Kind = (3159, b"08004");
pub const IDLE: Kind = (4031, b"HY000");

impl ErrPacket {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        ErrPacket { kind, message: message.into() }
    }

    /// Return the error for a command, or a part of a command, that accounts with encrypted columns may not send.
    /// `description` completes the sentence "the gateway does not pass on …".
    pub fn not_allowed(description: &str) -> Self {
        Self::new(REFUSED, format!("the gateway does not pass on {description} for this account"))
    }

    pub fn unknown_statement() -> Self {
        Self::new(UNKNOWN_STATEMENT, "the gateway has no prepared statement with this number")
    }

    pub fn too_large(description: &str, limit: usize) -> Self {
        Self::new(
            PACKET_TOO_LARGE,
            format!("the gateway accepts {description} of at most {limit} bytes from this account"),
        )
    }

    pub fn unreachable(failure: &Failure) -> Self {
        Self::new(SERVER_LOST, format!("the server behind the gateway cannot be reached: {}", failure.detail))
    }

    /// Append the error packet. It contains the SQL state only if `with_state` is true. Clients expect an SQL state
    /// once they have announced the protocol of MySQL 4.1.
    pub fn append(&self, sequence: u8, with_state: bool, out: &mut Vec<u8>) {
        let (code, state) = self.kind;
        let state = with_state.then_some(state);
        ServerError { code, state, message: self.message.as_bytes() }.append(sequence, out);
    }
}

impl From<Failure> for ErrPacket {
    fn from(failure: Failure) -> Self {
        Self::new(MALFORMED, format!("the gateway ended this session: {}", failure.detail))
    }
}

/// Append the server's OK packet without its text, and with 0 warnings: the text and the number of warnings could
/// depend on data. The id that the server generated for a new row is removed, unless `shows_id` is true.
pub fn append_bare_ok(payload: &[u8], shows_id: bool, sequence: u8, out: &mut Vec<u8>) -> Result<()> {
    let mut reader = Reader::new(payload);
    let OkPacket { changed, id, status } = OkPacket::read(&mut reader)?;
    let _warnings = reader.u16()?;
    packet::append(sequence, out, |out| {
        out.push(payload[0]);
        append_length(out, changed);
        append_length(out, if shows_id { id } else { 0 });
        out.extend_from_slice(&(status & STATUS_FOR_DRIVERS).to_le_bytes());
        out.extend_from_slice(&[0; 2]);
    })
}

/// Append the server's EOF packet with 0 warnings, because the number of warnings could depend on data.
pub fn append_bare_eof(payload: &[u8], sequence: u8, out: &mut Vec<u8>) -> Result<()> {
    let [low, high] = (packet::eof_status(payload)? & STATUS_FOR_DRIVERS).to_le_bytes();
    packet::append(sequence, out, |out| out.extend_from_slice(&[payload[0], 0, 0, low, high]))
}

/// Append the first packet of the server's answer to PREPARE (the statement's number, and how many columns and
/// parameters it has). The number of warnings becomes 0, because it could depend on data.
pub fn append_bare_prepared(payload: &[u8], sequence: u8, out: &mut Vec<u8>) -> Result<()> {
    const NUMBERS: usize = 1 + 4 + 2 + 2;
    let numbers = Reader::new(payload).bytes(NUMBERS)?;
    packet::append(sequence, out, |out| {
        out.extend_from_slice(numbers);
        out.extend_from_slice(&[0; 3]);
    })
}

/// Append a server's error with the gateway's text instead of the server's. An error without an entry in
/// `known_message` gets the code 1105, and keeps only the class (the first two characters) of its SQL state.
pub fn append_server_error(payload: &[u8], sequence: u8, out: &mut Vec<u8>) -> Result<()> {
    let ServerError { code, state: original, .. } = ServerError::parse(payload)?;
    let (code, message, kept) =
        known_message(code).map_or((UNKNOWN, WITHHELD, CLASS), |message| (code, message, STATE));
    let mut state = *b"HY000";
    if let Some(original) = original
        && original.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    {
        state = *b"00000";
        state[..kept].copy_from_slice(&original[..kept]);
    }
    ServerError { code, state: Some(&state), message: message.as_bytes() }.append(sequence, out);
    Ok(())
}

/// Return the gateway's text for an error code that applications or drivers handle. Return None for other codes.
/// MariaDB and MySQL share the codes up to 1879. For the higher codes with different meanings on the two servers (4025,
/// 4031 and 4151), the text names both meanings. Sources: sql/share/errmsg-utf8.txt in MariaDB's repository and
/// share/messages_to_clients.txt in MySQL's.
///
/// A code tells the client whether and how a statement failed, which may depend on data. The person who approves a
/// statement accepts that the client learns this.
fn known_message(code: u16) -> Option<&'static str> {
    Some(match code {
        1040 => "Too many connections at the server",
        1044 => "Access denied to this database",
        1045 | 1698 => "Access denied for this account",
        1046 => "No database selected",
        1047 => "Unknown command",
        1048 => "A column cannot be null",
        1049 => "Unknown database",
        1053 => "The server is shutting down",
        1054 => "Unknown column",
        1062 | 1586 => "Duplicate entry for a key",
        1064 => "You have an error in your SQL syntax",
        1114 => "A table, or the disk, is full",
        1129 | 1130 => "The server accepts no connections from this host",
        1136 => "Column count does not match value count",
        1142 => "Command denied for a table",
        1143 => "Command denied for a column",
        1146 => "A table does not exist",
        1153 => "A packet was larger than the server's max_allowed_packet",
        1158..=1161 => "The server could not read from or write to this connection",
        1193 => "Unknown system variable",
        1203 | 1226 => "The account has used up a resource at the server",
        1205 => "Lock wait timeout exceeded; try restarting transaction",
        1213 => "Deadlock found when trying to get lock; try restarting transaction",
        1216 | 1452 => "Cannot add or update a row: a foreign key constraint fails",
        1217 | 1451 => "Cannot delete or update a row: a foreign key constraint fails",
        1227 => "Access denied: a privilege is missing",
        1231 => "A variable cannot be set to this value",
        1242 => "A subquery returns more than one row",
        1243 => "Unknown prepared statement",
        1251 | 1275 => "The server requires an authentication method that this client does not use",
        1264 => "A value is out of range for its column",
        1265 => "A value was truncated for its column",
        1290 | 1836 => "The server is read-only, or runs with an option that forbids this",
        1292 => "A value is incorrect for its type",
        1298 => "Unknown or incorrect time zone",
        1305 => "A function or savepoint does not exist",
        1317 => "Query execution was interrupted",
        1364 => "A field has no default value",
        1365 => "Division by 0",
        1366 => "A value is incorrect for its column",
        1406 => "A value is too long for its column",
        1461 => "The server has too many prepared statements",
        1568 => "Transaction characteristics cannot be changed within a transaction",
        1615 => "The prepared statement needs to be prepared again",
        1644 => "A trigger raised a condition",
        1690 => "A value is out of range",
        1792 => "Cannot execute statement in a READ ONLY transaction",
        1820 | 1862 => "The account's password has expired",
        1927 | 3169 => "The connection was killed",
        1969 | 3024 => "Query execution was interrupted: it took too long",
        3101 => "The transaction was rolled back; try restarting transaction",
        3118 => "The account is locked",
        3159 => "Connections using insecure transport are prohibited",
        3572 => "A row is locked, and the statement has NOWAIT",
        3819 => "A CHECK constraint is violated",
        // MariaDB calls this code ER_CONSTRAINT_FAILED, and MySQL ER_INNODB_AUTOEXTEND_SIZE_OUT_OF_RANGE.
        4025 => "On MariaDB: a CHECK constraint is violated. On MySQL: AUTOEXTEND_SIZE is out of range",
        // MySQL calls this code ER_CLIENT_INTERACTION_TIMEOUT, and MariaDB ER_REFERENCED_TRG_DOES_NOT_EXIST.
        4031 => "On MySQL: the server disconnected an inactive client. On MariaDB: a referenced trigger does not exist",
        // MariaDB calls this code ER_ACCOUNT_HAS_BEEN_LOCKED, and MySQL ER_BULK_PARSER_INCOMPLETE_ESCAPE_SEQUENCE.
        4151 => "On MariaDB: the account is locked. On MySQL: bulk data ends within an escape sequence",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::constants::CapabilityFlags;
    use mysql_common::io::ParseBuf;
    use mysql_common::packets;
    use mysql_common::proto::MyDeserialize;

    #[test]
    fn gateway_removes_texts_and_insert_ids_from_ok_packets() {
        let mut out = Vec::new();
        append_bare_ok(b"\x00\x03\xfc\x2c\x01\x02\x00\x01\x00Rows matched: 3", false, 1, &mut out).unwrap();
        append_bare_ok(b"\x00\x03\xfc\x2c\x01\xff\xff\x01\x00Rows matched: 3", true, 1, &mut out).unwrap();
        append_bare_eof(b"\xfe\x09\x00\x33\xff", 2, &mut out).unwrap();
        append_bare_prepared(b"\x00\x07\0\0\0\x01\0\x02\0\0\x09\0", 3, &mut out).unwrap();
        let expected = [
            &b"\x07\0\0\x01\x00\x03\x00\x02\x00\x00\x00"[..],
            b"\x09\0\0\x01\x00\x03\xfc\x2c\x01\x0b\x20\x00\x00",
            b"\x05\0\0\x02\xfe\x00\x00\x03\x20",
            b"\x0c\0\0\x03\x00\x07\0\0\0\x01\0\x02\0\0\0\0",
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn message_explains_both_meanings_of_an_error_code_that_mariadb_and_mysql_use_differently() {
        for code in [4025, 4031, 4151] {
            let message = known_message(code).unwrap();
            assert!(message.contains("On MariaDB: ") && message.contains("On MySQL: "), "{message}");
        }
    }

    #[test]
    fn client_gets_known_error_codes_of_the_server_but_never_the_error_text() {
        for (payload, code, state, message) in [
            (&b"\xff\x26\x04#23000Duplicate entry 'Brien'"[..], 1062, "23000", "Duplicate entry for a key"),
            (b"\xff\x6c\x06#45001Brien", 1644, "45001", "A trigger raised a condition"),
            (b"\xff\x51\x04#23S77XPATH syntax error: 'Brien'", 1105, "23000", WITHHELD),
            (b"\xff\x51\x04#sm'thXPATH syntax error: 'Brien'", 1105, "HY000", WITHHELD),
            (b"\xff\x51\x04XPATH syntax error: 'Brien'", 1105, "HY000", WITHHELD),
        ] {
            let mut out = Vec::new();
            append_server_error(payload, 1, &mut out).unwrap();
            let packet =
                packets::ErrPacket::deserialize(CapabilityFlags::CLIENT_PROTOCOL_41, &mut ParseBuf(&out[4..])).unwrap();
            let error = packet.server_error();
            let text = error.message_str().into_owned();
            assert_eq!((error.error_code(), error.sql_state_ref().unwrap().as_str().as_ref()), (code, state));
            assert_eq!(text, message);
        }
    }
}
