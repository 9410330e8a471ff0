//! Packets of servers and clients, and rules, for the tests of sessions.

use crate::rules::{ColumnFacts, Rules};
use mysql_common::constants::{CapabilityFlags, StatusFlags};
use mysql_common::packets::HandshakePacket;
use mysql_common::proto::MySerialize;
use std::sync::LazyLock;

pub const KEY: &str = "00112233445566778899aabbccddeeff";
/// The client's nonce in hexadecimal. The salt of the session's keys is computed from it.
pub const NONCE: &str = "0707070707070707070707070707070707070707070707070707070707070707";
pub const RULES: &str = "[master_keys]\napp = '00112233445566778899aabbccddeeff'\n\
    [[accounts]]\nname = 'admin'\nrole = 'plaintext'\n\
    [[accounts]]\nname = 'shop'\nrole = 'ciphertext'\nmaster_key = 'app'\n\
    [[columns]]\ndatabase = 'd'\ntable = 'people'\ncolumn = 'name'\n\
    [check]\nusername = 'catalogue'\npassword = ''\n\
    [[statements]]\ntext = \"SELECT name FROM people\"\n\
    [[statements]]\ntext = \"SELECT city FROM people\"\n\
    [[statements]]\ntext = \"SELECT name, city FROM people\"\n\
    [[statements]]\ntext = \"SELECT city FROM people WHERE id = ?\"\n\
    [[statements]]\ntext = \"SELECT city FROM people WHERE id = ? AND name = ?\"\nvalues = [\"number\", \"text\"]\n\
    [[statements]]\ntext = \"SELECT COUNT(*), MAX(name) FROM people\"\noutputs = [\"plain\", \"encrypt\"]\n\
    [[statements]]\ntext = \"SELECT x FROM (SELECT name AS x FROM people) t\"\n\
    [[statements]]\ntext = \"SELECT x, y FROM (SELECT name AS x, name AS y FROM people) t\"\n\
    [[statements]]\ntext = \"SELECT city FROM names_v AS people\"\n\
    [[statements]]\ntext = \"SELECT MIN(city) FROM people\"\n\
    [[statements]]\ntext = \"SELECT MAX(city) FROM people\"\noutputs = [\"plain\"]\n\
    [[statements]]\ntext = \"DELETE FROM people WHERE id = ? RETURNING city, name\"\n\
    [[statements]]\ntext = \"INSERT INTO people (name) VALUES (?)\"\n\
    [[statements]]\ntext = \"SELECT t FROM notes\"\ndatabase = \"d\"\n";
pub const OK: &[u8] = b"\x00\x00\x00\x02\x00\x00\x00";
/// The payload of the packet that ends the rows if the client announced DEPRECATE_EOF.
pub const END: &[u8] = b"\xfe\x00\x00\x02\x00\x00\x00";
/// The client's capabilities: PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, CONNECT_ATTRIBUTES and DEPRECATE_EOF.
pub const CAPABILITIES: u32 = 1 << 9 | 1 << 15 | 1 << 19 | 1 << 20 | 1 << 24;

#[derive(Clone, Copy)]
pub struct Column {
    pub database: &'static str,
    pub table: &'static str,
    pub column: &'static str,
}

pub const SECRET: Column = Column { database: "d", table: "people", column: "name" };
pub const PLAIN: Column = Column { database: "d", table: "people", column: "city" };
pub const COMPUTED: Column = Column { database: "", table: "", column: "" };

pub fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = (payload.len() as u32).to_le_bytes().to_vec();
    packet[3] = sequence;
    packet.extend_from_slice(payload);
    packet
}

/// Return the payloads of the packets in these bytes.
pub fn packets(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while let [low, middle, high, _, rest @ ..] = bytes {
        let length = u32::from_le_bytes([*low, *middle, *high, 0]) as usize;
        packets.push(rest[..length].to_vec());
        bytes = &rest[length..];
    }
    assert!(bytes.is_empty());
    packets
}

pub fn sequences(mut bytes: &[u8]) -> Vec<u8> {
    let mut numbers = Vec::new();
    while let [low, middle, high, sequence, rest @ ..] = bytes {
        numbers.push(*sequence);
        bytes = &rest[u32::from_le_bytes([*low, *middle, *high, 0]) as usize..];
    }
    numbers
}

/// Return the message of an error packet.
pub fn error(payload: &[u8]) -> String {
    assert_eq!(payload[0], 0xFF, "{payload:?}");
    String::from_utf8_lossy(&payload[9..]).into_owned()
}

pub fn greeting() -> Vec<u8> {
    let mut payload = Vec::new();
    let (nonce, plugin) = (Some(&b"abcdefghijkl\0"[..]), Some(&b"mysql_native_password"[..]));
    let status = StatusFlags::empty();
    HandshakePacket::new(10, &b"8.0.36"[..], 1, *b"01234567", nonce, CapabilityFlags::all(), 45, status, plugin)
        .serialize(&mut payload);
    packet(0, &payload)
}

pub fn response(account: &str, decrypts: bool) -> Vec<u8> {
    response_with_capabilities(account, decrypts, CAPABILITIES)
}

pub fn response_with_capabilities(account: &str, decrypts: bool, capabilities: u32) -> Vec<u8> {
    let decrypting = [b"\x10costof_encrypted\x011\x0ccostof_nonce\x40", NONCE.as_bytes()].concat();
    response_with_attributes(account, if decrypts { &decrypting } else { b"" }, capabilities)
}

