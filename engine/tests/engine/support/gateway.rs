//! A process of subcommand `gateway`, and scripted servers behind it.

use crate::support::TIMEOUT_NS;
use crate::support::engine::Engine;
use mysql_common::constants::{CapabilityFlags, StatusFlags};
use mysql_common::packets::HandshakePacket;
use mysql_common::proto::MySerialize;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

pub const RULES: &str = "[master_keys]\napp = '00112233445566778899aabbccddeeff'\n\
    [[accounts]]\nname = 'u'\nrole = 'plaintext'\n\
    [[accounts]]\nname = 'shop'\nrole = 'ciphertext'\nmaster_key = 'app'\n\
    [[columns]]\ndatabase = 'd'\ntable = 'people'\ncolumn = 'name'\n\
    [check]\nusername = 'catalogue'\npassword = ''\n\
    [[statements]]\ntext = 'SELECT name FROM people'\n";
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

pub fn definition() -> Vec<u8> {
    [b"\x03def\x01d\x01p\x06people\x01n\x04name\x0c\x2d\0\x50\0\0\0\xfd".as_slice(), &[0; 5]].concat()
}

pub fn pinned_answers() -> Vec<u8> {
    let read_back = ["", "0", "utf8mb4", "utf8mb4", "utf8mb4", "utf8mb4_general_ci", "d"];
    [packet(1, OK), result(&read_back)].concat()
}

pub fn beginning() -> Vec<u8> {
    [packet(1, b"\x01"), packet(2, &definition()), packet(3, b"\x05smith")].concat()
}

/// The actions of a test server after it has accepted a login and read a command.
#[derive(Clone)]
pub enum ServerScript {
    SendsAndCloses(Vec<u8>),
    /// Send the bytes one by one and wait until the client closes the connection.
    Sends(Vec<u8>),
    SendsWithoutEnd,
}

/// The side that opened a connection to the server behind the gateway, as its first packets show.
enum ConnectionKind {
    /// A client, whose statements the gateway forwards.
    Client,
    /// The gateway itself, which queries the list of all columns.
    Catalogue,
}

/// Start a server. Return its address, and a receiver that gets a message whenever a client's connection has ended.
pub fn scripted(script: ServerScript) -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (ended, ends) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (script, ended) = (script.clone(), ended.clone());
            std::thread::spawn(move || {
                // Report the end of a client's connection, even if it ended with an error while the server was sending.
                if !matches!(run_script(stream, &script), Ok(ConnectionKind::Catalogue)) {
                    let _ = ended.send(());
                }
            });
        }
    });
    (address, ends)
}

fn run_script(mut stream: TcpStream, script: &ServerScript) -> std::io::Result<ConnectionKind> {
    stream.set_nodelay(true)?;
    stream.write_all(&greeting())?;
    receive(&mut stream)?;
    stream.write_all(&packet(2, OK))?;
    let (_, command) = receive(&mut stream)?;
    if command.starts_with(b"\x03SET NAMES utf8mb4, ") {
        stream.write_all(&packet(1, OK))?;
        answer_catalogue_queries(&mut stream);
        return Ok(ConnectionKind::Catalogue);
    }
    if command.starts_with(b"\x03SET NAMES") {
        // Read and answer the statements that the gateway itself sends at the start of a session.
        receive(&mut stream)?;
        stream.write_all(&pinned_answers())?;
        receive(&mut stream)?;
    }
    match script {
        ServerScript::SendsAndCloses(bytes) => stream.write_all(bytes)?,
        ServerScript::Sends(bytes) => {
            for byte in bytes {
                stream.write_all(&[*byte])?;
            }
            stream.read_to_end(&mut Vec::new())?;
        }
        ServerScript::SendsWithoutEnd => {
            stream.write_all(&beginning())?;
            for sequence in (0..=u8::MAX).cycle().skip(4) {
                stream.write_all(&packet(sequence, b"\x05smith"))?;
            }
        }
    }
    Ok(ConnectionKind::Client)
}

