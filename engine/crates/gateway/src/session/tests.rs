//! A session between a client and a server that are bytes of these tests.

use super::*;
use encryption::{ClientNonce, DataKey, Envelope, MasterKey, associated_data};
use mysql::Definition;
use proptest::prelude::*;
use wire::*;

mod fuzz;
mod wire;

const TEXT: u8 = 0xFD;
const NUMBER: u8 = 0x08;
const CITY: &str = "SELECT city FROM people";
const NAME: &str = "SELECT name FROM people";

/// A session and what has come out of it.
struct Between {
    session: Session,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
}

impl Between {
    fn new(rules: Rules, limits: Limits, tls: bool) -> Self {
        let session = Session::new(Arc::new(Shared::new(rules, limits, None)), tls);
        Between { session, to_client: Vec::new(), to_server: Vec::new() }
    }

    /// Before the client's response.
    fn greeted(text: &str) -> Self {
        let mut between = Self::new(rules(text), Limits::default(), false);
        between.server(&greeting());
        between.take();
        between
    }

    /// Until the server has accepted the client.
    fn accepted(account: &str, decrypts: bool) -> Self {
        let mut between = Self::greeted(RULES);
        between.client(&response(account, decrypts));
        between.take();
        between.server(&packet(2, b"\x00\x00\x00\xff\xff\x07\x00welcome"));
        between
    }

    /// Logged in as this account, by a client that decrypts.
    fn logged_in(account: &str) -> Self {
        Self::limited(account, Limits::default())
    }

    fn limited(account: &str, limits: Limits) -> Self {
        let mut between = Self::new(rules(RULES), limits, false);
        between.log_in(&response(account, true));
        between
    }

    /// By this response, which the server and the rules accept; nothing of it is left to be taken.
    fn log_in(&mut self, response: &[u8]) {
        self.server(&greeting());
        self.client(response);
        self.server(&packet(2, OK));
        if self.session.phase == Phase::Pinning {
            self.server(&pinned_answers(&PINNED, self.session.without_eof));
        }
        assert!(self.session.is_logged_in());
        self.take();
    }

    fn server(&mut self, bytes: &[u8]) {
        self.server_in_pieces(bytes, bytes.len());
    }

    /// What the server sends, in pieces of this size.
    fn server_in_pieces(&mut self, bytes: &[u8], size: usize) {
        let mut held = Vec::new();
        for piece in bytes.chunks(size.max(1)) {
            held.extend_from_slice(piece);
            let taken = self.session.from_server(&held, &mut self.to_client, &mut self.to_server);
            held.drain(..taken);
        }
    }

    fn client(&mut self, bytes: &[u8]) -> usize {
        self.session.from_client(bytes, &mut self.to_server, &mut self.to_client)
    }

    fn client_in_pieces(&mut self, bytes: &[u8], size: usize) {
        let mut held = Vec::new();
        for piece in bytes.chunks(size) {
            held.extend_from_slice(piece);
            let taken = self.client(&held);
            held.drain(..taken);
        }
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

    fn replace_rules(&self, text: &str) {
        self.session.shared.replace(rules(text));
    }

    /// What is protected has come to the client.
    fn shows(&self) -> bool {
        self.to_client.windows(5).any(|five| five == b"smith")
    }

    /// Packets for the client and the server since the last call.
    fn take(&mut self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let taken = (packets(&self.to_client), packets(&self.to_server));
        self.to_client.clear();
        self.to_server.clear();
        taken
    }

    /// The words of the one error that the client got, while nothing went to the server.
    fn error(&mut self) -> String {
        let (to_client, to_server) = self.take();
        assert_eq!((to_client.len(), to_server), (1, vec![]), "{to_client:?}");
        error(&to_client[0])
    }

    /// The error of a command; the session goes on.
    fn refusal(&mut self) -> String {
        assert!(self.session.listens_to_client() && !self.session.is_over());
        self.error()
    }

    /// The error that ended the session, and its sequence number.
    fn farewell(&mut self) -> (u8, String) {
        assert!(self.session.is_over() && self.session.take_tally().errors == 1);
        let sequence = self.to_client[3];
        (sequence, self.error())
    }

    /// The one command that went to the server.
    fn sent(&mut self) -> Vec<u8> {
        let (to_client, to_server) = self.take();
        assert_eq!((to_client, to_server.len()), (vec![], 1), "{to_server:?}");
        to_server[0].clone()
    }
}

/// What the holder of the key reads of a result set; values of plain columns as they are.
fn decrypted(packets: &[Vec<u8>], format: RowFormat) -> Vec<Vec<Option<Vec<u8>>>> {
    let count = usize::from(packets[0][0]);
    let openers: Vec<_> = packets[1..=count].iter().map(|payload| opener(payload, format)).collect();
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
    packets[count + 1..packets.len() - 1].iter().map(read).collect()
}

type Opening = Box<dyn Fn(&[u8]) -> Vec<u8>>;

fn opener(payload: &[u8], format: RowFormat) -> Opening {
    let Some(envelope) = envelope(payload) else {
        return Box::new(|value| value.to_vec());
    };
    let names = Definition::parse(&payload[..envelope_at(payload).unwrap()]).unwrap().original;
    let wrapped = envelope.key.unwrap();
    assert_eq!(wrapped.master_key, "app");
    let salt = SessionSalt::of(b"01234567abcdefghijkl", &ClientNonce::from_hex(NONCE.as_bytes()).unwrap());
    let key = DataKey::unwrap(wrapped.data_key, &MasterKey::from_hex(KEY).unwrap(), salt, wrapped.number).unwrap();
    let opener = key.opener(envelope.algorithm);
    let associated = associated_data(envelope.algorithm, envelope.original, format, names);
    Box::new(move |sealed| {
        let mut out = Vec::new();
        opener.open(&associated, sealed, &mut out).unwrap();
        out
    })
}

fn envelope_at(payload: &[u8]) -> Option<usize> {
    payload.windows(8).position(|eight| eight == b"costofE2")
}

fn envelope(payload: &[u8]) -> Option<Envelope<'_>> {
    envelope_at(payload).map(|at| Envelope::parse(&payload[at..]).unwrap().unwrap())
}

