//! Commands and limits: which go on for a guarded account, and what becomes of what is too much.

use super::*;
use crate::limits::nanoseconds;

const CITY: &str = "SELECT city FROM people";

/// A guarded session whose server calls itself so.
fn before(version: &[u8], limits: Limits) -> Between {
    let mut between = Between::new(RULES, false);
    between.session = Session::new(Arc::new(Shared::new(rules_of(RULES), limits, None)), false);
    let mut told = packets(&greeting()).remove(0);
    told.splice(1..1 + b"8.0.36".len(), version.iter().copied());
    between.server(&packet(0, &told));
    between.client(&response("shop", true));
    between.server(&packet(2, OK));
    between.pinned(&pinned_answers(&PINNED, true));
    between.take();
    between
}

fn prepare(between: &mut Between) {
    between.prepared(CITY, 0, &[PLAIN]);
}

#[test]
fn commands_without_a_place_in_the_list_go_no_further() {
    let allowed = [
        &b"\x01"[..],
        b"\x02d",
        b"\x03ROLLBACK",
        b"\x0c\x07\0\0\0",
        b"\x0e",
        b"\x16ROLLBACK",
        b"\x17\x07\0\0\0\x00\x01\0\0\0",
        b"\x18\x07\0\0\0\0\0data",
        b"\x19\x07\0\0\0",
        b"\x1a\x07\0\0\0",
        b"\x1b\x01\0",
        b"\x1f",
    ];
    for command in allowed {
        let mut between = Between::logged_in("shop");
        prepare(&mut between);
        between.client(&packet(0, command));
        assert_eq!(between.take().1, [command], "{command:?}");
    }
    let statistics = 0x09;
    for command in 0..=u8::MAX {
        if command == statistics || allowed.iter().any(|known| known[0] == command) {
            continue;
        }
        let mut between = Between::logged_in("shop");
        between.client(&packet(0, &[command, 0, 0, 0, 0]));
        let (to_client, to_server) = between.take();
        assert_eq!((to_client.len(), to_client[0][0], to_server.len()), (1, 0xFF, 0), "{command:#x}");
        assert!(between.session.listens_to_client(), "{command:#x}");
    }
    for wrong in [&b"\x1b\x00\x00"[..], b"\x1b\x02\x00", b"\x1b\x01", b"\x0c\x07", b"\x0e!", b"\x1f!", b"\x09!"] {
        let mut between = Between::logged_in("shop");
        between.client(&packet(0, wrong));
        assert!(between.to_server.is_empty() && !between.told().is_empty(), "{wrong:?}");
    }
}

#[test]
fn statistics_are_answered_in_our_words() {
    let mut between = Between::logged_in("shop");
    between.client(&[packet(0, b"\x09"), packet(0, b"\x0e")].concat());
    let (to_client, to_server) = between.take();
    assert_eq!(to_server, [b"\x0e"]);
    assert!(to_client[0].ends_with(b"no statistics"));
    let tally = between.session.take_tally();
    assert_eq!((tally.commands, tally.refused), (1, 0));
}

#[test]
fn minus_one_is_mariadbs_last_statement_and_nothing_elsewhere() {
    let last = b"\x17\xff\xff\xff\xff\x00\x01\0\0\0";
    for (version, knows) in [(&b"5.5.5-10.11.6-MariaDB-0+deb12u1"[..], true), (b"8.0.36", false)] {
        let mut between = before(version, Limits::default());
        prepare(&mut between);
        between.client(&packet(0, last));
        assert_eq!(between.take().1.len(), usize::from(knows));
    }
    let mut between = before(b"11.4.2-MariaDB", Limits::default());
    let forgotten = |between: &mut Between| {
        between.client(&packet(0, last));
        between.told().contains("no prepared statement of this number") && between.to_server.is_empty()
    };
    assert!(forgotten(&mut between));
    prepare(&mut between);
    between.prepare(CITY);
    between.server(&packet(1, b"\xff\x1e\x04#42S22Unknown column"));
    between.take();
    assert!(forgotten(&mut between), "the last one failed");
    prepare(&mut between);
    between.prepare("SELECT nothing FROM people");
    between.take();
    assert!(forgotten(&mut between), "the last one was refused");
    prepare(&mut between);
    between.client(&packet(0, b"\x19\xff\xff\xff\xff"));
    between.take();
    assert!(forgotten(&mut between), "it was closed");
    between.client(&execution(7, b""));
    assert!(between.told().contains("no prepared statement"), "by its other number too");
}

