//! Test vectors, by which this client and the Python driver `costof.encrypted` are verified against each other. This
//! module creates the vectors with a known key. `COSTOF_UPDATE_VECTORS=1 cargo test --release vectors` writes them to
//! the file. Without this variable the test compares them with the file.

use super::*;
use openssl::sha::sha256;
use serde_json::{Value as Json, json};
use std::path::PathBuf;

/// The maximum length of an unencrypted row in the file. For a longer row the file contains only the hash.
const LONGEST_ROW: usize = 1000;
const ABOUT: &str = "Result sets as a gateway sends them (bytes in hexadecimal, packets without their headers), and as the \
                     server sent them to the gateway, in a session with this scramble and this costof_nonce. For a long row the \
                     original is given by its SHA-256. The cases under 'refused' must fail with an error of class encryption. \
                     Made by engine/crates/wire/src/mysql/decryption/tests/vectors.rs";

/// Types, each with the same value in a text row and in a binary row.
const TYPES: [(&str, u8, &[u8], &[u8]); 14] = [
    ("tiny", 1, b"-7", b"\xf9"),
    ("short", 2, b"513", b"\x01\x02"),
    ("long", 3, b"67305985", b"\x01\x02\x03\x04"),
    ("float", 4, b"1.5", b"\0\0\xc0\x3f"),
    ("double", 5, b"-2.25", b"\0\0\0\0\0\0\x02\xc0"),
    ("timestamp", 7, b"2026-11-22 02:36:45", b"\xea\x07\x0b\x16\x02\x24\x2d"),
    ("long_long", 8, b"-2", b"\xfe\xff\xff\xff\xff\xff\xff\xff"),
    ("date", 10, b"2026-11-22", b"\xea\x07\x0b\x16"),
    ("time", 11, b"-49:00:01", b"\x01\x02\0\0\0\x01\0\x01"),
    ("datetime", 12, b"0000-00-00 00:00:00", b""),
    ("year", 13, b"2026", b"\xea\x07"),
    ("decimal", 0xF6, b"-12.50", b"-12.50"),
    ("blob", 0xFC, b"\0\xff\x27", b"\0\xff\x27"),
    ("text", 0xFD, "Ångström".as_bytes(), "Ångström".as_bytes()),
];

/// Lengths of plaintexts on both sides of two limits. From 222 bytes on, the length field of the ciphertext (with GCM)
/// has more bytes. From 251 bytes on, the length field of the plaintext has more bytes.
const LENGTHS: [usize; 6] = [0, 1, 221, 222, 250, 251];
const LONG: usize = 65_536;

#[test]
fn encryption_of_the_gateway_and_decryption_of_the_client_match_the_stored_test_vectors() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/vectors/column-encryption.json");
    let vectors = json!({
        "about": ABOUT, "scramble": SCRAMBLE, "nonce": NONCE, "master_keys": {"app": APP}, "cases": cases(),
        "refused": refused(),
    });
    if std::env::var_os("COSTOF_UPDATE_VECTORS").is_some() {
        std::fs::write(&path, one_a_line(&vectors)).unwrap();
    }
    let stored: Json = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(stored == vectors, "the ciphertext differs from {}", path.display());
    stored["cases"].as_array().unwrap().iter().for_each(check_case);
    stored["refused"].as_array().unwrap().iter().for_each(check_refused);
}

fn one_a_line(vectors: &Json) -> String {
    let fields = vectors.as_object().unwrap().iter().map(|(name, value)| match value {
        Json::Array(vectors) => {
            let lines: Vec<_> = vectors.iter().map(Json::to_string).collect();
            format!("\"{name}\":[\n{}\n]", lines.join(",\n"))
        }
        _ => format!("\"{name}\":{value}"),
    });
    format!("{{\n{}\n}}\n", fields.collect::<Vec<_>>().join(",\n"))
}

