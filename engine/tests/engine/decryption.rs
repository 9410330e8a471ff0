//! The driver behind a gateway: what a server would send if one stood before it, and what the program makes of it.

use crate::support::engine::Engine;
use crate::support::mysql::{Answer, COLUMN, Mysql, PASSWORD};
use costof_engine::border::{self, MysqlService};
use costof_engine::encryption::{
    Algorithm, DataKey, Envelope, MasterKey, OriginalType, RowFormat, WrappedKey, associated_data,
};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

const KEY: &str = "00112233445566778899aabbccddeeff";
/// Bytes of COLUMN before the part that a gateway replaces, and of that part.
const HEAD: usize = COLUMN.len() - 12;

/// The fake server's answer, its column encrypted: a value of so many bytes.
pub fn encrypted(algorithm: Algorithm, length: usize) -> Answer {
    let mut key = DataKey::random().unwrap();
    let wrapped = key.wrapped(&MasterKey::from_hex(KEY).unwrap());
    let original = OriginalType::from_bytes(COLUMN[HEAD..HEAD + OriginalType::LENGTH].try_into().unwrap());
    let mut definition = COLUMN.to_vec();
    definition[HEAD..HEAD + OriginalType::LENGTH].copy_from_slice(&original.encrypted(algorithm).bytes());
    let key_told = Some(WrappedKey { master_key: "app", data_key: &wrapped });
    Envelope { algorithm, original, key: key_told }.append(&mut definition).unwrap();
    let mut sealer = key.sealer(algorithm).unwrap();
    let mut row = |format, start: &[u8]| {
        let associated = associated_data(algorithm, original, format, [b"sbtest", b"sbtest1", b"c"]);
        let mut row = start.to_vec();
        row.push(algorithm.sealed_length(length) as u8);
        sealer.seal(&associated, &vec![b'x'; length], &mut row).unwrap();
        row
    };
    let (text_row, binary_row) = (row(RowFormat::Text, b""), row(RowFormat::Binary, b"\0\0"));
    Answer { definition, text_row, binary_row }
}

/// The same service, with the key.
pub fn decrypting(settings: MysqlService) -> MysqlService {
    let master_keys = [("app".to_owned(), MasterKey::from_hex(KEY).unwrap())].into();
    MysqlService { decryption: Some(border::Decryption { master_keys }), ..settings }
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

#[test]
fn values_are_decrypted_and_counted_and_workloads_see_nothing_of_it() {
    for algorithm in Algorithm::ALL {
        for statements in ["text", "prepared"] {
            let server = Mysql { answer: encrypted(algorithm, 7), ..Mysql::default() };
            let mut engine = start(&server, statements, &json!({"app": KEY}));
            for operations in [50, 20] {
                let slice = engine.slice("decrypting", "query", operations, 60.0);
                assert_eq!((&slice["operations"], &slice["errors"]), (&json!(operations), &json!([])));
                assert_eq!(slice["decrypted"], json!({"values": operations, "bytes": 7 * operations}));
            }
            let slice = engine.slice("decrypting", "connect", 5, 60.0);
            assert_eq!(slice["decrypted"], json!({"values": 5, "bytes": 35}));
        }
    }
}

#[test]
fn only_a_client_with_keys_says_so_and_counts() {
    let server = Mysql::default();
    let mut engine = start(&server, "prepared", &json!({}));
    // One when the arm was proved.
    assert_eq!(server.decrypting.load(Ordering::Relaxed), 1);
    let direct = engine.slice("direct", "connect", 5, 60.0);
    assert_eq!((&direct["operations"], &direct["decrypted"]), (&json!(5), &Value::Null));
    assert_eq!(server.decrypting.load(Ordering::Relaxed), 1);
    let decrypting = engine.slice("decrypting", "connect", 5, 60.0);
    assert_eq!(decrypting["decrypted"], json!({"values": 0, "bytes": 0}), "nothing was encrypted");
    assert_eq!(server.decrypting.load(Ordering::Relaxed), 6);
}

#[test]
fn what_cannot_be_decrypted_is_one_class_of_error_and_the_engine_lives_on() {
    let answer = encrypted(Algorithm::Aes128Gcm, 7);
    let changed = |at: fn(&mut Answer)| {
        let mut answer = answer.clone();
        at(&mut answer);
        answer
    };
    let app = json!({"app": KEY});
    for (answer, keys, expected) in [
        (answer.clone(), json!({}), "it needs the master key 'app', which is not here"),
        (answer.clone(), json!({"app": KEY.replace('f', "0")}), "the master key is another one"),
        (changed(|answer| answer.text_row[20] ^= 1), app.clone(), "a value was changed"),
        (changed(|answer| answer.definition.truncate(COLUMN.len() + 30)), app.clone(), "no intact envelope"),
    ] {
        let mut engine = start(&Mysql { answer, ..Mysql::default() }, "text", &keys);
        let slice = engine.slice("decrypting", "query", 3, 60.0);
        let error = &slice["errors"][0];
        assert_eq!(
            (&slice["operations"], &error["class"], &error["count"]),
            (&json!(0), &json!("encryption"), &json!(3))
        );
        let detail = error["detail"].as_str().unwrap();
        assert!(detail.contains("column sbtest.sbtest1.c: ") && detail.contains(expected), "{detail}");
        assert!(!detail.contains("xxx") && !detail.contains("00112233"), "{detail}");
        assert_eq!(engine.slice("direct", "query", 3, 60.0)["operations"], 3, "who does not look sees a string");
    }
}

#[test]
fn only_mysql_has_decryption() {
    let mut engine = Engine::start();
    let mut plan = plan("127.0.0.1:1", "text", &json!({"app": KEY}));
    let service = &mut plan["plan"]["arms"][0]["service"];
    *service = json!({"protocol": "http", "addresses": [], "path": "/", "decryption": service["decryption"]});
    let answer = engine.ask(&plan);
    assert_eq!(answer["error"]["class"], "plan");
    assert!(!answer.to_string().contains("00112233"), "{answer}");
}
