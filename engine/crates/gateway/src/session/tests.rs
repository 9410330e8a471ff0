//! Tests of sessions. The tests provide the bytes of client and server.

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

/// A session, and the bytes that it has sent to client and server.
struct TestSession {
    session: Session,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
}

impl TestSession {
    fn new(rules: Rules, limits: Limits, tls: bool) -> Self {
        let session = Session::new(Arc::new(Shared::new(rules, limits, None)), tls);
        TestSession { session, to_client: Vec::new(), to_server: Vec::new() }
    }

    /// Create a session that has received the server's greeting and waits for the client's response.
    fn greeted(text: &str) -> Self {
        let mut test = Self::new(rules(text), Limits::default(), false);
        test.server(&greeting());
        test.take();
        test
    }

    fn accepted(account: &str, decrypts: bool) -> Self {
        let mut test = Self::greeted(RULES);
        test.client(&response(account, decrypts));
        test.take();
        test.server(&packet(2, b"\x00\x00\x00\xff\xff\x07\x00welcome"));
        test
    }

    /// Create a logged-in session of a client that decrypts.
    fn logged_in(account: &str) -> Self {
        Self::limited(account, Limits::default())
    }

    fn limited(account: &str, limits: Limits) -> Self {
        let mut test = Self::new(rules(RULES), limits, false);
        test.log_in(&response(account, true));
        test
    }

    /// Log in with this login response, which the rules must allow. The server accepts it. Discard the output.
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
        self.server_in_chunks(bytes, bytes.len());
    }

    fn server_in_chunks(&mut self, bytes: &[u8], size: usize) {
        let mut received = Vec::new();
        for chunk in bytes.chunks(size.max(1)) {
            received.extend_from_slice(chunk);
            let processed = self.session.from_server(&received, &mut self.to_client, &mut self.to_server);
            received.drain(..processed);
        }
    }

    fn client(&mut self, bytes: &[u8]) -> usize {
        self.session.from_client(bytes, &mut self.to_server, &mut self.to_client)
    }

    fn client_in_chunks(&mut self, bytes: &[u8], size: usize) {
        let mut received = Vec::new();
        for chunk in bytes.chunks(size) {
            received.extend_from_slice(chunk);
            let processed = self.client(&received);
            received.drain(..processed);
        }
    }

    fn query(&mut self, sql: &str) {
        self.client(&packet(0, &[b"\x03", sql.as_bytes()].concat()));
    }

    fn prepare(&mut self, sql: &str) {
        self.client(&packet(0, &[b"\x16", sql.as_bytes()].concat()));
    }

    /// Prepare the statement with this number of parameters as statement 7. Discard the output.
    fn prepared(&mut self, sql: &str, parameters: usize, columns: &[Column]) {
        self.prepare(sql);
        self.server(&prepared(7, parameters, columns));
        let (to_client, _) = self.take();
        assert_eq!((to_client[0][0], to_client.len()), (0, 1 + parameters + columns.len()), "{to_client:?}");
    }

    fn replace_rules(&self, text: &str) {
        self.session.shared.replace(rules(text));
    }

    /// Return whether the client has received a protected value in plaintext.
    fn is_revealed(&self) -> bool {
        self.to_client.windows(5).any(|five| five == b"smith")
    }

    /// Return the packets for the client and for the server since the last call.
    fn take(&mut self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let processed = (packets(&self.to_client), packets(&self.to_server));
        self.to_client.clear();
        self.to_server.clear();
        processed
    }

    /// Return the message of the error that is the client's only packet. Check that nothing was sent to the server.
    fn error(&mut self) -> String {
        let (to_client, to_server) = self.take();
        assert_eq!((to_client.len(), to_server), (1, vec![]), "{to_client:?}");
        error(&to_client[0])
    }

    /// Return the error for a refused command. Check that the session continues.
    fn refusal(&mut self) -> String {
        assert!(self.session.listens_to_client() && !self.session.is_over());
        self.error()
    }

    /// Return the sequence number and message of the error that ended the session.
    fn final_error(&mut self) -> (u8, String) {
        assert!(self.session.is_over() && self.session.take_tally().errors == 1);
        let sequence = self.to_client[3];
        (sequence, self.error())
    }

    /// Return the command that is the only packet for the server. Check that nothing was sent to the client.
    fn sent(&mut self) -> Vec<u8> {
        let (to_client, to_server) = self.take();
        assert_eq!((to_client, to_server.len()), (vec![], 1), "{to_server:?}");
        to_server[0].clone()
    }
}

/// Return the rows of a result set, decrypted with the client's master key.
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
    let salt = SessionSalt::new(b"01234567abcdefghijkl", &ClientNonce::from_hex(NONCE.as_bytes()).unwrap());
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

/// Return a binary answer with one row, whose only column contains `smith`.
fn binary_answer(column: Column) -> Vec<u8> {
    [packet(1, b"\x01"), packet(2, &definition(column)), packet(3, b"\x00\x00\x05smith"), packet(4, END)].concat()
}