fn check_case(case: &Json) {
    let mut decryption = Decryption::new(master_keys(&[("app", APP)]), salt());
    let rows =
        read(&mut decryption, &packets(&case["definitions"]), &packets(&case["rows"]), case_format(case)).unwrap();
    let read: Vec<_> = rows.iter().map(|row| original(row)).collect();
    assert_eq!(Json::from(read), case["original_rows"], "{}", case["name"]);
}

fn check_refused(case: &Json) {
    let demands = serde_json::from_value(case["must_be_encrypted"].clone()).unwrap();
    let keys = demanding(&[("app", case["master_key"].as_str().unwrap())], demands);
    let mut decryption = Decryption::new(keys, salt());
    let read = read(&mut decryption, &packets(&case["definitions"]), &packets(&case["rows"]), case_format(case));
    assert_eq!(read.unwrap_err().class, Class::Encryption, "{}", case["name"]);
}

fn cases() -> Vec<Json> {
    let mut vectors = Vec::new();
    for algorithm in Algorithm::ALL {
        for format in [RowFormat::Text, RowFormat::Binary] {
            vectors.push(every_type(algorithm, format));
        }
        vectors.push(lengths(algorithm, &LENGTHS, &format!("{algorithm}, lengths")));
    }
    vectors.push(lengths(Algorithm::Aes128Gcm, &[LONG], "a long value"));
    vectors
}

/// Return a test vector with two rows and a column of every type. Every third column is plaintext, and the others are
/// encrypted. In the second row, every second value is NULL.
fn every_type(algorithm: Algorithm, format: RowFormat) -> Json {
    let mut gateway = Gateway::known();
    let chosen = |at: usize| (!at.is_multiple_of(3)).then_some(algorithm);
    let columns: Vec<_> = TYPES.iter().enumerate().map(|(at, (name, kind, ..))| (*name, *kind, chosen(at))).collect();
    let table = gateway.table(&columns);
    let values: Vec<_> =
        TYPES.iter().map(|(.., text, binary)| Some(if format == RowFormat::Text { *text } else { *binary })).collect();
    let nulls: Vec<_> = values.iter().enumerate().map(|(at, value)| value.filter(|_| at % 2 == 0)).collect();
    case(&format!("{algorithm}, {}", word(format)), &mut gateway, &table, &[values, nulls], format)
}

fn lengths(algorithm: Algorithm, lengths: &[usize], name: &str) -> Json {
    let mut gateway = Gateway::known();
    let table = gateway.table(&[("id", 3, None), ("text", 0xFD, Some(algorithm))]);
    let texts: Vec<_> = lengths.iter().map(|length| vec![b'x'; *length]).collect();
    let rows: Vec<_> = texts.iter().map(|text| vec![Some(&b"1"[..]), Some(&text[..])]).collect();
    case(name, &mut gateway, &table, &rows, RowFormat::Text)
}

fn case(name: &str, gateway: &mut Gateway, table: &Table, rows: &[Vec<Option<&[u8]>>], format: RowFormat) -> Json {
    let sent: Vec<_> = rows.iter().map(|row| hex(&gateway.row(table, row, format))).collect();
    let plain: Vec<_> = rows.iter().map(|row| original(&gateway.plain_row(table, row, format))).collect();
    json!({
        "name": name,
        "format": word(format),
        "definitions": hexes(&table.definitions),
        "original_definitions": hexes(&table.plain),
        "rows": sent,
        "original_rows": plain,
    })
}

fn refused() -> Vec<Json> {
    let mut vectors: Vec<_> = Algorithm::ALL.into_iter().flat_map(refused_cases).collect();
    vectors.extend(
        Algorithm::ALL.into_iter().filter(|algorithm| *algorithm != Algorithm::Aes128Ecb).flat_map(out_of_order),
    );
    vectors.extend(demanded());
    vectors
}