fn answer_catalogue_queries(stream: &mut TcpStream) {
    while let Ok((_, command)) = receive(stream) {
        let sql = String::from_utf8_lossy(&command);
        let queries_columns = sql.contains("FROM information_schema.columns");
        let row: &[&str] = if queries_columns { &["d", "people", "name", "0"] } else { &[] };
        if stream.write_all(&result(row)).is_err() {
            return;
        }
    }
}

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
    pub fn start(test: &str, server: &str) -> Self {
        Self::start_with(test, json!({"address": "127.0.0.1:0", "server": server}))
    }

    pub fn start_with(test: &str, listener: Value) -> Self {
        Self::start_under(test, RULES, listener)
    }

    /// Start a gateway that encrypts no columns, and therefore does not query the server's list of columns.
    pub fn start_without_rules(test: &str, listener: Value) -> Self {
        Self::start_under(test, "", listener)
    }

    pub fn start_under(test: &str, rules: &str, mut listener: Value) -> Self {
        listener["rules_file"] = json!(rules_file(test, rules));
        let limits = &mut listener["limits"];
        if limits["login_seconds"].is_null() {
            // A slow test of another limit must not reach the login timeout.
            limits["login_seconds"] = json!(600);
        }
        let mut engine = Engine::start_subcommand("gateway");
        let ready = engine.ask(&json!({"threads": 2, "listeners": [listener]}));
        let address = ready["ready"]["listeners"][0].as_str().unwrap_or_else(|| panic!("{ready}")).to_owned();
        Gateway { engine, address }
    }

    pub fn client(&self, account: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_nanos(TIMEOUT_NS))).unwrap();
        receive(&mut stream).unwrap();
        stream.write_all(&response(account)).unwrap();
        assert_eq!(receive(&mut stream).unwrap(), (2, OK.to_vec()));
        stream
    }

    pub fn answer(&self, account: &str) -> Vec<(u8, Vec<u8>)> {
        let mut stream = self.client(account);
        stream.write_all(&packet(0, QUERY)).unwrap();
        std::iter::from_fn(|| receive(&mut stream).ok()).collect()
    }

    pub fn counter(&mut self, name: &str) -> u64 {
        let answer = self.engine.ask(&json!({"counters": {}}));
        answer["counters"]["listeners"][&self.address][name].as_u64().unwrap_or_else(|| panic!("{answer}"))
    }
}

pub fn response(account: &str) -> Vec<u8> {
    // The client's capabilities: PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, CONNECT_ATTRIBUTES, DEPRECATE_EOF.
    let mut payload = (1_u32 << 9 | 1 << 15 | 1 << 19 | 1 << 20 | 1 << 24).to_le_bytes().to_vec();
    payload.extend_from_slice(&[0, 0, 0, 1, 45]);
    payload.resize(32, 0);
    payload.extend_from_slice(account.as_bytes());
    payload.extend_from_slice(b"\0\x00mysql_native_password\0\x61\x10costof_encrypted\x011\x0ccostof_nonce\x40");
    payload.resize(payload.len() + 64, b'7');
    packet(1, &payload)
}

pub fn rules_file(test: &str, rules: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-rules.toml"));
    std::fs::write(&path, rules).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// Return the text of the error that ends an answer. Check that the packets are numbered in sequence, and that
/// plaintext (`smith`) appears only in answers to account `u`, which is not guarded.
pub fn final_error(answer: &[(u8, Vec<u8>)], account: &str) -> String {
    let numbers: Vec<_> = answer.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(numbers, (1..=answer.len() as u8).collect::<Vec<_>>());
    let has_plaintext = answer.iter().any(|(_, payload)| payload.windows(5).any(|five| five == b"smith"));
    assert!(!has_plaintext || account == "u");
    let (_, last) = answer.last().unwrap();
    assert_eq!(last[0], 0xFF);
    String::from_utf8_lossy(&last[9..]).into_owned()
}
