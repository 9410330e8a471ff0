//! Tests of decryption. The answers are built here as an encrypting gateway would send them.

mod gateway;
mod vectors;

use super::*;
use encryption::ClientNonce;
use gateway::{Gateway, Table, Value};
use mysql::row::FIRST_COLUMN;
use proptest::prelude::*;

const APP: &str = "00112233445566778899aabbccddeeff";
const SCRAMBLE: &str = "01234567abcdefghijkl";
const NONCE: &str = "0707070707070707070707070707070707070707070707070707070707070707";

fn salt() -> SessionSalt {
    let nonce = ClientNonce::from_hex(NONCE.as_bytes()).unwrap();
    SessionSalt::new(SCRAMBLE.as_bytes().first_chunk().unwrap(), &nonce)
}

fn master_keys(keys: &[(&str, &str)]) -> Arc<MasterKeys> {
    demanding(keys, Vec::new())
}

fn demanding(keys: &[(&str, &str)], must_be_encrypted: Vec<Demand>) -> Arc<MasterKeys> {
    let key = |&(name, digits): &(&str, &str)| (name.to_owned(), MasterKey::from_hex(digits).unwrap());
    let master_keys = keys.iter().map(key).collect();
    Arc::new(MasterKeys::new(&crate::mysql::DecryptionSettings { master_keys, must_be_encrypted }))
}

fn read(
    decryption: &mut Decryption,
    definitions: &[Vec<u8>],
    rows: &[Vec<u8>],
    format: RowFormat,
) -> Result<Vec<Vec<u8>>> {
    decryption.begin();
    definitions.iter().try_for_each(|definition| decryption.define(definition))?;
    let read = rows.iter().map(|row| decryption.row(row, format).map(<[u8]>::to_vec)).collect();
    decryption.settle();
    read
}

fn refusal(keys: &[(&str, &str)], table: &Table, rows: &[Vec<u8>], format: RowFormat) -> Failure {
    let mut decryption = Decryption::new(master_keys(keys), salt());
    read(&mut decryption, &table.definitions, rows, format).unwrap_err()
}

/// Return a table `c_id INT, c_last VARCHAR` whose column `c_last` is encrypted.
fn customers(gateway: &mut Gateway) -> Table {
    gateway.table(&[("c_id", 3, None), ("c_last", 0xFD, Some(Algorithm::Aes128Gcm))])
}

#[test]
fn decrypted_values_are_counted_at_the_end_of_a_result_set() {
    let mut gateway = Gateway::known();
    let table = customers(&mut gateway);
    let row = gateway.row(&table, &[Some(b"7"), Some(b"BARBARBAR")], RowFormat::Text);
    let null = gateway.row(&table, &[Some(b"8"), None], RowFormat::Text);
    let keys = master_keys(&[("app", APP)]);
    let mut decryption = Decryption::new(keys.clone(), salt());
    let rows = read(&mut decryption, &table.definitions, &[row, null], RowFormat::Text).unwrap();
    assert_eq!(rows, [&b"\x017\x09BARBARBAR"[..], b"\x018\xfb"]);
    assert_eq!(keys.take_decrypted(), Decrypted { values: 1, bytes: 9 });
    assert_eq!(keys.take_decrypted(), Decrypted::default());
}

#[test]
fn rows_without_encrypted_columns_are_not_copied() {
    let mut gateway = Gateway::known();
    let table = gateway.table(&[("c_id", 3, None)]);
    let mut decryption = Decryption::new(master_keys(&[]), salt());
    decryption.define(&table.definitions[0]).unwrap();
    let packet = b"whatever it is";
    assert_eq!(decryption.row(packet, RowFormat::Text).unwrap().as_ptr(), packet.as_ptr());
}

#[test]
fn ciphertext_for_which_the_client_has_no_key_is_unchanged() {
    let mut gateway = Gateway::opaque();
    let table = customers(&mut gateway);
    for format in [RowFormat::Text, RowFormat::Binary] {
        let row = gateway.row(&table, &[Some(b"\x07\0\0\0"), Some(b"BARBARBAR")], format);
        let mut decryption = Decryption::new(master_keys(&[]), salt());
        assert_eq!(read(&mut decryption, &table.definitions, std::slice::from_ref(&row), format).unwrap(), [row]);
    }
}

