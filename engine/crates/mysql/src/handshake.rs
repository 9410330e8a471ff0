//! The packets of the connection phase (MySQL Internals, "Connection Phase Packets", protocol 4.1): the server's
//! greeting, the TLS request, the client's response, and the switch of the authentication plugin.

use crate::bytes::{Reader, append_text};
use crate::capability::*;
use crate::packet;
use base::error::{Failure, Result};

/// The capabilities that the engine's own client uses if the server offers them.
const CLIENT_CAPABILITIES: u32 = LONG_PASSWORD
    | FOUND_ROWS
    | LONG_FLAG
    | CONNECT_WITH_DB
    | PROTOCOL_41
    | TRANSACTIONS
    | SECURE_CONNECTION
    | PLUGIN_AUTH
    | DEPRECATE_EOF;

/// The first byte of a server's greeting.
pub const PROTOCOL_VERSION: u8 = 10;
/// The collation `utf8mb4_general_ci`. MySQL has it since version 5.5, and every MariaDB has it.
pub const COLLATION: u8 = 45;
/// The maximum packet size that the client announces: 16 MB, the default of MySQL's clients.
const LARGEST_PACKET: u32 = 1 << 24;
/// The number of reserved bytes before the user's name in a login response.
pub const RESERVED: usize = 23;
/// The number of bytes of the nonce (*scramble*) in the greeting of every server.
pub const SCRAMBLE: usize = 20;
/// The number of bytes of the nonce's first part. For historical reasons a greeting contains the nonce in two parts.
const FIRST_PART: usize = 8;
const SHORTEST_SECOND_PART: usize = 13;
const AUTH_SWITCH: u8 = 0xFE;

/// The first packet of a connection, which the server sends.
#[derive(Debug, PartialEq, Eq)]
pub struct Greeting {
    capabilities: u32,
    pub nonce: Vec<u8>,
    pub plugin: Vec<u8>,
}

impl Greeting {
    /// Parse a greeting. Errors: `protocol` if the greeting is malformed; the server's own error, such as too many
    /// connections, if the server sends an error instead of a greeting.
    pub fn parse(packet: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(packet::not_an_error(packet)?);
        if reader.u8()? != PROTOCOL_VERSION {
            return Err(Failure::protocol("the server's greeting does not have MySQL's protocol version"));
        }
        let _version = reader.until_zero()?;
        let _connection = reader.u32()?;
        let mut nonce = reader.bytes(FIRST_PART)?.to_vec();
        reader.u8()?;
        let low = reader.u16()?;
        let (_collation, _status) = (reader.u8()?, reader.u16()?);
        let capabilities = u32::from(reader.u16()?) << 16 | u32::from(low);
        let nonce_length = usize::from(reader.u8()?);
        reader.bytes(10)?;
        if capabilities & NEEDED != NEEDED {
            return Err(Failure::protocol("the server does not speak the protocol of MySQL 4.1"));
        }
        nonce.extend_from_slice(reader.bytes(SHORTEST_SECOND_PART.max(nonce_length.saturating_sub(FIRST_PART)))?);
        let plugin = if capabilities & PLUGIN_AUTH == 0 { &[] } else { reader.until_zero_or_end() };
        Ok(Greeting { capabilities, nonce: without_zero(&nonce).to_vec(), plugin: plugin.to_vec() })
    }

    /// Return the first 20 bytes of the greeting's nonce. The keys of column encryption are derived from these bytes,
    /// even if the server later sends another nonce for another plugin. Errors: `protocol` if the nonce is too short.
    pub fn scramble(&self) -> Result<&[u8; SCRAMBLE]> {
        self.nonce.first_chunk().ok_or_else(|| Failure::protocol("the nonce in the server's greeting is too short"))
    }

    pub fn offers_tls(&self) -> bool {
        self.capabilities & TLS != 0
    }

    /// Return whether no EOF packet follows column definitions and rows: both server and client support DEPRECATE_EOF.
    pub fn is_without_eof(&self) -> bool {
        self.capabilities & DEPRECATE_EOF != 0
    }

    pub fn append_tls_request(&self, with_attributes: bool, packet: &mut Vec<u8>) {
        packet.extend_from_slice(&(self.common_capabilities(with_attributes) | TLS).to_le_bytes());
        packet.extend_from_slice(&LARGEST_PACKET.to_le_bytes());
        packet.push(COLLATION);
        packet.resize(packet.len() + RESERVED, 0);
    }

    /// Return the capabilities that both client and server support. Connection attributes cost the server time, so they
    /// are included only with `with_attributes`.
    fn common_capabilities(&self, with_attributes: bool) -> u32 {
        self.capabilities & if with_attributes { CLIENT_CAPABILITIES | CONNECT_ATTRIBUTES } else { CLIENT_CAPABILITIES }
    }
}

