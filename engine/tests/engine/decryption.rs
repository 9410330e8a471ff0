//! Tests of decryption in the MySQL client. The test server answers like a server behind the encrypting gateway.

use crate::support::engine::{Engine, HANG_SECONDS};
use crate::support::mysql::{Answer, Answers, COLUMN, Mysql, NONCE, NextAnswer, PASSWORD};
use encryption::{
    Algorithm, ClientNonce, DataKey, Envelope, MasterKey, SessionSalt, WrappedKey, associated_data,
    encrypted as encrypted_type,
};
use mysql::{OriginalType, RowFormat};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::mysql::Settings;

const KEY: &str = "00112233445566778899aabbccddeeff";
/// The length of the part of `COLUMN` (a column's definition) in front of the column's type. When the gateway encrypts
/// the column, it replaces the type and appends an envelope (the decryption information).
const HEAD: usize = COLUMN.len() - 12;

/// Return answers for the test server with one encrypted column. Its value has `length` bytes of plaintext.
pub fn encrypted(algorithm: Algorithm, length: usize) -> Answers {
    Arc::new(move |nonce| {
        let salt = nonce.map_or(SessionSalt::WITHOUT_NONCE, |nonce| {
            SessionSalt::new(NONCE, &ClientNonce::from_hex(nonce.as_bytes()).unwrap())
        });
        sealing(algorithm, length, salt)
    })
}

fn sealing(algorithm: Algorithm, length: usize, salt: SessionSalt) -> NextAnswer {
    let mut key = DataKey::random(salt, 0).unwrap();
    let wrapped = key.wrapped(&MasterKey::from_hex(KEY).unwrap());
    let original = OriginalType::from_bytes(COLUMN[HEAD..HEAD + OriginalType::LENGTH].try_into().unwrap());
    let mut definition = COLUMN.to_vec();
    definition[HEAD..HEAD + OriginalType::LENGTH].copy_from_slice(&encrypted_type(original, algorithm).bytes());
    let wrapped_key = Some(WrappedKey { master_key: "app", number: 0, data_key: &wrapped });
    Envelope { algorithm, original, key: wrapped_key }.append(&mut definition).unwrap();
    let mut sealer = key.sealer(algorithm).unwrap();
    let mut row = move |format, start: &[u8]| {
        let associated = associated_data(algorithm, original, format, [b"sbtest", b"sbtest1", b"c"]);
        let mut row = start.to_vec();
        row.push(algorithm.sealed_length(length) as u8);
        sealer.seal(&associated, &vec![b'x'; length], &mut row).unwrap();
        row
    };
    Box::new(move || {
        let (text_row, binary_row) = (row(RowFormat::Text, b""), row(RowFormat::Binary, b"\0\0"));
        Answer { definition: definition.clone(), text_row, binary_row }
    })
}

pub fn decrypting(settings: Settings) -> Settings {
    let master_keys = [("app".to_owned(), MasterKey::from_hex(KEY).unwrap())].into();
    Settings {
        decryption: Some(wire::mysql::DecryptionSettings { master_keys, must_be_encrypted: Vec::new() }),
        ..settings
    }
}

fn plan(address: &str, statements: &str, keys: &Value) -> Value {
    let arm = |name: &str, keys: &Value| {
        json!({"name": name, "transport": {"kind": "plain"}, "service": {
            "protocol": "mysql", "addresses": [address], "username": "u", "password": PASSWORD, "database": "sbtest",
            "table": "sbtest1", "statements": statements, "decryption": keys}})
    };
    json!({"plan": {
        "seed": 1, "threads": 2, "operation_timeout_ms": 300000, "data": {"records": 1000},
        "arms": [arm("decrypting", &json!({"master_keys": keys})), arm("direct", &Value::Null)],
        "workloads": [{"name": "query", "kind": "query", "workers": 2}, {"name": "connect", "kind": "connect"}]}})
}

fn start(server: &Mysql, statements: &str, keys: &Value) -> Engine {
    let mut engine = Engine::start();
    let ready = engine.ask(&plan(&server.start(), statements, keys));
    assert_eq!(ready["ready"]["arms"][0]["error"], Value::Null, "{ready}");
    engine
}