fn wrong(name: &str, key: &str, definitions: &[Vec<u8>], rows: &[&[u8]], must: &[&str]) -> Json {
    let rows: Vec<_> = rows.iter().map(|row| hex(row)).collect();
    json!({"name": name, "format": "text", "master_key": key, "must_be_encrypted": must,
           "definitions": hexes(definitions), "rows": rows})
}

fn both_names(gateway: &mut Gateway, algorithm: Algorithm) -> (Table, Vec<u8>) {
    let algorithm_choice = Some(algorithm);
    let table = gateway.table(&[("c_first", 0xFD, algorithm_choice), ("c_last", 0xFD, algorithm_choice)]);
    let row = gateway.row(&table, &[Some(b"Ann"), Some(b"OUGHTABLEPRES")], RowFormat::Text);
    (table, row)
}

fn refused_cases(algorithm: Algorithm) -> Vec<Json> {
    let (table, row) = both_names(&mut Gateway::known(), algorithm);
    let case = |what: &str, key: &str, definitions: &[Vec<u8>], row: &[u8]| {
        wrong(&format!("{algorithm}, {what}"), key, definitions, &[row], &[])
    };
    let changed_at = |packet: &[u8], at: usize| {
        let mut changed = packet.to_vec();
        changed[at] ^= 0x10;
        changed
    };
    let with_changed_definition = |at| vec![table.definitions[0].clone(), changed_at(&table.definitions[1], at)];
    let plain = table.plain[1].len();
    let mut swapped = table.definitions.clone();
    swapped.swap(0, 1);
    let cut = vec![table.definitions[0].clone(), table.definitions[1][..plain + 30].to_vec()];
    let good = &table.definitions;
    let older = good.iter().map(|definition| {
        let mut older = definition.clone();
        older[plain_length(definition) + 7] = b'1';
        older
    });
    let nonce = ClientNonce::from_hex(NONCE.replace('7', "8").as_bytes()).unwrap();
    let mut other_client =
        Gateway::for_session(SessionSalt::new(SCRAMBLE.as_bytes().first_chunk().unwrap(), &nonce), 0);
    let nonce = ClientNonce::from_hex(NONCE.as_bytes()).unwrap();
    let mut other_server = Gateway::for_session(SessionSalt::new(b"another scramble ...", &nonce), 0);
    let recorded = [&mut other_client, &mut other_server].map(|gateway| both_names(gateway, algorithm));
    vec![
        case("tampered value", APP, good, &changed_at(&row, row.len() - TAG - 1)),
        case("tampered tag", APP, good, &changed_at(&row, row.len() - 1)),
        case("tampered nonce, IV or first block", APP, good, &changed_at(&row, 5)),
        case("another algorithm's number", APP, good, &changed_at(&row, 1)),
        case("wrong master key", &APP.replace('f', "0"), good, &row),
        case("values in each other's columns", APP, &swapped, &row),
        case("another original type", APP, &with_changed_definition(plain + 8 + 1 + 2), &row),
        case("another name of the master key", APP, &with_changed_definition(plain + 8 + 1 + 10 + 1), &row),
        case("another number of the data key", APP, &with_changed_definition(good[1].len() - WRAPPED_KEY - 1), &row),
        case("tampered data key", APP, &with_changed_definition(good[1].len() - 1), &row),
        case("tampered envelope's first bytes", APP, &with_changed_definition(plain), &row),
        case("cut envelope", APP, &cut, &row),
        case("an older envelope", APP, &older.collect::<Vec<_>>(), &row),
        case("an answer to another client", APP, &recorded[0].0.definitions, &recorded[0].1),
        case("an answer in another session of the server", APP, &recorded[1].0.definitions, &recorded[1].1),
    ]
}

fn plain_length(definition: &[u8]) -> usize {
    definition.len() - Definition::parse(definition).unwrap().tail.len()
}

