//! The gateway between a client and a server of these tests: what becomes of a server that goes, lies or stutters.

use crate::support::authority::{Authority, Identity, VALID};
use crate::support::counting::allocations;
use crate::support::engine::Engine;
use crate::support::mysql::{Mysql, PASSWORD};
use crate::support::server::{self, Manner};
use crate::support::{TIMEOUT_NS, mysql_service, open_mysql, tls};
use gateway::limits::Limits;
use gateway::rules::{Catalogue, ColumnFacts, Facts, Rules};
use gateway::session::{Session, Shared};
use mysql_common::constants::{CapabilityFlags, StatusFlags};
use mysql_common::packets::HandshakePacket;
use mysql_common::proto::MySerialize;
use net::settings::{Transport, Verify};
use openssl::ssl::SslVersion;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use wire::mysql::Statements;

const RULES: &str = "[master_keys]\napp = '00112233445566778899aabbccddeeff'\n\
    [[accounts]]\nname = 'u'\nrole = 'plaintext'\n\
    [[accounts]]\nname = 'shop'\nrole = 'ciphertext'\nmaster_key = 'app'\n\
    [[columns]]\ndatabase = 'd'\ntable = 'people'\ncolumn = 'name'\n\
    [check]\nusername = 'catalogue'\npassword = ''\n";
pub const OK: &[u8] = b"\x00\x00\x00\x02\x00\x00\x00";
pub const END: &[u8] = b"\xfe\x00\x00\x02\x00\x00\x00";
pub const QUERY: &[u8] = b"\x03SELECT name FROM people";

pub fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = (payload.len() as u32).to_le_bytes().to_vec();
    packet[3] = sequence;
    packet.extend_from_slice(payload);
    packet
}

pub fn greeting() -> Vec<u8> {
    let mut payload = Vec::new();
    let (nonce, plugin) = (Some(&b"abcdefghijkl\0"[..]), Some(&b"mysql_native_password"[..]));
    let capabilities = CapabilityFlags::all() & !CapabilityFlags::CLIENT_SSL;
    HandshakePacket::new(10, &b"8.0.36"[..], 1, *b"01234567", nonce, capabilities, 45, StatusFlags::empty(), plugin)
        .serialize(&mut payload);
    packet(0, &payload)
}

fn definition() -> Vec<u8> {
    [b"\x03def\x01d\x01p\x06people\x01n\x04name\x0c\x2d\0\x50\0\0\0\xfd".as_slice(), &[0; 5]].concat()
}

/// What a server says that does as the gateway tells it.
pub fn pinned_answers() -> Vec<u8> {
    let read_back = ["", "0", "en_US", "utf8mb4", "utf8mb4", "utf8mb4", "utf8mb4_general_ci", "d"];
    [packet(1, OK), packet(1, OK), result(&read_back)].concat()
}

pub fn beginning() -> Vec<u8> {
    [packet(1, b"\x01"), packet(2, &definition()), packet(3, b"\x05smith")].concat()
}

/// What a server does once it has accepted a login and read a command.
#[derive(Clone)]
pub enum Then {
    /// Says this and is gone.
    Goes(Vec<u8>),
    /// Says this, a byte at a time, and waits for the client's end, which it tells.
    Stutters(Vec<u8>),
    /// Says rows as long as somebody takes them.
    Floods,
}

/// Who has come to a server.
enum Came {
    Client,
    /// The gateway itself, to learn what tables there are.
    Catalogue,
}

/// Serve until the process ends; the address, and a word for each connection whose client has ended it.
pub fn scripted(then: Then) -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (ended, ends) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (then, ended) = (then.clone(), ended.clone());
            std::thread::spawn(move || {
                // One that the gateway ends while the server still speaks has ended, too.
                if !matches!(perform(stream, &then), Ok(Came::Catalogue)) {
                    let _ = ended.send(());
                }
            });
        }
    });
    (address, ends)
}

