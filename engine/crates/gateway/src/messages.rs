//! Errors of the gateway's own, and short answers of a server without what could show data.

use crate::statements::Refusal;
use base::error::{Class, Failure, Result};
use mysql::bytes::{Reader, append_length};
use mysql::packet::{self, OkPacket, ServerError};

/// The flags of a status that drivers need: IN_TRANSACTION, AUTOCOMMIT, MORE_RESULTS and IN_READONLY_TRANSACTION. Others show how
/// a statement was carried out. NO_BACKSLASH_ESCAPES is of the session as it was before its settings were pinned.
const STATUS_FOR_DRIVERS: u16 = 1 | 1 << 1 | 1 << 3 | 1 << 13;

const NO_WARNINGS: [u8; 2] = [0; 2];

/// An error packet of the gateway's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrPacket {
    /// MySQL's number for the most similar error.
    code: u16,
    state: &'static [u8; 5],
    message: String,
}

impl ErrPacket {
    /// Refuse a command or a part of one.
    pub fn not_passed(why: &str) -> Self {
        // ER_SPECIFIC_ACCESS_DENIED_ERROR
        Self::new(1227, b"42000", format!("the gateway lets no {why} pass for this account"))
    }

    /// Refuse a statement.
    pub fn refused(why: &Refusal) -> Self {
        Self::new(1227, b"42000", why.to_string())
    }

    /// Ask for a prepared statement to be prepared again, since the rules have changed.
    pub fn prepare_again() -> Self {
        // ER_NEED_REPREPARE
        Self::new(1615, b"HY000", "the gateway's rules have changed: prepare the statement again".into())
    }

    /// Refuse what the rules forbid.
    pub fn denied(message: &str) -> Self {
        Self::new(1227, b"42000", message.into())
    }

    /// Refuse a login.
    pub fn no_entry(message: &str) -> Self {
        // ER_ACCESS_DENIED_ERROR
        Self::new(1045, b"28000", message.into())
    }

    /// Refuse a plain client where TLS is required.
    pub fn tls_required() -> Self {
        // ER_SECURE_TRANSPORT_REQUIRED
        Self::new(3159, b"08004", "the gateway takes connections under TLS only".into())
    }

    /// Refuse a command that the gateway does not know or cannot pass on.
    pub fn command(message: &str) -> Self {
        // ER_UNKNOWN_COM_ERROR
        Self::new(1047, b"08S01", message.into())
    }

    /// Refuse a connection beyond a limit.
    pub fn too_many_connections(limit: usize, of: &str) -> Self {
        // ER_CON_COUNT_ERROR
        Self::new(1040, b"08004", format!("Too many connections: the gateway takes {limit} {of}"))
    }

    /// Refuse to prepare more statements than the limit.
    pub fn too_many_statements(limit: usize) -> Self {
        // ER_MAX_PREPARED_STMT_COUNT_REACHED
        Self::new(1461, b"42000", format!("the gateway keeps {limit} prepared statements of a session: close some"))
    }

    /// Refuse a command, or its parameters, beyond a limit of size.
    pub fn too_large(what: &str, limit: usize) -> Self {
        // ER_NET_PACKET_TOO_LARGE
        Self::new(1153, b"08S01", format!("the gateway takes {what} of at most {limit} bytes from this account"))
    }

    /// End a session that was idle for too long.
    pub fn idle() -> Self {
        // ER_CLIENT_INTERACTION_TIMEOUT
        Self::new(4031, b"HY000", "the gateway ended this session, which was idle for too long".into())
    }

    /// End a session whose command did not arrive completely in time.
    pub fn unfinished() -> Self {
        // ER_NET_READ_INTERRUPTED
        Self::new(1159, b"08S01", "the gateway ended this session: a command took too long to come".into())
    }

    /// Refuse the number of a statement that was not prepared here.
    pub fn unknown_statement() -> Self {
        // ER_UNKNOWN_STMT_HANDLER
        Self::new(1243, b"HY000", "the gateway knows no prepared statement of this number".into())
    }

    /// End a session for an error of the protocol or another failure.
    pub fn broken(failure: &Failure) -> Self {
        // ER_MALFORMED_PACKET
        Self::new(1835, b"08S01", format!("the gateway ended this session: {}", failure.detail))
    }

    /// End a session whose server was lost.
    pub fn server_lost() -> Self {
        // ER_NET_READ_ERROR
        Self::new(1158, b"08S01", "the server behind the gateway was lost".into())
    }

    /// Refuse a connection whose server cannot be reached.
    pub fn unreachable(failure: &Failure) -> Self {
        Self::new(1158, b"08S01", format!("the server behind the gateway cannot be reached: {}", failure.detail))
    }

    fn new(code: u16, state: &'static [u8; 5], message: String) -> Self {
        ErrPacket { code, state, message }
    }

    /// Append the packet. `with_state`: the client has announced the protocol of MySQL 4.1.
    pub fn append(&self, sequence: u8, with_state: bool, out: &mut Vec<u8>) {
        let state = with_state.then_some(self.state);
        ServerError { code: self.code, state, words: self.message.as_bytes() }.append(sequence, out);
    }
}