/// Return test vectors in which rows or values are repeated, missing or in another order. The client must refuse them.
/// Every algorithm except AES-ECB detects such changes.
fn out_of_order(algorithm: Algorithm) -> Vec<Json> {
    let mut gateway = Gateway::known();
    let (table, first) = both_names(&mut gateway, algorithm);
    let second = gateway.row(&table, &[Some(b"Bob"), Some(b"BARBARBAR")], RowFormat::Text);
    let third = gateway.row(&table, &[Some(b"Cid"), Some(b"ABLE")], RowFormat::Text);
    let cell = |row: &[u8], at: usize| {
        let mut reader = Reader::new(row);
        let cells = [reader.text().unwrap(), reader.text().unwrap()];
        cells[at].to_vec()
    };
    let mixed_row = |one: &[u8], other: &[u8]| {
        let mut mixed = Vec::new();
        append_text(&mut mixed, &cell(one, 0));
        append_text(&mut mixed, &cell(other, 1));
        mixed
    };
    let made_null = [&[NULL][..], &second[cell(&second, 0).len() + 1..]].concat();
    let case = |what: &str, rows: &[&[u8]]| wrong(&format!("{algorithm}, {what}"), APP, &table.definitions, rows, &[]);
    vec![
        case("a row twice", &[&first, &first]),
        case("rows in another order", &[&second, &first]),
        case("a value of the previous row", &[&mixed_row(&second, &first)]),
        case("a value of the next row", &[&mixed_row(&first, &second)]),
        case("a row left out", &[&first, &third]),
        case("a value made NULL", &[&first, &made_null]),
    ]
}

/// Return test vectors that the client must refuse, because it requires a column to be encrypted but cannot decrypt it.
/// In some vectors, the column is plaintext, as if the connection bypassed the gateway. In the other vectors, the
/// envelope (the decryption information after the column definition) was removed or contains no key for the client.
fn demanded() -> Vec<Json> {
    let algorithm_choice = Some(Algorithm::Aes128Gcm);
    let columns = [("c_id", 3, None), ("c_last", 0xFD, algorithm_choice)];
    let table = Gateway::known().table(&columns);
    let opaque = Gateway::opaque().table(&columns);
    let mut renamed = table.plain.clone();
    // The client requires `c_last` to be encrypted. The next column has the alias `C_LAST` and the original name
    // `c_middle`. The client must refuse it too, so it must compare aliases and ignore the case of names.
    renamed[1] = gateway::definition(["tpcc", "c", "customer", "C_LAST", "c_middle"], 0xFD);
    let mut blob = table.definitions.clone();
    let stripped = plain_length(&blob[1]);
    blob[1].truncate(stripped);
    let row = &b"\x017\x05OUGHT"[..];
    let case = |what: &str, definitions: &[Vec<u8>], must: &str| wrong(what, APP, definitions, &[row], &[must]);
    vec![
        case("plain by its original name", &table.plain, "tpcc.customer.c_last"),
        case("plain by its shown name", &renamed, "tpcc.c.c_last"),
        case("plain in any case", &table.plain, "TPCC.Customer.C_Last"),
        case("stripped of its envelope", &blob, "tpcc.customer.c_last"),
        case("encrypted without a key for the client", &opaque.definitions, "tpcc.customer.c_last"),
    ]
}

const TAG: usize = 16;

fn word(format: RowFormat) -> &'static str {
    if format == RowFormat::Text { "text" } else { "binary" }
}

fn case_format(case: &Json) -> RowFormat {
    if case["format"] == "text" { RowFormat::Text } else { RowFormat::Binary }
}

fn original(row: &[u8]) -> Json {
    if row.len() > LONGEST_ROW { json!({"sha256": hex(&sha256(row))}) } else { hex(row).into() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hexes(packets: &[Vec<u8>]) -> Vec<String> {
    packets.iter().map(|packet| hex(packet)).collect()
}

fn packets(written: &Json) -> Vec<Vec<u8>> {
    let bytes = |hex: &Json| {
        let digits = hex.as_str().unwrap().as_bytes().chunks_exact(2);
        digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    };
    written.as_array().unwrap().iter().map(bytes).collect()
}
