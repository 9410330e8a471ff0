//! Packets (MySQL Internals, "MySQL Packets"): their header, and the single-packet answers OK, EOF and ERR.

use crate::bytes::Reader;
use base::error::{Class, Failure, Result};

/// The number of bytes of the header: three for the payload's length, and one for the sequence number.
pub const HEADER: usize = 4;
/// A payload of this length or more is split over several packets. This crate does not support such payloads.
pub const TOO_LONG: usize = 0xFF_FFFF;

/// The first byte of an OK packet.
pub const OK: u8 = 0x00;
/// The first byte of an EOF packet, which ends the column definitions or the rows of a result set.
pub const EOF: u8 = 0xFE;
/// The first byte of an error packet.
pub const ERR: u8 = 0xFF;
/// The maximum length of an EOF packet's payload. A row can begin with the same byte, but a row is longer.
pub const LONGEST_EOF: usize = 5;
/// The status flag `SERVER_MORE_RESULTS_EXISTS`.
pub const MORE_RESULTS: u16 = 1 << 3;
/// The error number `ER_ACCESS_DENIED_ERROR`, and the SQL state of all authentication errors.
const ACCESS_DENIED: u16 = 1045;
const INVALID_AUTHORIZATION: &[u8; STATE] = b"28000";
/// MySQL's error number `ER_SECURE_TRANSPORT_REQUIRED`. MariaDB sends `ER_ACCESS_DENIED_ERROR` instead.
const TLS_REQUIRED: u16 = 3159;
/// The maximum length of an error's message in bytes. Servers cut longer messages.
const LONGEST_MESSAGE: usize = 512;

/// Return a packet's payload length and sequence number. Return None if the header is incomplete.
pub fn split_header(start: &[u8]) -> Option<(usize, u8)> {
    let &[low, middle, high, sequence] = start.first_chunk::<HEADER>()?;
    Some((u32::from_le_bytes([low, middle, high, 0]) as usize, sequence))
}

/// Return the same as [`split_header`]. Errors: `protocol` for a payload that continues in the next packet.
pub fn header(start: &[u8]) -> Result<Option<(usize, u8)>> {
    match split_header(start) {
        Some((TOO_LONG, _)) => Err(Failure::protocol("an answer of 16 MB or more is not supported")),
        header => Ok(header),
    }
}

/// Append a packet with this sequence number. `write` appends its payload. Errors: class `plan` (invalid configuration)
/// if the payload has 16 MB or more.
pub fn append(sequence: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    write(out);
    finish(&mut out[start..], sequence)
}

/// Fill in the header of a packet, for which the first four bytes are reserved. Errors: class `plan` (invalid
/// configuration) if the payload has 16 MB or more.
pub fn finish(packet: &mut [u8], sequence: u8) -> Result<()> {
    let length = packet.len() - HEADER;
    if length >= TOO_LONG {
        return Err(Failure::new(Class::Plan, "a request of 16 MB or more cannot be sent"));
    }
    packet[..3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
    packet[3] = sequence;
    Ok(())
}

pub fn is_error(packet: &[u8]) -> bool {
    packet.first() == Some(&ERR)
}

/// Return whether the packet ends the column definitions or the rows of a result set. Such a packet is an EOF packet
/// or, if the client announced DEPRECATE_EOF (`without_eof`), an OK packet whose first byte is `EOF`.
pub fn is_end(packet: &[u8], without_eof: bool) -> bool {
    packet.first() == Some(&EOF) && (without_eof || packet.len() <= LONGEST_EOF)
}

/// Return the packet. Errors: the server's error if this is an error packet.
pub fn not_an_error(packet: &[u8]) -> Result<&[u8]> {
    if is_error(packet) { Err(server_error(packet)) } else { Ok(packet) }
}

/// The fields of an OK packet. With DEPRECATE_EOF, the packet that ends the rows of a result set has these fields too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OkPacket {
    pub changed: u64,
    pub id: u64,
    pub status: u16,
}

impl OkPacket {
    pub fn read(reader: &mut Reader<'_>) -> Result<Self> {
        reader.u8()?;
        Ok(OkPacket { changed: reader.length()?, id: reader.length()?, status: reader.u16()? })
    }
}

