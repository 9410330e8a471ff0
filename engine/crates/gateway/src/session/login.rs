//! The packets of a connection's beginning (MySQL Internals, "Connection Phase Packets"), as they go through the gateway.

use base::error::{Failure, Result};
use encryption::{ClientNonce, DECRYPTS_ATTRIBUTE, NONCE_ATTRIBUTE};
use mysql::bytes::Reader;
use mysql::capability::*;
use mysql::handshake::{COLLATION, PROTOCOL_VERSION, RESERVED, SCRAMBLE};
use mysql::packet::{self, HEADER};

/// What the gateway cannot follow, or what carries data past it.
const CUT: u32 = COMPRESS
    | LOCAL_FILES
    | SESSION_TRACK
    | OPTIONAL_RESULTSET_METADATA
    | ZSTD
    | QUERY_ATTRIBUTES
    | MULTI_FACTOR_AUTHENTICATION
    | PROGRESS_OR_EXTENSION;

/// In its version, also where that begins with another for old clients.
const MARIADB: &[u8] = b"MariaDB";
/// Before the reserved bytes: version's end, connection, nonce, zero, capabilities, collation, status, capabilities, length.
const BEFORE_RESERVED: usize = 4 + 8 + 1 + 2 + 1 + 2 + 2 + 1;
/// In the last four of them MariaDB tells more capabilities.
const RESERVED_OF_GREETING: usize = 10;
/// A request to go on under TLS is a response without a name.
pub const TLS_REQUEST: usize = 4 + 4 + 1 + RESERVED;
/// With attributes, which may have 64 KiB.
pub const LONGEST: usize = 1 << 17;
/// Where the server's part lies in a greeting: eight bytes before its zero, and twelve behind what is reserved.
const FIRST_OF_SCRAMBLE: usize = 8;
/// Characters of an account's name, with its quotes: a server cuts a longer one, and takes another account for it. MariaDB's
/// own limit depends on its version and on the one that made its tables.
const LONGEST_ACCOUNT: usize = 32;
const LONGEST_ACCOUNT_OF_MARIADB: usize = 80;
/// What a guarded session may do, which leaves out what has the server read a statement otherwise (IGNORE_SPACE, NO_SCHEMA,
/// ODBC) or read several: LONG_PASSWORD, FOUND_ROWS, LONG_FLAG, CONNECT_WITH_DB, PROTOCOL_41, INTERACTIVE, TLS,
/// IGNORE_SIGPIPE, TRANSACTIONS, the reserved bit 14, SECURE_CONNECTION, results in turn, PLUGIN_AUTH,
/// CONNECT_ATTRIBUTES, PROOF_OF_ANY_LENGTH and DEPRECATE_EOF.
const GUARDED: u32 = 0b1111 | 1 << 9 | 1 << 10 | TLS | 0b1111 << 12 | 0b11 << 17 | 0b111 << 19 | DEPRECATE_EOF;

/// What the gateway tells of the server's greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    capabilities: u32,
    collation: u8,
    is_mariadb: bool,
    /// The server's part of what binds keys to the session: both ends see this one, whatever proof is asked for later.
    pub scramble: [u8; SCRAMBLE],
}

impl Greeting {
    /// Which clips names at another length, and has a number for the statement that was prepared last.
    pub fn is_mariadb(&self) -> bool {
        self.is_mariadb
    }

