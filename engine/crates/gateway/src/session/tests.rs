//! A session between a client and a server that are bytes of these tests.

mod entry;
mod fuzz;
mod pinned;
mod prepared;
mod protocol;
mod statements;
mod wire;

use super::*;
use crate::limits::Limits;
use crate::testing;
use encryption::{ClientNonce, DataKey, Envelope, MasterKey, associated_data};
use mysql::Definition;
use mysql::bytes::Reader;
use mysql::{OriginalType, RowFormat};
use proptest::prelude::*;
use std::sync::LazyLock;
use wire::*;

/// A session and what has come out of it.
struct Between {
    session: Session,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
}

impl Between {
    fn new(rules: &str, tls: bool) -> Self {
        let session = Session::new(Arc::new(Shared::new(rules_of(rules), Limits::default(), None)), tls);
        Between { session, to_client: Vec::new(), to_server: Vec::new() }
    }

    /// Logged in as this account, by a client that decrypts.
    fn logged_in(account: &str) -> Self {
        let mut between = Self::new(RULES, false);
        between.log_in(&response(account, true));
        between
    }

    /// By this response, which the server and the rules accept; nothing of it is left to be taken.
    fn log_in(&mut self, response: &[u8]) {
        self.server(&greeting());
        self.client(response);
        self.server(&packet(2, OK));
        self.pinned(&pinned_answers(&PINNED, self.session.answer.without_eof));
        assert!(self.session.is_logged_in());
        self.take();
    }

    /// The server answers the gateway's own commands, where it was sent some.
    fn pinned(&mut self, answers: &[u8]) {
        if self.session.phase == Phase::Pinning {
            self.server(answers);
        }
    }

    /// What the server sends, in pieces of this size.
    fn server_in_pieces(&mut self, bytes: &[u8], size: usize) {
        let mut held = Vec::new();
        for piece in bytes.chunks(size.max(1)) {
            held.extend_from_slice(piece);
            let mut out = Vec::new();
            let progress = self.session.from_server(&held, &mut out, &mut self.to_server);
            assert!(progress.passed == 0 || out.is_empty());
            self.to_client.extend_from_slice(&held[..progress.passed]);
            self.to_client.extend_from_slice(&out);
            held.drain(..progress.taken);
        }
    }

    fn server(&mut self, bytes: &[u8]) {
        self.server_in_pieces(bytes, bytes.len());
    }

    fn client(&mut self, bytes: &[u8]) -> usize {
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let progress = self.session.from_client(bytes, &mut to_server, &mut to_client);
        assert!(progress.passed == 0 || to_server.is_empty());
        self.to_server.extend_from_slice(&bytes[..progress.passed]);
        self.to_server.extend_from_slice(&to_server);
        self.to_client.extend_from_slice(&to_client);
        progress.taken
    }

    fn query(&mut self, sql: &str) {
        self.client(&packet(0, &[b"\x03", sql.as_bytes()].concat()));
    }

    fn prepare(&mut self, sql: &str) {
        self.client(&packet(0, &[b"\x16", sql.as_bytes()].concat()));
    }

    /// Statement 7 of so many parameters, which the server has prepared.
    fn prepared(&mut self, sql: &str, parameters: usize, columns: &[Column]) {
        self.prepare(sql);
        self.server(&prepared(7, parameters, columns));
        let (to_client, _) = self.take();
        assert_eq!((to_client[0][0], to_client.len()), (0, 1 + parameters + columns.len()), "{to_client:?}");
    }

    /// What is protected has come to the client.
    fn shows(&self) -> bool {
        self.to_client.windows(5).any(|five| five == b"smith")
    }

    /// Packets for the client and the server since it was last asked.
    fn take(&mut self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let taken = (packets(&self.to_client), packets(&self.to_server));
        self.to_client.clear();
        self.to_server.clear();
        taken
    }

    fn told(&mut self) -> String {
        let (to_client, _) = self.take();
        assert_eq!(to_client.len(), 1, "{to_client:?}");
        error(&to_client[0])
    }

    /// The number of the one error that was told, while nothing went to the server; the session goes on.
    fn refusal(&mut self) -> u16 {
        let (to_client, to_server) = self.take();
        assert_eq!((to_client.len(), to_server), (1, vec![]), "{to_client:?}");
        assert!(self.session.listens_to_client());
        code(&to_client[0])
    }

    /// The one command that went to the server, in words.
    fn sent(&mut self) -> String {
        let (to_client, to_server) = self.take();
        assert_eq!((to_client, to_server.len()), (vec![], 1), "{to_server:?}");
        String::from_utf8(to_server[0][1..].to_vec()).unwrap()
    }
}