/// A binary answer of one row, `smith`, in one column.
fn binary_answer(column: Column) -> Vec<u8> {
    [packet(1, b"\x01"), packet(2, &definition(column)), packet(3, b"\x00\x00\x05smith"), packet(4, END)].concat()
}

/// An execution's bytes behind its iterations: NULLs, whether types come, and these.
fn types(is_new: u8, kinds: &[u8]) -> Vec<u8> {
    let kinds = if is_new == 0 { &[] } else { kinds };
    [&[0, is_new], &kinds.iter().flat_map(|kind| [*kind, 0]).collect::<Vec<_>>()[..]].concat()
}

#[test]
fn an_open_session_passes_all_bytes_until_its_account_would_be_another_or_guarded() {
    let mut open = Between::accepted("admin", false);
    assert_eq!(open.take(), (vec![b"\x00\x00\x00\xff\xff\x07\x00welcome".to_vec()], vec![]));
    let answer = text_answer(&[SECRET, PLAIN], &[&[Some(b"smith"), Some(b"1")]]);
    let long = [&[0xFF, 0xFF, 0xFF, 0][..], b"\x03", &[b'x'; 0xFF_FFFE], &packet(1, b"more")].concat();
    let commands = [packet(0, b"\x03SELECT name INTO @x FROM people"), packet(0, b"\x0e"), long].concat();
    open.client_in_pieces(&commands, 1 << 16);
    assert!(open.to_server == commands);
    open.server_in_pieces(&answer, 7);
    assert_eq!(open.to_client, answer);
    assert_eq!(open.session.take_tally(), Tally { commands: 3, ..Tally::default() });
    for (bytes, words) in [
        (packet(0, b"\x11shop\0"), "cannot change the account"),
        (packet(0, b"\x12"), "does not know this command"),
        (packet(1, b"\x0e"), "out of sequence"),
        (packet(0, b""), "without a name"),
        (
            [&[0xFF, 0xFF, 0xFF, 0][..], b"\x03", &[b'x'; 0xFF_FFFE], &packet(0, b"\x11shop\0")].concat(),
            "out of sequence",
        ),
    ] {
        let mut open = Between::logged_in("admin");
        open.client(&bytes);
        open.to_server.clear();
        assert!(open.farewell().1.contains(words), "{words}");
    }
    let mut open = Between::logged_in("admin");
    open.replace_rules(&RULES.replace("role = 'plaintext'", "role = 'opaque'"));
    open.query(CITY);
    assert_eq!(
        open.farewell(),
        (1, "the gateway's rules have changed and now guard this account: connect again".into())
    );
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
    let expected = rows.map(|row| row.iter().map(|value| value.map(<[u8]>::to_vec)).collect::<Vec<_>>());
    assert_eq!(decrypted(&between.take().0, RowFormat::Text), expected);
    let tally = between.session.take_tally();
    assert_eq!((tally.rows, tally.values_encrypted, tally.plaintext_bytes), (3, 2, 5));

    let mut opaque = Between::logged_in("analyst");
    opaque.query(NAME);
    opaque.server(&text_answer(&[SECRET], &[&[Some(b"smith")]]));
    assert!(!opaque.shows());
    assert_eq!(envelope(&opaque.take().0[1]).unwrap().key, None, "nobody is given the key");

    let rules = rules(&format!("unknown_clients = 'ciphertext'\n{RULES}"));
    let mut unknowing = Between::new(rules, Limits::default(), false);
    unknowing.log_in(&response("shop", false));
    unknowing.query(NAME);
    unknowing.server(&text_answer(&[SECRET], &[&[Some(b"smith")]]));
    assert!(!unknowing.shows());
    // Some drivers refuse a definition that is longer than it was.
    assert_eq!(unknowing.take().0[1].len(), definition(SECRET).len());
}

