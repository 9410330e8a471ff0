//! Parsing and building of PostgreSQL's messages (PostgreSQL's documentation, "Message Formats", protocol 3.0). A
//! message has a type, a length that includes the length field, and a body. This module uses no sockets.

use base::error::{Class, Failure, Result};

/// The number of bytes of a message's type and length.
pub const HEADER: usize = 5;
/// The maximum length in bytes of most types of messages. As in libpq, only the types in `VALID_LONG_MESSAGE_TYPE` may
/// be longer. A longer message shows that the peer is not PostgreSQL, or that bytes are missing from the stream.
const LONGEST_OF_SHORT_ONES: usize = 30_000;
/// The maximum length in bytes of any message. No server can create a longer one (PostgreSQL's `MaxAllocSize`).
const LONGEST: usize = 0x3fff_ffff;
/// The version of the protocol, `PG_PROTOCOL(3, 0)`.
const PROTOCOL_VERSION: i32 = 196_608;
/// The code `NEGOTIATE_SSL_CODE`, which a client sends in place of a version to request TLS.
const TLS_REQUEST_CODE: i32 = 80_877_103;

/// The types of messages from the server, named as in the documentation.
pub mod backend {
    pub const AUTHENTICATION: u8 = b'R';
    pub const BACKEND_KEY_DATA: u8 = b'K';
    pub const BIND_COMPLETE: u8 = b'2';
    pub const COMMAND_COMPLETE: u8 = b'C';
    pub const COPY_IN_RESPONSE: u8 = b'G';
    pub const DATA_ROW: u8 = b'D';
    pub const ERROR_RESPONSE: u8 = b'E';
    pub const NOTICE_RESPONSE: u8 = b'N';
    pub const NOTIFICATION_RESPONSE: u8 = b'A';
    pub const NO_DATA: u8 = b'n';
    pub const PARAMETER_STATUS: u8 = b'S';
    pub const PARSE_COMPLETE: u8 = b'1';
    pub const READY_FOR_QUERY: u8 = b'Z';
    pub const ROW_DESCRIPTION: u8 = b'T';
}

/// The types of messages to the server, named as in the documentation.
pub mod frontend {
    pub const BIND: u8 = b'B';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const DESCRIBE: u8 = b'D';
    pub const EXECUTE: u8 = b'E';
    pub const PARSE: u8 = b'P';
    pub const QUERY: u8 = b'Q';
    pub const SASL: u8 = b'p';
    pub const SYNC: u8 = b'S';
    pub const TERMINATE: u8 = b'X';
}

/// Return the type and body length of the message that begins here. Return None if its header is incomplete.
pub fn header(received_bytes: &[u8]) -> Result<Option<(u8, usize)>> {
    let Some(&kind) = received_bytes.first() else { return Ok(None) };
    let limit = match kind {
        b'T' | b'D' | b'E' | b'N' | b'A' => LONGEST,
        b'R' | b'K' | b'2' | b'C' | b'G' | b'n' | b'S' | b'1' | b'Z' => LONGEST_OF_SHORT_ONES,
        _ => return Err(Failure::protocol("the answer is not a PostgreSQL message")),
    };
    let Some(length) = received_bytes.get(1..HEADER) else { return Ok(None) };
    let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
    match length.checked_sub(HEADER - 1) {
        Some(body) if length <= limit => Ok(Some((kind, body))),
        _ => Err(Failure::protocol(format!(
            "a PostgreSQL message of type '{}' cannot have {length} bytes",
            kind as char
        ))),
    }
}

pub fn append(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    append_counted(out, body);
}

pub fn append_tls_request(out: &mut Vec<u8>) {
    append_counted(out, |out| out.extend_from_slice(&TLS_REQUEST_CODE.to_be_bytes()));
}

/// Append StartupMessage: the protocol version, and settings of the session. This message has no type.
pub fn append_startup<'a>(out: &mut Vec<u8>, settings: impl IntoIterator<Item = (&'a str, &'a str)>) {
    append_counted(out, |out| {
        out.extend_from_slice(&PROTOCOL_VERSION.to_be_bytes());
        for (name, value) in settings {
            append_string(out, name);
            append_string(out, value);
        }
        out.push(0);
    });
}

pub fn append_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn append_counted(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    append_sized(out, body);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Append four zero bytes and then the body. The caller overwrites the zeros with a length.
fn append_sized(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[0; 4]);
    body(out);
}