/// Whatever its pieces, it is read to its end and answered once.
#[test]
fn a_statement_that_is_too_long_is_refused_and_the_session_goes_on() {
    let limits = Limits { statement_bytes: 100, ..Limits::default() };
    for (length, size, fits) in [(100, 1, true), (101, 1, false), (60_000, 999, false)] {
        for command in [b"\x03", b"\x16"] {
            let mut between = before(b"8.0.36", limits);
            let mut sql = b"SELECT 1 ".to_vec();
            sql.resize(length, b' ');
            client_in_pieces(&mut between, &packet(0, &[command, &sql[..]].concat()), size);
            if fits {
                assert_eq!(between.take().1, [[command, &b"SELECT 1"[..]].concat()]);
                continue;
            }
            assert!(between.to_server.is_empty());
            assert_eq!(sequences(&between.to_client), [1]);
            assert!(between.told().contains("a statement of at most 100 bytes"));
            between.client(&packet(0, b"\x0e"));
            assert_eq!(between.take().1, [b"\x0e"]);
        }
    }
}

#[test]
fn a_statement_of_several_packets_is_read_to_its_end_and_answered_in_sequence() {
    let mut between = Between::logged_in("shop");
    let mut full = vec![0xFF, 0xFF, 0xFF, 0];
    full.resize(4 + 0xFF_FFFF, b' ');
    full[4] = 0x03;
    client_in_pieces(&mut between, &[&full[..], &packet(1, b" ")].concat(), 1 << 20);
    assert_eq!((sequences(&between.to_client), between.to_server.len()), (vec![2], 0));
    assert!(between.told().contains("a statement of at most"));
    between.client(&packet(0, b"\x0e"));
    assert_eq!(between.take().1, [b"\x0e"]);
}

#[test]
fn statements_are_prepared_up_to_a_limit() {
    let mut between = before(b"8.0.36", Limits { prepared_statements: 2, ..Limits::default() });
    for number in 1..=2_u8 {
        between.prepare(CITY);
        between.server(&prepared(number, 0, &[PLAIN]));
    }
    between.take();
    between.prepare(CITY);
    assert!(between.to_server.is_empty() && between.told().contains("2 prepared statements"));
    between.client(&packet(0, b"\x19\x01\0\0\0"));
    prepare(&mut between);
}

#[test]
fn long_data_that_is_too_much_goes_no_further_and_is_told_when_it_would_be_used() {
    let mut between = before(b"8.0.36", Limits { long_data_bytes: 10, ..Limits::default() });
    prepare(&mut between);
    let (data, execute) = (packet(0, b"\x18\x07\0\0\0\0\x0012345678"), execution(7, b""));
    let reset = packet(0, b"\x1a\x07\0\0\0");
    // Each execution begins anew.
    for _ in 0..2 {
        between.client(&[&data[..], &execute].concat());
        between.server(&packet(1, OK));
        assert_eq!((between.take().1.len(), between.session.is_over()), (2, false));
    }
    between.client(&data);
    between.take();
    client_in_pieces(&mut between, &data, 1);
    assert!(between.to_server.is_empty() && between.to_client.is_empty());
    for _ in 0..2 {
        between.client(&execute);
        assert!(between.to_server.is_empty() && between.told().contains("of at most 10 bytes"));
    }
    between.client(&reset);
    between.server(&packet(1, OK));
    between.take();
    between.client(&[&data[..], &execute].concat());
    assert_eq!(between.take().1.len(), 2);
}

#[test]
fn long_data_of_several_packets_is_too_much() {
    let mut between = Between::logged_in("shop");
    prepare(&mut between);
    let mut full = vec![0xFF, 0xFF, 0xFF, 0];
    full.resize(4 + 0xFF_FFFF, b' ');
    full[4..9].copy_from_slice(b"\x18\x07\0\0\0");
    client_in_pieces(&mut between, &[&full[..], &packet(1, b"more")].concat(), 1 << 20);
    between.client(&execution(7, b""));
    assert!(between.to_server.is_empty() && between.told().contains("of at most 16777216 bytes"));
}

#[test]
fn what_takes_too_long_is_told_by_what_it_is() {
    let limits = Limits { command_seconds: 1, idle_seconds: 2, ..Limits::default() };
    let timeout_ns = |waiting: Waiting| waiting.timeout_ns(&limits);
    let mut between = before(b"8.0.36", limits);
    let idle = between.session.waiting(false);
    assert_eq!(timeout_ns(idle), Some(nanoseconds(2)));
    let begun = between.session.waiting(true);
    assert_eq!(timeout_ns(begun), Some(nanoseconds(1)));
    between.query("SELECT city FROM people");
    assert_eq!(timeout_ns(between.session.waiting(true)), None, "what was sent ahead is not late");
    between.server(&text_answer(&[PLAIN], &[]));
    assert_ne!(between.session.waiting(false), idle, "each wait begins anew");
    between.take();
    // A long command is the same one from its first byte to its last.
    let long = packet(0, &[&b"\x18\x07\0\0\0\0\0"[..], &[b'x'; 60_000]].concat());
    prepare(&mut between);
    let begun = between.session.waiting(true);
    between.client(&long[..20_000]);
    assert_eq!(between.session.waiting(false), begun);
    between.client(&long[20_000..]);
    assert_ne!(between.session.waiting(true), begun);

    for (waiting, sequence, words) in [
        (between.session.waiting(false), 0, "idle for too long"),
        (between.session.waiting(true), 1, "too long to come"),
    ] {
        let mut between = before(b"8.0.36", limits);
        between.session.late(waiting, &mut between.to_client);
        assert_eq!(sequences(&between.to_client), [sequence]);
        assert!(between.told().contains(words) && between.session.is_over());
    }
    let plain = Between::logged_in("admin");
    assert!(!plain.session.is_guarded() && between.session.is_guarded());
}

