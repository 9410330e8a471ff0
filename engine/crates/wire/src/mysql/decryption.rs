//! Decryption of what a gateway has encrypted on the way (docs/column-encryption-protocol.md, "What is sent"): definitions are looked at
//! as they come, and each row is put back to what the server sent. Where nothing is encrypted a definition is skipped
//! through and a row is not touched.

use base::error::{Class, Failure, Result};
use encryption::{
    Algorithm, DataKey, Demand, Envelope, MasterKey, Opener, SessionSalt, WRAPPED_KEY, WrappedKey, associated_data,
};
use mysql::bytes::{NULL, Reader, append_text};
use mysql::row::{BINARY_ROW, begin_binary};
use mysql::{BinaryForm, Definition, RowFormat};
use record::{Counts, Tally};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many columns' definitions are known by their bytes, then all are forgotten: text that names a column
/// another way in each statement must not fill the memory.
const MOST_KNOWN: usize = 4096;

/// What was decrypted in a slice, failed operations included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decrypted {
    /// Without NULLs, which are not encrypted.
    pub values: u64,
    pub bytes: u64,
}

impl Tally for Decrypted {
    fn add_to(&self, counts: &mut Counts) {
        counts.add("decrypted.values", self.values);
        counts.add("decrypted.bytes", self.bytes);
    }
}

/// An arm's master keys, the columns that it takes encrypted alone, and the count of what its sessions have decrypted.
pub struct MasterKeys {
    keys: BTreeMap<String, MasterKey>,
    demands: Vec<Demand>,
    values: AtomicU64,
    bytes: AtomicU64,
}