/// Append a parameter, or a value of a row: its length, which does not include the length field, and then its bytes.
pub fn append_value(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    append_sized(out, body);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Convert an ErrorResponse to a failure. The first two characters of its SQLSTATE determine the failure's class
/// (PostgreSQL's documentation, "Error Codes").
pub fn failure(body: &[u8]) -> Failure {
    let field = |code| {
        let mut fields = body.split(|byte| *byte == 0);
        let value = fields.find(|field| field.first() == Some(&code)).map_or(&[][..], |field| &field[1..]);
        String::from_utf8_lossy(value).into_owned()
    };
    let (state, words) = (field(b'C'), field(b'M'));
    let class = match state.get(..2) {
        Some("08") => Class::Protocol,
        Some("28") => Class::Authentication,
        // These codes mean that the server shuts down, or that an administrator has ended the session.
        Some("57") if state.starts_with("57P") => Class::Closed,
        Some(_) => Class::Server,
        None => return Failure::protocol("the server sent an error without a SQLSTATE"),
    };
    Failure::new(class, format!("{state}: {words}"))
}

/// Return the number of rows in the tag of CommandComplete. Return None for commands without rows, such as `BEGIN`.
pub fn rows_in_tag(body: &[u8]) -> Option<u64> {
    let tag = std::str::from_utf8(body.strip_suffix(b"\0")?).ok()?;
    tag.rsplit_once(' ')?.1.parse().ok()
}

/// A reader of the fields of a message's body.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(body: &'a [u8]) -> Self {
        Reader(body)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Read a big-endian integer of two bytes.
    pub fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.bytes(2)?.try_into().expect("two bytes")))
    }

    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.bytes(4)?.try_into().expect("four bytes")))
    }

    /// Read a value of a row. Return None for NULL.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>> {
        match self.i32()? {
            -1 => Ok(None),
            length => self.bytes(usize::try_from(length).map_err(|_| too_short())?).map(Some),
        }
    }

    pub fn string(&mut self) -> Result<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(too_short)?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Ok(text)
    }
}

fn too_short() -> Failure {
    Failure::protocol("a message is shorter than its stated length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn message_header_is_read_once_it_is_complete() {
        assert_eq!(header(b"").unwrap(), None);
        assert_eq!(header(b"Z\0\0\0").unwrap(), None);
        assert_eq!(header(b"Z\0\0\0\x05I").unwrap(), Some((b'Z', 1)));
        assert_eq!(header(b"D\x3f\xff\xff\xff").unwrap(), Some((b'D', LONGEST - 4)));
    }

    /// Without this check the client would wait for megabytes that never arrive.
    #[test]
    fn invalid_messages_are_recognized_by_their_header() {
        for received_bytes in [
            &b"Z\0\0\0\x03"[..],
            b"Z\0\x01\0\0",
            b"D\x40\0\0\0",
            b"E\xff\xff\xff\xff",
            b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n",
            b"HTTP/1.1 400 Bad Request\r\n",
            b"\x4a\0\0\0\x0a",
        ] {
            assert_eq!(header(received_bytes).unwrap_err().class, Class::Protocol, "{received_bytes:?}");
        }
    }

    #[test]
    fn postgres_requests_match_the_documented_formats() {
        let mut out = Vec::new();
        append_tls_request(&mut out);
        assert_eq!(out, b"\0\0\0\x08\x04\xd2\x16\x2f");
        out.clear();
        append_startup(&mut out, [("user", "u"), ("database", "d")]);
        assert_eq!(out, b"\0\0\0\x1b\0\x03\0\0user\0u\0database\0d\0\0");
        out.clear();
        append(&mut out, frontend::TERMINATE, |_| ());
        assert_eq!(out, b"X\0\0\0\x04");
    }

    #[test]
    fn sqlstate_of_an_error_determines_its_class() {
        for (state, class) in [
            ("28P01", Class::Authentication),
            ("28000", Class::Authentication),
            ("53300", Class::Server),
            ("42P01", Class::Server),
            ("57014", Class::Server),
            ("57P01", Class::Closed),
            ("08P01", Class::Protocol),
        ] {
            let failure = failure(format!("SFATAL\0VFATAL\0C{state}\0Mno\0\0").as_bytes());
            assert_eq!((failure.class, failure.detail), (class, format!("{state}: no")));
        }
        assert_eq!(failure(b"Mno\0\0").class, Class::Protocol);
        assert_eq!(failure(b"").class, Class::Protocol);
    }

    #[test]
    fn row_count_is_read_from_the_command_tag() {
        assert_eq!(rows_in_tag(b"SELECT 1\0"), Some(1));
        assert_eq!(rows_in_tag(b"INSERT 0 5\0"), Some(5));
        assert_eq!(rows_in_tag(b"COPY 100\0"), Some(100));
        assert_eq!(rows_in_tag(b"BEGIN\0"), None);
        assert_eq!(rows_in_tag(b"UPDATE 1"), None, "no zero at its end");
    }

    proptest! {
        #[test]
        fn parsing_an_encoded_value_returns_the_original_value(kind in prop::sample::select(&b"TDENA"[..]), value in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut out = Vec::new();
            append(&mut out, kind, |out| append_value(out, |out| out.extend_from_slice(&value)));
            prop_assert_eq!(header(&out).unwrap(), Some((kind, value.len() + 4)));
            let mut reader = Reader::new(&out[HEADER..]);
            prop_assert_eq!(reader.value().unwrap(), Some(&value[..]));
            prop_assert!(reader.is_empty());
        }
    }

    /// Fuzzing: `cargo test` uses a fixed number of inputs, `cargo bolero test` an unlimited number.
    #[test]
    fn parsing_messages_from_arbitrary_bytes_never_panics() {
        bolero::check!().with_iterations(2000).for_each(|bytes: &[u8]| {
            if let Ok(Some((_, body))) = header(bytes) {
                assert!(body <= LONGEST);
            }
            let _ = (failure(bytes), rows_in_tag(bytes));
            let mut reader = Reader::new(bytes);
            while reader.value().is_ok() || reader.string().is_ok() || reader.i16().is_ok() {}
        });
    }
}