/// Rules before a server that has the columns of these tests.
fn rules_of(text: &str) -> Rules {
    static USUAL: LazyLock<Rules> = LazyLock::new(|| testing::rules(RULES, &testing::COLUMNS));
    if text == RULES { USUAL.clone() } else { testing::rules(text, &testing::COLUMNS) }
}

/// What the holder of the key reads of a result set; values of plain columns as they are.
fn decrypted(packets: &[Vec<u8>], format: RowFormat) -> Vec<Vec<Option<Vec<u8>>>> {
    let count = usize::from(packets[0][0]);
    let openers: Vec<_> = packets[1..=count].iter().map(|payload| opener(payload, format)).collect();
    let rows = &packets[count + 1..packets.len() - 1];
    let read = |row: &Vec<u8>| {
        let mut reader = Reader::new(row);
        let nulls = match format {
            RowFormat::Text => Vec::new(),
            RowFormat::Binary => reader.bytes(1 + (count + 2).div_ceil(8)).unwrap()[1..].to_vec(),
        };
        let value = |(place, open): (usize, &Opening)| {
            let is_null = match format {
                RowFormat::Text => reader.peek() == Some(0xFB) && reader.u8().is_ok(),
                RowFormat::Binary => nulls[(place + 2) / 8] >> ((place + 2) % 8) & 1 == 1,
            };
            (!is_null).then(|| open(reader.text().unwrap()))
        };
        openers.iter().enumerate().map(value).collect()
    };
    rows.iter().map(read).collect()
}

fn envelope_at(payload: &[u8]) -> Option<usize> {
    payload.windows(8).position(|eight| eight == b"costofE2")
}

/// Of the sessions of these tests.
fn salt() -> SessionSalt {
    SessionSalt::of(b"01234567abcdefghijkl", &ClientNonce::from_hex(NONCE.as_bytes()).unwrap())
}

type Opening = Box<dyn Fn(&[u8]) -> Vec<u8>>;

fn opener(payload: &[u8], format: RowFormat) -> Opening {
    let Some(at) = envelope_at(payload) else {
        return Box::new(|value| value.to_vec());
    };
    let definition = Definition::parse(&payload[..at]).unwrap();
    let envelope = Envelope::parse(&payload[at..]).unwrap().unwrap();
    let wrapped = envelope.key.unwrap();
    assert_eq!(wrapped.master_key, "app");
    let key = DataKey::unwrap(wrapped.data_key, &MasterKey::from_hex(KEY).unwrap(), salt(), wrapped.number).unwrap();
    let opener = key.opener(envelope.algorithm);
    let associated = associated_data(envelope.algorithm, envelope.original, format, definition.original);
    Box::new(move |sealed| {
        let mut out = Vec::new();
        opener.open(&associated, sealed, &mut out).unwrap();
        out
    })
}

#[test]
fn a_plaintext_account_gets_the_servers_bytes_and_the_server_the_clients() {
    let mut between = Between::logged_in("admin");
    let answer = text_answer(&[SECRET, PLAIN], &[&[Some(b"smith"), Some(b"1")]]);
    between.query("SELECT name INTO @x FROM people");
    between.server_in_pieces(&answer, 7);
    assert_eq!(between.to_client, answer);
    assert_eq!(between.take().1, [b"\x03SELECT name INTO @x FROM people"]);
    let tally = between.session.take_tally();
    assert_eq!((tally.commands, tally.values_encrypted, tally.errors), (1, 0, 0));
}

#[test]
fn whoever_has_the_key_reads_what_was_encrypted() {
    let rows: [&[Option<&[u8]>]; 3] = [
        &[Some(b"smith"), Some(b"1")],
        &[None, None],
        &[Some(b""), Some(b"a long value that takes more than a block")],
    ];
    let mut between = Between::logged_in("shop");
    between.query("SELECT name, city FROM people");
    between.server(&text_answer(&[SECRET, PLAIN], &rows));
    assert!(!between.shows());
    let (to_client, _) = between.take();
    let expected: Vec<Vec<_>> =
        rows.iter().map(|row| row.iter().map(|value| value.map(<[u8]>::to_vec)).collect()).collect();
    assert_eq!(decrypted(&to_client, RowFormat::Text), expected);
    let tally = between.session.take_tally();
    assert_eq!((tally.rows, tally.values_encrypted, tally.plaintext_bytes), (3, 2, 5));
}