#[test]
fn decryption_error_names_the_column_but_neither_value_nor_key() {
    let mut gateway = Gateway::known();
    let table = customers(&mut gateway);
    let good = gateway.row(&table, &[Some(b"7"), Some(b"BARBARBAR")], RowFormat::Text);
    let mut changed = good.clone();
    *changed.last_mut().unwrap() ^= 1;
    let text = RowFormat::Text;
    let detail = |failure: Failure| {
        assert_eq!(failure.class, Class::Encryption);
        failure.detail
    };
    assert_eq!(
        detail(refusal(&[("app", APP)], &table, &[changed], text)),
        "column tpcc.customer.c_last: a value was changed, or encrypted for another column or session"
    );
    assert_eq!(
        detail(refusal(&[("other", APP)], &table, std::slice::from_ref(&good), text)),
        "column tpcc.customer.c_last: it needs the master key 'app', which this client does not have"
    );
    assert_eq!(
        detail(refusal(&[("app", &APP.replace('f', "0"))], &table, std::slice::from_ref(&good), text)),
        "column tpcc.customer.c_last: master key 'app': the data key was changed, or wrapped with another master key"
    );
    let mut cut = table.clone();
    cut.definitions[1].pop();
    assert_eq!(
        detail(refusal(&[("app", APP)], &cut, &[good], text)),
        "column tpcc.customer.c_last: the encryption data that the gateway appends to the column's definition in a \
         result are missing or damaged"
    );
}

#[test]
fn data_key_is_refused_after_a_key_with_a_higher_number() {
    let mut decryption = Decryption::new(master_keys(&[("app", APP)]), salt());
    let mut gateways = [0, 1, 5].map(|number| Gateway::for_session(salt(), number));
    let answers = gateways.each_mut().map(|gateway| {
        let table = customers(gateway);
        let rows = [b"OUGHT", b"ABLE!"].map(|name| gateway.row(&table, &[Some(b"7"), Some(name)], RowFormat::Text));
        (table, rows)
    });
    for (table, rows) in &answers {
        read(&mut decryption, &table.definitions, &rows[..1], RowFormat::Text).unwrap();
    }
    for (table, rows) in &answers[..2] {
        let failure = read(&mut decryption, &table.definitions, &rows[1..], RowFormat::Text).unwrap_err();
        assert_eq!(failure.detail, "column tpcc.customer.c_last: its data key is not the session's current one");
    }
    // A refused key (its number is too low, or it cannot be unwrapped) does not replace the current key.
    let mut other = customers(&mut Gateway::for_session(salt(), 9));
    *other.definitions[1].last_mut().unwrap() ^= 1;
    decryption.define(&other.definitions[1]).unwrap_err();
    let (table, rows) = &answers[0];
    read(&mut decryption, &table.definitions, &rows[1..], RowFormat::Text).unwrap_err();
    let (table, rows) = &answers[2];
    read(&mut decryption, &table.definitions, &rows[1..], RowFormat::Text).unwrap();
}

#[test]
fn plaintext_in_a_column_that_must_be_encrypted_is_an_error() {
    let demands = vec![Demand::try_from("tpcc.customer.c_last".to_owned()).unwrap()];
    let mut gateway = Gateway::known();
    let table = customers(&mut gateway);
    let mut decryption = Decryption::new(demanding(&[("app", APP)], demands), salt());
    for name in [&b"OUGHT"[..], b"BAR"] {
        let row = gateway.row(&table, &[Some(b"7"), Some(name)], RowFormat::Text);
        read(&mut decryption, &table.definitions, &[row], RowFormat::Text).unwrap();
    }
    for _ in 0..2 {
        let failure = read(&mut decryption, &table.plain, &[], RowFormat::Text).unwrap_err();
        let expected = "column tpcc.customer.c_last: this client requires it to be encrypted, but it is not";
        assert_eq!((failure.class, &failure.detail[..]), (Class::Encryption, expected));
    }
    let other = gateway.table(&[("c_middle", 0xFD, None)]);
    read(&mut decryption, &other.definitions, &[], RowFormat::Text).unwrap();
}