fn perform(mut stream: TcpStream, then: &Then) -> std::io::Result<Came> {
    stream.set_nodelay(true)?;
    stream.write_all(&greeting())?;
    receive(&mut stream)?;
    stream.write_all(&packet(2, OK))?;
    let (_, command) = receive(&mut stream)?;
    if command == b"\x03SET NAMES utf8mb4" {
        stream.write_all(&packet(1, OK))?;
        tell_tables(&mut stream);
        return Ok(Came::Catalogue);
    }
    if command.starts_with(b"\x03SET NAMES") {
        // Those that the gateway sends of its own.
        receive(&mut stream)?;
        receive(&mut stream)?;
        stream.write_all(&pinned_answers())?;
        receive(&mut stream)?;
    }
    match then {
        Then::Goes(bytes) => stream.write_all(bytes)?,
        Then::Stutters(bytes) => {
            for byte in bytes {
                stream.write_all(&[*byte])?;
            }
            stream.read_to_end(&mut Vec::new())?;
        }
        Then::Floods => {
            stream.write_all(&beginning())?;
            for sequence in (0..=u8::MAX).cycle().skip(4) {
                stream.write_all(&packet(sequence, b"\x05smith"))?;
            }
        }
    }
    Ok(Came::Client)
}

/// One table of one column, and nothing else.
fn tell_tables(stream: &mut TcpStream) {
    while let Ok((_, command)) = receive(stream) {
        let sql = String::from_utf8_lossy(&command);
        let row: &[&str] = match () {
            () if sql.contains("@@lower_case_table_names") => &["0", "8.0.36"],
            () if sql.contains("FROM information_schema.columns") => {
                &["d", "people", "name", "BASE TABLE", "varchar", "utf8mb4_general_ci", "", ""]
            }
            () => &[],
        };
        if stream.write_all(&result(row)).is_err() {
            return;
        }
    }
}

/// A result of this row, or of none.
fn result(row: &[&str]) -> Vec<u8> {
    let columns = row.len().max(1);
    let mut payloads = vec![vec![columns as u8]];
    payloads.resize(1 + columns, definition()[4..].to_vec());
    if !row.is_empty() {
        payloads.push(row.iter().flat_map(|value| [&[value.len() as u8], value.as_bytes()].concat()).collect());
    }
    payloads.push(END.to_vec());
    let numbered = payloads.iter().zip(1..).map(|(payload, sequence)| packet(sequence, payload));
    numbered.collect::<Vec<_>>().concat()
}

pub fn receive(stream: &mut impl Read) -> std::io::Result<(u8, Vec<u8>)> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let mut payload = vec![0; u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize];
    stream.read_exact(&mut payload)?;
    Ok((header[3], payload))
}

pub struct Gateway {
    pub engine: Engine,
    pub address: String,
}

impl Gateway {
    fn start(test: &str, server: &str) -> Self {
        Self::start_with(test, json!({"address": "127.0.0.1:0", "server": server}))
    }

    pub fn start_with(test: &str, listener: Value) -> Self {
        Self::start_under(test, RULES, listener)
    }

    /// Without a column to encrypt, so that the server is asked nothing.
    fn start_without_rules(test: &str, listener: Value) -> Self {
        Self::start_under(test, "", listener)
    }

    fn start_under(test: &str, rules: &str, mut listener: Value) -> Self {
        listener["rules_file"] = json!(rules_file(test, rules));
        let mut engine = process();
        let ready = engine.ask(&json!({"threads": 2, "listeners": [listener]}));
        let address = ready["ready"]["listeners"][0].as_str().unwrap_or_else(|| panic!("{ready}")).to_owned();
        Gateway { engine, address }
    }

    /// A client that has logged in.
    pub fn client(&self, account: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_nanos(TIMEOUT_NS))).unwrap();
        receive(&mut stream).unwrap();
        stream.write_all(&response(account)).unwrap();
        assert_eq!(receive(&mut stream).unwrap(), (2, OK.to_vec()));
        stream
    }

    /// All that an account is answered, up to the end of its connection.
    fn answer(&self, account: &str) -> Vec<(u8, Vec<u8>)> {
        let mut stream = self.client(account);
        stream.write_all(&packet(0, QUERY)).unwrap();
        std::iter::from_fn(|| receive(&mut stream).ok()).collect()
    }

    pub fn counter(&mut self, name: &str) -> u64 {
        let told = self.engine.ask(&json!({"counters": {}}));
        told["counters"]["listeners"][&self.address][name].as_u64().unwrap_or_else(|| panic!("{told}"))
    }
}