#[test]
fn a_key_that_is_new_in_a_session_has_a_higher_number() {
    let mut between = Between::logged_in("shop");
    for number in 0..3 {
        between.query(NAME);
        between.server(&text_answer(&[SECRET], &[&[Some(b"smith")]]));
        let (to_client, _) = between.take();
        assert_eq!(envelope(&to_client[1]).unwrap().key.unwrap().number, number);
        assert_eq!(decrypted(&to_client, RowFormat::Text), [[Some(b"smith".to_vec())]]);
        between.replace_rules(RULES);
    }
}

#[test]
fn a_client_logs_in_only_as_somebody_certain_who_decrypts_and_speaks_utf8() {
    let mut other_charset = response("shop", true);
    // gbk_chinese_ci
    other_charset[4 + 8] = 28;
    let mut open_in_gbk = response("admin", true);
    open_in_gbk[4 + 8] = 28;
    let open = format!("default_role = 'plaintext'\n{RULES}");
    let long = "x".repeat(33);
    let without_nonce = response_saying("admin", b"\x10costof_encrypted\x011", CAPABILITIES);
    for (rules, response, words) in [
        (RULES, response("shop", true), None),
        (RULES, response(&long[1..], true), None),
        (RULES, open_in_gbk, None),
        ("", response(&long, false), None),
        (RULES, other_charset, Some("character set utf8mb4")),
        (&open, response(&long, true), Some("which account")),
        (&open, response("'shop'", true), Some("which account")),
        (&open, response("müller", true), Some("which account")),
        // Keys would be bound to nothing, and recorded answers would decrypt again.
        (RULES, without_nonce, Some("costof_nonce of 64 hexadecimal digits")),
        (RULES, packet(1, &tls_request()), Some("wants TLS where it was not offered")),
    ] {
        let mut between = Between::greeted(rules);
        between.client(&response);
        match words {
            None => assert_eq!(between.take().1.len(), 1),
            Some(words) => assert!(between.farewell().1.contains(words), "{words}"),
        }
    }
    let mut plain = Between::accepted("shop", false);
    let (sequence, words) = plain.farewell();
    assert!(sequence == 2 && words.contains("does not say that it decrypts"), "the server's OK is not passed on");
    // A command in the place of a proof would reach the server unread.
    let mut early = Between::greeted(RULES);
    let ahead = [response("shop", true), packet(0, b"\x03SELECT name INTO OUTFILE 'x' FROM people")].concat();
    let taken = early.client(&ahead);
    early.server(&packet(2, b"\x01\x04"));
    early.take();
    early.client(&ahead[taken..]);
    assert!(early.session.is_over() && early.to_server.is_empty());
    // A refused login is told in the gateway's words where the account is guarded.
    for (account, is_own) in [("shop", true), ("admin", false)] {
        let mut between = Between::greeted(RULES);
        between.client(&response(account, true));
        between.take();
        between.server(&packet(2, b"\xff\x15\x04#28000Access denied for user 'shop'@'host' (using password: YES)"));
        assert_eq!(between.error() == "Access denied for this account", is_own);
    }
}

#[test]
fn a_guarded_client_hears_of_its_login_once_its_session_is_as_it_must_be() {
    let mut between = Between::accepted("shop", true);
    assert!(between.to_client.is_empty() && !between.session.listens_to_client() && !between.session.is_logged_in());
    let sent: Vec<_> = between.take().1.iter().map(|packet| String::from_utf8(packet[1..].to_vec()).unwrap()).collect();
    assert!(sent[0].starts_with("SET NAMES utf8mb4 COLLATE utf8mb4_general_ci, @@session.sql_mode = CONCAT_WS("));
    assert!(sent[1].starts_with("SELECT @@session.sql_mode, ") && sent[1].ends_with(", DATABASE()"));
    assert!(sent.iter().all(|sql| sql.is_ascii() && !sql.contains(['"', '\\', '`', '|', '[', '{'])), "{sent:?}");
    between.server_in_pieces(&pinned_answers(&PINNED, true), 3);
    // Of its status what drivers go by, in the number that the client waits for.
    assert_eq!(between.to_client, packet(2, b"\x00\x00\x00\x0b\x20\x00\x00"));
    assert!(between.session.listens_to_client() && between.session.is_logged_in());
    let denied = packet(1, b"\xff\xcb\x04#42000Access denied");
    let changed = |place: usize, value| {
        let mut values = PINNED;
        values[place] = value;
        pinned_answers(&values, true)
    };
    for answers in [
        changed(0, "ANSI_QUOTES"),
        changed(0, "STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES"),
        changed(0, "A_MODE_OF_THE_FUTURE"),
        changed(1, "1"),
        changed(2, "gbk"),
        changed(3, "latin1"),
        changed(4, "utf16"),
        changed(5, "utf8mb4_bin"),
        denied.clone(),
        [packet(1, OK), denied].concat(),
        [packet(1, OK), packet(1, OK)].concat(),
        pinned_answers(&PINNED[..6], true),
        [packet(1, OK), text_answer(&[COMPUTED; 7], &[])].concat(),
    ] {
        let mut between = Between::accepted("shop", true);
        between.take();
        between.server(&answers);
        assert!(!between.session.is_logged_in());
        let (sequence, words) = between.farewell();
        assert!(sequence == 2 && words.starts_with("the gateway ended this session"), "{words}");
    }
}