/// Append an OK packet without text and warnings, and without the id of a new row unless `tells_id`.
///
/// # Errors
/// `protocol`.
pub fn append_bare_ok(payload: &[u8], tells_id: bool, sequence: u8, out: &mut Vec<u8>) -> Result<()> {
    let mut reader = Reader::new(payload);
    let OkPacket { changed, id, status } = OkPacket::read(&mut reader)?;
    let _warnings = reader.u16()?;
    append(sequence, out, |out| {
        out.push(payload[0]);
        append_length(out, changed);
        append_length(out, if tells_id { id } else { 0 });
        out.extend_from_slice(&(status & STATUS_FOR_DRIVERS).to_le_bytes());
        out.extend_from_slice(&NO_WARNINGS);
    });
    Ok(())
}

/// Append an EOF packet without warnings.
///
/// # Errors
/// `protocol`.
pub fn append_bare_eof(payload: &[u8], sequence: u8, out: &mut Vec<u8>) -> Result<()> {
    let [low, high] = (packet::eof_status(payload)? & STATUS_FOR_DRIVERS).to_le_bytes();
    append_short(&[payload[0], NO_WARNINGS[0], NO_WARNINGS[1], low, high], sequence, out);
    Ok(())
}

/// Append the first packet of an answer to a preparation: the statement's number and its counts of columns and parameters.
///
/// # Errors
/// `protocol`.
pub fn append_bare_prepared(payload: &[u8], sequence: u8, out: &mut Vec<u8>) -> Result<()> {
    const NUMBERS: usize = 1 + 4 + 2 + 2;
    let numbers = Reader::new(payload).bytes(NUMBERS)?;
    append_short(&[numbers, &[0], &NO_WARNINGS].concat(), sequence, out);
    Ok(())
}

/// Append a packet of a few bytes.
pub fn append_short(payload: &[u8], sequence: u8, out: &mut Vec<u8>) {
    append(sequence, out, |out| out.extend_from_slice(payload));
}

/// Append a short packet, whose length always fits.
fn append(sequence: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    packet::append(sequence, out, write).expect("a packet of less than 16 MB");
}

/// Return the failure for a packet that is too long to be processed.
pub fn too_long(what: &str) -> Failure {
    Failure::new(Class::Protocol, format!("{what} of 16 MB or more cannot be encrypted or checked"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::constants::CapabilityFlags;
    use mysql_common::io::ParseBuf;
    use mysql_common::packets::{self, CommonOkPacket, OkPacketDeserializer};
    use mysql_common::proto::MyDeserialize;
    use proptest::prelude::*;

    #[test]
    fn an_ok_tells_numbers_alone() {
        let mut out = Vec::new();
        let ok = b"\x00\x03\xfc\x2c\x01\x02\x00\x01\x00Rows matched: 3";
        append_bare_ok(ok, false, 1, &mut out).unwrap();
        assert_eq!(out, b"\x07\0\0\x01\x00\x03\x00\x02\x00\x00\x00");
        out.clear();
        append_bare_ok(ok, true, 1, &mut out).unwrap();
        let capabilities = CapabilityFlags::CLIENT_PROTOCOL_41;
        let theirs =
            OkPacketDeserializer::<CommonOkPacket>::deserialize(capabilities, &mut ParseBuf(&out[4..])).unwrap();
        let theirs = theirs.into_inner();
        assert_eq!((theirs.affected_rows(), theirs.last_insert_id(), theirs.info_ref()), (3, Some(300), None));
    }

    #[test]
    fn a_status_tells_no_more_than_drivers_go_by() {
        let mut out = Vec::new();
        append_bare_ok(b"\x00\x00\x00\xff\xff\x09\x00", false, 1, &mut out).unwrap();
        append_bare_eof(b"\xfe\x09\x00\x33\xff", 2, &mut out).unwrap();
        append_bare_prepared(b"\x00\x07\0\0\0\x01\0\x02\0\0\x09\0", 3, &mut out).unwrap();
        let expected = [
            &b"\x07\0\0\x01\x00\x00\x00\x0b\x20\x00\x00"[..],
            b"\x05\0\0\x02\xfe\x00\x00\x03\x20",
            b"\x0c\0\0\x03\x00\x07\0\0\0\x01\0\x02\0\0\0\0",
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn another_implementation_reads_an_error() {
        let mut out = Vec::new();
        ErrPacket::not_passed("function SLEEP").append(1, true, &mut out);
        let capabilities = CapabilityFlags::CLIENT_PROTOCOL_41;
        let packet = packets::ErrPacket::deserialize(capabilities, &mut ParseBuf(&out[4..])).unwrap();
        let error = packet.server_error();
        assert_eq!((error.error_code(), error.sql_state_ref().unwrap().as_str().as_ref()), (1227, "42000"));
        assert_eq!(error.message_str(), "the gateway lets no function SLEEP pass for this account");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), tells_id: bool) {
            let _ = append_bare_eof(&bytes, 0, &mut Vec::new());
            let _ = append_bare_prepared(&bytes, 0, &mut Vec::new());
            let _ = append_bare_ok(&[&[0], &bytes[..]].concat(), tells_id, 0, &mut Vec::new());
        }
    }
}
