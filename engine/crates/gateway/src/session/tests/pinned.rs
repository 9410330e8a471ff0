//! What a guarded session is made before its client is heard.

use super::*;

/// Until the server has accepted the client.
fn accepted(account: &str, decrypts: bool) -> Between {
    let mut between = Between::new(RULES, false);
    between.server(&greeting());
    between.client(&response(account, decrypts));
    between.take();
    between.server(&packet(2, b"\x00\x00\x00\xff\xff\x07\x00welcome"));
    between
}

fn statements(to_server: &[Vec<u8>]) -> Vec<String> {
    to_server.iter().map(|packet| String::from_utf8(packet[1..].to_vec()).unwrap()).collect()
}

#[test]
fn a_client_hears_of_its_login_once_the_session_is_as_it_must_be() {
    let mut between = accepted("shop", true);
    assert!(between.to_client.is_empty() && !between.session.listens_to_client() && !between.session.is_logged_in());
    let sent = statements(&between.take().1);
    assert!(sent[0].starts_with("SET NAMES utf8mb4 COLLATE utf8mb4_general_ci, @@session.sql_mode = CONCAT_WS("));
    assert!(sent[2].starts_with("SELECT @@session.sql_mode, ") && sent[2].ends_with(", DATABASE()"));
    assert!(sent.iter().all(|sql| sql.is_ascii() && !sql.contains(['"', '\\', '`', '|', '[', '{'])), "{sent:?}");
    between.server_in_pieces(&pinned_answers(&PINNED, true), 3);
    // Of its status what drivers go by, in the number that the client waits for.
    assert_eq!(between.to_client, packet(2, b"\x00\x00\x00\x0b\x20\x00\x00"));
    assert!(between.session.listens_to_client() && between.session.is_logged_in());
    assert_eq!(between.session.database, Some(b"d".to_vec()));
}

#[test]
fn who_gets_plaintext_is_left_alone_and_who_is_unwelcome_is_not_kept() {
    let mut plain = accepted("admin", false);
    assert_eq!(plain.take(), (vec![b"\x00\x00\x00\xff\xff\x07\x00welcome".to_vec()], vec![]));
    assert!(plain.session.is_logged_in());
    let mut unwelcome = accepted("shop", false);
    assert!(unwelcome.to_server.is_empty() && unwelcome.told().contains("does not say that it decrypts"));
}

#[test]
fn a_session_that_is_another_than_it_must_be_ends_without_a_login() {
    for (place, value) in [
        (0, "ANSI_QUOTES"),
        (0, "STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES"),
        (0, "A_MODE_OF_THE_FUTURE"),
        (1, "1"),
        (2, "de_DE"),
        (3, "gbk"),
        (4, "latin1"),
        (5, "utf16"),
        (6, "utf8mb4_bin"),
    ] {
        let mut between = accepted("shop", true);
        let mut values = PINNED;
        values[place] = value;
        between.server(&pinned_answers(&values, true));
        assert_eq!(sequences(&between.to_client), [2]);
        assert!(between.told().contains("the settings that guarded accounts need"), "{value}");
        assert!(between.session.is_over() && !between.session.is_logged_in());
        assert_eq!(between.session.take_tally().errors, 1);
    }
}

#[test]
fn a_server_that_refuses_ends_it_but_for_what_it_does_not_have() {
    let unknown = packet(1, b"\xff\xa9\x04#HY000Unknown system variable 'profiling'");
    let denied = packet(1, b"\xff\xcb\x04#42000Access denied");
    let [first, second, third] = [packet(1, OK), packet(1, OK), text_answer(&[COMPUTED], &[&[Some(b"1")]])];
    for (what, answers, passes) in [
        ("no profiling", [&first[..], &unknown, &pinned_answers(&PINNED, true)[22..]].concat(), true),
        ("settings", [&unknown[..], &second, &third].concat(), false),
        ("profiling", [&first[..], &denied, &third].concat(), false),
        ("reading", [&first[..], &second, &denied].concat(), false),
        ("too few values", [&first[..], &second, &third].concat(), false),
        ("no row", [&first[..], &second, &text_answer(&[COMPUTED; 8], &[])].concat(), false),
        ("an OK", [&first[..], &second, &second].concat(), false),
    ] {
        let mut between = accepted("shop", true);
        between.take();
        between.server(&answers);
        assert_eq!(between.session.is_logged_in(), passes, "{what}");
        assert_eq!(between.take().0.iter().filter(|packet| packet[0] == 0xFF).count(), usize::from(!passes), "{what}");
    }
    let mut lost = accepted("shop", true);
    lost.session.server_lost(&mut lost.to_client);
    assert_eq!(sequences(&lost.to_client), [2]);
    assert!(lost.told().contains("was lost"));
}

#[test]
fn a_session_that_begins_anew_is_made_the_same() {
    let mut between = Between::logged_in("shop");
    between.client(&[packet(0, b"\x1f"), packet(0, b"\x0e")].concat());
    assert_eq!(between.take().1, [b"\x1f"], "what was sent ahead waits");
    between.server(&packet(1, OK));
    assert!(between.to_client.is_empty() && !between.session.listens_to_client());
    let mut values = PINNED;
    values[7] = "other";
    between.server(&pinned_answers(&values, true));
    assert_eq!(between.to_client, packet(1, OK));
    assert_eq!(between.take().1.len(), 3);
    assert_eq!(between.session.database, Some(b"other".to_vec()));
    between.client(&packet(0, b"\x0e"));
    between.server(&packet(1, OK));
    assert_eq!(between.take().0, [OK]);

    let mut plain = Between::logged_in("admin");
    plain.client(&packet(0, b"\x1f"));
    plain.server(&packet(1, OK));
    assert_eq!(plain.take(), (vec![OK.to_vec()], vec![b"\x1f".to_vec()]));
}

#[test]
fn a_refused_reset_is_told_and_the_session_goes_on() {
    let mut between = Between::logged_in("shop");
    between.client(&packet(0, b"\x1f"));
    between.server(&packet(1, b"\xff\x17\x04#08S01Unknown command"));
    assert_eq!(between.told(), "Unknown command");
    assert!(between.session.listens_to_client());
}

#[test]
fn the_database_is_another_once_the_server_has_said_so() {
    let mut between = Between::logged_in("shop");
    between.client(&packet(0, b"\x02other"));
    assert_eq!(between.session.database, Some(b"d".to_vec()));
    between.server(&packet(1, b"\xff\x19\x04#42000Unknown database 'other'"));
    assert_eq!((between.told().as_str(), &between.session.database), ("Unknown database", &Some(b"d".to_vec())));
    // An OK of another command is not the one that was waited for.
    between.query("SET autocommit = 1");
    between.server(&packet(1, OK));
    assert_eq!(between.session.database, Some(b"d".to_vec()));
    between.client(&packet(0, b"\x02other"));
    between.server(&packet(1, OK));
    assert_eq!(between.session.database, Some(b"other".to_vec()));
    between.take();
    for name in
        [&b""[..], b"#mysql50#d", b"#MySQL50#d", b"d ", b"d\0", b"m\xfcller", "\u{1F600}".as_bytes(), &[b'x'; 65]]
    {
        between.client(&packet(0, &[b"\x02", name].concat()));
        assert!(between.told().contains("database's name"), "{name:?}");
        assert!(between.to_server.is_empty());
    }
}