/// Return the end of COM_STMT_EXECUTE: the bitmap of NULLs, the byte that announces new types, and the types.
fn types(is_new: u8, kinds: &[u8]) -> Vec<u8> {
    let kinds = if is_new == 0 { &[] } else { kinds };
    [&[0, is_new], &kinds.iter().flat_map(|kind| [*kind, 0]).collect::<Vec<_>>()[..]].concat()
}

#[test]
fn session_of_an_account_that_gets_plaintext_is_forwarded_byte_for_byte() {
    let mut open = TestSession::accepted("admin", false);
    assert_eq!(open.take(), (vec![b"\x00\x00\x00\xff\xff\x07\x00welcome".to_vec()], vec![]));
    let answer = text_answer(&[SECRET, PLAIN], &[&[Some(b"smith"), Some(b"1")]]);
    let long = [&[0xFF, 0xFF, 0xFF, 0][..], b"\x03", &[b'x'; 0xFF_FFFE], &packet(1, b"more")].concat();
    let commands = [packet(0, b"\x03SELECT name INTO @x FROM people"), packet(0, b"\x0e"), long].concat();
    open.client_in_chunks(&commands, 1 << 16);
    assert!(open.to_server == commands);
    open.server_in_chunks(&answer, 7);
    assert_eq!(open.to_client, answer);
    assert_eq!(open.session.take_tally(), Tally { commands: 3, ..Tally::default() });
    for (bytes, words) in [
        (packet(0, b"\x11shop\0"), "cannot change the account"),
        (packet(0, b"\x12"), "does not know this command"),
        (packet(1, b"\x0e"), "out of sequence"),
        (packet(0, b""), "without a command byte"),
        (
            [&[0xFF, 0xFF, 0xFF, 0][..], b"\x03", &[b'x'; 0xFF_FFFE], &packet(0, b"\x11shop\0")].concat(),
            "out of sequence",
        ),
    ] {
        let mut open = TestSession::logged_in("admin");
        open.client(&bytes);
        open.to_server.clear();
        assert!(open.final_error().1.contains(words), "{words}");
    }
    let mut open = TestSession::logged_in("admin");
    open.replace_rules(&RULES.replace("role = 'plaintext'", "role = 'opaque'"));
    open.query(CITY);
    assert_eq!(
        open.final_error(),
        (1, "the gateway's rules have changed and now guard this account: connect again".into())
    );
}

#[test]
fn only_the_holder_of_the_master_key_can_decrypt_query_results() {
    let rows: [&[Option<&[u8]>]; 3] = [
        &[Some(b"smith"), Some(b"1")],
        &[None, None],
        &[Some(b""), Some(b"a long value that takes more than a block")],
    ];
    let mut test = TestSession::logged_in("shop");
    test.query("SELECT name, city FROM people");
    test.server(&text_answer(&[SECRET, PLAIN], &rows));
    assert!(!test.is_revealed());
    let expected = rows.map(|row| row.iter().map(|value| value.map(<[u8]>::to_vec)).collect::<Vec<_>>());
    assert_eq!(decrypted(&test.take().0, RowFormat::Text), expected);
    let tally = test.session.take_tally();
    assert_eq!((tally.rows, tally.values_encrypted, tally.plaintext_bytes), (3, 2, 5));

    let mut opaque = TestSession::logged_in("analyst");
    opaque.query(NAME);
    opaque.server(&text_answer(&[SECRET], &[&[Some(b"smith")]]));
    assert!(!opaque.is_revealed());
    assert_eq!(envelope(&opaque.take().0[1]).unwrap().key, None, "the client gets no key");

    let rules = rules(&format!("unknown_clients = 'ciphertext'\n{RULES}"));
    let mut other_client = TestSession::new(rules, Limits::default(), false);
    other_client.log_in(&response("shop", false));
    other_client.query(NAME);
    other_client.server(&text_answer(&[SECRET], &[&[Some(b"smith")]]));
    assert!(!other_client.is_revealed());
    // A client that does not decrypt gets definitions of the original length, because some drivers refuse longer ones.
    assert_eq!(other_client.take().0[1].len(), definition(SECRET).len());
}

#[test]
fn each_new_data_key_has_a_higher_number() {
    let mut test = TestSession::logged_in("shop");
    for number in 0..3 {
        test.query(NAME);
        test.server(&text_answer(&[SECRET], &[&[Some(b"smith")]]));
        let (to_client, _) = test.take();
        assert_eq!(envelope(&to_client[1]).unwrap().key.unwrap().number, number);
        assert_eq!(decrypted(&to_client, RowFormat::Text), [[Some(b"smith".to_vec())]]);
        test.replace_rules(RULES);
    }
}