    /// Append the greeting with what the gateway can follow alone.
    ///
    /// # Errors
    /// `protocol`; where TLS is wanted and the server does not offer it.
    pub fn cut(payload: &[u8], sequence: u8, tls: bool, out: &mut Vec<u8>) -> Result<Self> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != PROTOCOL_VERSION {
            return Err(Failure::protocol("the server's greeting is not MySQL's"));
        }
        let version = reader.until_zero()?;
        let is_mariadb = version.windows(MARIADB.len()).any(|word| word == MARIADB);
        let fixed = reader.bytes(BEFORE_RESERVED + RESERVED_OF_GREETING)?;
        let mut scramble = [0; SCRAMBLE];
        let (first, second) = scramble.split_at_mut(FIRST_OF_SCRAMBLE);
        first.copy_from_slice(&fixed[4..4 + FIRST_OF_SCRAMBLE]);
        second.copy_from_slice(reader.bytes(SCRAMBLE - FIRST_OF_SCRAMBLE)?);
        let both = |at: usize| u32::from(fixed[at]) | u32::from(fixed[at + 1]) << 8;
        let offered = both(13) | both(18) << 16;
        if offered & NEEDED != NEEDED {
            return Err(Failure::protocol("the server does not speak the protocol of MySQL 4.1"));
        }
        if tls && offered & TLS == 0 {
            return Err(Failure::protocol("the server does not offer TLS, under which the gateway's clients come"));
        }
        let capabilities = offered & !CUT & if tls { u32::MAX } else { !TLS };
        let start = out.len();
        out.extend_from_slice(&[0; HEADER]);
        let at = out.len() + 1 + version.len() + 1;
        out.extend_from_slice(payload);
        let [a, b, c, d] = capabilities.to_le_bytes();
        out[at + 13..at + 15].copy_from_slice(&[a, b]);
        out[at + 18..at + 20].copy_from_slice(&[c, d]);
        out[at + BEFORE_RESERVED..at + BEFORE_RESERVED + RESERVED_OF_GREETING].fill(0);
        packet::finish(&mut out[start..], sequence)?;
        Ok(Greeting { capabilities, collation: fixed[15], is_mariadb, scramble })
    }
}

/// What a client says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<'a> {
    /// As it claims them.
    capabilities: u32,
    /// Its texts' charset, by a collation's number.
    pub collation: u8,
    /// As the server reads it.
    pub account: &'a [u8],
    /// As the client says it.
    said: &'a [u8],
    /// As it says of itself.
    pub reads: Reads,
    /// Up to where the packet goes on to the server.
    end: usize,
}

/// What a client says that it can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// It knows nothing of gateways.
    Plaintext,
    /// It decrypts, by keys that are bound to this.
    Ciphertext(ClientNonce),
    /// It says that it decrypts, and not what its keys would be bound to.
    Unbound,
}

/// The first packet of a client.
#[derive(Debug, PartialEq, Eq)]
pub enum First<'a> {
    /// It wants to go on under TLS, and says all again.
    TlsRequest,
    Response(Response<'a>),
}

impl<'a> First<'a> {
    /// # Errors
    /// `protocol`.
    pub fn parse(payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let capabilities = reader.u32()?;
        if capabilities & NEEDED != NEEDED {
            return Err(Failure::protocol("the client does not speak the protocol of MySQL 4.1"));
        }
        let _largest = reader.u32()?;
        let collation = reader.u8()?;
        reader.bytes(RESERVED)?;
        if capabilities & TLS != 0 && payload.len() == TLS_REQUEST {
            return Ok(First::TlsRequest);
        }
        let said = reader.until_zero()?;
        let proof = if capabilities & PROOF_OF_ANY_LENGTH != 0 { reader.length()? } else { u64::from(reader.u8()?) };
        reader.bytes(usize::try_from(proof).unwrap_or(usize::MAX))?;
        if capabilities & CONNECT_WITH_DB != 0 {
            reader.until_zero_or_end();
        }
        if capabilities & PLUGIN_AUTH != 0 {
            reader.until_zero_or_end();
        }
        let attributes =
            if capabilities & CONNECT_ATTRIBUTES != 0 && !reader.is_empty() { reader.text()? } else { &[] };
        let reads = reads(attributes)?;
        let end = payload.len() - reader.rest().len();
        Ok(First::Response(Response { capabilities, collation, account: account(said), said, reads, end }))
    }
}

/// The server takes quotes off that are on both ends.
fn account(said: &[u8]) -> &[u8] {
    match said {
        [b'\'', within @ .., b'\''] => within,
        plain => plain,
    }
}

fn reads(attributes: &[u8]) -> Result<Reads> {
    let mut reader = Reader::new(attributes);
    let (mut decrypts, mut nonces) = (false, Vec::new());
    while !reader.is_empty() {
        let (name, value) = (reader.text()?, reader.text()?);
        decrypts |= name == DECRYPTS_ATTRIBUTE && value == b"1";
        if name == NONCE_ATTRIBUTE {
            nonces.push(ClientNonce::from_hex(value));
        }
    }
    Ok(match nonces[..] {
        _ if !decrypts => Reads::Plaintext,
        [Some(nonce)] => Reads::Ciphertext(nonce),
        _ => Reads::Unbound,
    })
}

