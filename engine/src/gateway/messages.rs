//! What the gateway itself says to clients, and what it takes out of a server's short answers.

use crate::error::{Class, Failure, Result};
use crate::wire::mysql::bytes::Reader;
use crate::wire::mysql::packet::{self, HEADER};

/// Before the client has said what it can do, an error has no SQL state (MySQL Internals, "ERR_Packet").
const ERR: u8 = 0xFF;
/// The server's own limit of a message.
const LONGEST_MESSAGE: usize = 512;
/// Errors whose quotes hold names, or words of the client's own statement, and never a value of a row.
const ABOUT_NAMES: &[u16] = &[
    1044, // access denied to a database
    1045, // access denied
    1046, // no database selected
    1048, // column cannot be null
    1049, // unknown database
    1051, // unknown table
    1052, // column is ambiguous
    1054, // unknown column
    1064, // syntax
    1066, // not unique table or alias
    1110, // column specified twice
    1136, // column count does not match
    1142, // command denied for a table
    1143, // command denied for a column
    1146, // no such table
    1205, // lock wait timeout
    1213, // deadlock
    1305, // no such function
    1364, // field has no default
    1451, // a row is referenced
    1452, // no referenced row
];

/// An error of the gateway's own, as the protocol has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// MySQL's number for what is most like it.
    code: u16,
    state: &'static [u8; 5],
    message: String,
}

impl Complaint {
    /// What the fence does not let pass.
    pub fn fence(why: &impl std::fmt::Display) -> Self {
        // ER_SPECIFIC_ACCESS_DENIED_ERROR
        Self::new(1227, b"42000", format!("the gateway lets no {why} pass for this account"))
    }

    /// What the rules forbid.
    pub fn denied(message: &str) -> Self {
        Self::new(1227, b"42000", message.into())
    }

    /// Who may not come in.
    pub fn no_entry(message: &str) -> Self {
        // ER_ACCESS_DENIED_ERROR
        Self::new(1045, b"28000", message.into())
    }

    /// A client in plain where it must come under TLS.
    pub fn tls_required() -> Self {
        // ER_SECURE_TRANSPORT_REQUIRED
        Self::new(3159, b"08004", "the gateway takes connections under TLS only".into())
    }

    /// A command that the gateway does not know, or cannot pass on.
    pub fn command(message: &str) -> Self {
        // ER_UNKNOWN_COM_ERROR
        Self::new(1047, b"08S01", message.into())
    }

    /// Of a statement that was not prepared here.
    pub fn unknown_statement() -> Self {
        // ER_UNKNOWN_STMT_HANDLER
        Self::new(1243, b"HY000", "the gateway knows no prepared statement of this number".into())
    }

    /// Bytes that are not the protocol, and what else ends a session.
    pub fn broken(failure: &Failure) -> Self {
        // ER_MALFORMED_PACKET
        Self::new(1835, b"08S01", format!("the gateway ended this session: {}", failure.detail))
    }

    /// The server is gone.
    pub fn server_lost() -> Self {
        // ER_NET_READ_ERROR
        Self::new(1158, b"08S01", "the server behind the gateway was lost".into())
    }

    /// The server cannot be reached, for this reason.
    pub fn unreachable(failure: &Failure) -> Self {
        Self::new(1158, b"08S01", format!("the server behind the gateway cannot be reached: {}", failure.detail))
    }

    fn new(code: u16, state: &'static [u8; 5], message: String) -> Self {
        Complaint { code, state, message }
    }

    /// The whole packet. `with_state`: the client has said that it speaks the protocol of 4.1.
    pub fn append(&self, sequence: u8, with_state: bool, out: &mut Vec<u8>) {
        append_error(self.code, with_state.then_some(self.state), self.message.as_bytes(), sequence, out);
    }
}

fn append_error(code: u16, state: Option<&[u8; 5]>, message: &[u8], sequence: u8, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    out.push(ERR);
    out.extend_from_slice(&code.to_le_bytes());
    if let Some(state) = state {
        out.push(b'#');
        out.extend_from_slice(state);
    }
    out.extend_from_slice(&message[..message.len().min(LONGEST_MESSAGE)]);
    finish(&mut out[start..], sequence);
}

/// Short packets, whose length always fits.
fn finish(packet: &mut [u8], sequence: u8) {
    packet::finish(packet, sequence).expect("a packet of less than 16 MB");
}

/// A server's error, without the values that it may quote: only from the first quote on can they be, and what lies between
/// two quotes cannot be told apart from a value that holds one, or that was cut.
///
/// # Errors
/// `protocol`.
pub fn append_blanked(payload: &[u8], sequence: u8, out: &mut Vec<u8>) -> Result<()> {
    let mut reader = Reader::new(payload);
    reader.u8()?;
    let code = reader.u16()?;
    let state: Option<&[u8; 5]> = match reader.peek() {
        Some(b'#') => reader.bytes(6)?.last_chunk(),
        _ => None,
    };
    let words = reader.rest();
    let quote = words.iter().position(|byte| matches!(byte, b'\'' | b'"' | b'`'));
    match quote {
        Some(at) if !ABOUT_NAMES.contains(&code) => {
            let kept = &words[..at.min(LONGEST_MESSAGE / 2)];
            append_error(code, state, &[kept, b" (the gateway holds back what may be data)"].concat(), sequence, out);
        }
        _ => append_error(code, state, words, sequence, out),
    }
    Ok(())
}