#[test]
fn a_session_that_is_reset_is_pinned_again_and_has_nothing_prepared() {
    let mut between = Between::logged_in("shop");
    between.prepared(CITY, 0, &[PLAIN]);
    between.client(&[packet(0, b"\x1f"), packet(0, b"\x0e")].concat());
    assert_eq!(between.sent(), b"\x1f", "what was sent ahead waits");
    between.server(&packet(1, OK));
    assert!(between.to_client.is_empty() && !between.session.listens_to_client());
    between.server(&pinned_answers(&["", "0", "utf8mb4", "utf8mb4", "utf8mb4", "utf8mb4_general_ci", "other"], true));
    assert_eq!(between.to_client, packet(1, OK));
    assert_eq!(between.take().1.len(), 2);
    assert_eq!(between.session.database, Some(b"other".to_vec()));
    between.client(&execution(7, b""));
    assert!(between.refusal().contains("no prepared statement"));
    between.client(&packet(0, b"\x1f"));
    between.server(&packet(1, b"\xff\x17\x04#08S01Unknown command"));
    between.to_server.clear();
    assert_eq!(between.refusal(), "Unknown command");
}

#[test]
fn a_command_without_a_place_in_the_list_goes_no_further() {
    let allowed = [
        &b"\x01"[..],
        b"\x02d",
        b"\x03ROLLBACK",
        b"\x0e",
        b"\x16ROLLBACK",
        b"\x17\x07\0\0\0\x00\x01\0\0\0",
        b"\x18\x07\0\0\0\0\0data",
        b"\x19\x07\0\0\0",
        b"\x1a\x07\0\0\0",
        b"\x1f",
    ];
    for command in allowed {
        let mut between = Between::logged_in("shop");
        between.prepared(CITY, 0, &[PLAIN]);
        between.client(&packet(0, command));
        assert_eq!(between.sent(), command);
    }
    for command in (0..=u8::MAX).filter(|command| allowed.iter().all(|known| known[0] != *command)) {
        let mut between = Between::logged_in("shop");
        between.client(&packet(0, &[command, 0, 0, 0, 0]));
        assert!(between.refusal().contains("the gateway"), "{command:#x}");
    }
    for wrong in [
        &b"\x0e!"[..],
        b"\x1f!",
        b"\x02",
        b"\x02#MySQL50#d",
        b"\x02d ",
        b"\x02d\0",
        b"\x02m\xfcller",
        "\u{2}\u{1F600}".as_bytes(),
        b"\x17\x08\0\0\0\x00\x01\0\0\0",
        b"\x17\xff\xff\xff\xff\x00\x01\0\0\0",
        b"\x17\x07\0\0\0\x01\x01\0\0\0",
        b"\x1a\x08\0\0\0",
    ] {
        let mut between = Between::logged_in("shop");
        between.prepared(CITY, 0, &[PLAIN]);
        between.client(&packet(0, wrong));
        assert!(!between.refusal().is_empty(), "{wrong:?}");
        assert_eq!(between.session.take_tally().refused, 1);
    }
    for wrong in [packet(1, b"\x0e"), packet(0, b"")] {
        let mut between = Between::logged_in("shop");
        between.client(&wrong);
        between.farewell();
    }
    let mut between = Between::logged_in("shop");
    let (close, ping) = (packet(0, b"\x19\x07\0\0\0"), packet(0, b"\x0e"));
    let taken = between.client(&[close.clone(), ping.clone(), ping.clone()].concat());
    assert_eq!(taken, close.len() + ping.len(), "what is sent ahead waits, but not for a command without an answer");
}