/// A holder of the master key could encrypt values of a wrong type. The application must not get such values.
#[test]
fn values_that_do_not_fit_the_type_of_their_column_are_refused() {
    let mut gateway = Gateway::known();
    for (kind, value) in [(3, &b"\x07\0\0"[..]), (0x0C, &[1; 256])] {
        let table = gateway.table(&[("c", kind, Some(Algorithm::Sm4Gcm))]);
        let row = gateway.row(&table, &[Some(value)], RowFormat::Binary);
        let failure = refusal(&[("app", APP)], &table, &[row], RowFormat::Binary);
        assert_eq!(failure.detail, "column tpcc.customer.c: a value does not fit the column's type");
    }
}

#[test]
fn row_cannot_be_decrypted_twice_even_after_the_column_cache_is_cleared() {
    let mut gateway = Gateway::known();
    let table = customers(&mut gateway);
    let row = gateway.row(&table, &[Some(b"7"), Some(b"OUGHT")], RowFormat::Text);
    let mut decryption = Decryption::new(master_keys(&[("app", APP)]), salt());
    read(&mut decryption, &table.definitions, std::slice::from_ref(&row), RowFormat::Text).unwrap();
    for number in 0..MAX_CACHED_COLUMNS + 10 {
        let table = gateway.table(&[(&format!("c{number}"), 0xFD, Some(Algorithm::Aes128Gcm))]);
        decryption.define(&table.definitions[0]).unwrap();
        decryption.define(&table.definitions[0]).unwrap();
    }
    assert!(decryption.cached_columns.len() <= MAX_CACHED_COLUMNS);
    read(&mut decryption, &table.definitions, &[row], RowFormat::Text).expect_err("the row was already decrypted");
}

fn column() -> impl Strategy<Value = (u8, Option<Algorithm>)> {
    let kind =
        prop::sample::select(vec![1_u8, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 15, 16, 0xF5, 0xF6, 0xFC, 0xFD, 0xFE]);
    (kind, prop::option::of(prop::sample::select(&Algorithm::ALL)))
}

fn value(kind: u8) -> BoxedStrategy<Value> {
    let bytes = |length| prop::collection::vec(any::<u8>(), length).boxed();
    let content = match BinaryForm::from_any_kind(kind) {
        BinaryForm::Fixed(length) => bytes(length..=length),
        BinaryForm::Short => bytes(0..=12),
        // Repeat one byte, because generating hundreds of random bytes would take most of the test's time.
        BinaryForm::Text => (any::<u8>(), 0..=300_usize).prop_map(|(byte, length)| vec![byte; length]).boxed(),
    };
    prop::option::of(content).boxed()
}

/// The type and algorithm of each column, and rows of values for these columns.
type ResultSet = (Vec<(u8, Option<Algorithm>)>, Vec<Vec<Value>>);

fn result_set() -> impl Strategy<Value = ResultSet> {
    prop::collection::vec(column(), 1..12).prop_flat_map(|columns| {
        let row: Vec<_> = columns.iter().map(|(kind, _)| value(*kind)).collect();
        (Just(columns), prop::collection::vec(row, 0..4))
    })
}

fn table_with(gateway: &mut Gateway, columns: &[(u8, Option<Algorithm>)]) -> Table {
    let names: Vec<_> = (0..columns.len()).map(|number| format!("c{number}")).collect();
    let named: Vec<_> =
        names.iter().zip(columns).map(|(name, (kind, algorithm))| (name.as_str(), *kind, *algorithm)).collect();
    gateway.table(&named)
}