impl Response<'_> {
    /// It wants TLS, where a request for it would have been the way.
    pub fn claims_tls(&self) -> bool {
        self.capabilities & TLS != 0
    }

    /// What both ends and the gateway go by: lists end without an EOF of their own.
    pub fn without_eof(&self, greeting: &Greeting) -> bool {
        self.capabilities & greeting.capabilities & DEPRECATE_EOF != 0
    }

    /// Its texts are UTF-8, or may be taken for it as long as they are ASCII: `ascii`, `latin1`, `binary`, `utf8mb3` and
    /// `utf8mb4`, by their collations.
    pub fn has_plain_charset(&self, greeting: &Greeting) -> bool {
        self.has_utf8(greeting) || [5, 8, 11, 15, 31, 47, 48, 49, 63, 65, 94].contains(&self.effective(greeting))
    }

    /// The server takes it for this account and for no other: it is neither cut nor converted to another name.
    pub fn has_certain_name(&self, greeting: &Greeting) -> bool {
        let longest = if greeting.is_mariadb { LONGEST_ACCOUNT_OF_MARIADB } else { LONGEST_ACCOUNT };
        let Ok(name) = std::str::from_utf8(self.said) else { return false };
        let reads_alike = if self.has_utf8(greeting) {
            // Servers keep names in three bytes a character.
            name.chars().all(|character| character <= '\u{FFFF}')
        } else if self.has_plain_charset(greeting) {
            name.is_ascii()
        } else {
            // swe7 has letters in the place of some signs.
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.$'".contains(&byte))
        };
        reads_alike && name.chars().count() <= longest
    }

    fn has_utf8(&self, greeting: &Greeting) -> bool {
        matches!(self.effective(greeting), 33 | 45 | 46 | 76 | 83 | 192..=215 | 223 | 224..=247 | 255)
    }

    fn effective(&self, greeting: &Greeting) -> u8 {
        if self.collation == 0 { greeting.collation } else { self.collation }
    }

    /// Append what goes on to the server: what was not offered is not claimed, and a guarded session's texts are utf8mb4.
    ///
    /// # Errors
    /// `plan`, where it is too long.
    pub fn append(&self, payload: &[u8], sequence: u8, guarded: bool, out: &mut Vec<u8>) -> Result<()> {
        append(&payload[..self.end], self.capabilities, sequence, guarded, out)
    }
}

/// Append a client's wish for TLS as it goes on to the server.
///
/// # Errors
/// `protocol`.
pub fn append_tls_request(payload: &[u8], sequence: u8, out: &mut Vec<u8>) -> Result<()> {
    let capabilities = Reader::new(payload).u32()?;
    append(payload, capabilities, sequence, false, out)
}