/// An OK, or the one that ends rows, without its words, and without the id of a new row unless it may be told.
///
/// # Errors
/// `protocol`.
pub fn append_bare_ok(payload: &[u8], tells_id: bool, sequence: u8, out: &mut Vec<u8>) -> Result<()> {
    let mut reader = Reader::new(payload);
    let first = reader.u8()?;
    let changed = reader.length()?;
    let id = reader.length()?;
    let (status, warnings) = (reader.u16()?, reader.u16()?);
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    out.push(first);
    append_length(changed, out);
    append_length(if tells_id { id } else { 0 }, out);
    out.extend_from_slice(&status.to_le_bytes());
    out.extend_from_slice(&warnings.to_le_bytes());
    finish(&mut out[start..], sequence);
    Ok(())
}

/// A length-encoded integer.
pub fn append_length(number: u64, out: &mut Vec<u8>) {
    let bytes = number.to_le_bytes();
    match number {
        0..=250 => out.push(bytes[0]),
        251..=0xFFFF => {
            out.push(0xFC);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xFF_FFFF => {
            out.push(0xFD);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xFE);
            out.extend_from_slice(&bytes);
        }
    }
}

/// What is too long to be looked at.
pub fn too_long(what: &str) -> Failure {
    Failure::new(Class::Protocol, format!("{what} of 16 MB or more cannot be encrypted or checked"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::constants::CapabilityFlags;
    use mysql_common::io::ParseBuf;
    use mysql_common::packets::{CommonOkPacket, ErrPacket, OkPacketDeserializer};
    use mysql_common::proto::MyDeserialize;
    use proptest::prelude::*;

    fn blanked(message: &[u8]) -> String {
        let mut out = Vec::new();
        append_blanked(message, 1, &mut out).unwrap();
        assert_eq!((out[0] as usize, out[3]), (out.len() - 4, 1));
        String::from_utf8_lossy(&out[13..]).into_owned()
    }

    #[test]
    fn quoted_values_are_held_back_and_names_are_not() {
        for message in [
            &b"\xff\x26\x04#23000Duplicate entry 'O'Brien-1' for key 'name'"[..],
            b"\xff\x26\x04#23000Duplicate entry 'a value that the server has cut at its",
            b"\xff\x9a\x06#22003BIGINT value is out of range in '(`d`.`t`.`secret` - 5)'",
        ] {
            let told = blanked(message);
            assert!(told.ends_with(" (the gateway holds back what may be data)"), "{told}");
            assert!(!["Brien", "cut", "secret"].iter().any(|word| told.contains(word)), "{told}");
        }
        assert_eq!(blanked(b"\xff\x7a\x04#42S02Table 'd.x' doesn't exist"), "Table 'd.x' doesn't exist");
        let deadlock = "Deadlock found when trying to get lock; try restarting transaction";
        assert_eq!(blanked(&[b"\xff\xbd\x04#40001", deadlock.as_bytes()].concat()), deadlock);
    }

    #[test]
    fn an_ok_tells_numbers_alone() {
        let mut out = Vec::new();
        let ok = b"\x00\x03\xfc\x2c\x01\x02\x00\x01\x00Rows matched: 3";
        append_bare_ok(ok, false, 1, &mut out).unwrap();
        assert_eq!(out, b"\x07\0\0\x01\x00\x03\x00\x02\x00\x01\x00");
        out.clear();
        append_bare_ok(ok, true, 1, &mut out).unwrap();
        let capabilities = CapabilityFlags::CLIENT_PROTOCOL_41;
        let theirs =
            OkPacketDeserializer::<CommonOkPacket>::deserialize(capabilities, &mut ParseBuf(&out[4..])).unwrap();
        let theirs = theirs.into_inner();
        assert_eq!((theirs.affected_rows(), theirs.last_insert_id(), theirs.info_ref()), (3, Some(300), None));
    }

    #[test]
    fn another_implementation_reads_a_complaint() {
        let mut out = Vec::new();
        Complaint::fence(&"function SLEEP").append(1, true, &mut out);
        let capabilities = CapabilityFlags::CLIENT_PROTOCOL_41;
        let packet = ErrPacket::deserialize(capabilities, &mut ParseBuf(&out[4..])).unwrap();
        let error = packet.server_error();
        assert_eq!((error.error_code(), error.sql_state_ref().unwrap().as_str().as_ref()), (1227, "42000"));
        assert_eq!(error.message_str(), "the gateway lets no function SLEEP pass for this account");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), tells_id: bool) {
            let _ = append_blanked(&bytes, 0, &mut Vec::new());
            let _ = append_bare_ok(&[&[0], &bytes[..]].concat(), tells_id, 0, &mut Vec::new());
        }

        #[test]
        fn lengths_lead_back(number: u64) {
            let mut out = Vec::new();
            append_length(number, &mut out);
            prop_assert_eq!(Reader::new(&out).length().unwrap(), number);
        }

        /// Whatever it holds and wherever it is cut, nothing behind the first quote gets through.
        #[test]
        fn a_value_in_an_error_never_gets_through(value in "[A-Z'\"` ]{4,20}Z{4}", cut in 0..40_usize) {
            let mut message = format!("Duplicate entry '{value}' for key 'name'").into_bytes();
            message.truncate(message.len() - cut.min(message.len() - 22));
            let told = blanked(&[b"\xff\x26\x04#23000", &message[..]].concat());
            prop_assert!(!told.contains(&value[value.len() - 4..]));
        }
    }
}