#[test]
fn the_server_gets_the_approved_text_and_never_the_clients_bytes() {
    for (sql, sent) in [
        ("select NAME\nfrom PEOPLE", NAME),
        ("/* app */ SELECT city FROM people WHERE id = 007;", "SELECT city FROM people WHERE id = 007"),
        ("insert into people (name) values (\"o\\'b\")", "INSERT INTO people (name) VALUES ('o''b')"),
        ("SET character_set_results = NULL", "DO 0"),
        ("begin", "BEGIN"),
    ] {
        for command in [b"\x03", b"\x16"] {
            let mut between = Between::logged_in("shop");
            between.client(&packet(0, &[command, sql.as_bytes()].concat()));
            assert_eq!(between.sent(), [command, sent.as_bytes()].concat(), "{sql}");
        }
    }
    for (sql, words) in [
        ("SELECT CONCAT(name) FROM people WHERE id = 7", "not approved for this account: select concat ( name ) from"),
        ("SELECT name FROM people -- x", "does not accept a comment"),
        ("SELECT city FROM people WHERE id = 'x' AND name = 'y'", "value 1 of this statement must be a number"),
        ("SELECT 2", "learn it with 'costof gateway --learn', review it, and add it to [[statements]]"),
    ] {
        let mut between = Between::logged_in("shop");
        for command in [b"\x03", b"\x16"] {
            between.client(&packet(0, &[command, sql.as_bytes()].concat()));
            let refusal = between.refusal();
            assert!(refusal.contains(words) && !refusal.contains('7'), "{refusal}");
        }
    }
}

/// A protected column always; another one by what was approved, or else by whether the server names its origin.
#[test]
fn outputs_are_encrypted_by_their_origin_and_their_approval() {
    let of_a_new_table = Column { database: "d", table: "people_of_a_moment_ago", column: "city" };
    for (sql, column, is_plain) in [
        (NAME, SECRET, false),
        (CITY, PLAIN, true),
        (CITY, SECRET, false),
        (CITY, COMPUTED, false),
        (CITY, of_a_new_table, false),
        // With an alias that is a base table's name.
        ("SELECT city FROM names_v AS people", PLAIN, false),
        ("SELECT MAX(city) FROM people", COMPUTED, true),
        ("SELECT MAX(city) FROM people", SECRET, false),
        ("SELECT x FROM (SELECT name AS x FROM people) t", PLAIN, false),
        ("SELECT @@version", COMPUTED, true),
        ("SELECT @@version", SECRET, false),
    ] {
        let mut between = Between::logged_in("shop");
        between.query(sql);
        let answer = text_answer(&[column], &[&[Some(b"smith")]]);
        between.server(&answer);
        assert_eq!(between.to_client == answer, is_plain, "{sql}");
        assert_eq!(between.shows(), is_plain, "{sql}");
    }
    // Each by its own verdict; another number of columns ends the session before a byte of it.
    for columns in 1..=3_u8 {
        let row = vec![Some(&b"smith"[..]); columns.into()];
        let definitions = vec![COMPUTED; columns.into()];
        let mut between = Between::logged_in("shop");
        between.query("SELECT COUNT(*), MAX(name) FROM people");
        between.take();
        between.server(&text_answer(&definitions, &[&row]));
        if columns == 2 {
            let (to_client, _) = between.take();
            assert_eq!([1, 2].map(|place| envelope_at(&to_client[place]).is_some()), [false, true]);
        } else {
            let (sequence, words) = between.farewell();
            assert!(sequence == 1 && words.contains("another number of columns than was approved"), "{words}");
        }
    }
}

#[test]
fn new_rules_hold_from_the_next_command_on() {
    let mut between = Between::logged_in("shop");
    let shows = |between: &mut Between| {
        between.query(CITY);
        between.server(&text_answer(&[PLAIN], &[&[Some(b"smith")]]));
        let shows = between.shows();
        between.take();
        shows
    };
    assert!(shows(&mut between));
    between.replace_rules(&RULES.replace("'name'", "'*'"));
    assert!(!shows(&mut between));
    // The server does not have the column any more.
    between.session.shared.replace(rules_before(RULES, &["people.name"]));
    assert!(!shows(&mut between));
    between.replace_rules(&RULES.replace("\"SELECT city FROM people\"", "\"SELECT id FROM people\""));
    between.query(CITY);
    assert!(between.refusal().contains("not approved"), "it is not approved any more");
    between.session.shared.replace(Rules::of(""));
    assert!(shows(&mut between));
    // What was done without a guard cannot be undone.
    between.replace_rules(RULES);
    between.query(CITY);
    assert!(between.farewell().1.contains("connect again"));
}

#[test]
fn a_statement_of_a_database_is_approved_where_that_was_used_last_with_success() {
    let passes = |between: &mut Between| {
        between.query("SELECT t FROM notes");
        let passes = !between.to_server.is_empty();
        if passes {
            between.server(&packet(1, OK));
            between.take();
        } else {
            assert!(between.refusal().contains("approved for another database: select 'd' first"));
        }
        passes
    };
    for (begin, is_prepared) in [(&b"\x02other"[..], false), (b"\x03USE other", false), (b"\x16USE other", true)] {
        let mut between = Between::logged_in("shop");
        if is_prepared {
            between.client(&packet(0, begin));
            between.server(&prepared(7, 0, &[]));
        }
        let command = if is_prepared { execution(7, b"") } else { packet(0, begin) };
        between.take();
        assert!(passes(&mut between), "nothing has been carried out");
        let refused = packet(1, b"\xff\x19\x04#42000Unknown database");
        for (answer, is_still_d) in [(&refused, true), (&packet(1, OK), false)] {
            between.client(&command);
            between.server(answer);
            between.take();
            assert_eq!(passes(&mut between), is_still_d, "{begin:?}");
        }
    }
}