fn append(payload: &[u8], capabilities: u32, sequence: u8, guarded: bool, out: &mut Vec<u8>) -> Result<()> {
    packet::append(sequence, out, |out| {
        let at = out.len();
        out.extend_from_slice(payload);
        let kept = capabilities & if guarded { GUARDED } else { !CUT };
        out[at..at + 4].copy_from_slice(&kept.to_le_bytes());
        if guarded {
            out[at + 8] = COLLATION;
        }
        // Where MariaDB's clients claim more.
        out[at + 9..at + 9 + RESERVED].fill(0);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::constants::{CapabilityFlags, StatusFlags};
    use mysql_common::io::ParseBuf;
    use mysql_common::packets::{HandshakePacket, HandshakeResponse};
    use mysql_common::proto::{MyDeserialize, MySerialize};
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn greeting(capabilities: CapabilityFlags) -> Vec<u8> {
        let mut packet = Vec::new();
        let (nonce, plugin) = (Some(&b"abcdefghijkl\0"[..]), Some(&b"mysql_native_password"[..]));
        HandshakePacket::new(
            10,
            &b"8.0.36"[..],
            1,
            *b"01234567",
            nonce,
            capabilities,
            45,
            StatusFlags::empty(),
            plugin,
        )
        .serialize(&mut packet);
        packet
    }

    fn response(user: &'static str, attributes: &[(&str, &str)], capabilities: CapabilityFlags) -> Vec<u8> {
        let owned = |text: &str| text.to_owned();
        let attributes: HashMap<_, _> = attributes.iter().map(|(name, value)| (owned(name), owned(value))).collect();
        let mut packet = Vec::new();
        HandshakeResponse::new(
            Some(&[7; 20][..]),
            (8, 0, 36),
            Some(user.as_bytes()),
            Some(&b"tpcc"[..]),
            Some(mysql_common::packets::AuthPlugin::MysqlNativePassword),
            capabilities,
            Some(attributes),
            1 << 24,
        )
        .serialize(&mut packet);
        packet
    }

    fn told(user: &'static str, attributes: &[(&str, &str)]) -> (Vec<u8>, Reads) {
        let packet = response(user, attributes, CapabilityFlags::all() & !CapabilityFlags::CLIENT_SSL);
        match First::parse(&packet).unwrap() {
            First::Response(response) => (response.account.to_vec(), response.reads),
            First::TlsRequest => panic!("no request for TLS"),
        }
    }

    #[test]
    fn a_greeting_offers_what_the_gateway_can_follow() {
        for tls in [false, true] {
            let mut out = Vec::new();
            Greeting::cut(&greeting(CapabilityFlags::all()), 0, tls, &mut out).unwrap();
            let read = HandshakePacket::deserialize((), &mut ParseBuf(&out[4..])).unwrap();
            let offered = read.capabilities();
            assert_eq!(offered.contains(CapabilityFlags::CLIENT_SSL), tls);
            assert!(!offered.intersects(
                CapabilityFlags::CLIENT_COMPRESS
                    | CapabilityFlags::CLIENT_LOCAL_FILES
                    | CapabilityFlags::CLIENT_SESSION_TRACK
                    | CapabilityFlags::CLIENT_OPTIONAL_RESULTSET_METADATA
                    | CapabilityFlags::CLIENT_QUERY_ATTRIBUTES
            ));
            let told = Greeting::cut(&greeting(CapabilityFlags::all()), 0, tls, &mut Vec::new()).unwrap();
            assert_eq!(told.scramble[..], [read.scramble_1_ref(), &read.scramble_2_ref().unwrap()[..12]].concat());
            assert!(offered.contains(CapabilityFlags::CLIENT_DEPRECATE_EOF | CapabilityFlags::CLIENT_CONNECT_ATTRS));
        }
        let plain = CapabilityFlags::all() & !CapabilityFlags::CLIENT_SSL;
        assert!(Greeting::cut(&greeting(plain), 0, true, &mut Vec::new()).is_err());
    }

    #[test]
    fn a_response_tells_who_and_whether_it_decrypts() {
        assert_eq!(told("shop", &[]), (b"shop".to_vec(), Reads::Plaintext));
        assert_eq!(told("'shop'", &[]), (b"shop".to_vec(), Reads::Plaintext), "as the server reads it");
        let nonce = ClientNonce::random().unwrap();
        let digits = &nonce.hex()[..];
        let says = |value| ("costof_encrypted", value);
        for (attributes, reads) in [
            (vec![("_os", "Linux"), says("1"), ("costof_nonce", digits)], Reads::Ciphertext(nonce)),
            (vec![says("0"), ("costof_nonce", digits)], Reads::Plaintext),
            (vec![("costof_nonce", digits)], Reads::Plaintext),
            (vec![says("1")], Reads::Unbound),
            (vec![says("1"), ("costof_nonce", "")], Reads::Unbound),
            (vec![says("1"), ("costof_nonce", &digits[1..])], Reads::Unbound),
            (vec![says("1"), ("costof_nonce", &digits.replace(|_| true, "x"))], Reads::Unbound),
        ] {
            assert_eq!(told("shop", &attributes).1, reads, "{attributes:?}");
        }
        // Of two, a reader could take the other.
        let twice: Vec<u8> = [("costof_encrypted", "1"), ("costof_nonce", digits), ("costof_nonce", digits)]
            .iter()
            .flat_map(|(name, value)| {
                [name, value].map(|text| [&[text.len() as u8], text.as_bytes()].concat()).concat()
            })
            .collect();
        assert_eq!(super::reads(&twice).unwrap(), Reads::Unbound);
    }

    #[test]
    fn what_was_not_offered_is_not_claimed() {
        let packet = response("shop", &[("a", "b")], CapabilityFlags::all() & !CapabilityFlags::CLIENT_SSL);
        let First::Response(parsed) = First::parse(&packet).unwrap() else { panic!("a response") };
        for guarded in [false, true] {
            let mut out = Vec::new();
            parsed.append(&packet, 1, guarded, &mut out).unwrap();
            let read = HandshakeResponse::deserialize((), &mut ParseBuf(&out[4..])).unwrap();
            assert_eq!((read.user(), read.db_name()), (&b"shop"[..], Some(&b"tpcc"[..])));
            assert!(!read.capabilities().contains(CapabilityFlags::CLIENT_COMPRESS));
            assert_eq!(read.capabilities().contains(CapabilityFlags::CLIENT_MULTI_STATEMENTS), !guarded);
        }
    }

    fn of(collation: u8, account: &[u8]) -> Response<'_> {
        Response { capabilities: 0, collation, account, said: account, reads: Reads::Plaintext, end: 0 }
    }

    const GREETING: Greeting = Greeting { capabilities: 0, collation: 28, is_mariadb: false, scramble: [0; SCRAMBLE] };

    #[test]
    fn charsets_that_hide_quotes_are_told_apart() {
        for (collation, plain) in [(45, true), (255, true), (8, true), (33, true), (28, false), (0, false), (10, false)]
        {
            assert_eq!(of(collation, b"shop").has_plain_charset(&GREETING), plain, "{collation}");
        }
    }

    #[test]
    fn a_name_that_a_server_cuts_or_converts_is_not_certain() {
        let mariadb = Greeting { is_mariadb: true, ..GREETING };
        for (collation, name, certain) in [
            (45, "müller", true),
            (8, "müller", false),
            (45, "m\u{1F600}ller", false),
            // é in swe7.
            (10, "@va", false),
            (10, "shop", true),
            (28, "shop", true),
            (45, "'shop'", true),
            (45, "", true),
        ] {
            assert_eq!(of(collation, name.as_bytes()).has_certain_name(&GREETING), certain, "{collation} {name}");
        }
        assert!(!of(45, b"m\xfcller").has_certain_name(&GREETING));
        for (length, mysql, maria) in [(32, true, true), (33, false, true), (80, false, true), (81, false, false)] {
            let name = "é".repeat(length);
            let response = of(45, name.as_bytes());
            let both = (response.has_certain_name(&GREETING), response.has_certain_name(&mariadb));
            assert_eq!(both, (mysql, maria), "{length}");
        }
    }

    #[test]
    fn a_guarded_session_claims_what_changes_no_statement_and_speaks_utf8mb4() {
        let mut packet = response("shop", &[], CapabilityFlags::all() & !CapabilityFlags::CLIENT_SSL);
        packet[8] = 8;
        let First::Response(parsed) = First::parse(&packet).unwrap() else { panic!("a response") };
        let mut out = Vec::new();
        parsed.append(&packet, 1, true, &mut out).unwrap();
        assert_eq!(out[4 + 8], COLLATION);
        let read = HandshakeResponse::deserialize((), &mut ParseBuf(&out[4..])).unwrap().capabilities();
        assert!(!read.intersects(
            CapabilityFlags::CLIENT_NO_SCHEMA
                | CapabilityFlags::CLIENT_ODBC
                | CapabilityFlags::CLIENT_IGNORE_SPACE
                | CapabilityFlags::CLIENT_LOCAL_FILES
                | CapabilityFlags::CLIENT_COMPRESS
                | CapabilityFlags::CLIENT_SESSION_TRACK
                | CapabilityFlags::CLIENT_QUERY_ATTRIBUTES
                | CapabilityFlags::CLIENT_OPTIONAL_RESULTSET_METADATA
                | CapabilityFlags::CLIENT_MULTI_STATEMENTS
        ));
        assert!(read.contains(
            CapabilityFlags::CLIENT_FOUND_ROWS
                | CapabilityFlags::CLIENT_CONNECT_WITH_DB
                | CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
                | CapabilityFlags::CLIENT_DEPRECATE_EOF
        ));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), tls: bool) {
            let _ = Greeting::cut(&bytes, 0, tls, &mut Vec::new());
            if let Ok(First::Response(response)) = First::parse(&bytes) {
                response.append(&bytes, 1, true, &mut Vec::new()).unwrap();
            }
        }

        #[test]
        fn a_damaged_response_never_panics(at in 0..200_usize, with: u8, cut in 0..100_usize) {
            let mut packet = response("shop", &[("costof_encrypted", "1")], CapabilityFlags::all());
            let place = at % packet.len();
            packet[place] = with;
            packet.truncate(packet.len().saturating_sub(cut / 2));
            if let Ok(First::Response(response)) = First::parse(&packet) {
                response.append(&packet, 1, true, &mut Vec::new()).unwrap();
            }
        }
    }
}