/// That of dates and times is one, whatever their parts are.
#[test]
fn every_binary_type_is_encrypted_by_its_own_length() {
    for (kind, value, content) in [
        (0x01_u8, &b"\x07"[..], &b"\x07"[..]),
        (0x02, b"\x07\x08", b"\x07\x08"),
        (0x03, b"\x01\x02\x03\x04", b"\x01\x02\x03\x04"),
        (0x08, b"12345678", b"12345678"),
        (0x05, b"12345678", b"12345678"),
        (0x0A, b"\x00", b"\0\0\0\0"),
        (0x0C, b"\x04\xe8\x07\x01\x02", b"\xe8\x07\x01\x02\0\0\0\0\0\0\0"),
        (0x07, b"\x07\xe8\x07\x01\x02\x03\x04\x05", b"\xe8\x07\x01\x02\x03\x04\x05\0\0\0\0"),
        (0x0B, b"\x00", b"\0\0\0\0\0\0\0\0\0\0\0\0"),
        (0xF6, b"\x0412.5", b"12.5"),
        (0xFC, b"\xfc\x05\x00bytes", b"bytes"),
    ] {
        let mut between = Between::logged_in("shop");
        between.prepared("SELECT name FROM people", 0, &[SECRET]);
        between.client(&execution(7, b""));
        let column = of_type(SECRET, kind);
        let row = [&b"\x00\x00"[..], value].concat();
        between.server(
            &[packet(1, b"\x01"), packet(2, &column), packet(3, &row), packet(4, b"\x00\x04"), packet(5, END)].concat(),
        );
        let (to_client, _) = between.take();
        assert_eq!(decrypted(&to_client, RowFormat::Binary), [[Some(content.to_vec())], [None]], "{kind:#x}");
        let at = envelope_at(&to_client[1]).unwrap();
        let Definition { stated: original, .. } = Definition::parse(&to_client[1][..at]).unwrap();
        assert_eq!((original.kind, original.charset), (0xFC, 63));
    }
}

fn key_number(payload: &[u8]) -> u32 {
    Envelope::parse(&payload[envelope_at(payload).unwrap()..]).unwrap().unwrap().key.unwrap().number
}

#[test]
fn a_key_that_is_new_in_a_session_has_a_higher_number() {
    let mut between = Between::logged_in("shop");
    let answer = text_answer(&[SECRET], &[&[Some(b"smith")]]);
    for number in 0..3 {
        between.query("SELECT name FROM people");
        between.server(&answer);
        let (to_client, _) = between.take();
        assert_eq!(key_number(&to_client[1]), number);
        assert_eq!(decrypted(&to_client, RowFormat::Text), [[Some(b"smith".to_vec())]]);
        between.session.shared.replace(rules_of(RULES));
    }
}

#[test]
fn what_does_not_pass_is_answered_in_the_servers_place_and_the_session_goes_on() {
    let mut between = Between::logged_in("shop");
    for command in [
        &b"\x03SELECT name INTO OUTFILE 'x' FROM people"[..],
        b"\x16INSERT INTO notes (t) SELECT name FROM people",
        b"\x17\x07\0\0\0\x00\x01\0\0\0",
        b"\x1b\x00\x00",
        b"\x04people\0",
        b"\x0a",
        b"\x11user",
        b"\x1c\x01\0\0\0\x01\0\0\0",
        b"\x12",
    ] {
        between.client(&packet(0, command));
        let (to_client, to_server) = between.take();
        assert_eq!((to_client.len(), to_client[0][0], to_server.len()), (1, 0xFF, 0), "{command:?}");
    }
    assert_eq!(between.session.take_tally().refused, 9);
    between.client(&packet(0, b"\x0e"));
    between.server(&packet(1, OK));
    assert_eq!(between.take().0, [OK]);
}

#[test]
fn a_cursor_is_refused_to_an_account_that_is_guarded_alone() {
    let prepare = |between: &mut Between| {
        between.prepared("SELECT city FROM people", 0, &[PLAIN]);
        between.client(&packet(0, b"\x17\x07\0\0\0\x01\x01\0\0\0"));
    };
    let mut guarded = Between::logged_in("shop");
    prepare(&mut guarded);
    assert!(guarded.told().contains("cursor"));
    let mut plain = Between::logged_in("admin");
    prepare(&mut plain);
    // Rows are fetched by another command, so the answer ends with the definitions.
    let opened = [packet(1, b"\x01"), packet(2, &definition(PLAIN)), packet(3, b"\xfe\0\0\x42\0\0\0")].concat();
    plain.server(&opened);
    assert!(plain.session.listens_to_client() && plain.to_client == opened);
    plain.client(&packet(0, b"\x1c\x07\0\0\0\x01\0\0\0"));
    plain.server(&[packet(1, b"\x00\x00\x031.5"), packet(2, b"\xfe\0\0\x82\0\0\0")].concat());
    assert!(plain.session.listens_to_client());
}