pub fn eof_status(packet: &[u8]) -> Result<u16> {
    let mut reader = Reader::new(packet);
    let (_first, _warnings) = (reader.u8()?, reader.u16()?);
    reader.u16()
}

/// The first packet of the answer to a command that prepares a statement (COM_STMT_PREPARE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreparedPacket {
    pub statement: u32,
    pub columns: u16,
    pub parameters: u16,
}

impl PreparedPacket {
    /// Parse the packet; return None if it is not an OK packet.
    pub fn parse(packet: &[u8]) -> Result<Option<Self>> {
        let mut reader = Reader::new(packet);
        if reader.u8()? != OK {
            return Ok(None);
        }
        let statement = reader.u32()?;
        Ok(Some(PreparedPacket { statement, columns: reader.u16()?, parameters: reader.u16()? }))
    }
}

/// Return the number of changed rows in the OK packet that answers a statement without a result set. Errors: the
/// server's error if it sent one; `protocol` for any other packet.
pub fn changed_rows(packet: &[u8]) -> Result<u64> {
    if not_an_error(packet)?.first().is_some_and(|first| *first != OK) {
        return Err(Failure::protocol("the answer to a statement without a result is not an OK packet"));
    }
    let ok = OkPacket::read(&mut Reader::new(packet))?;
    no_more_results(ok.status)?;
    Ok(ok.changed)
}

/// Check that no result follows the result set that `packet` ends. Errors: `protocol` if `packet` announces another
/// result.
pub fn check_end(packet: &[u8], without_eof: bool) -> Result<()> {
    let status = if without_eof { OkPacket::read(&mut Reader::new(packet))?.status } else { eof_status(packet)? };
    no_more_results(status)
}