pub fn response_with_attributes(account: &str, attributes: &[u8], capabilities: u32) -> Vec<u8> {
    let mut payload = capabilities.to_le_bytes().to_vec();
    payload.extend_from_slice(&[0, 0, 0, 1, 45]);
    payload.resize(32, 0);
    payload.extend_from_slice(account.as_bytes());
    payload.extend_from_slice(b"\0\x04\x01\x02\x03\x04mysql_native_password\0");
    payload.push(attributes.len() as u8);
    payload.extend_from_slice(attributes);
    packet(1, &payload)
}

pub fn tls_request() -> Vec<u8> {
    let mut payload = (CAPABILITIES | 1 << 11).to_le_bytes().to_vec();
    payload.resize(32, 0);
    payload
}

pub fn definition(column: Column) -> Vec<u8> {
    definition_with_type(column, 0xFD)
}

pub fn definition_with_type(Column { database, table, column }: Column, kind: u8) -> Vec<u8> {
    let mut payload = Vec::new();
    for text in ["def", database, "alias", table, "alias", column] {
        payload.push(text.len() as u8);
        payload.extend_from_slice(text.as_bytes());
    }
    payload.extend_from_slice(b"\x0c\x2d\0\x50\0\0\0");
    payload.extend_from_slice(&[kind, 0, 0, 0, 0, 0]);
    payload
}

/// Return a complete text answer. Its values must be shorter than 64 KiB.
pub fn text_answer(columns: &[Column], rows: &[&[Option<&[u8]>]]) -> Vec<u8> {
    let mut payloads = vec![vec![columns.len() as u8]];
    payloads.extend(columns.iter().map(|column| definition(*column)));
    payloads.extend(rows.iter().map(|row| text_row(row)));
    payloads.push(END.to_vec());
    numbered(&payloads)
}

pub fn text_row(row: &[Option<&[u8]>]) -> Vec<u8> {
    let mut payload = Vec::new();
    for value in row {
        match value {
            None => payload.push(0xFB),
            Some(value) if value.len() < 251 => payload.push(value.len() as u8),
            Some(value) => {
                payload.push(0xFC);
                payload.extend_from_slice(&(value.len() as u16).to_le_bytes());
            }
        }
        payload.extend_from_slice(value.unwrap_or_default());
    }
    payload
}

/// Return a server's answer to PREPARE.
pub fn prepared(number: u8, parameters: usize, columns: &[Column]) -> Vec<u8> {
    let mut payloads = vec![vec![0, number, 0, 0, 0, columns.len() as u8, 0, parameters as u8, 0, 0, 0, 0]];
    payloads.resize(1 + parameters, definition(COMPUTED));
    payloads.extend(columns.iter().map(|column| definition(*column)));
    numbered(&payloads)
}

/// Return a `COM_STMT_EXECUTE` packet; `parameters` are the bytes after the iteration count.
pub fn execution(number: u8, parameters: &[u8]) -> Vec<u8> {
    packet(0, &[&[0x17, number, 0, 0, 0, 0, 1, 0, 0, 0], parameters].concat())
}

pub fn numbered(payloads: &[Vec<u8>]) -> Vec<u8> {
    let packets = payloads.iter().zip(1_u8..).map(|(payload, sequence)| packet(sequence, payload));
    packets.collect::<Vec<_>>().concat()
}

/// The values that the server returns for the settings that the gateway reads back.
pub const PINNED: [&str; 7] = ["STRICT_TRANS_TABLES", "0", "utf8mb4", "utf8mb4", "utf8mb4", "utf8mb4_general_ci", "d"];

/// Return the server's answers to the commands by which the gateway sets and checks a session's settings.
pub fn pinned_answers(values: &[&str], without_eof: bool) -> Vec<u8> {
    let row: Vec<_> = values.iter().map(|value| Some(value.as_bytes())).collect();
    let mut payloads = packets(&text_answer(&vec![COMPUTED; values.len()], &[&row]));
    if !without_eof {
        payloads.pop();
        payloads.push(b"\xfe\0\0\x02\0".to_vec());
        payloads.insert(1 + values.len(), b"\xfe\0\0\x02\0".to_vec());
    }
    [packet(1, OK), numbered(&payloads)].concat()
}

/// Return the rules in `text` for a server with these columns, such as `people.name`, in the database `d`. A `+` at the
/// end of a column (`people.id+`) means that the server generates the column's values.
pub fn rules_with_columns(text: &str, columns: &[&str]) -> Rules {
    let column = |text: &&str| {
        let name = text.trim_end_matches('+');
        let (table, column) = name.split_once('.').unwrap();
        ColumnFacts { names: ["d", table, column].map(str::to_owned), is_generated: text.ends_with('+') }
    };
    let mut rules = Rules::parse_valid(text);
    rules.set_catalogue(&columns.iter().map(column).collect::<Vec<_>>(), &["Names_v".to_owned()]);
    rules
}

/// Return the rules in `text` for a server with the columns in `COLUMNS`.
pub fn rules(text: &str) -> Rules {
    static USUAL: LazyLock<Rules> = LazyLock::new(|| rules_with_columns(RULES, &COLUMNS));
    if text == RULES { USUAL.clone() } else { rules_with_columns(text, &COLUMNS) }
}

const COLUMNS: [&str; 4] = ["people.id+", "people.name", "people.city", "notes.t"];