/// A client's response to the greeting, which begins the login.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    pub username: &'a [u8],
    pub database: &'a [u8],
    pub plugin: &'a [u8],
    /// The data that authenticates the user, which the authentication plugin computes from password and nonce.
    pub proof: &'a [u8],
    /// The connection attributes: each name is followed by its value.
    pub attributes: &'a [&'a [u8]],
    pub tls: bool,
}

impl Response<'_> {
    pub fn append(&self, greeting: &Greeting, packet: &mut Vec<u8>) {
        let (at, with_attributes) = (packet.len(), !self.attributes.is_empty());
        greeting.append_tls_request(with_attributes, packet);
        let capabilities = greeting.common_capabilities(with_attributes) | if self.tls { TLS } else { 0 };
        packet[at..at + 4].copy_from_slice(&capabilities.to_le_bytes());
        append_with_zero(self.username, packet);
        packet.push(self.proof.len() as u8);
        packet.extend_from_slice(self.proof);
        if capabilities & CONNECT_WITH_DB != 0 {
            append_with_zero(self.database, packet);
        }
        if capabilities & PLUGIN_AUTH != 0 {
            append_with_zero(self.plugin, packet);
        }
        if capabilities & CONNECT_ATTRIBUTES != 0 {
            let mut attributes = Vec::new();
            self.attributes.iter().for_each(|text| append_text(&mut attributes, text));
            append_text(packet, &attributes);
        }
    }
}

/// A server's request to continue with another authentication plugin.
#[derive(Debug, PartialEq, Eq)]
pub struct AuthSwitch {
    pub plugin: Vec<u8>,
    pub nonce: Vec<u8>,
}

impl AuthSwitch {
    /// Parse the packet, or return None if it is not a request to switch the authentication plugin.
    pub fn parse(packet: &[u8]) -> Result<Option<Self>> {
        let mut reader = Reader::new(packet);
        if reader.u8()? != AUTH_SWITCH {
            return Ok(None);
        }
        let plugin = reader.until_zero()?.to_vec();
        Ok(Some(AuthSwitch { plugin, nonce: without_zero(reader.rest()).to_vec() }))
    }
}

/// Return the nonce without the zero byte that ends it in most plugins.
fn without_zero(nonce: &[u8]) -> &[u8] {
    match nonce {
        // A nonce of another length, such as the 32 bytes of client_ed25519, has no such zero byte.
        [nonce @ .., 0] if nonce.len() == SCRAMBLE => nonce,
        all => all,
    }
}