pub fn response(account: &str) -> Vec<u8> {
    // PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, CONNECT_ATTRIBUTES, DEPRECATE_EOF.
    let mut payload = (1_u32 << 9 | 1 << 15 | 1 << 19 | 1 << 20 | 1 << 24).to_le_bytes().to_vec();
    payload.extend_from_slice(&[0, 0, 0, 1, 45]);
    payload.resize(32, 0);
    payload.extend_from_slice(account.as_bytes());
    payload.extend_from_slice(b"\0\x00mysql_native_password\0\x61\x10costof_encrypted\x011\x0ccostof_nonce\x40");
    payload.resize(payload.len() + 64, b'7');
    packet(1, &payload)
}

fn process() -> Engine {
    Engine::start_with(Command::new(env!("CARGO_BIN_EXE_costof-engine")).arg("gateway"))
}

fn rules_file(test: &str, rules: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-rules.toml"));
    std::fs::write(&path, rules).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// The one error that ends an answer, in sequence; nothing that is to be encrypted was said before it.
fn last_words(answer: &[(u8, Vec<u8>)], account: &str) -> String {
    let numbers: Vec<_> = answer.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(numbers, (1..=answer.len() as u8).collect::<Vec<_>>());
    let shows = answer.iter().any(|(_, payload)| payload.windows(5).any(|five| five == b"smith"));
    assert!(!shows || account == "u");
    let (_, last) = answer.last().unwrap();
    assert_eq!(last[0], 0xFF);
    String::from_utf8_lossy(&last[9..]).into_owned()
}

#[test]
fn a_server_that_is_lost_in_the_middle_of_a_result() {
    let (server, _) = scripted(Then::Goes([beginning(), b"\x05\0\0\x04\x05jo".to_vec()].concat()));
    let mut gateway = Gateway::start("lost", &server);
    for account in ["u", "shop"] {
        let answer = gateway.answer(account);
        assert_eq!(answer.len(), 4, "what was whole, and an error");
        assert_eq!(last_words(&answer, account), "the server behind the gateway was lost");
    }
    // The gateway lives on.
    assert_eq!((gateway.counter("connections"), gateway.counter("errors")), (2, 2));
}

#[test]
fn bytes_that_are_not_the_protocol_end_the_session_alone() {
    let oversized = [beginning(), vec![0xFF, 0xFF, 0xFF, 4], vec![b'x'; 100]].concat();
    for (test, bytes) in
        [("malformed", packet(1, b"\xfb/etc/passwd")), ("sequence", packet(9, OK)), ("oversized", oversized)]
    {
        let (server, ends) = scripted(Then::Stutters(bytes));
        let mut gateway = Gateway::start(test, &server);
        let told = last_words(&gateway.answer("shop"), "shop");
        assert!(told.starts_with("the gateway ended this session: "), "{told}");
        ends.recv_timeout(Duration::from_nanos(TIMEOUT_NS)).expect("the server's side ends too");
        assert_eq!((gateway.counter("connections"), gateway.counter("errors")), (1, 1));
    }
}

/// Keys are in its memory, and so are values: neither a core dump nor swap is to hold them.
#[test]
fn its_memory_is_its_own() {
    let (server, _) = scripted(Then::Stutters([beginning(), packet(4, END)].concat()));
    let gateway = Gateway::start("memory", &server);
    let told = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", gateway.engine.child.id())).unwrap();
    let limits = told("limits");
    let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(cores.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"]);
    let locked = || {
        let status = told("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap()
    };
    let master_key = locked();
    assert!(master_key > 0, "not even a page, or RLIMIT_MEMLOCK is 0 here");
    // Guarded sessions have keys of their own.
    let _clients: Vec<_> = (0..50).map(|_| gateway.client("shop")).collect();
    assert!(locked() > master_key);
}

#[test]
fn half_packets_make_no_difference() {
    let (server, _) = scripted(Then::Stutters([beginning(), packet(4, END)].concat()));
    let mut gateway = Gateway::start("halves", &server);
    for account in ["u", "shop"] {
        let mut stream = gateway.client(account);
        for byte in packet(0, QUERY) {
            stream.write_all(&[byte]).unwrap();
        }
        let answer: Vec<_> = (0..4).map(|_| receive(&mut stream).unwrap()).collect();
        assert_eq!(answer[3], (4, END.to_vec()));
        assert_eq!(answer[2].1 == b"\x05smith", account == "u");
    }
    assert_eq!(gateway.counter("values_encrypted"), 1);
}

#[test]
fn a_client_that_goes_takes_its_servers_session_with_it() {
    let (server, ends) = scripted(Then::Stutters(beginning()));
    let gateway = Gateway::start("goes", &server);
    let mut stream = gateway.client("u");
    stream.write_all(&packet(0, QUERY)).unwrap();
    receive(&mut stream).unwrap();
    drop(stream);
    ends.recv_timeout(Duration::from_nanos(TIMEOUT_NS)).expect("in the middle of an answer");
}

#[test]
fn every_proof_passes_through_in_plain_and_under_tls() {
    let authority = Authority::new();
    let (ca_file, identity) = (authority.file("gateway-proofs"), authority.identity("127.0.0.1", VALID));
    let file = identity_file("gateway-proofs", &identity);
    for version in [None, Some(SslVersion::TLS1_2)] {
        for (proposes, plugin, cached) in [
            ("mysql_native_password", "mysql_native_password", false),
            ("mysql_native_password", "client_ed25519", false),
            ("caching_sha2_password", "caching_sha2_password", true),
            ("caching_sha2_password", "caching_sha2_password", false),
            ("mysql_native_password", "caching_sha2_password", false),
        ] {
            let plain = Mysql { proposes, plugin, cached, ..Mysql::default() };
            let listener = json!({"address": "127.0.0.1:0", "server": plain.start()});
            let gateway = Gateway::start_without_rules("proofs", listener);
            let service = |password| mysql_service(&gateway.address, password, Statements::Prepared);
            open_mysql(&service(PASSWORD), Transport::Plain {}).unwrap();
            let wrong = open_mysql(&service("wrong"), Transport::Plain {}).unwrap_err();
            assert!(wrong.detail.contains("Access denied"), "{wrong}");

            let Manner::Tls(acceptor) = server::tls(&identity, version) else { panic!("TLS") };
            let secure = Mysql { tls: Some(acceptor), ..plain };
            let gateway = Gateway::start_without_rules(
                "proofs-tls",
                json!({
                    "address": "127.0.0.1:0", "server": secure.start(),
                    "tls": {"certificate_file": file, "key_file": file},
                    "server_transport": {"kind": "tls", "ca_file": ca_file, "verify": "full", "resumption": false},
                }),
            );
            let service = mysql_service(&gateway.address, PASSWORD, Statements::Prepared);
            let (_, connection) = open_mysql(&service, tls(&ca_file, None, Verify::Full)).unwrap();
            assert_eq!(connection.security.map(|made| made.protocol), Some("TLSv1.3"), "the client's side is its own");
            let plain = open_mysql(&service, Transport::Plain {}).unwrap_err();
            assert!(plain.detail.contains("takes connections under TLS only"), "{plain}");
        }
    }
}

#[test]
fn a_server_whose_certificate_is_anothers_is_not_gone_to() {
    let authority = Authority::new();
    let file = identity_file("gateway-other", &authority.identity("127.0.0.1", VALID));
    let Manner::Tls(acceptor) = server::tls(&Authority::new().identity("127.0.0.1", VALID), None) else {
        panic!("TLS")
    };
    let secure = Mysql { tls: Some(acceptor), ..Mysql::default() };
    let ca_file = authority.file("gateway-other");
    let gateway = Gateway::start_without_rules(
        "other",
        json!({
            "address": "127.0.0.1:0", "server": secure.start(),
            "tls": {"certificate_file": file, "key_file": file},
            "server_transport": {"kind": "tls", "ca_file": ca_file, "verify": "full", "resumption": false},
        }),
    );
    let service = mysql_service(&gateway.address, PASSWORD, Statements::Text);
    let failure = open_mysql(&service, tls(&ca_file, None, Verify::Full)).unwrap_err();
    assert!(failure.detail.contains("cannot be reached"), "{failure}");
}

/// Neither where bytes pass as they are nor where every value is encrypted, as text or prepared.
#[test]
fn a_command_that_was_seen_before_allocates_nothing() {
    let text = (packet(0, QUERY), [beginning(), packet(4, END)].concat());
    let row = [&b"\x00\x00\x05"[..], b"smith"].concat();
    let binary = [packet(1, b"\x01"), packet(2, &definition()), packet(3, &row), packet(4, END)].concat();
    let prepared = (packet(0, b"\x17\x07\0\0\0\x00\x01\0\0\0"), binary);
    for account in ["u", "shop"] {
        let shared = Shared::new(rules_of_one_column(), Limits::default());
        let mut session = Session::new(shared.into(), false);
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        session.from_server(&greeting(), &mut to_client, &mut to_server);
        session.from_client(&response(account), &mut to_server, &mut to_client);
        session.from_server(&packet(2, OK), &mut to_client, &mut to_server);
        if account == "shop" {
            session.from_server(&pinned_answers(), &mut to_client, &mut to_server);
        }
        session.from_client(&packet(0, &[b"\x16", &QUERY[1..]].concat()), &mut to_server, &mut to_client);
        let told = [packet(1, b"\x00\x07\0\0\0\x01\0\0\0\0\0\0"), packet(2, &definition())].concat();
        session.from_server(&told, &mut to_client, &mut to_server);
        for (command, answer) in [&text, &prepared] {
            let mut ask = || {
                to_client.clear();
                to_server.clear();
                session.from_client(command, &mut to_server, &mut to_client);
                to_server.clear();
                let progress = session.from_server(answer, &mut to_client, &mut to_server);
                assert_eq!((progress.passed == 0, to_client.is_empty()), (account == "shop", account == "u"));
            };
            ask();
            let before = allocations();
            (0..100).for_each(|_| ask());
            assert_eq!(allocations() - before, 0, "{account}");
        }
    }
}

/// As a gateway has them that has asked a server of these tests.
fn rules_of_one_column() -> Rules {
    let mut rules = Rules::read(&rules_file("allocation", RULES)).unwrap();
    let names = ["d", "people", "name"].map(str::to_owned);
    let column =
        ColumnFacts { names, table_type: "BASE TABLE".into(), data_type: "varchar".into(), ..Default::default() };
    let facts = Facts { names_have_case: true, columns: vec![column], ..Facts::default() };
    rules.catalogue = Catalogue::new(&facts, &rules).into();
    rules
}

/// Rules that cannot be held against the server are none.
#[test]
fn a_server_that_cannot_be_asked_which_tables_it_has_is_fatal() {
    let (server, _) = scripted(Then::Stutters(Vec::new()));
    let unknown = RULES.replace("column = 'name'", "column = 'nome'");
    for (server, rules, words) in [
        ("127.0.0.1:1", RULES, "[check]: cannot ask 127.0.0.1:1"),
        (&server, &unknown, "unknown rule column: d.people.nome"),
    ] {
        let file = rules_file("unasked", rules);
        let listener = json!({"address": "127.0.0.1:0", "rules_file": file, "server": server});
        let told = process().ask(&json!({"threads": 1, "listeners": [listener]}));
        let detail = told["error"]["detail"].as_str().unwrap_or_else(|| panic!("{told}"));
        assert!(told["error"]["class"] == "plan" && detail.contains(words), "{told}");
    }
}

#[test]
fn a_plan_that_cannot_be_followed_is_fatal() {
    let rules = rules_file("plan", "");
    let listener = json!({"address": "127.0.0.1:0", "rules_file": rules, "server": "127.0.0.1:1"});
    let with = |name: &str, value: Value| {
        let mut changed = listener.clone();
        changed[name] = value;
        json!({"threads": 1, "listeners": [changed]})
    };
    for (plan, words) in [
        (json!({"threads": 0, "listeners": [listener]}), "threads is at least 1"),
        (json!({"threads": 1, "listeners": []}), "no listener"),
        (with("colour", json!("red")), "unknown field `colour`"),
        (with("rules_file", json!("/no/such/file")), "No such file"),
        (with("server", json!("")), "is no address"),
        (with("server_transport", json!({"kind": "tls", "verify": "none", "resumption": false})), "go together"),
        (with("address", json!("192.0.2.1:1")), "cannot listen on"),
    ] {
        let told = process().ask(&plan);
        let detail = told["error"]["detail"].as_str().unwrap_or_else(|| panic!("{told}"));
        assert!(told["error"]["class"] == "plan" && detail.contains(words) && !detail.contains('\n'), "{told}");
    }
}

fn identity_file(test: &str, identity: &Identity) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-server.pem"));
    let key = identity.key.private_key_to_pem_pkcs8().unwrap();
    std::fs::write(&path, [key, identity.certificate.to_pem().unwrap()].concat()).unwrap();
    path
}
