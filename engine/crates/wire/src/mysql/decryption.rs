//! Decryption of result sets in which a gateway has encrypted some columns (docs/column-encryption-protocol.md, "What
//! is sent"). Each row is decrypted to the bytes that the server sent to the gateway. For speed, the definition of a
//! plaintext column is not fully parsed, and a row without encrypted columns is not copied.

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

/// The maximum number of cached column definitions. A full cache is cleared. Without this limit, statements that always
/// use new column names would fill the memory.
const MAX_CACHED_COLUMNS: usize = 4096;

/// The number of values and bytes decrypted in a slice (a measured window), including those of failed operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decrypted {
    /// The number of decrypted values. NULLs are not encrypted, so they do not count.
    pub values: u64,
    pub bytes: u64,
}

impl Tally for Decrypted {
    fn add_to(&self, counts: &mut Counts) {
        counts.add("decrypted.values", self.values);
        counts.add("decrypted.bytes", self.bytes);
    }
}

/// A client's master keys, and the columns that must be encrypted. `values` and `bytes` count decrypted data.
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

    /// Return the numbers of values and bytes decrypted since the last call. Unfinished result sets are not included.
    pub fn take_decrypted(&self) -> Decrypted {
        Decrypted { values: self.values.swap(0, Ordering::Relaxed), bytes: self.bytes.swap(0, Ordering::Relaxed) }
    }

    fn add(&self, decrypted: Decrypted) {
        self.values.fetch_add(decrypted.values, Ordering::Relaxed);
        self.bytes.fetch_add(decrypted.bytes, Ordering::Relaxed);
    }

    /// Check a column whose values are not decrypted. Errors: class `encryption` if the client requires the column to
    /// be encrypted.
    fn demand(&self, definition: &Definition<'_>) -> Result<()> {
        let is_demanded =
            |demand: &Demand| demand.matches(definition.original) || demand.matches(definition.visible_names());
        match self.demands.iter().any(is_demanded) {
            true => Err(Failure::new(Class::Encryption, "this client requires it to be encrypted, but it is not")),
            false => Ok(()),
        }
    }

    fn unwrap(&self, wrapped: &WrappedKey<'_>, salt: SessionSalt) -> Result<DataKey> {
        let name = wrapped.master_key;
        let key = self.keys.get(name).ok_or_else(|| {
            Failure::new(
                Class::Encryption,
                format!("it needs the master key '{}', which this client does not have", name.escape_debug()),
            )
        })?;
        let with_key_name = |failure: Failure| failure.with(&format!("master key '{name}'"));
        DataKey::unwrap(wrapped.data_key, key, salt, wrapped.number).map_err(with_key_name)
    }
}

/// The decryption of one session's result sets.
pub struct Decryption {
    master_keys: Arc<MasterKeys>,
    salt: SessionSalt,
    /// The current data key. Each new key has a higher number, so an older key that is sent again is refused. Older
    /// keys are therefore not kept.
    data_key: Option<SessionKey>,
    /// The columns of earlier result sets. The key is the packet that defines the column.
    cached_columns: HashMap<Box<[u8]>, Column>,
    columns: Vec<Column>,
    encrypted: usize,
    row: Vec<u8>,
    value: Vec<u8>,
    decrypted: Decrypted,
}

/// A session's unwrapped data key, and the openers (decryptors of values) already created from it.
struct SessionKey {
    master_key: String,
    wrapped: [u8; WRAPPED_KEY],
    key: DataKey,
    openers: HashMap<Algorithm, Rc<Opener>>,
}