#[test]
fn login_with_an_ambiguous_account_name_or_unsupported_character_set_is_refused() {
    let mut other_charset = response("shop", true);
    // The number of the collation gbk_chinese_ci.
    other_charset[4 + 8] = 28;
    let mut open_in_gbk = response("admin", true);
    open_in_gbk[4 + 8] = 28;
    let open = format!("default_role = 'plaintext'\n{RULES}");
    let long = "x".repeat(33);
    let without_nonce = response_with_attributes("admin", b"\x10costof_encrypted\x011", CAPABILITIES);
    for (rules, response, words) in [
        (RULES, response("shop", true), None),
        (RULES, response(&long[1..], true), None),
        (RULES, open_in_gbk, None),
        ("", response(&long, false), None),
        (RULES, other_charset, Some("character set utf8mb4")),
        (&open, response(&long, true), Some("which account")),
        (&open, response("'shop'", true), Some("which account")),
        (&open, response("müller", true), Some("which account")),
        // Without a nonce of the client, an answer recorded in another session could be sent to the client again.
        (RULES, without_nonce, Some("costof_nonce of 64 hexadecimal digits")),
        (RULES, packet(1, &tls_request()), Some("requests TLS, which was not offered")),
    ] {
        let mut test = TestSession::greeted(rules);
        test.client(&response);
        match words {
            None => assert_eq!(test.take().1.len(), 1),
            Some(words) => assert!(test.final_error().1.contains(words), "{words}"),
        }
    }
    let mut plain = TestSession::accepted("shop", false);
    let (sequence, words) = plain.final_error();
    assert!(
        sequence == 2 && words.contains("does not announce that it decrypts"),
        "the server's OK must not be passed on"
    );
    // A command that is accepted instead of an authentication packet would reach the server unchecked.
    let mut early = TestSession::greeted(RULES);
    let ahead = [response("shop", true), packet(0, b"\x03SELECT name INTO OUTFILE 'x' FROM people")].concat();
    let processed = early.client(&ahead);
    early.server(&packet(2, b"\x01\x04"));
    early.take();
    early.client(&ahead[processed..]);
    assert!(early.session.is_over() && early.to_server.is_empty());
    // If the server refuses the login, `shop`, which may send only approved statements, gets the gateway's text instead
    // of the server's.
    for (account, is_gateway_text) in [("shop", true), ("admin", false)] {
        let mut test = TestSession::greeted(RULES);
        test.client(&response(account, true));
        test.take();
        test.server(&packet(2, b"\xff\x15\x04#28000Access denied for user 'shop'@'host' (using password: YES)"));
        assert_eq!(test.error() == "Access denied for this account", is_gateway_text);
    }
}

#[test]
fn gateway_confirms_a_login_only_after_it_has_set_and_checked_session_settings() {
    let mut test = TestSession::accepted("shop", true);
    assert!(test.to_client.is_empty() && !test.session.listens_to_client() && !test.session.is_logged_in());
    let sent: Vec<_> = test.take().1.iter().map(|packet| String::from_utf8(packet[1..].to_vec()).unwrap()).collect();
    assert!(sent[0].starts_with("SET NAMES utf8mb4 COLLATE utf8mb4_general_ci, @@session.sql_mode = CONCAT_WS("));
    assert!(sent[1].starts_with("SELECT @@session.sql_mode, ") && sent[1].ends_with(", DATABASE()"));
    assert!(sent.iter().all(|sql| sql.is_ascii() && !sql.contains(['"', '\\', '`', '|', '[', '{'])), "{sent:?}");
    test.server_in_chunks(&pinned_answers(&PINNED, true), 3);
    // The OK packet keeps only the status flags that drivers need, and has the sequence number that the client expects.
    assert_eq!(test.to_client, packet(2, b"\x00\x00\x00\x0b\x20\x00\x00"));
    assert!(test.session.listens_to_client() && test.session.is_logged_in());
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
        let mut test = TestSession::accepted("shop", true);
        test.take();
        test.server(&answers);
        assert!(!test.session.is_logged_in());
        let (sequence, words) = test.final_error();
        assert!(sequence == 2 && words.starts_with("the gateway ended this session"), "{words}");
    }
}

#[test]
fn reset_of_a_connection_restores_session_settings_and_drops_prepared_statements() {
    let mut test = TestSession::logged_in("shop");
    test.prepared(CITY, 0, &[PLAIN]);
    test.client(&[packet(0, b"\x1f"), packet(0, b"\x0e")].concat());
    assert_eq!(test.sent(), b"\x1f", "commands sent ahead wait");
    test.server(&packet(1, OK));
    assert!(test.to_client.is_empty() && !test.session.listens_to_client());
    test.server(&pinned_answers(&["", "0", "utf8mb4", "utf8mb4", "utf8mb4", "utf8mb4_general_ci", "other"], true));
    assert_eq!(test.to_client, packet(1, OK));
    assert_eq!(test.take().1.len(), 2);
    assert_eq!(test.session.database, Some(b"other".to_vec()));
    test.client(&execution(7, b""));
    assert!(test.refusal().contains("no prepared statement"));
    test.client(&packet(0, b"\x1f"));
    test.server(&packet(1, b"\xff\x17\x04#08S01Unknown command"));
    test.to_server.clear();
    assert_eq!(test.refusal(), "Unknown command");
}