impl MasterKeys {
    pub fn new(settings: &super::DecryptionSettings) -> Self {
        let (keys, demands) = (settings.master_keys.clone(), settings.must_be_encrypted.clone());
        MasterKeys { keys, demands, values: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// What was decrypted since this was asked last. Sessions add to it when a result set has ended.
    pub fn take_decrypted(&self) -> Decrypted {
        Decrypted { values: self.values.swap(0, Ordering::Relaxed), bytes: self.bytes.swap(0, Ordering::Relaxed) }
    }

    fn add(&self, decrypted: Decrypted) {
        self.values.fetch_add(decrypted.values, Ordering::Relaxed);
        self.bytes.fetch_add(decrypted.bytes, Ordering::Relaxed);
    }

    fn demand(&self, definition: &Definition<'_>) -> Result<()> {
        let is_meant = |demand: &Demand| demand.means(definition.original) || demand.means(definition.shown());
        match self.demands.iter().any(is_meant) {
            true => Err(Failure::new(Class::Encryption, "it must be encrypted for this client, and is not")),
            false => Ok(()),
        }
    }

    fn unwrap(&self, wrapped: &WrappedKey<'_>, salt: SessionSalt) -> Result<DataKey> {
        let name = wrapped.master_key;
        let key = self.keys.get(name).ok_or_else(|| {
            Failure::new(
                Class::Encryption,
                format!("it needs the master key '{}', which is not here", name.escape_debug()),
            )
        })?;
        let said = |failure: Failure| failure.with(&format!("master key '{name}'"));
        DataKey::unwrap(wrapped.data_key, key, salt, wrapped.number).map_err(said)
    }
}

/// One session's decryption.
pub struct Decryption {
    master_keys: Arc<MasterKeys>,
    salt: SessionSalt,
    /// The present one. Earlier ones are forgotten, and refused by their numbers.
    data_key: Option<SessionKey>,
    /// Columns by the bytes of their definitions.
    known: HashMap<Box<[u8]>, Column>,
    columns: Vec<Column>,
    encrypted: usize,
    row: Vec<u8>,
    value: Vec<u8>,
    decrypted: Decrypted,
}

/// A data key that was unwrapped, and what decrypts with it.
struct SessionKey {
    master_key: String,
    wrapped: [u8; WRAPPED_KEY],
    key: DataKey,
    openers: HashMap<Algorithm, Rc<Opener>>,
}

/// A column of the present result set.
#[derive(Clone)]
struct Column {
    form: BinaryForm,
    /// Where it is to be decrypted. What nobody here can decrypt stays as it came.
    encrypted: Option<Rc<Encrypted>>,
}

/// A column that is to be decrypted.
struct Encrypted {
    label: String,
    form: BinaryForm,
    opener: Rc<Opener>,
    associated: [Vec<u8>; 2],
}

impl Decryption {
    pub fn new(master_keys: Arc<MasterKeys>, salt: SessionSalt) -> Self {
        Decryption {
            master_keys,
            salt,
            data_key: None,
            known: HashMap::new(),
            columns: Vec::new(),
            encrypted: 0,
            row: Vec::new(),
            value: Vec::new(),
            decrypted: Decrypted::default(),
        }
    }

    pub fn begin(&mut self) {
        self.settle();
        self.columns.clear();
        self.encrypted = 0;
        self.data_key.iter().flat_map(|known| known.openers.values()).for_each(|opener| opener.begin());
    }

    /// The next of them.
    /// Errors: `protocol`; `encryption`, where the column's values cannot be decrypted.
    pub fn define(&mut self, packet: &[u8]) -> Result<()> {
        let column = match Definition::plain_kind(packet) {
            Some(kind) if self.master_keys.demands.is_empty() => {
                Column { form: BinaryForm::of_any(kind), encrypted: None }
            }
            _ => self.look_up(packet)?,
        };
        self.encrypted += usize::from(column.encrypted.is_some());
        self.columns.push(column);
        Ok(())
    }

    /// The row as the server sent it.
    /// Errors: `protocol`; `encryption`, where a value was changed.
    pub fn row<'a>(&'a mut self, packet: &'a [u8], format: RowFormat) -> Result<&'a [u8]> {
        if self.encrypted == 0 {
            return Ok(packet);
        }
        self.row.clear();
        let mut reader = Reader::new(packet);
        match format {
            RowFormat::Text => self.put_back_text(&mut reader)?,
            RowFormat::Binary => self.put_back_binary(&mut reader)?,
        }
        if !reader.is_empty() {
            return Err(Failure::protocol("a row holds more than its columns"));
        }
        Ok(&self.row)
    }

    fn put_back_text(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        for at in 0..self.columns.len() {
            let Some(content) = reader.text_or_null()? else {
                self.row.push(NULL);
                continue;
            };
            match self.columns[at].encrypted.clone() {
                None => append_text(&mut self.row, content),
                Some(column) => {
                    self.open(&column, RowFormat::Text, content)?;
                    append_text(&mut self.row, &self.value);
                }
            }
        }
        Ok(())
    }

    fn put_back_binary(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let nulls = begin_binary(reader, self.columns.len())?;
        self.row.push(BINARY_ROW);
        self.row.extend_from_slice(nulls.bytes());
        for at in 0..self.columns.len() {
            if nulls.has(at) {
                continue;
            }
            let content = self.columns[at].form.read(reader)?;
            match self.columns[at].encrypted.clone() {
                None => self.columns[at].form.append(&mut self.row, content),
                Some(column) => {
                    self.open(&column, RowFormat::Binary, content)?;
                    column.form.append(&mut self.row, &self.value);
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, column: &Encrypted, format: RowFormat, sealed: &[u8]) -> Result<()> {
        self.value.clear();
        let associated = &column.associated[place(format)];
        let named = |failure: Failure| failure.with(&column.label);
        column.opener.open(associated, sealed, &mut self.value).map_err(named)?;
        let fits = match column.form {
            BinaryForm::Fixed(length) => self.value.len() == length,
            BinaryForm::Short => self.value.len() <= usize::from(u8::MAX),
            BinaryForm::Text => true,
        };
        if format == RowFormat::Binary && !fits {
            return Err(named(Failure::new(Class::Encryption, "a value does not fit the column's type")));
        }
        self.decrypted.values += 1;
        self.decrypted.bytes += self.value.len() as u64;
        Ok(())
    }

    fn look_up(&mut self, packet: &[u8]) -> Result<Column> {
        if let Some(column) = self.known.get(packet) {
            return Ok(column.clone());
        }
        let definition = Definition::parse(packet)?;
        let form = BinaryForm::of_any(definition.stated.kind);
        let named = |failure: Failure| failure.with(&definition.label());
        let envelope = Envelope::parse(definition.tail).map_err(named)?;
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let Some((envelope, wrapped)) = envelope.and_then(|envelope| Some((envelope, envelope.key?))) else {
            // What nobody here can decrypt proves nothing either.
            self.master_keys.demand(&definition).map_err(named)?;
            let column = Column { form, encrypted: None };
            self.known.insert(packet.into(), column.clone());
            return Ok(column);
        };
        let Envelope { algorithm, original, .. } = envelope;
        let encrypted = Encrypted {
            label: definition.label(),
            form: BinaryForm::of_any(original.kind),
            opener: self.opener(&wrapped, algorithm).map_err(named)?,
            associated: [RowFormat::Text, RowFormat::Binary]
                .map(|format| associated_data(algorithm, original, format, definition.original)),
        };
        let column = Column { form, encrypted: Some(Rc::new(encrypted)) };
        self.known.insert(packet.into(), column.clone());
        Ok(column)
    }

    fn opener(&mut self, wrapped: &WrappedKey<'_>, algorithm: Algorithm) -> Result<Rc<Opener>> {
        let is_present = |known: &SessionKey| {
            let is_same = known.wrapped == *wrapped.data_key && known.master_key == wrapped.master_key;
            is_same && known.key.number() == wrapped.number
        };
        let present = match &mut self.data_key {
            Some(known) if is_present(known) => known,
            Some(known) if wrapped.number <= known.key.number() => {
                return Err(Failure::new(Class::Encryption, "its data key is not the session's present one"));
            }
            before => {
                let key = self.master_keys.unwrap(wrapped, self.salt)?;
                // What was known, was so under the key before.
                self.known.clear();
                let (master_key, wrapped) = (wrapped.master_key.into(), *wrapped.data_key);
                before.insert(SessionKey { master_key, wrapped, key, openers: HashMap::new() })
            }
        };
        let SessionKey { key, openers, .. } = present;
        Ok(openers.entry(algorithm).or_insert_with(|| Rc::new(key.opener(algorithm))).clone())
    }

    pub fn settle(&mut self) {
        if self.decrypted.values > 0 {
            self.master_keys.add(std::mem::take(&mut self.decrypted));
        }
    }
}

impl Drop for Decryption {
    fn drop(&mut self) {
        self.settle();
    }
}

fn place(format: RowFormat) -> usize {
    match format {
        RowFormat::Text => 0,
        RowFormat::Binary => 1,
    }
}

#[cfg(test)]
mod tests;