fn append_with_zero(text: &[u8], packet: &mut Vec<u8>) {
    packet.extend_from_slice(text);
    packet.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::error::Class;
    use mysql_common::constants::{CapabilityFlags, StatusFlags};
    use mysql_common::io::ParseBuf;
    use mysql_common::packets::{AuthSwitchRequest, HandshakePacket, HandshakeResponse, SslRequest};
    use mysql_common::proto::{MyDeserialize, MySerialize};
    use proptest::prelude::*;

    /// The example in MySQL Internals, "Protocol::HandshakeV10": the greeting of MySQL 5.5.2.
    const MANUAL_GREETING: &[u8] =
        b"\x0a5.5.2-m2\0\x0b\0\0\0\x64\x76\x48\x40\x49\x2d\x43\x4a\0\xff\xf7\x08\x02\0\0\0\0\
        \0\0\0\0\0\0\0\0\0\0\x2a\x34\x64\x7c\x63\x5a\x77\x6b\x34\x5e\x5d\x3a\0";

    const PAM: Response<'_> = Response {
        username: b"pam",
        database: b"test",
        plugin: b"mysql_native_password",
        proof: &[7; 20],
        attributes: &[],
        tls: true,
    };

    fn greeting_with(capabilities: CapabilityFlags) -> Vec<u8> {
        let mut packet = Vec::new();
        let nonce = Some(&b"abcdefghijkl\0"[..]);
        let plugin = Some(&b"caching_sha2_password"[..]);
        let status = StatusFlags::empty();
        HandshakePacket::new(10, &b"8.0.36"[..], 1, *b"01234567", nonce, capabilities, 45, status, plugin)
            .serialize(&mut packet);
        packet
    }

    #[test]
    fn example_greeting_of_the_manual_is_parsed() {
        let greeting = Greeting::parse(MANUAL_GREETING).unwrap();
        assert_eq!(greeting.nonce, b"dvH@I-CJ*4d|cZwk4^]:");
        assert_eq!((greeting.offers_tls(), greeting.is_without_eof(), &greeting.plugin[..]), (false, false, &b""[..]));
    }

    #[test]
    fn error_packets_and_greetings_of_old_protocols_are_refused() {
        assert_eq!(Greeting::parse(b"\xff\x10\x04Too many connections").unwrap_err().class, Class::Server);
        assert_eq!(Greeting::parse(b"\x09old").unwrap_err().class, Class::Protocol);
        let old = greeting_with(CapabilityFlags::CLIENT_PROTOCOL_41);
        assert_eq!(Greeting::parse(&old).unwrap_err().class, Class::Protocol);
    }

    #[test]
    fn crate_mysql_common_parses_the_login_responses() {
        let greeting = Greeting::parse(&greeting_with(CapabilityFlags::all())).unwrap();
        assert_eq!(
            (&greeting.nonce[..], &greeting.plugin[..]),
            (&b"01234567abcdefghijkl"[..], &b"caching_sha2_password"[..])
        );
        let mut packet = Vec::new();
        PAM.append(&greeting, &mut packet);
        let response = HandshakeResponse::deserialize((), &mut ParseBuf(&packet)).unwrap();
        assert_eq!((response.user(), response.db_name()), (&b"pam"[..], Some(&b"test"[..])));
        assert_eq!(response.scramble_buf(), [7; 20]);
        assert_eq!(response.auth_plugin().unwrap().as_bytes(), b"mysql_native_password");
        assert!(response.capabilities().contains(CapabilityFlags::CLIENT_SSL | CapabilityFlags::CLIENT_DEPRECATE_EOF));

        let mut packet = Vec::new();
        greeting.append_tls_request(false, &mut packet);
        let request = SslRequest::deserialize((), &mut ParseBuf(&packet)).unwrap();
        assert_eq!((packet.len(), request.capabilities()), (32, response.capabilities()));
    }

    #[test]
    fn connection_attributes_are_sent_as_names_and_values() {
        let greeting = Greeting::parse(&greeting_with(CapabilityFlags::all())).unwrap();
        assert_eq!(greeting.scramble().unwrap(), b"01234567abcdefghijkl");
        let attributes: &[&[u8]] = &[b"costof_encrypted", b"1", b"costof_nonce", b"0123"];
        let mut packet = Vec::new();
        Response { attributes, tls: false, ..PAM }.append(&greeting, &mut packet);
        let response = HandshakeResponse::deserialize((), &mut ParseBuf(&packet)).unwrap();
        let sent = response.connect_attributes().unwrap();
        assert_eq!(sent.len(), 2);
        assert_eq!((&sent["costof_encrypted"][..], &sent["costof_nonce"][..]), ("1", "0123"));
    }

    #[test]
    fn login_response_contains_only_capabilities_that_the_server_offers() {
        let minimal = CapabilityFlags::CLIENT_PROTOCOL_41 | CapabilityFlags::CLIENT_SECURE_CONNECTION;
        let mut packet = Vec::new();
        let greeting = Greeting::parse(&greeting_with(minimal)).unwrap();
        let attributes: &[&[u8]] = &[b"costof_encrypted", b"1"];
        Response { attributes, tls: false, ..PAM }.append(&greeting, &mut packet);
        let response = HandshakeResponse::deserialize((), &mut ParseBuf(&packet)).unwrap();
        assert_eq!((response.capabilities(), response.db_name(), response.auth_plugin()), (minimal, None, None));
    }

    #[test]
    fn authentication_switch_request_is_parsed() {
        for (plugin, sent, nonce) in [
            (&b"mysql_native_password"[..], &b"01234567abcdefghijkl\0"[..], &b"01234567abcdefghijkl"[..]),
            (b"client_ed25519", &[0; 32], &[0; 32]),
        ] {
            let mut packet = Vec::new();
            AuthSwitchRequest::new(plugin, sent).serialize(&mut packet);
            let expected = AuthSwitch { plugin: plugin.to_vec(), nonce: nonce.to_vec() };
            assert_eq!(AuthSwitch::parse(&packet).unwrap(), Some(expected));
        }
        assert_eq!(AuthSwitch::parse(b"\x00\x00").unwrap(), None);
    }

    proptest! {
        /// A damaged greeting reaches deeper states of the parser than arbitrary bytes would.
        #[test]
        fn parsing_damaged_greetings_never_panics(at in 0..80_usize, with in any::<u8>(), cut in 0..80_usize) {
            let mut packet = greeting_with(CapabilityFlags::all());
            let place = at % packet.len();
            packet[place] = with;
            packet.truncate(packet.len().saturating_sub(cut / 2));
            let _ = (Greeting::parse(&packet), AuthSwitch::parse(&packet));
        }
    }
}