#[test]
fn only_allowed_kinds_of_commands_reach_the_server() {
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
        let mut test = TestSession::logged_in("shop");
        test.prepared(CITY, 0, &[PLAIN]);
        test.client(&packet(0, command));
        assert_eq!(test.sent(), command);
    }
    for command in (0..=u8::MAX).filter(|command| allowed.iter().all(|known| known[0] != *command)) {
        let mut test = TestSession::logged_in("shop");
        test.client(&packet(0, &[command, 0, 0, 0, 0]));
        assert!(test.refusal().contains("the gateway"), "{command:#x}");
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
        let mut test = TestSession::logged_in("shop");
        test.prepared(CITY, 0, &[PLAIN]);
        test.client(&packet(0, wrong));
        assert!(!test.refusal().is_empty(), "{wrong:?}");
        assert_eq!(test.session.take_tally().refused, 1);
    }
    for wrong in [packet(1, b"\x0e"), packet(0, b"")] {
        let mut test = TestSession::logged_in("shop");
        test.client(&wrong);
        test.final_error();
    }
    let mut test = TestSession::logged_in("shop");
    let (close, ping) = (packet(0, b"\x19\x07\0\0\0"), packet(0, b"\x0e"));
    let processed = test.client(&[close.clone(), ping.clone(), ping.clone()].concat());
    assert_eq!(processed, close.len() + ping.len(), "commands sent ahead wait only for commands with an answer");
}

#[test]
fn server_gets_the_approved_text_and_never_the_bytes_of_the_client() {
    for (sql, sent) in [
        ("select NAME\nfrom PEOPLE", NAME),
        ("/* app */ SELECT city FROM people WHERE id = 007;", "SELECT city FROM people WHERE id = 007"),
        ("insert into people (name) values (\"o\\'b\")", "INSERT INTO people (name) VALUES ('o''b')"),
        ("SET character_set_results = NULL", "DO 0"),
        ("begin", "BEGIN"),
    ] {
        for command in [b"\x03", b"\x16"] {
            let mut test = TestSession::logged_in("shop");
            test.client(&packet(0, &[command, sql.as_bytes()].concat()));
            assert_eq!(test.sent(), [command, sent.as_bytes()].concat(), "{sql}");
        }
    }
    for (sql, words) in [
        ("SELECT CONCAT(name) FROM people WHERE id = 7", "not approved for this account: select concat ( name ) from"),
        ("SELECT name FROM people -- x", "does not accept a comment"),
        ("SELECT city FROM people WHERE id = 'x' AND name = 'y'", "value 1 of this statement must be a number"),
        ("SELECT 2", "record it with 'costof gateway --learn', review it, and add it to [[statements]]"),
    ] {
        let mut test = TestSession::logged_in("shop");
        for command in [b"\x03", b"\x16"] {
            test.client(&packet(0, &[command, sql.as_bytes()].concat()));
            let refusal = test.refusal();
            assert!(refusal.contains(words) && !refusal.contains('7'), "{refusal}");
        }
    }
}

/// A protected column is always encrypted. For any other result column the approval decides. Without a decision, a
/// column is sent unchanged only if the server reports that it comes from a known column of a table.
#[test]
fn source_column_and_approved_statement_determine_whether_a_result_column_is_encrypted() {
    let from_new_table = Column { database: "d", table: "people_new", column: "city" };
    for (sql, column, is_plain) in [
        (NAME, SECRET, false),
        (CITY, PLAIN, true),
        (CITY, SECRET, false),
        (CITY, COMPUTED, false),
        (CITY, from_new_table, false),
        // The alias of the view is the name of a base table.
        ("SELECT city FROM names_v AS people", PLAIN, false),
        ("SELECT MAX(city) FROM people", COMPUTED, true),
        ("SELECT MAX(city) FROM people", SECRET, false),
        ("SELECT x FROM (SELECT name AS x FROM people) t", PLAIN, false),
        ("SELECT @@version", COMPUTED, true),
        ("SELECT @@version", SECRET, false),
    ] {
        let mut test = TestSession::logged_in("shop");
        test.query(sql);
        let answer = text_answer(&[column], &[&[Some(b"smith")]]);
        test.server(&answer);
        assert_eq!(test.to_client == answer, is_plain, "{sql}");
        assert_eq!(test.is_revealed(), is_plain, "{sql}");
    }
    // The approval decides about each result column. If the answer has a different number of columns than the approval,
    // the session ends before any column is sent.
    for columns in 1..=3_u8 {
        let row = vec![Some(&b"smith"[..]); columns.into()];
        let definitions = vec![COMPUTED; columns.into()];
        let mut test = TestSession::logged_in("shop");
        test.query("SELECT COUNT(*), MAX(name) FROM people");
        test.take();
        test.server(&text_answer(&definitions, &[&row]));
        if columns == 2 {
            let (to_client, _) = test.take();
            assert_eq!([1, 2].map(|place| envelope_at(&to_client[place]).is_some()), [false, true]);
        } else {
            let (sequence, words) = test.final_error();
            assert!(sequence == 1 && words.contains("another number of columns than approved"), "{words}");
        }
    }
}

