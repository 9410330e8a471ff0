//! A minimal gateway that encrypts columns, for tests. It uses a fixed data key instead of a random one, so its output
//! is always the same.

use super::super::*;
use super::{APP, salt};
use encryption::{Sealer, encrypted};
use mysql::OriginalType;
use mysql::row::FIRST_COLUMN;

/// The bytes of a value without its length. None for NULL.
pub type Value = Option<Vec<u8>>;

pub struct Gateway {
    key: DataKey,
    /// The wrapped data key. None for clients that get no key.
    wrapped: Option<[u8; WRAPPED_KEY]>,
    sealers: HashMap<Algorithm, Sealer>,
}

/// The columns of a result set: `definitions` as the encrypting gateway sends them, and `plain` as the server sent them
/// to the gateway.
#[derive(Clone)]
pub struct Table {
    pub definitions: Vec<Vec<u8>>,
    pub plain: Vec<Vec<u8>>,
    algorithms: Vec<Option<Algorithm>>,
}

impl Gateway {
    pub fn known() -> Self {
        Self::for_session(salt(), 0)
    }

    pub fn for_session(salt: SessionSalt, number: u32) -> Self {
        let key = DataKey::for_session(*b"a known data key", salt, number);
        let wrapped = key.wrapped(&MasterKey::from_hex(APP).unwrap());
        Gateway { key, wrapped: Some(wrapped), sealers: HashMap::new() }
    }

    pub fn opaque() -> Self {
        Gateway { wrapped: None, ..Gateway::known() }
    }

    pub fn table(&mut self, columns: &[(&str, u8, Option<Algorithm>)]) -> Table {
        let algorithms: Vec<_> = columns.iter().map(|(.., algorithm)| *algorithm).collect();
        let names = |name| ["tpcc", "c", "customer", name, name];
        let plain: Vec<_> = columns.iter().map(|(name, kind, _)| definition(names(name), *kind)).collect();
        let sent = plain.iter().zip(&algorithms).map(|(plain, algorithm)| self.definition(plain, *algorithm)).collect();
        Table { definitions: sent, plain, algorithms }
    }

    fn definition(&self, plain: &[u8], algorithm: Option<Algorithm>) -> Vec<u8> {
        let mut sent = plain.to_vec();
        let Some(algorithm) = algorithm else { return sent };
        let original = Definition::parse(plain).unwrap().stated;
        let start = plain.len() - OriginalType::LENGTH - 2;
        sent[start..start + OriginalType::LENGTH].copy_from_slice(&encrypted(original, algorithm).bytes());
        let key =
            self.wrapped.as_ref().map(|data_key| WrappedKey { master_key: "app", number: self.key.number(), data_key });
        Envelope { algorithm, original, key }.append(&mut sent).unwrap();
        sent
    }

    pub fn row(&mut self, table: &Table, values: &[Option<&[u8]>], format: RowFormat) -> Vec<u8> {
        let sealed: Vec<Value> =
            (0..values.len()).map(|index| self.seal(table, index, values[index]?, format)).collect();
        let forms: Vec<_> = table.definitions.iter().map(|definition| form(definition)).collect();
        lay_out(&forms, &borrowed(&sealed), format)
    }

    pub fn plain_row(&self, table: &Table, values: &[Option<&[u8]>], format: RowFormat) -> Vec<u8> {
        let forms: Vec<_> = table.plain.iter().map(|definition| form(definition)).collect();
        lay_out(&forms, values, format)
    }

    fn seal(&mut self, table: &Table, index: usize, value: &[u8], format: RowFormat) -> Value {
        let Some(algorithm) = table.algorithms[index] else { return Some(value.to_vec()) };
        let definition = Definition::parse(&table.plain[index]).unwrap();
        let associated = associated_data(algorithm, definition.stated, format, definition.original);
        let Gateway { sealers, key, .. } = self;
        let sealer = sealers.entry(algorithm).or_insert_with(|| key.sealer(algorithm).unwrap());
        let mut sealed = Vec::new();
        sealer.seal(&associated, value, &mut sealed).unwrap();
        Some(sealed)
    }
}

pub fn borrowed(values: &[Value]) -> Vec<Option<&[u8]>> {
    values.iter().map(Option::as_deref).collect()
}

/// Return the definition of a column that is NOT NULL. `names` are the database, the table's alias and original name,
/// and the column's alias and original name.
pub fn definition(names: [&str; 5], kind: u8) -> Vec<u8> {
    let mut packet = b"\x03def".to_vec();
    for text in names {
        append_text(&mut packet, text.as_bytes());
    }
    packet.push(12);
    // Only VARCHAR has the character set utf8mb4; all other types are binary.
    let charset = if kind == 0xFD { 45 } else { 63 };
    packet.extend_from_slice(&OriginalType { charset, length: 64, kind, flags: 1, decimals: 0 }.bytes());
    packet.extend_from_slice(&[0, 0]);
    packet
}

fn form(definition: &[u8]) -> BinaryForm {
    BinaryForm::from_any_kind(Definition::parse(definition).unwrap().stated.kind)
}

fn lay_out(forms: &[BinaryForm], values: &[Option<&[u8]>], format: RowFormat) -> Vec<u8> {
    let mut row = Vec::new();
    if format == RowFormat::Binary {
        row.resize(1 + (values.len() + FIRST_COLUMN).div_ceil(8), 0);
    }
    for (index, (form, value)) in forms.iter().zip(values).enumerate() {
        match (format, value) {
            (RowFormat::Text, None) => row.push(NULL),
            (RowFormat::Text, Some(value)) => append_text(&mut row, value),
            (RowFormat::Binary, None) => row[1 + (index + FIRST_COLUMN) / 8] |= 1 << ((index + FIRST_COLUMN) % 8),
            (RowFormat::Binary, Some(value)) => form.append(&mut row, value),
        }
    }
    row
}