#[derive(Clone)]
struct Column {
    form: BinaryForm,
    /// The decryption of the column. None if the column is plaintext, or if the encrypting gateway sent no key for it.
    encrypted: Option<Rc<Encrypted>>,
}

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
            cached_columns: HashMap::new(),
            columns: Vec::new(),
            encrypted: 0,
            row: Vec::new(),
            value: Vec::new(),
            decrypted: Decrypted::default(),
        }
    }

    /// Forget the columns of the previous result set, before those of the next one arrive.
    pub fn begin(&mut self) {
        self.settle();
        self.columns.clear();
        self.encrypted = 0;
        self.data_key.iter().flat_map(|key| key.openers.values()).for_each(|opener| opener.begin());
    }

    /// Process the next column definition. Errors: class `protocol` if it is malformed; `encryption` if the column's
    /// values cannot be decrypted, or if the column must be encrypted but is not.
    pub fn define(&mut self, packet: &[u8]) -> Result<()> {
        let column = match Definition::plain_kind(packet) {
            Some(kind) if self.master_keys.demands.is_empty() => {
                Column { form: BinaryForm::from_any_kind(kind), encrypted: None }
            }
            _ => self.look_up(packet)?,
        };
        self.encrypted += usize::from(column.encrypted.is_some());
        self.columns.push(column);
        Ok(())
    }

    /// Return the row with its values decrypted: the same bytes that the server sent to the gateway. Errors: class
    /// `protocol` if the row is malformed; `encryption` if a value was modified, or if the length of a value in a
    /// binary row does not fit the type of its column. In a text row, values of all types may have any length.
    pub fn row<'a>(&'a mut self, packet: &'a [u8], format: RowFormat) -> Result<&'a [u8]> {
        if self.encrypted == 0 {
            return Ok(packet);
        }
        self.row.clear();
        let mut reader = Reader::new(packet);
        match format {
            RowFormat::Text => self.restore_text(&mut reader)?,
            RowFormat::Binary => self.restore_binary(&mut reader)?,
        }
        if !reader.is_empty() {
            return Err(Failure::protocol("a row has bytes after its last column"));
        }
        Ok(&self.row)
    }

    fn restore_text(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        for index in 0..self.columns.len() {
            let Some(content) = reader.text_or_null()? else {
                self.row.push(NULL);
                continue;
            };
            match self.columns[index].encrypted.clone() {
                None => append_text(&mut self.row, content),
                Some(column) => {
                    self.open(&column, RowFormat::Text, content)?;
                    append_text(&mut self.row, &self.value);
                }
            }
        }
        Ok(())
    }

    fn restore_binary(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let nulls = begin_binary(reader, self.columns.len())?;
        self.row.push(BINARY_ROW);
        self.row.extend_from_slice(nulls.bytes());
        for index in 0..self.columns.len() {
            if nulls.has(index) {
                continue;
            }
            let content = self.columns[index].form.read(reader)?;
            match self.columns[index].encrypted.clone() {
                None => self.columns[index].form.append(&mut self.row, content),
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
        let associated = &column.associated[format_index(format)];
        let named = |failure: Failure| failure.with(&column.label);
        column.opener.open(associated, sealed, &mut self.value).map_err(named)?;
        let is_valid_length = match column.form {
            BinaryForm::Fixed(length) => self.value.len() == length,
            BinaryForm::Short => self.value.len() <= usize::from(u8::MAX),
            BinaryForm::Text => true,
        };
        if format == RowFormat::Binary && !is_valid_length {
            return Err(named(Failure::new(Class::Encryption, "a value does not fit the column's type")));
        }
        self.decrypted.values += 1;
        self.decrypted.bytes += self.value.len() as u64;
        Ok(())
    }

    fn look_up(&mut self, packet: &[u8]) -> Result<Column> {
        if let Some(column) = self.cached_columns.get(packet) {
            return Ok(column.clone());
        }
        let definition = Definition::parse(packet)?;
        let form = BinaryForm::from_any_kind(definition.stated.kind);
        let named = |failure: Failure| failure.with(&definition.label());
        let envelope = Envelope::parse(definition.tail).map_err(named)?;
        if self.cached_columns.len() >= MAX_CACHED_COLUMNS {
            self.cached_columns.clear();
        }
        let Some((envelope, wrapped)) = envelope.and_then(|envelope| Some((envelope, envelope.key?))) else {
            // If the column must be encrypted, refuse plaintext, and also ciphertext without a key, which the client
            // cannot verify.
            self.master_keys.demand(&definition).map_err(named)?;
            let column = Column { form, encrypted: None };
            self.cached_columns.insert(packet.into(), column.clone());
            return Ok(column);
        };
        let Envelope { algorithm, original, .. } = envelope;
        let encrypted = Encrypted {
            label: definition.label(),
            form: BinaryForm::from_any_kind(original.kind),
            opener: self.opener(&wrapped, algorithm).map_err(named)?,
            associated: [RowFormat::Text, RowFormat::Binary]
                .map(|format| associated_data(algorithm, original, format, definition.original)),
        };
        let column = Column { form, encrypted: Some(Rc::new(encrypted)) };
        self.cached_columns.insert(packet.into(), column.clone());
        Ok(column)
    }

    fn opener(&mut self, wrapped: &WrappedKey<'_>, algorithm: Algorithm) -> Result<Rc<Opener>> {
        let is_current = |known: &SessionKey| {
            let is_same = known.wrapped == *wrapped.data_key && known.master_key == wrapped.master_key;
            is_same && known.key.number() == wrapped.number
        };
        let current = match &mut self.data_key {
            Some(known) if is_current(known) => known,
            Some(known) if wrapped.number <= known.key.number() => {
                return Err(Failure::new(Class::Encryption, "its data key is not the session's current one"));
            }
            before => {
                let key = self.master_keys.unwrap(wrapped, self.salt)?;
                // The cached columns contain openers (decryptors) of the previous key, which cannot decrypt new values.
                self.cached_columns.clear();
                let (master_key, wrapped) = (wrapped.master_key.into(), *wrapped.data_key);
                before.insert(SessionKey { master_key, wrapped, key, openers: HashMap::new() })
            }
        };
        let SessionKey { key, openers, .. } = current;
        Ok(openers.entry(algorithm).or_insert_with(|| Rc::new(key.opener(algorithm))).clone())
    }

    /// Add this session's numbers of decrypted values and bytes to the totals in [`MasterKeys`].
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

fn format_index(format: RowFormat) -> usize {
    match format {
        RowFormat::Text => 0,
        RowFormat::Binary => 1,
    }
}

#[cfg(test)]
mod tests;