#[test]
fn envelope_with_any_changed_bit_is_refused() {
    let mut gateway = Gateway::known();
    let table = customers(&mut gateway);
    let row = gateway.row(&table, &[Some(b"7"), Some(b"OUGHT")], RowFormat::Text);
    for bit in 8 * table.plain[1].len()..8 * table.definitions[1].len() {
        let mut changed = table.clone();
        changed.definitions[1][bit / 8] ^= 1 << (bit % 8);
        let failure = refusal(&[("app", APP)], &changed, std::slice::from_ref(&row), RowFormat::Text);
        assert_eq!(failure.class, Class::Encryption, "bit {bit}");
    }
}

proptest! {
    #[test]
    fn decrypted_rows_equal_the_rows_that_the_server_sent_to_the_gateway((columns, values) in result_set(), binary: bool) {
        let format = if binary { RowFormat::Binary } else { RowFormat::Text };
        let mut gateway = Gateway::known();
        let table = table_with(&mut gateway, &columns);
        let plain: Vec<_> = values.iter().map(|row| gateway.plain_row(&table, &gateway::borrowed(row), format)).collect();
        let mut decryption = Decryption::new(master_keys(&[("app", APP)]), salt());
        // In the second round, the definitions of all columns come from the cache.
        for _ in 0..2 {
            let sealed: Vec<_> = values.iter().map(|row| gateway.row(&table, &gateway::borrowed(row), format)).collect();
            prop_assert_eq!(read(&mut decryption, &table.definitions, &sealed, format).unwrap(), plain.clone());
        }
    }

    #[test]
    fn damaged_result_sets_cause_no_panic_and_yield_no_wrong_values(
        (columns, values) in result_set(),
        binary: bool,
        definition: prop::sample::Index,
        at: prop::sample::Index,
        with: u8,
        in_rows: bool,
    ) {
        let format = if binary { RowFormat::Binary } else { RowFormat::Text };
        let mut gateway = Gateway::known();
        // All columns are encrypted here, because changes of plaintext columns are not detected.
        let columns: Vec<_> = columns.into_iter().map(|(kind, algorithm)| (kind, algorithm.or(Some(Algorithm::Aes128Gcm)))).collect();
        let mut table = table_with(&mut gateway, &columns);
        let mut rows: Vec<_> = values.iter().map(|row| gateway.row(&table, &gateway::borrowed(row), format)).collect();
        let plain: Vec<_> = values.iter().map(|row| gateway.plain_row(&table, &gateway::borrowed(row), format)).collect();
        let packet = match rows.len() {
            count if in_rows && count > 0 => &mut rows[definition.index(count)],
            _ => { let count = table.definitions.len(); &mut table.definitions[definition.index(count)] }
        };
        let at = at.index(packet.len());
        packet[at] = with;
        let read = read(&mut Decryption::new(master_keys(&[("app", APP)]), salt()), &table.definitions, &rows, format);
        match read {
            // Bits of the NULL bitmap that belong to no column are not checked, so the rows may differ in these bits.
            Ok(rows) => for (row, plain) in rows.iter().zip(&plain) {
                let bitmap = if binary { 1 + (columns.len() + FIRST_COLUMN).div_ceil(8) } else { 0 };
                prop_assert_eq!(&row[bitmap..], &plain[bitmap..]);
            },
            Err(failure) => prop_assert!(matches!(failure.class, Class::Encryption | Class::Protocol)),
        }
    }
}

/// Fuzzing: `cargo test` uses a fixed number of inputs, `cargo bolero test` an unlimited number. 0xAA ends a packet.
#[test]
fn reading_result_sets_from_arbitrary_bytes_never_panics() {
    bolero::check!().with_iterations(2000).for_each(|bytes: &[u8]| {
        let packets: Vec<_> = bytes.split(|byte| *byte == 0xAA).map(<[u8]>::to_vec).collect();
        let (definitions, rows) = packets.split_at(packets.len().div_ceil(2));
        for format in [RowFormat::Text, RowFormat::Binary] {
            let _ = read(&mut Decryption::new(master_keys(&[("app", APP)]), salt()), definitions, rows, format);
        }
        let _ = (Envelope::parse(bytes), Definition::parse(bytes));
    });
}