fn no_more_results(status: u16) -> Result<()> {
    if status & MORE_RESULTS == 0 {
        Ok(())
    } else {
        Err(Failure::protocol("the server sent a second result, which was not requested"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerError<'a> {
    pub code: u16,
    /// The SQL state. None in errors that the server sends before the client has announced its capabilities.
    pub state: Option<&'a [u8; STATE]>,
    pub message: &'a [u8],
}

/// The number of bytes of an SQL state.
pub const STATE: usize = 5;

impl<'a> ServerError<'a> {
    pub fn parse(packet: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(packet);
        let (_first, code) = (reader.u8()?, reader.u16()?);
        let has_state = reader.peek() == Some(b'#');
        let state = if has_state { reader.bytes(1 + STATE)?.last_chunk() } else { None };
        Ok(ServerError { code, state, message: reader.rest() })
    }

    pub fn append(&self, sequence: u8, out: &mut Vec<u8>) {
        let ServerError { code, state, message } = self;
        let write = |out: &mut Vec<u8>| {
            out.push(ERR);
            out.extend_from_slice(&code.to_le_bytes());
            if let Some(state) = state {
                out.push(b'#');
                out.extend_from_slice(*state);
            }
            out.extend_from_slice(&message[..message.len().min(LONGEST_MESSAGE)]);
        };
        append(sequence, out, write).expect("a packet of less than 16 MB");
    }
}

/// Convert an error packet to a failure with the server's message, such as `1045 (28000): Access denied…`.
pub fn server_error(packet: &[u8]) -> Failure {
    let ServerError { code, state, message } = match ServerError::parse(packet) {
        Ok(error) => error,
        Err(malformed) => return malformed,
    };
    let state = state.unwrap_or(b"HY000");
    let message = String::from_utf8_lossy(&message[..message.len().min(LONGEST_MESSAGE)]);
    let class = match code {
        ACCESS_DENIED => Class::Authentication,
        TLS_REQUIRED => Class::PlainRefused,
        _ if state == INVALID_AUTHORIZATION => Class::Authentication,
        _ => Class::Server,
    };
    let failure = Failure::new(class, format!("{code} ({}): {message}", String::from_utf8_lossy(state)));
    Failure { code: Some(code), ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::constants::CapabilityFlags;
    use mysql_common::io::ParseBuf;
    use mysql_common::packets::{CommonOkPacket, ErrPacket, OkPacketDeserializer, OldEofPacket};
    use mysql_common::proto::MyDeserialize;
    use proptest::prelude::*;

    /// Examples from MySQL Internals, "ERR_Packet" and "OK_Packet".
    const NO_TABLES_USED: &[u8] = b"\xff\x48\x04#HY000No tables used";
    const MANUAL_OK: &[u8] = b"\x00\x00\x00\x02\x00\x00\x00";

    #[test]
    fn error_packet_becomes_a_failure_with_the_message_of_the_server() {
        let failure = server_error(NO_TABLES_USED);
        assert_eq!((failure.class, failure.detail.as_str()), (Class::Server, "1096 (HY000): No tables used"));
        assert_eq!(server_error(b"\xff\x10\x04Too many connections").detail, "1040 (HY000): Too many connections");
    }

    #[test]
    fn authentication_errors_have_error_class_authentication() {
        let class = |packet| server_error(packet).class;
        assert_eq!(class(b"\xff\x15\x04#28000Access denied for user 'u'@'h'"), Class::Authentication);
        assert_eq!(class(b"\xff\xa2\x06#28000Access denied for user 'root'@'h'"), Class::Authentication);
        assert_eq!(
            class(b"\xff\x57\x0c#HY000Connections using insecure transport are prohibited"),
            Class::PlainRefused
        );
        assert_eq!(class(b"\xff\x15"), Class::Protocol, "cut");
    }

    #[test]
    fn ok_and_eof_packets_are_read() {
        assert_eq!(changed_rows(MANUAL_OK).unwrap(), 0);
        assert_eq!(changed_rows(b"\x00\x64\x00\x02\x00\x00\x00").unwrap(), 100);
        assert_eq!(changed_rows(NO_TABLES_USED).unwrap_err().class, Class::Server);
        assert!(changed_rows(b"\x00\x01\x00\x0a\x00\x00\x00").is_err(), "more results");
        let (eof, ok) = (b"\xfe\x00\x00\x02\x00", b"\xfe\x00\x00\x02\x00\x00\x00");
        assert!(is_end(eof, false) && is_end(ok, true) && !is_end(ok, false));
        check_end(eof, false).unwrap();
        check_end(ok, true).unwrap();
        assert!(check_end(b"\xfe\x00\x00\x0a\x00", false).is_err());
    }

    #[test]
    fn too_long_packets_are_refused_in_both_directions() {
        assert_eq!(header(&[0xff, 0xff, 0xff, 0]).unwrap_err().class, Class::Protocol);
        assert_eq!(header(&[0xfe, 0xff, 0xff, 3]).unwrap(), Some((TOO_LONG - 1, 3)));
        assert_eq!(header(&[1, 0, 0]).unwrap(), None);
        finish(&mut vec![0; HEADER + TOO_LONG - 1], 0).unwrap();
        assert_eq!(finish(&mut vec![0; HEADER + TOO_LONG], 0).unwrap_err().class, Class::Plan);
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60), without_eof in any::<bool>()) {
            let _ = (header(&bytes), changed_rows(&bytes), check_end(&bytes, without_eof), server_error(&bytes));
        }

        #[test]
        fn packets_are_parsed_in_the_same_way_as_by_crate_mysql_common(code in any::<u16>(), message in "[a-z ]{0,40}", changed in any::<u64>()) {
            let mut error = vec![ERR];
            error.extend(code.to_le_bytes());
            error.extend(b"#42S02");
            error.extend(message.as_bytes());
            let other = ErrPacket::deserialize(CapabilityFlags::CLIENT_PROTOCOL_41, &mut ParseBuf(&error)).unwrap();
            let other = other.server_error();
            let (code, message) = (other.error_code(), other.message_str());
            prop_assert_eq!(server_error(&error).detail, format!("{code} (42S02): {message}"));

            let mut ok = vec![OK, EOF];
            ok.extend(changed.to_le_bytes());
            ok.extend(b"\x00\x02\x00\x00\x00");
            let capabilities = CapabilityFlags::CLIENT_PROTOCOL_41;
            let other = OkPacketDeserializer::<CommonOkPacket>::deserialize(capabilities, &mut ParseBuf(&ok)).unwrap();
            prop_assert_eq!(changed_rows(&ok).unwrap(), other.into_inner().affected_rows());
            let eof = b"\xfe\x00\x00\x02\x00";
            OkPacketDeserializer::<OldEofPacket>::deserialize(capabilities, &mut ParseBuf(eof)).unwrap();
        }
    }
}
