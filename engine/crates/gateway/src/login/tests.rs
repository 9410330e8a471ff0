//! Greetings and responses, against another implementation.

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
fn a_greeting_offers_what_the_gateway_can_follow() {
    for tls in [false, true] {
        let mut out = Vec::new();
        let cut = Greeting::cut(&greeting(ALL), 0, tls, &mut out).unwrap();
        let read = HandshakePacket::deserialize((), &mut ParseBuf(&out[4..])).unwrap();
        let offered = read.capabilities();
        assert_eq!(offered.contains(CapabilityFlags::CLIENT_SSL), tls);
        assert_eq!(offered.bits() & CUT, 0);
        assert!(offered.contains(CapabilityFlags::CLIENT_DEPRECATE_EOF | CapabilityFlags::CLIENT_CONNECT_ATTRS));
        assert_eq!(cut.scramble[..], [read.scramble_1_ref(), &read.scramble_2_ref().unwrap()[..12]].concat());
    }
    assert!(Greeting::cut(&greeting(ALL & !CapabilityFlags::CLIENT_SSL), 0, true, &mut Vec::new()).is_err());
}

#[test]
fn a_response_tells_who_and_whether_it_decrypts() {
    let nonce = ClientNonce::random().unwrap();
    let digits = &nonce.hex()[..];
    let says = |value| ("costof_encrypted", value);
    for (attributes, reads) in [
        (vec![], Reads::Plaintext),
        (vec![("_os", "Linux"), says("1"), ("costof_nonce", digits)], Reads::Ciphertext(nonce)),
        (vec![says("0"), ("costof_nonce", digits)], Reads::Plaintext),
        (vec![("costof_nonce", digits)], Reads::Plaintext),
        (vec![says("1")], Reads::Unbound),
        (vec![says("1"), ("costof_nonce", &digits[1..])], Reads::Unbound),
        (vec![says("1"), ("costof_nonce", &digits.replace(|_| true, "x"))], Reads::Unbound),
    ] {
        let packet = response(&attributes);
        let response = Response::parse(&packet).unwrap();
        assert_eq!((response.account, response.reads), (&b"shop"[..], reads), "{attributes:?}");
    }
    // Of two, a reader could take the other.
    let twice: Vec<u8> = [("costof_encrypted", "1"), ("costof_nonce", digits), ("costof_nonce", digits)]
        .iter()
        .flat_map(|(name, value)| [name, value].map(|text| [&[text.len() as u8], text.as_bytes()].concat()).concat())
        .collect();
    assert_eq!(super::reads(&twice).unwrap(), Reads::Unbound);
}

#[test]
fn a_session_claims_what_was_offered_and_a_guarded_one_what_changes_no_statement() {
    let mut packet = response(&[("a", "b")]);
    packet[8] = 8;
    for guarded in [false, true] {
        let mut out = Vec::new();
        Response::parse(&packet).unwrap().append(&packet, 1, guarded, &mut out).unwrap();
        let read = HandshakeResponse::deserialize((), &mut ParseBuf(&out[4..])).unwrap();
        assert_eq!((read.user(), read.db_name()), (&b"shop"[..], Some(&b"tpcc"[..])));
        let claimed = read.capabilities();
        assert_eq!(claimed.bits() & CUT, 0);
        assert_eq!(claimed.contains(CapabilityFlags::CLIENT_MULTI_STATEMENTS), !guarded);
        assert_eq!(claimed.contains(CapabilityFlags::CLIENT_IGNORE_SPACE), !guarded);
        assert!(claimed.contains(CapabilityFlags::CLIENT_FOUND_ROWS | CapabilityFlags::CLIENT_DEPRECATE_EOF));
        assert_eq!(out[4 + 8], if guarded { COLLATION } else { 8 });
    }
}

#[test]
fn a_name_that_a_server_cuts_or_converts_is_not_certain() {
    let greeting = Greeting { capabilities: 0, collation: 28, scramble: [0; SCRAMBLE] };
    for (collation, name, is_certain, is_plain) in [
        (45, "shop", true, true),
        (255, "me@shop", true, true),
        (8, "", true, true),
        (33, "müller", false, true),
        (45, "'shop'", false, true),
        (45, "0123456789abcdef0123456789abcdef", true, true),
        (45, "0123456789abcdef0123456789abcdef+", false, true),
        // É in swe7.
        (10, "@va", false, false),
        (10, "shop", true, false),
        (28, "shop", true, false),
        (0, "shop", true, false),
    ] {
        let response =
            Response { capabilities: 0, collation, account: name.as_bytes(), reads: Reads::Plaintext, end: 0 };
        assert_eq!(response.has_certain_name(&greeting), is_certain, "{collation} {name}");
        assert_eq!(response.has_plain_charset(&greeting), is_plain, "{collation}");
    }
}
