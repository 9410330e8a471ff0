//! Who comes in, and as what.

use super::*;

#[test]
fn nobody_is_given_the_key_of_an_opaque_account() {
    let mut between = Between::logged_in("analyst");
    between.query("SELECT name FROM people");
    between.server(&text_answer(&[SECRET], &[&[Some(b"smith")]]));
    let (to_client, _) = between.take();
    let at = envelope_at(&to_client[1]).unwrap();
    assert_eq!(Envelope::parse(&to_client[1][at..]).unwrap().unwrap().key, None);
    assert!(!to_client.iter().any(|packet| packet.windows(5).any(|five| five == b"smith")));
}

#[test]
fn a_client_that_knows_no_envelope_gets_none() {
    let mut between = Between::new(&format!("unknown_clients = 'ciphertext'\n{RULES}"), false);
    between.log_in(&response("shop", false));
    between.query("SELECT name FROM people");
    between.server(&text_answer(&[SECRET], &[&[Some(b"smith")]]));
    assert!(!between.shows());
    // Some drivers refuse a definition that is longer than it was.
    assert_eq!(between.take().0[1].len(), definition(SECRET).len());
}

#[test]
fn a_client_that_does_not_decrypt_is_told_so() {
    let mut between = Between::new(RULES, false);
    between.server(&greeting());
    between.client(&response("shop", false));
    between.take();
    between.server(&packet(2, OK));
    assert!(between.told().contains("does not say that it decrypts") && between.session.is_over());
}

/// As drivers of older envelopes do: keys would be bound to nothing, and recorded answers would decrypt again.
#[test]
fn a_client_that_decrypts_and_tells_no_nonce_is_refused_at_once() {
    for account in ["shop", "admin", "nobody"] {
        let mut between = Between::new(RULES, false);
        between.server(&greeting());
        between.take();
        between.client(&response_saying(account, b"\x10costof_encrypted\x011", CAPABILITIES));
        assert!(between.to_server.is_empty());
        assert!(between.told().contains("costof_nonce of 64 hexadecimal digits") && between.session.is_over());
    }
}

#[test]
fn what_a_client_says_out_of_turn_ends_the_session() {
    for bytes in [packet(1, b"\x0e"), packet(0, b""), [packet(0, b"\x0e"), packet(5, b"")].concat()] {
        let mut between = Between::logged_in("admin");
        between.client(&bytes);
        if !between.session.is_over() {
            between.server(&packet(1, OK));
            between.client(&bytes[bytes.len() - 4..]);
        }
        assert!(between.session.is_over());
    }
    // A command in the place of a proof would reach the server unread.
    let mut early = Between::new(RULES, false);
    early.server(&greeting());
    let ahead = [response("shop", true), packet(0, b"\x03SELECT name INTO OUTFILE 'x' FROM people")].concat();
    let taken = early.client(&ahead);
    assert!(taken < ahead.len() && !early.to_server.windows(4).any(|four| four == b"INTO"));
    early.take();
    early.server(&packet(2, b"\x01\x04"));
    early.client(&ahead[taken..]);
    assert!(early.session.is_over() && early.to_server.is_empty());
}

#[test]
fn tls_is_both_sides_or_neither() {
    let mut between = Between::new(RULES, true);
    between.server(&greeting());
    assert_eq!(between.session.wants_of_client(&[]), 36);
    assert_eq!(between.session.wants_of_client(&[32, 0, 0, 1, 0]), 31);
    assert_eq!(between.session.wants_of_client(&[33, 0, 0]), usize::MAX);
    between.take();
    between.client(&response("shop", true));
    assert!(between.told().contains("under TLS only") && between.session.is_over());

    let mut between = Between::new(RULES, true);
    between.server(&greeting());
    between.client(&packet(1, &tls_request()));
    assert!(between.session.wants_tls() && !between.session.listens_to_client());
    between.session.secured();
    between.take();
    between.client(&sequenced(2, &response_of("shop", true, CAPABILITIES | 1 << 11)));
    assert_eq!(between.take().1.len(), 1);

    let mut plain = Between::new(RULES, false);
    plain.server(&greeting());
    plain.take();
    plain.client(&packet(1, &tls_request()));
    assert!(plain.told().contains("wants TLS where it was not offered"));
}

#[test]
fn other_charsets_are_refused_to_accounts_that_are_guarded() {
    for (account, refused) in [("shop", true), ("admin", false)] {
        let mut between = Between::new(RULES, false);
        between.server(&greeting());
        between.take();
        let mut response = response(account, true);
        // gbk_chinese_ci
        response[4 + 8] = 28;
        between.client(&response);
        assert_eq!(between.session.is_over(), refused);
    }
}
