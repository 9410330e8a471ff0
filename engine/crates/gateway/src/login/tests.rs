//! Tests that compare greetings and login responses with those of the crate `mysql_common`.

use super::*;
use mysql_common::constants::{CapabilityFlags, StatusFlags};
use mysql_common::io::ParseBuf;
use mysql_common::packets::{AuthPlugin, HandshakePacket, HandshakeResponse};
use mysql_common::proto::{MyDeserialize, MySerialize};

const ALL: CapabilityFlags = CapabilityFlags::all();

fn greeting(capabilities: CapabilityFlags) -> Vec<u8> {
    let mut packet = Vec::new();
    let (nonce, plugin) = (Some(&b"abcdefghijkl\0"[..]), Some(&b"mysql_native_password"[..]));
    HandshakePacket::new(10, &b"8.0.36"[..], 1, *b"01234567", nonce, capabilities, 45, StatusFlags::empty(), plugin)
        .serialize(&mut packet);
    packet
}

fn response(attributes: &[(&str, &str)]) -> Vec<u8> {
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut packet = Vec::new();
    HandshakeResponse::new(
        Some(&[7; 20][..]),
        (8, 0, 36),
        Some(&b"shop"[..]),
        Some(&b"tpcc"[..]),
        Some(AuthPlugin::MysqlNativePassword),
        ALL & !CapabilityFlags::CLIENT_SSL,
        Some(attributes),
        1 << 24,
    )
    .serialize(&mut packet);
    packet
}

#[test]
fn greeting_offers_only_supported_capabilities() {
    for tls in [false, true] {
        let mut out = Vec::new();
        let without_removed_capabilities =
            Greeting::without_removed_capabilities(&greeting(ALL), 0, tls, &mut out).unwrap();
        let read = HandshakePacket::deserialize((), &mut ParseBuf(&out[4..])).unwrap();
        let offered = read.capabilities();
        assert_eq!(offered.contains(CapabilityFlags::CLIENT_SSL), tls);
        assert_eq!(offered.bits() & REMOVED, 0);
        assert!(offered.contains(CapabilityFlags::CLIENT_DEPRECATE_EOF | CapabilityFlags::CLIENT_CONNECT_ATTRS));
        assert_eq!(
            without_removed_capabilities.scramble[..],
            [read.scramble_1_ref(), &read.scramble_2_ref().unwrap()[..12]].concat()
        );
    }
    assert!(
        Greeting::without_removed_capabilities(&greeting(ALL & !CapabilityFlags::CLIENT_SSL), 0, true, &mut Vec::new())
            .is_err()
    );
}

#[test]
fn connection_attributes_tell_the_gateway_whether_a_client_decrypts() {
    let nonce = ClientNonce::random().unwrap();
    let digits = &nonce.hex()[..];
    let announces = |value| ("costof_encrypted", value);
    for (attributes, client_reads) in [
        (vec![], ClientReads::Plaintext),
        (vec![("_os", "Linux"), announces("1"), ("costof_nonce", digits)], ClientReads::Ciphertext(nonce)),
        (vec![announces("0"), ("costof_nonce", digits)], ClientReads::Plaintext),
        (vec![("costof_nonce", digits)], ClientReads::Plaintext),
        (vec![announces("1")], ClientReads::Unbound),
        (vec![announces("1"), ("costof_nonce", &digits[1..])], ClientReads::Unbound),
        (vec![announces("1"), ("costof_nonce", &digits.replace(|_| true, "x"))], ClientReads::Unbound),
    ] {
        let packet = response(&attributes);
        let response = Response::parse(&packet).unwrap();
        assert_eq!((response.account, response.client_reads), (&b"shop"[..], client_reads), "{attributes:?}");
    }
    // Two nonces are refused, because it would not be clear which of them the session's keys depend on.
    let twice: Vec<u8> = [("costof_encrypted", "1"), ("costof_nonce", digits), ("costof_nonce", digits)]
        .iter()
        .flat_map(|(name, value)| [name, value].map(|text| [&[text.len() as u8], text.as_bytes()].concat()).concat())
        .collect();
    assert_eq!(super::client_reads(&twice).unwrap(), ClientReads::Unbound);
}

#[test]
fn gateway_removes_capabilities_that_change_how_statements_are_parsed() {
    let mut packet = response(&[("a", "b")]);
    packet[8] = 8;
    for guarded in [false, true] {
        let mut out = Vec::new();
        Response::parse(&packet).unwrap().append(&packet, 1, guarded, &mut out).unwrap();
        let read = HandshakeResponse::deserialize((), &mut ParseBuf(&out[4..])).unwrap();
        assert_eq!((read.user(), read.db_name()), (&b"shop"[..], Some(&b"tpcc"[..])));
        let claimed = read.capabilities();
        assert_eq!(claimed.bits() & REMOVED, 0);
        assert_eq!(claimed.contains(CapabilityFlags::CLIENT_MULTI_STATEMENTS), !guarded);
        assert_eq!(claimed.contains(CapabilityFlags::CLIENT_IGNORE_SPACE), !guarded);
        assert!(claimed.contains(CapabilityFlags::CLIENT_FOUND_ROWS | CapabilityFlags::CLIENT_DEPRECATE_EOF));
        assert_eq!(out[4 + 8], if guarded { COLLATION } else { 8 });
    }
}

#[test]
fn account_name_that_a_server_could_truncate_or_convert_counts_as_ambiguous() {
    let greeting = Greeting { capabilities: 0, collation: 28, scramble: [0; SCRAMBLE] };
    for (collation, name, is_unambiguous, is_plain) in [
        (45, "shop", true, true),
        (255, "me@shop", true, true),
        (8, "", true, true),
        (33, "müller", false, true),
        (45, "'shop'", false, true),
        (45, "0123456789abcdef0123456789abcdef", true, true),
        (45, "0123456789abcdef0123456789abcdef+", false, true),
        // In the character set swe7, the byte of `@` means É.
        (10, "@va", false, false),
        (10, "shop", true, false),
        (28, "shop", true, false),
        (0, "shop", true, false),
    ] {
        let response = Response {
            capabilities: 0,
            collation,
            account: name.as_bytes(),
            client_reads: ClientReads::Plaintext,
            end: 0,
        };
        assert_eq!(response.has_unambiguous_name(&greeting), is_unambiguous, "{collation} {name}");
        assert_eq!(response.has_plain_charset(&greeting), is_plain, "{collation}");
    }
}