#[test]
fn lists_may_end_with_an_eof_and_results_may_be_several() {
    for account in ["admin", "shop"] {
        let mut between = Between::new(RULES, false);
        between.log_in(&response_of(account, true, CAPABILITIES & !(1 << 24)));
        between.query("SELECT city FROM people");
        let eof = |status: u8| [0xFE, 0, 0, status, 0];
        let one = [
            packet(1, b"\x01"),
            packet(2, &definition(PLAIN)),
            packet(3, &eof(2)),
            packet(4, b"\x011"),
            packet(5, &eof(10)),
        ];
        between.server(&one.concat());
        assert!(!between.session.listens_to_client(), "more results exist");
        between.server(
            &[packet(6, b"\x01"), packet(7, &definition(SECRET)), packet(8, &eof(2)), packet(9, b"\x05smith")].concat(),
        );
        between.server(&packet(10, &eof(2)));
        assert!(between.session.listens_to_client());
        let shows = between.shows();
        assert_eq!(shows, account == "admin");
    }
}

#[test]
fn commands_that_were_sent_ahead_wait_for_their_turn() {
    let mut between = Between::logged_in("admin");
    let (close, ping) = (packet(0, b"\x19\x07\0\0\0"), packet(0, b"\x0e"));
    let ahead = [close.clone(), ping.clone(), ping.clone()].concat();
    assert_eq!(between.client(&ahead), close.len() + ping.len(), "a command without an answer does not wait");
    assert!(!between.session.listens_to_client());
    between.server(&packet(1, OK));
    assert_eq!(between.client(&ping), ping.len());
}

proptest! {
    /// However bytes are cut on their way, they come out as if they came at once.
    #[test]
    fn pieces_make_no_difference(
        values in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..300)), 0..8),
        size in 1..700_usize,
    ) {
        let rows: Vec<Vec<Option<&[u8]>>> = values.iter().map(|value| vec![value.as_deref(), Some(&b"1"[..])]).collect();
        let rows: Vec<&[Option<&[u8]>]> = rows.iter().map(Vec::as_slice).collect();
        let answer = text_answer(&[SECRET, PLAIN], &rows);
        let mut plain = Between::logged_in("admin");
        plain.query("SELECT name, city FROM people");
        plain.server_in_pieces(&answer, size);
        prop_assert_eq!(&plain.to_client, &answer);
        let mut guarded = Between::logged_in("shop");
        guarded.query("SELECT name, city FROM people");
        guarded.server_in_pieces(&answer, size);
        let read = decrypted(&guarded.take().0, RowFormat::Text);
        prop_assert_eq!(read.iter().map(|row| row[0].clone()).collect::<Vec<_>>(), values);
        prop_assert!(guarded.session.listens_to_client());
    }

    #[test]
    fn long_packets_pass_in_pieces(length in 8_000..40_000_usize, size in 1..20_000_usize) {
        let mut value = vec![0xFC];
        value.extend_from_slice(&(length as u16).to_le_bytes());
        value.resize(3 + length, b'x');
        let answer = [packet(1, b"\x01"), packet(2, &definition(PLAIN)), packet(3, &value), packet(4, END)].concat();
        for account in ["admin", "shop"] {
            let mut between = Between::logged_in(account);
            between.query("SELECT city FROM people");
            between.server_in_pieces(&answer, size);
            prop_assert_eq!(&between.to_client, &answer);
        }
    }
}

#[test]
fn a_row_of_16_mb_passes_where_nothing_of_it_is_encrypted() {
    let full = [&[0xFF, 0xFF, 0xFF, 3][..], &[b'x'; 0xFF_FFFF]].concat();
    let answer = [packet(1, b"\x01"), packet(2, &definition(PLAIN)), full, packet(4, b"rest"), packet(5, END)].concat();
    for account in ["admin", "shop"] {
        let mut between = Between::logged_in(account);
        between.query("SELECT city FROM people");
        between.server_in_pieces(&answer, 1 << 20);
        assert!(between.to_client == answer && between.session.listens_to_client());
    }
}

/// The type's bytes that a definition of these tests has.
#[test]
fn definitions_of_these_tests_are_such() {
    let payload = definition(SECRET);
    let read = Definition::parse(&payload).unwrap();
    assert_eq!(read.original, [&b"d"[..], b"people", b"name"]);
    assert_eq!(read.stated, OriginalType { charset: 45, length: 80, kind: 0xFD, flags: 0, decimals: 0 });
}
