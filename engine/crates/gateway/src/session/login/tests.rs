//! Greetings and responses, against another implementation.

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
    HandshakePacket::new(10, &b"8.0.36"[..], 1, *b"01234567", nonce, capabilities, 45, StatusFlags::empty(), plugin)
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
        .flat_map(|(name, value)| [name, value].map(|text| [&[text.len() as u8], text.as_bytes()].concat()).concat())
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
    for (collation, plain) in [(45, true), (255, true), (8, true), (33, true), (28, false), (0, false), (10, false)] {
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