#[test]
fn changed_gateway_rules_apply_from_the_next_command() {
    let mut test = TestSession::logged_in("shop");
    let is_revealed = |test: &mut TestSession| {
        test.query(CITY);
        test.server(&text_answer(&[PLAIN], &[&[Some(b"smith")]]));
        let is_revealed = test.is_revealed();
        test.take();
        is_revealed
    };
    assert!(is_revealed(&mut test));
    test.replace_rules(&RULES.replace("'name'", "'*'"));
    assert!(!is_revealed(&mut test));
    // These rules belong to a server on which the column `city` no longer exists.
    test.session.shared.replace(rules_with_columns(RULES, &["people.name"]));
    assert!(!is_revealed(&mut test));
    test.replace_rules(&RULES.replace("\"SELECT city FROM people\"", "\"SELECT id FROM people\""));
    test.query(CITY);
    assert!(test.refusal().contains("not approved"), "it is no longer approved");
    test.session.shared.replace(Rules::parse_valid(""));
    assert!(is_revealed(&mut test));
    // The gateway cannot undo the effects of statements that the account could send until now.
    test.replace_rules(RULES);
    test.query(CITY);
    assert!(test.final_error().1.contains("connect again"));
}

#[test]
fn statement_approved_for_one_database_is_accepted_only_while_this_database_is_selected() {
    let passes = |test: &mut TestSession| {
        test.query("SELECT t FROM notes");
        let passes = !test.to_server.is_empty();
        if passes {
            test.server(&packet(1, OK));
            test.take();
        } else {
            assert!(test.refusal().contains("approved for another database: select 'd' first"));
        }
        passes
    };
    for (begin, is_prepared) in [(&b"\x02other"[..], false), (b"\x03USE other", false), (b"\x16USE other", true)] {
        let mut test = TestSession::logged_in("shop");
        if is_prepared {
            test.client(&packet(0, begin));
            test.server(&prepared(7, 0, &[]));
        }
        let command = if is_prepared { execution(7, b"") } else { packet(0, begin) };
        test.take();
        assert!(passes(&mut test), "nothing was executed");
        let refused = packet(1, b"\xff\x19\x04#42000Unknown database");
        for (answer, is_allowed) in [(&refused, true), (&packet(1, OK), false)] {
            test.client(&command);
            test.server(answer);
            test.take();
            assert_eq!(passes(&mut test), is_allowed, "{begin:?}");
        }
    }
}