fn decrypted(values: u64) -> Value {
    json!({"decrypted.values": values, "decrypted.bytes": 7 * values})
}

#[test]
fn values_are_decrypted_and_counted() {
    for statements in ["text", "prepared"] {
        let server = Mysql { answers: encrypted(Algorithm::Aes128Gcm, 7), ..Mysql::default() };
        let mut engine = start(&server, statements, &json!({"app": KEY}));
        for operations in [50, 20] {
            let slice = engine.slice("decrypting", "query", operations, HANG_SECONDS);
            assert_eq!((&slice["operations"], &slice["errors"]), (&json!(operations), &json!([])));
            assert_eq!(slice["counts"], decrypted(operations));
        }
        let slice = engine.slice("decrypting", "connect", 5, HANG_SECONDS);
        assert_eq!(slice["counts"], decrypted(5));
    }
}

#[test]
fn only_clients_with_master_keys_tell_the_server_that_they_decrypt() {
    let server = Mysql::default();
    let mut engine = start(&server, "prepared", &json!({}));
    // One client has already announced decryption: when the engine started, it opened a connection to check the server.
    assert_eq!(server.decrypting.load(Ordering::Relaxed), 1);
    let direct = engine.slice("direct", "connect", 5, HANG_SECONDS);
    assert_eq!((&direct["operations"], &direct["counts"]), (&json!(5), &json!({})));
    assert_eq!(server.decrypting.load(Ordering::Relaxed), 1);
    let decrypting = engine.slice("decrypting", "connect", 5, HANG_SECONDS);
    assert_eq!(decrypting["counts"], decrypted(0), "nothing was encrypted");
    assert_eq!(server.decrypting.load(Ordering::Relaxed), 6);
}

#[test]
fn failed_decryption_is_an_encryption_error_and_the_engine_continues() {
    let server = Mysql { answers: encrypted(Algorithm::Aes128Gcm, 7), ..Mysql::default() };
    let mut engine = start(&server, "text", &json!({"app": KEY.replace('f', "0")}));
    let slice = engine.slice("decrypting", "query", 3, HANG_SECONDS);
    let error = &slice["errors"][0];
    assert_eq!((&slice["operations"], &error["class"], &error["count"]), (&json!(0), &json!("encryption"), &json!(3)));
    let detail = error["detail"].as_str().unwrap();
    assert!(detail.contains("column sbtest.sbtest1.c: master key 'app'"), "{detail}");
    let direct = engine.slice("direct", "query", 3, HANG_SECONDS);
    assert_eq!(direct["operations"], 3, "a client without keys receives the value as a string");
}

/// Keys depend on the scramble (the server's nonce) in the greeting. A later authentication switch brings another
/// scramble, which must not change the keys.
#[test]
fn authentication_switch_does_not_change_the_keys_for_decryption() {
    let answers = encrypted(Algorithm::Aes128Gcm, 7);
    let server = Mysql { plugin: "client_ed25519", answers, ..Mysql::default() };
    let mut engine = start(&server, "prepared", &json!({"app": KEY}));
    let slice = engine.slice("decrypting", "query", 5, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["errors"]), (&json!(5), &json!([])));
}

#[test]
fn plaintext_column_that_must_be_encrypted_is_an_error() {
    let mut engine = Engine::start();
    let mut plan = plan(&Mysql::default().start(), "prepared", &json!({"app": KEY}));
    plan["plan"]["arms"][0]["service"]["decryption"]["must_be_encrypted"] = json!(["sbtest.sbtest1.c"]);
    engine.ask(&plan);
    let slice = engine.slice("decrypting", "query", 3, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["errors"][0]["class"]), (&json!(0), &json!("encryption")));
}

#[test]
fn plan_with_decryption_is_rejected_for_protocols_other_than_mysql() {
    let mut engine = Engine::start();
    let mut plan = plan("127.0.0.1:1", "text", &json!({"app": KEY}));
    let service = &mut plan["plan"]["arms"][0]["service"];
    *service = json!({"protocol": "http", "addresses": [], "path": "/", "decryption": service["decryption"]});
    let answer = engine.ask(&plan);
    assert_eq!(answer["error"]["class"], "plan");
    assert!(!answer.to_string().contains("00112233"), "{answer}");
}