#[test]
fn names_that_a_server_takes_for_others_are_refused_where_anything_is_guarded() {
    let name = |length| "x".repeat(length);
    let open = format!("default_role = 'plaintext'\n{RULES}");
    for (rules, account, passes) in [
        (RULES, name(32), true),
        (RULES, name(33), false),
        (&open, name(33), false),
        (&open, "m\u{1F600}ller".into(), false),
        ("", name(33), true),
    ] {
        let mut between = Between::new(rules, false);
        between.server(&greeting());
        between.take();
        between.client(&response(&account, true));
        assert_eq!(between.to_server.is_empty(), !passes, "{account}");
        assert!(passes || between.told().contains("which account"));
    }
    let mut quoted = Between::new(RULES, false);
    quoted.log_in(&response("'shop'", true));
    assert!(quoted.session.is_guarded(), "as the server reads it");
}

#[test]
fn a_refused_login_is_told_in_our_words() {
    let denied = packet(2, b"\xff\x15\x04#28000Access denied for user 'shop'@'host' (using password: YES)");
    for (account, own) in [("shop", true), ("admin", false)] {
        let mut between = Between::new(RULES, false);
        between.server(&greeting());
        between.client(&response(account, true));
        between.take();
        between.server(&denied);
        assert_eq!(between.told() == "Access denied for this account", own);
    }
}

fn client_in_pieces(between: &mut Between, bytes: &[u8], size: usize) {
    let mut held = Vec::new();
    for piece in bytes.chunks(size) {
        held.extend_from_slice(piece);
        let taken = between.client(&held);
        held.drain(..taken);
    }
    assert!(held.is_empty());
}

#[test]
fn a_server_that_is_lost_is_told_of_in_sequence() {
    let answer = text_answer(&[SECRET, PLAIN], &[&[Some(b"smith"), Some(b"1")], &[Some(b"jones"), Some(b"2")]]);
    for account in ["admin", "shop"] {
        for cut in 0..answer.len() {
            let mut between = Between::logged_in(account);
            between.query("SELECT name, city FROM people");
            between.server(&answer[..cut]);
            between.session.server_lost(&mut between.to_client);
            let numbers = sequences(&between.to_client);
            assert_eq!(numbers, (1..=numbers.len() as u8).collect::<Vec<_>>());
            let (to_client, _) = between.take();
            assert!(error(to_client.last().unwrap()).contains("the server behind the gateway was lost"));
            assert!(between.session.is_over());
        }
    }
    let mut idle = Between::logged_in("admin");
    idle.session.server_lost(&mut idle.to_client);
    assert!(idle.to_client.is_empty() && idle.session.is_over(), "a client that waits for nothing is told nothing");
}

#[test]
fn what_is_malformed_ends_the_session_with_one_error_and_without_plaintext() {
    let long = [&[0xFF, 0xFF, 0xFF, 3][..], &[b'x'; 64]].concat();
    let head = [packet(1, b"\x02"), packet(2, &definition(SECRET)), packet(3, &definition(PLAIN))].concat();
    for (what, bytes) in [
        ("an empty packet", packet(1, b"")),
        ("out of sequence", packet(3, OK)),
        ("a file's name", packet(1, b"\xfb/etc/passwd")),
        ("no columns", packet(1, b"\xfd\xff\xff\xff")),
        ("a definition that is none", [packet(1, b"\x02"), packet(2, b"\x03def")].concat()),
        ("a row that is too short", [head.clone(), packet(4, b"\x05smith")].concat()),
        ("a row that is too long", [head.clone(), packet(4, b"\x05smith\x011\x00")].concat()),
        ("a row that ends early", [head.clone(), packet(4, b"\x05smith\x091")].concat()),
        ("a row without an end", [head.clone(), long.clone()].concat()),
        ("a definition without an end", [packet(1, b"\x02"), packet(2, &definition(SECRET)), long].concat()),
    ] {
        let mut between = Between::logged_in("shop");
        between.query("SELECT name, city FROM people");
        between.server(&bytes);
        assert!(between.session.is_over(), "{what}");
        assert!(!between.shows(), "{what}");
        let numbers = sequences(&between.to_client);
        assert_eq!(numbers, (1..=numbers.len() as u8).collect::<Vec<_>>(), "{what}");
        let (to_client, _) = between.take();
        assert_eq!(to_client.iter().filter(|packet| packet[0] == 0xFF).count(), 1, "{what}");
        assert_eq!(between.session.take_tally().errors, 1);
    }
}