#[test]
fn learning_mode_passes_all_statements_and_writes_each_new_statement_once() {
    let file = std::env::temp_dir().join(format!("costof-session-learned-{}.toml", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let plan = crate::plan::LearnPlan { file: file.clone(), accounts: vec!["shop".into()] };
    let rules = rules(RULES);
    let read = || std::fs::read_to_string(&file).unwrap();
    for round in 0..2 {
        let before = if round == 0 { String::new() } else { read() };
        let learner = Learner::open(&plan, &rules).unwrap();
        let session = Session::new(Arc::new(Shared::new(rules.clone(), Limits::default(), Some(learner))), false);
        let mut test = TestSession { session, to_client: Vec::new(), to_server: Vec::new() };
        test.log_in(&response("shop", false));
        let sql = "SELECT id, name,  1+1 FROM people WHERE name = 'smith'";
        test.query(sql);
        assert_eq!(test.sent(), [b"\x03", sql.as_bytes()].concat());
        let columns = [Column { column: "id", ..PLAIN }, SECRET, COMPUTED];
        let answer = text_answer(&columns, &[&[Some(b"7"), Some(b"smith"), Some(b"1")]]);
        test.server(&answer);
        assert_eq!(test.to_client, answer);
        // Two kinds of statements are not recorded for approval: statements that are already approved, and statements
        // that the server refuses. A statement that the gateway cannot parse is recorded as a comment.
        test.query(NAME);
        test.server(&text_answer(&[SECRET], &[]));
        test.query("SELECT nothing FROM people");
        test.server(&packet(1, b"\xff\x1e\x04#42S22Unknown column"));
        test.query("SELECT 2; SELECT 3");
        test.server(&packet(1, b"\xff\x28\x04#42000You have an error"));
        test.take();
        test.prepared("SELECT id FROM people WHERE city = ?", 1, &[]);
        test.client(&execution(7, &types(1, &[TEXT])));
        test.server(&packet(1, OK));
        assert!(round == 0 || read() == before.clone() + UNREADABLE, "the reopened file already has these statements");
    }
    let text = read();
    std::fs::remove_file(&file).unwrap();
    let (_, entries) = text.split_once("show.\n").unwrap();
    let expected = "\n# output 1: d.people.id\n# output 2: d.people.name, protected: always encrypted\n\
        # output 3: computed\n# filters on people.name: an account that may send it learns which rows match\n\
        [[statements]]\ntext = \"SELECT id, name, ?+? FROM people WHERE name = ?\"\ndatabase = \"d\"\n\
        values = [\"number\", \"number\", \"text\"]\noutputs = [\"plain\", \"encrypt\", \"encrypt\"]\n";
    let prepared =
        "\n[[statements]]\ntext = \"SELECT id FROM people WHERE city = ?\"\ndatabase = \"d\"\nvalues = [\"text\"]\n";
    assert_eq!(entries, [expected, UNREADABLE, prepared, UNREADABLE].concat());
}

const UNREADABLE: &str = "\n# Cannot be approved because it has a second statement after ';':\n# SELECT 2; SELECT 3\n";

#[test]
fn results_of_prepared_statements_are_encrypted_only_for_protected_columns() {
    let mut test = TestSession::logged_in("shop");
    let is_sealed = |answer: &[u8]| answer.windows(7).any(|seven| seven == b"costofE");
    for (number, sql) in [(1, "SELECT x FROM (SELECT name AS x FROM people) t"), (2, CITY)] {
        test.prepare(sql);
        test.server(&prepared(number, 0, &[PLAIN]));
        assert_eq!(is_sealed(&test.to_client), number == 1, "its definitions are encrypted too");
        test.take();
    }
    for number in [1, 2, 1] {
        test.client(&execution(number, b""));
        test.server(&binary_answer(PLAIN));
        assert_eq!((is_sealed(&test.to_client), test.is_revealed()), (number == 1, number == 2));
        test.take();
    }
    test.client(&packet(0, b"\x19\x01\0\0\0"));
    test.take();
    test.client(&execution(1, b""));
    assert!(test.refusal().contains("no prepared statement with this number"));
    // 0 columns are allowed, because MariaDB does not report the columns of a RETURNING clause before the execution.
    for (parameters, columns, is_accepted) in [(0, 1, true), (0, 0, true), (1, 1, false), (0, 2, false)] {
        let mut test = TestSession::logged_in("shop");
        test.prepare("SELECT MAX(city) FROM people");
        test.server(&prepared(7, parameters, &vec![COMPUTED; columns]));
        assert_eq!(test.session.is_over(), !is_accepted, "{parameters} {columns}");
    }
    for columns in [1, 3] {
        let mut test = TestSession::logged_in("shop");
        test.prepared("SELECT COUNT(*), MAX(name) FROM people", 0, &[]);
        test.client(&execution(7, b""));
        test.take();
        test.server(&[packet(1, &[columns]), packet(2, &definition(COMPUTED))].concat());
        assert!(test.final_error().1.contains("another number of columns"));
    }
}

#[test]
fn prepared_statement_is_refused_once_the_rules_no_longer_approve_it_in_the_same_way() {
    let entry = "text = \"SELECT MAX(city) FROM people\"\noutputs = [\"plain\"]";
    assert!(RULES.contains(entry));
    for (rules, column, is_revealed) in [
        (RULES.to_owned(), PLAIN, Some(true)),
        (RULES.replace("'name'", "'city'"), PLAIN, Some(false)),
        (RULES.replace(entry, &entry.replace("plain", "encrypt")), PLAIN, None),
        (RULES.replace(entry, &entry.replace("MAX", "AVG")), PLAIN, None),
    ] {
        let mut test = TestSession::logged_in("shop");
        test.prepared("SELECT MAX(city) FROM people", 0, &[COMPUTED]);
        // After a change of database, the server still executes the statement in the database in which it was prepared.
        test.client(&packet(0, b"\x02other"));
        test.server(&packet(1, OK));
        test.replace_rules(&rules);
        test.take();
        test.client(&execution(7, b""));
        let Some(is_revealed) = is_revealed else {
            assert!(test.refusal().contains("prepare the statement again"));
            continue;
        };
        test.server(&binary_answer(column));
        assert_eq!(test.is_revealed(), is_revealed);
    }
}

/// A number must not be compared with a protected text: the result would reveal the digits with which the text begins.
#[test]
fn execution_of_a_prepared_statement_is_refused_if_a_parameter_has_an_unapproved_type() {
    const DATE: u8 = 0x0A;
    const GEOMETRY: u8 = 0xFF;
    let sql = "SELECT city FROM people WHERE id = ? AND name = ?";
    let passes = |test: &mut TestSession, bytes: &[u8]| {
        test.client(&execution(7, bytes));
        let passes = !test.to_server.is_empty();
        if passes {
            test.server(&packet(1, OK));
            test.take();
        } else {
            assert!(test.refusal().contains("parameter of another kind"));
        }
        passes
    };
    let (right, wrong) = (types(1, &[NUMBER, TEXT]), types(1, &[NUMBER, NUMBER]));
    let before = types(0, &[]);
    let mut test = TestSession::logged_in("shop");
    test.prepared(sql, 2, &[PLAIN]);
    assert!(!passes(&mut test, &before), "no types were sent yet");
    assert!(!passes(&mut test, &wrong));
    assert!(!passes(&mut test, &before), "the types before were wrong");
    assert!(passes(&mut test, &right) && passes(&mut test, &types(1, &[NUMBER, DATE])));
    assert!(passes(&mut test, &before) && passes(&mut test, &before));
    for (bytes, why) in
        [(&right[..right.len() - 1], "cut"), (b"", "none"), (&wrong, "wrong"), (&before, "the types before were wrong")]
    {
        assert!(!passes(&mut test, bytes), "{why}");
    }
    // MySQL takes any byte other than 0 to mean that new types follow.
    for is_new in [2, 0x80, 0xFF] {
        assert!(!passes(&mut test, &types(is_new, &[NUMBER, NUMBER])), "{is_new}");
    }
    assert!(passes(&mut test, &types(2, &[NUMBER, TEXT])));
    // If the approval requires no kind of value, parameters of any common type are allowed.
    let mut test = TestSession::logged_in("shop");
    test.prepared("SELECT city FROM people WHERE id = ?", 1, &[PLAIN]);
    assert!(passes(&mut test, &types(1, &[TEXT])) && passes(&mut test, &types(1, &[NUMBER])));
    assert!(!passes(&mut test, &types(1, &[GEOMETRY])));
}

#[test]
fn long_data_for_a_numeric_parameter_ends_the_session() {
    const NULL: u8 = 0x06;
    const CURSOR: usize = 4 + 1 + 4;
    for (before, passes) in [(&[TEXT][..], true), (&[NUMBER], false), (&[NULL], true), (&[NUMBER, TEXT], true)] {
        let mut test = TestSession::logged_in("shop");
        test.prepared("SELECT city FROM people WHERE id = ?", 1, &[PLAIN]);
        for kind in before {
            test.client(&execution(7, &types(1, &[*kind])));
            test.server(&packet(1, OK));
        }
        // The gateway refuses an execution with a cursor. The server does not receive this execution, so it keeps the
        // types of the previous one.
        let mut with_cursor = execution(7, &types(1, &[TEXT]));
        with_cursor[CURSOR] = 1;
        test.client(&with_cursor);
        test.take();
        let data = packet(0, b"\x18\x07\0\0\0\0\0guess");
        test.client(&data);
        if passes {
            assert_eq!(test.sent(), data[4..]);
        } else {
            // SEND_LONG_DATA has no answer, so the client reads this error as the answer to its next execution.
            let (sequence, words) = test.final_error();
            assert!(
                sequence == 1 && words.contains("SEND_LONG_DATA for a parameter whose last value was not a text"),
                "{words}"
            );
        }
    }
}

#[test]
fn oversized_command_is_skipped_and_gets_one_error() {
    let limits = Limits { statement_bytes: 100, long_data_bytes: 10, prepared_statements: 2, ..Limits::default() };
    for (length, size, fits) in [(100, 1, true), (101, 1, false), (60_000, 999, false)] {
        for command in [b"\x03", b"\x16"] {
            let mut test = TestSession::limited("shop", limits);
            let mut sql = b"SELECT 1 ".to_vec();
            sql.resize(length, b' ');
            test.client_in_chunks(&packet(0, &[command, &sql[..]].concat()), size);
            if fits {
                assert_eq!(test.sent(), [command, &b"SELECT 1"[..]].concat());
            } else {
                assert_eq!(test.refusal(), "the gateway accepts a statement of at most 100 bytes from this account");
                test.client(&packet(0, b"\x0e"));
                assert_eq!(test.sent(), b"\x0e");
            }
        }
    }
    let mut test = TestSession::limited("shop", limits);
    test.prepared(CITY, 0, &[PLAIN]);
    test.client(&execution(7, &[b'x'; 11]));
    assert!(test.refusal().contains("parameters of at most 10 bytes"));
    test.prepare(CITY);
    test.server(&prepared(8, 0, &[PLAIN]));
    test.take();
    test.prepare(CITY);
    assert!(test.refusal().contains("2 prepared statements"));
    test.client(&packet(0, b"\x19\x08\0\0\0"));
    test.take();
    test.prepared(CITY, 0, &[PLAIN]);
    // The count of bytes sent as long data starts from 0 again after an execution, and after a reset of the statement.
    let data = packet(0, b"\x18\x07\0\0\0\0\x0012345678");
    for next in [execution(7, b""), packet(0, b"\x1a\x07\0\0\0")] {
        test.client(&[&data[..], &next].concat());
        test.server(&packet(1, OK));
        assert_eq!((test.take().1.len(), test.session.is_over()), (2, false));
    }
    test.session.take_tally();
    test.client(&data);
    test.take();
    test.client(&data);
    assert!(test.final_error().1.contains("of at most 10 bytes"));
    // This header announces a payload of 16 MB, which is above every limit and continues in the next packet.
    let mut test = TestSession::logged_in("shop");
    test.client(&[0xFF, 0xFF, 0xFF, 0, 0x03]);
    assert!(test.final_error().1.contains("a statement of at most"));
}

#[test]
fn timeouts_for_the_first_and_the_last_byte_of_a_command_are_separate() {
    let limits = Limits { command_seconds: 1, idle_seconds: 2, statement_bytes: 10, ..Limits::default() };
    let mut test = TestSession::limited("shop", limits);
    let seconds = |waiting: Waiting| waiting.timeout_ns(&limits).map(|timeout_ns| timeout_ns / 1_000_000_000);
    let idle = test.session.waiting(false);
    assert_eq!((seconds(idle), seconds(test.session.waiting(true))), (Some(2), Some(1)));
    test.query("BEGIN");
    assert_eq!(seconds(test.session.waiting(true)), None, "commands sent ahead have no timeout");
    test.server(&packet(1, OK));
    assert_ne!(test.session.waiting(false), idle, "each wait has a new number");
    // The timeout runs from the first to the last byte of a command, even if the command is refused.
    let long = packet(0, &[b'\x03'; 100]);
    let begun = test.session.waiting(true);
    test.client(&long[..50]);
    assert_eq!(test.session.waiting(false), begun);
    assert_eq!(TestSession::logged_in("admin").session.waiting(true), Waiting::Server);
}

#[test]
fn malformed_server_responses_end_the_session_with_one_error_and_no_plaintext() {
    let long = [&[0xFF, 0xFF, 0xFF, 3][..], &[b'x'; 64]].concat();
    let head = [packet(1, b"\x02"), packet(2, &definition(SECRET)), packet(3, &definition(PLAIN))].concat();
    for (case, bytes) in [
        ("an empty packet", packet(1, b"")),
        ("out of sequence", packet(3, OK)),
        ("a file's name", packet(1, b"\xfb/etc/passwd")),
        ("an impossible number of columns", packet(1, b"\xfd\xff\xff\xff")),
        ("a malformed definition", [packet(1, b"\x02"), packet(2, b"\x03def")].concat()),
        ("a row that is too short", [head.clone(), packet(4, b"\x05smith")].concat()),
        ("a row that is too long", [head.clone(), packet(4, b"\x05smith\x011\x00")].concat()),
        ("a row that ends early", [head.clone(), packet(4, b"\x05smith\x091")].concat()),
        ("a row without an end", [head.clone(), long.clone()].concat()),
        ("a definition without an end", [packet(1, b"\x02"), packet(2, &definition(SECRET)), long].concat()),
        ("two answers", [packet(1, OK), packet(2, OK)].concat()),
    ] {
        let mut test = TestSession::logged_in("shop");
        test.query("SELECT name, city FROM people");
        test.server(&bytes);
        assert!(test.session.is_over() && !test.is_revealed(), "{case}");
        let numbers = sequences(&test.to_client);
        assert_eq!(numbers, (1..=numbers.len() as u8).collect::<Vec<_>>(), "{case}");
        let (to_client, _) = test.take();
        assert_eq!(to_client.iter().filter(|packet| packet[0] == 0xFF).count(), 1, "{case}");
        assert_eq!(test.session.take_tally().errors, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn output_of_a_session_does_not_depend_on_how_received_bytes_are_divided(
        values in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..300)), 0..8),
        length in 0..40_000_usize,
        size in 1..20_000_usize,
    ) {
        let long = vec![b'x'; length];
        let rows: Vec<_> = values.iter().map(|value| [value.as_deref(), Some(&long[..])]).collect();
        let rows: Vec<&[Option<&[u8]>]> = rows.iter().map(|row| &row[..]).collect();
        let mut test = TestSession::logged_in("shop");
        test.query("SELECT name, city FROM people");
        test.server_in_chunks(&text_answer(&[SECRET, PLAIN], &rows), size);
        let read = decrypted(&test.take().0, RowFormat::Text);
        prop_assert!(read.iter().all(|row| row[1].as_ref() == Some(&long)));
        prop_assert_eq!(read.iter().map(|row| row[0].clone()).collect::<Vec<_>>(), values);
        prop_assert!(test.session.listens_to_client());
    }
}