#[test]
fn a_learning_account_is_pinned_and_passes_and_each_new_statement_is_written_once() {
    let file = std::env::temp_dir().join(format!("costof-session-learned-{}.toml", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let plan = crate::plan::LearnPlan { file: file.clone(), accounts: vec!["shop".into()] };
    let rules = rules(RULES);
    let read = || std::fs::read_to_string(&file).unwrap();
    for round in 0..2 {
        let before = if round == 0 { String::new() } else { read() };
        let learner = Learner::open(&plan, &rules).unwrap();
        let session = Session::new(Arc::new(Shared::new(rules.clone(), Limits::default(), Some(learner))), false);
        let mut between = Between { session, to_client: Vec::new(), to_server: Vec::new() };
        between.log_in(&response("shop", false));
        let sql = "SELECT id, name,  1+1 FROM people WHERE name = 'smith'";
        between.query(sql);
        assert_eq!(between.sent(), [b"\x03", sql.as_bytes()].concat());
        let columns = [Column { column: "id", ..PLAIN }, SECRET, COMPUTED];
        let answer = text_answer(&columns, &[&[Some(b"7"), Some(b"smith"), Some(b"1")]]);
        between.server(&answer);
        assert_eq!(between.to_client, answer);
        // Approved ones, what servers refuse, and what the gateway does not read.
        between.query(NAME);
        between.server(&text_answer(&[SECRET], &[]));
        between.query("SELECT nothing FROM people");
        between.server(&packet(1, b"\xff\x1e\x04#42S22Unknown column"));
        between.query("SELECT 2; SELECT 3");
        between.server(&packet(1, b"\xff\x28\x04#42000You have an error"));
        between.take();
        between.prepared("SELECT id FROM people WHERE city = ?", 1, &[]);
        between.client(&execution(7, &types(1, &[TEXT])));
        between.server(&packet(1, OK));
        assert!(round == 0 || read() == before.clone() + UNREADABLE, "opened again it knows them");
    }
    let text = read();
    std::fs::remove_file(&file).unwrap();
    let (_, entries) = text.split_once("show.\n").unwrap();
    let expected = "\n# output 1: d.people.id\n# output 2: d.people.name, protected: always encrypted\n\
        # output 3: computed\n# filters on people.name: whoever may send it learns which rows match\n\
        [[statements]]\ntext = \"SELECT id, name, ?+? FROM people WHERE name = ?\"\ndatabase = \"d\"\n\
        values = [\"number\", \"number\", \"text\"]\noutputs = [\"plain\", \"encrypt\", \"encrypt\"]\n";
    let prepared =
        "\n[[statements]]\ntext = \"SELECT id FROM people WHERE city = ?\"\ndatabase = \"d\"\nvalues = [\"text\"]\n";
    assert_eq!(entries, [expected, UNREADABLE, prepared, UNREADABLE].concat());
}

const UNREADABLE: &str = "\n# Cannot be approved, since it has a second statement behind ';':\n# SELECT 2; SELECT 3\n";

#[test]
fn each_prepared_statement_is_executed_as_what_it_was_approved_as() {
    let mut between = Between::logged_in("shop");
    let is_sealed = |answer: &[u8]| answer.windows(7).any(|seven| seven == b"costofE");
    for (number, sql) in [(1, "SELECT x FROM (SELECT name AS x FROM people) t"), (2, CITY)] {
        between.prepare(sql);
        between.server(&prepared(number, 0, &[PLAIN]));
        assert_eq!(is_sealed(&between.to_client), number == 1, "its definitions too");
        between.take();
    }
    for number in [1, 2, 1] {
        between.client(&execution(number, b""));
        between.server(&binary_answer(PLAIN));
        assert_eq!((is_sealed(&between.to_client), between.shows()), (number == 1, number == 2));
        between.take();
    }
    between.client(&packet(0, b"\x19\x01\0\0\0"));
    between.take();
    between.client(&execution(1, b""));
    assert!(between.refusal().contains("no prepared statement of this number"));
    // Without columns it may be: MariaDB tells none of what RETURNING gives before it is executed.
    for (parameters, columns, is_it) in [(0, 1, true), (0, 0, true), (1, 1, false), (0, 2, false)] {
        let mut between = Between::logged_in("shop");
        between.prepare("SELECT MAX(city) FROM people");
        between.server(&prepared(7, parameters, &vec![COMPUTED; columns]));
        assert_eq!(between.session.is_over(), !is_it, "{parameters} {columns}");
    }
    for columns in [1, 3] {
        let mut between = Between::logged_in("shop");
        between.prepared("SELECT COUNT(*), MAX(name) FROM people", 0, &[]);
        between.client(&execution(7, b""));
        between.take();
        between.server(&[packet(1, &[columns]), packet(2, &definition(COMPUTED))].concat());
        assert!(between.farewell().1.contains("another number of columns"));
    }
}

#[test]
fn a_prepared_statement_goes_on_under_other_rules_only_as_it_was_approved() {
    let entry = "text = \"SELECT MAX(city) FROM people\"\noutputs = [\"plain\"]";
    assert!(RULES.contains(entry));
    for (rules, column, shows) in [
        (RULES.to_owned(), PLAIN, Some(true)),
        (RULES.replace("'name'", "'city'"), PLAIN, Some(false)),
        (RULES.replace(entry, &entry.replace("plain", "encrypt")), PLAIN, None),
        (RULES.replace(entry, &entry.replace("MAX", "AVG")), PLAIN, None),
    ] {
        let mut between = Between::logged_in("shop");
        between.prepared("SELECT MAX(city) FROM people", 0, &[COMPUTED]);
        // It stays of the database in which it was prepared.
        between.client(&packet(0, b"\x02other"));
        between.server(&packet(1, OK));
        between.replace_rules(&rules);
        between.take();
        between.client(&execution(7, b""));
        let Some(shows) = shows else {
            assert!(between.refusal().contains("prepare the statement again"));
            continue;
        };
        between.server(&binary_answer(column));
        assert_eq!(between.shows(), shows);
    }
}

/// A protected text that is compared with a number shows how it begins.
#[test]
fn parameters_have_the_kinds_that_were_approved() {
    const DATE: u8 = 0x0A;
    const GEOMETRY: u8 = 0xFF;
    let sql = "SELECT city FROM people WHERE id = ? AND name = ?";
    let goes = |between: &mut Between, bytes: &[u8]| {
        between.client(&execution(7, bytes));
        let goes = !between.to_server.is_empty();
        if goes {
            between.server(&packet(1, OK));
            between.take();
        } else {
            assert!(between.refusal().contains("parameter of another kind"));
        }
        goes
    };
    let (right, wrong) = (types(1, &[NUMBER, TEXT]), types(1, &[NUMBER, NUMBER]));
    let before = types(0, &[]);
    let mut between = Between::logged_in("shop");
    between.prepared(sql, 2, &[PLAIN]);
    assert!(!goes(&mut between, &before), "none were named yet");
    assert!(!goes(&mut between, &wrong));
    assert!(!goes(&mut between, &before), "those before were wrong");
    assert!(goes(&mut between, &right) && goes(&mut between, &types(1, &[NUMBER, DATE])));
    assert!(goes(&mut between, &before) && goes(&mut between, &before));
    for (bytes, why) in
        [(&right[..right.len() - 1], "cut"), (b"", "none"), (&wrong, "wrong"), (&before, "those before were")]
    {
        assert!(!goes(&mut between, bytes), "{why}");
    }
    // MySQL takes any byte but 0 for new types.
    for is_new in [2, 0x80, 0xFF] {
        assert!(!goes(&mut between, &types(is_new, &[NUMBER, NUMBER])), "{is_new}");
    }
    assert!(goes(&mut between, &types(2, &[NUMBER, TEXT])));
    // Where no kind was approved any common one passes.
    let mut between = Between::logged_in("shop");
    between.prepared("SELECT city FROM people WHERE id = ?", 1, &[PLAIN]);
    assert!(goes(&mut between, &types(1, &[TEXT])) && goes(&mut between, &types(1, &[NUMBER])));
    assert!(!goes(&mut between, &types(1, &[GEOMETRY])));
}

#[test]
fn a_text_that_comes_by_itself_for_what_was_a_number_ends_the_session() {
    const NULL: u8 = 0x06;
    const CURSOR: usize = 4 + 1 + 4;
    for (before, passes) in [(&[TEXT][..], true), (&[NUMBER], false), (&[NULL], true), (&[NUMBER, TEXT], true)] {
        let mut between = Between::logged_in("shop");
        between.prepared("SELECT city FROM people WHERE id = ?", 1, &[PLAIN]);
        for kind in before {
            between.client(&execution(7, &types(1, &[*kind])));
            between.server(&packet(1, OK));
        }
        // The server does not see what is refused.
        let mut with_cursor = execution(7, &types(1, &[TEXT]));
        with_cursor[CURSOR] = 1;
        between.client(&with_cursor);
        between.take();
        let data = packet(0, b"\x18\x07\0\0\0\0\0guess");
        between.client(&data);
        if passes {
            assert_eq!(between.sent(), data[4..]);
        } else {
            // In the place of the execution's answer.
            let (sequence, words) = between.farewell();
            assert!(sequence == 1 && words.contains("comes by itself"), "{words}");
        }
    }
}

#[test]
fn what_is_too_much_is_read_to_its_end_and_answered_once() {
    let limits = Limits { statement_bytes: 100, long_data_bytes: 10, prepared_statements: 2, ..Limits::default() };
    for (length, size, fits) in [(100, 1, true), (101, 1, false), (60_000, 999, false)] {
        for command in [b"\x03", b"\x16"] {
            let mut between = Between::limited("shop", limits);
            let mut sql = b"SELECT 1 ".to_vec();
            sql.resize(length, b' ');
            between.client_in_pieces(&packet(0, &[command, &sql[..]].concat()), size);
            if fits {
                assert_eq!(between.sent(), [command, &b"SELECT 1"[..]].concat());
            } else {
                assert_eq!(between.refusal(), "the gateway takes a statement of at most 100 bytes from this account");
                between.client(&packet(0, b"\x0e"));
                assert_eq!(between.sent(), b"\x0e");
            }
        }
    }
    let mut between = Between::limited("shop", limits);
    between.prepared(CITY, 0, &[PLAIN]);
    between.client(&execution(7, &[b'x'; 11]));
    assert!(between.refusal().contains("parameters of at most 10 bytes"));
    between.prepare(CITY);
    between.server(&prepared(8, 0, &[PLAIN]));
    between.take();
    between.prepare(CITY);
    assert!(between.refusal().contains("2 prepared statements"));
    between.client(&packet(0, b"\x19\x08\0\0\0"));
    between.take();
    between.prepared(CITY, 0, &[PLAIN]);
    // Each execution begins anew, and so does a reset.
    let data = packet(0, b"\x18\x07\0\0\0\0\x0012345678");
    for next in [execution(7, b""), packet(0, b"\x1a\x07\0\0\0")] {
        between.client(&[&data[..], &next].concat());
        between.server(&packet(1, OK));
        assert_eq!((between.take().1.len(), between.session.is_over()), (2, false));
    }
    between.session.take_tally();
    between.client(&data);
    between.take();
    between.client(&data);
    assert!(between.farewell().1.contains("of at most 10 bytes"));
    // What is continued in another packet is longer than any limit.
    let mut between = Between::logged_in("shop");
    between.client(&[0xFF, 0xFF, 0xFF, 0, 0x03]);
    assert!(between.farewell().1.contains("a statement of at most"));
}

#[test]
fn each_wait_of_a_guarded_session_has_its_limit_and_begins_anew() {
    let limits = Limits { command_seconds: 1, idle_seconds: 2, statement_bytes: 10, ..Limits::default() };
    let mut between = Between::limited("shop", limits);
    let seconds = |waiting: Waiting| waiting.timeout_ns(&limits).map(|timeout_ns| timeout_ns / 1_000_000_000);
    let idle = between.session.waiting(false);
    assert_eq!((seconds(idle), seconds(between.session.waiting(true))), (Some(2), Some(1)));
    between.query("BEGIN");
    assert_eq!(seconds(between.session.waiting(true)), None, "what was sent ahead is not late");
    between.server(&packet(1, OK));
    assert_ne!(between.session.waiting(false), idle, "each wait begins anew");
    // A refused command is the same one from its first byte to its last.
    let long = packet(0, &[b'\x03'; 100]);
    let begun = between.session.waiting(true);
    between.client(&long[..50]);
    assert_eq!(between.session.waiting(false), begun);
    assert_eq!(Between::logged_in("admin").session.waiting(true), Waiting::Server);
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
        ("two answers", [packet(1, OK), packet(2, OK)].concat()),
    ] {
        let mut between = Between::logged_in("shop");
        between.query("SELECT name, city FROM people");
        between.server(&bytes);
        assert!(between.session.is_over() && !between.shows(), "{what}");
        let numbers = sequences(&between.to_client);
        assert_eq!(numbers, (1..=numbers.len() as u8).collect::<Vec<_>>(), "{what}");
        let (to_client, _) = between.take();
        assert_eq!(to_client.iter().filter(|packet| packet[0] == 0xFF).count(), 1, "{what}");
        assert_eq!(between.session.take_tally().errors, 1);
    }
}

proptest! {
    /// However bytes are cut on their way, they come out as if they came at once.
    #[test]
    fn pieces_make_no_difference(
        values in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..300)), 0..8),
        length in 0..40_000_usize,
        size in 1..20_000_usize,
    ) {
        let long = vec![b'x'; length];
        let rows: Vec<_> = values.iter().map(|value| [value.as_deref(), Some(&long[..])]).collect();
        let rows: Vec<&[Option<&[u8]>]> = rows.iter().map(|row| &row[..]).collect();
        let mut between = Between::logged_in("shop");
        between.query("SELECT name, city FROM people");
        between.server_in_pieces(&text_answer(&[SECRET, PLAIN], &rows), size);
        let read = decrypted(&between.take().0, RowFormat::Text);
        prop_assert!(read.iter().all(|row| row[1].as_ref() == Some(&long)));
        prop_assert_eq!(read.iter().map(|row| row[0].clone()).collect::<Vec<_>>(), values);
        prop_assert!(between.session.listens_to_client());
    }
}
