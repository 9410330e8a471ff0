//! Encryption of result sets with the session's data key. This module replaces column definitions (MySQL Internals,
//! "Protocol::ColumnDefinition41"), and encrypts values in rows ("ProtocolText::ResultsetRow" and "Binary Protocol
//! Resultset Row").

use crate::counters::Tally;
use crate::rules::{NamedKey, Role, Rules};
use crate::statements::Verdict;
use base::error::{Class, Failure, Result};
use encryption::{
    Algorithm, DataKey, Envelope, Sealer, SessionSalt, WRAPPED_KEY, WrappedKey, associated_data, encrypted,
};
use mysql::bytes::{NULL, Reader, append_length};
use mysql::packet::{self, HEADER};
use mysql::row::{BINARY_ROW, begin_binary};
use mysql::{BinaryForm, Definition, RowFormat};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The minimum number of values that a key must still be able to encrypt before a command begins. A key that can
/// encrypt fewer values is replaced. No result set has this many values, so no key reaches its limit during a command.
const MIN_VALUES_LEFT: u64 = 1 << 31;
const MAX_KNOWN_COLUMNS: usize = 4096;
const LONGEST_TEMPORAL: usize = 12;

/// The encryption of one session's result sets, with the data key and a cache of how to encrypt each column.
#[derive(Debug)]
pub struct Sealing {
    key: DataKey,
    /// The data key, wrapped (encrypted) with the client's master key. None if the client has no master key.
    wrapped: Option<(Arc<NamedKey>, [u8; WRAPPED_KEY])>,
    /// The salt of the session's keys. It is None for a client that does not decrypt. Such a client gets no envelopes
    /// (decryption information after a column's definition), because some clients fail on unknown bytes.
    salt: Option<SessionSalt>,
    /// The sealers (encryptors) already created, indexed by the numbers of their algorithms, which start at 1.
    sealers: [Option<Sealer>; Algorithm::ALL.len() + 1],
    /// The columns that have already occurred in this session. The key is the definition that the server sent. The
    /// array has one map for each combination of verdict (what the approval says about the column) and row format.
    known_columns: [HashMap<Box<[u8]>, Rc<Column>>; 2 * 3],
}

/// A column of an answer, and how to encrypt its values if they must be encrypted.
#[derive(Debug)]
pub struct Column {
    /// The column's type on the server, `MYSQL_TYPE_…`.
    kind: u8,
    /// None if the column is sent unchanged.
    seal: Option<Seal>,
}

/// The settings to encrypt a column's values, and the definition that describes the encrypted column.
#[derive(Debug)]
struct Seal {
    algorithm: Algorithm,
    associated: Box<[u8]>,
    definition: Box<[u8]>,
}

impl Column {
    /// Return the definition that the client gets instead of the server's. Return None if the column is sent unchanged.
    pub fn definition(&self) -> Option<&[u8]> {
        self.seal.as_ref().map(|seal| &*seal.definition)
    }
}

impl Sealing {
    pub fn new(role: &Role, salt: Option<SessionSalt>, number: u32) -> Result<Self> {
        let key = DataKey::random(salt.unwrap_or(SessionSalt::WITHOUT_NONCE), number)?;
        let wrapped = match role {
            Role::Ciphertext(master) => Some((master.clone(), key.wrapped(&master.key))),
            Role::Plaintext | Role::Opaque => None,
        };
        Ok(Sealing { key, wrapped, salt, sealers: Default::default(), known_columns: Default::default() })
    }

    /// Return a new `Sealing` for an account with this role. It has the session's next data key and empty caches.
    /// Errors: `internal` if the session has used all key numbers.
    pub fn renewed(&self, role: &Role) -> Result<Self> {
        let next = self.key.number().checked_add(1);
        let next = next.ok_or_else(|| Failure::new(Class::Internal, "a session has used 2^32 data keys"))?;
        Self::new(role, self.salt, next)
    }

    /// Return whether the data key must be replaced before the next command.
    pub fn is_spent(&self) -> bool {
        self.sealers.iter().flatten().any(|sealer| sealer.left() < MIN_VALUES_LEFT)
    }

    /// Return the column that the server defines in `payload`, from the cache if possible.
    pub fn column(
        &mut self,
        payload: &[u8],
        verdict: Option<Verdict>,
        format: RowFormat,
        rules: &Rules,
    ) -> Result<Rc<Column>> {
        let verdict_index = match verdict {
            None => 0,
            Some(Verdict::Plain) => 1,
            Some(Verdict::Encrypt) => 2,
        };
        let index = 2 * verdict_index + usize::from(format == RowFormat::Binary);
        if let Some(known) = self.known_columns[index].get(payload) {
            return Ok(known.clone());
        }
        let column = Rc::new(self.new_column(payload, verdict, format, rules)?);
        if self.known_columns[index].len() >= MAX_KNOWN_COLUMNS {
            self.known_columns[index].clear();
        }
        self.known_columns[index].insert(payload.into(), column.clone());
        Ok(column)
    }

    fn new_column(
        &mut self,
        payload: &[u8],
        verdict: Option<Verdict>,
        format: RowFormat,
        rules: &Rules,
    ) -> Result<Column> {
        let Definition { original: names, stated: original, tail, .. } = Definition::parse(payload)?;
        // The gateway appends the envelope (decryption information) to the definition. Refuse a definition to which the
        // server has already appended bytes, because they would reach the client unchecked.
        if !tail.is_empty() {
            return Err(Failure::protocol("a column's definition has unexpected bytes at its end"));
        }
        let Some(algorithm) = algorithm_for(names, verdict, rules) else {
            return Ok(Column { kind: original.kind, seal: None });
        };
        let sealer = &mut self.sealers[usize::from(algorithm.number())];
        if sealer.is_none() {
            *sealer = Some(self.key.sealer(algorithm)?);
        }
        let mut definition = payload[..payload.len() - Definition::FROM_TYPE].to_vec();
        definition.extend_from_slice(&encrypted(original, algorithm).bytes());
        definition.resize(payload.len(), 0);
        if self.salt.is_some() {
            let number = self.key.number();
            let wrapped = self.wrapped.as_ref();
            let key = wrapped.map(|(master, data_key)| WrappedKey { master_key: &master.name, number, data_key });
            Envelope { algorithm, original, key }.append(&mut definition)?;
        }
        let associated = associated_data(algorithm, original, format, names).into();
        let seal = Seal { algorithm, associated, definition: definition.into() };
        Ok(Column { kind: original.kind, seal: Some(seal) })
    }

    /// Append a row, encrypting the values of encrypted columns. `columns` are all columns of the row, in order.
    /// Errors: `protocol` if the row is malformed; `encryption` if a value cannot be encrypted. After an error, a part
    /// of the row may have been appended.
    pub fn append_row(
        &mut self,
        payload: &[u8],
        sequence: u8,
        format: RowFormat,
        columns: &[Rc<Column>],
        tally: &mut Tally,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER]);
        let mut reader = Reader::new(payload);
        match format {
            RowFormat::Text => {
                for column in columns {
                    if reader.peek() == Some(NULL) {
                        reader.u8()?;
                        out.push(NULL);
                    } else {
                        self.append_value(&mut reader, column, BinaryForm::Text, tally, out)?;
                    }
                }
            }
            RowFormat::Binary => {
                let nulls = begin_binary(&mut reader, columns.len())?;
                out.push(BINARY_ROW);
                out.extend_from_slice(nulls.bytes());
                for (_, column) in columns.iter().enumerate().filter(|(index, _)| !nulls.has(*index)) {
                    let unknown = || Failure::protocol("a value has a type that cannot occur in a row");
                    let form = BinaryForm::from_kind(column.kind).ok_or_else(unknown)?;
                    self.append_value(&mut reader, column, form, tally, out)?;
                }
            }
        }
        if !reader.is_empty() {
            return Err(Failure::protocol("a row has bytes after its last column"));
        }
        packet::finish(&mut out[start..], sequence).map_err(|_| too_long("a row"))
    }

    fn append_value(
        &mut self,
        reader: &mut Reader<'_>,
        column: &Column,
        form: BinaryForm,
        tally: &mut Tally,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let whole = reader.clone().rest();
        let content = form.read(reader)?;
        let Some(Seal { algorithm, associated, .. }) = &column.seal else {
            out.extend_from_slice(&whole[..whole.len() - reader.clone().rest().len()]);
            return Ok(());
        };
        let Some(sealer) = &mut self.sealers[usize::from(algorithm.number())] else {
            return Err(Failure::new(Class::Internal, "a column's algorithm was not prepared"));
        };
        let mut index = [0; LONGEST_TEMPORAL];
        let content = if form == BinaryForm::Short { padded(column.kind, content, &mut index) } else { content };
        let sealed = algorithm.sealed_length(content.len());
        append_length(out, sealed as u64);
        sealer.seal(associated, content, out)?;
        tally.values_encrypted += 1;
        tally.plaintext_bytes += content.len() as u64;
        tally.ciphertext_bytes += sealed as u64;
        Ok(())
    }
}

/// Return the algorithm that encrypts a result column, or None if the column is sent unchanged. A protected column is
/// always encrypted. For any other column, `verdict` (the decision in the statement's approval) applies. Without a
/// verdict, the column is sent unchanged only if it is known as an unprotected column of a base table.
fn algorithm_for(names: [&[u8]; 3], verdict: Option<Verdict>, rules: &Rules) -> Option<Algorithm> {
    let [Ok(database), Ok(table), Ok(column)] = names.map(str::from_utf8) else { return Some(rules.algorithm) };
    let names = [database, table, column];
    if let Some(algorithm) = rules.algorithm_for(names) {
        return Some(algorithm);
    }
    match verdict {
        Some(Verdict::Plain) => None,
        None if rules.catalogue.is_known_plain(names) => None,
        Some(Verdict::Encrypt) | None => Some(rules.algorithm),
    }
}

/// Return a date or time of a binary row with all its parts, such as hours and microseconds. Servers leave out trailing
/// parts that are 0, so without padding the length of the ciphertext would reveal whether they are 0. A client could
/// then change its time zone, so that other parts become 0, and learn more from each query.
fn padded<'v>(kind: u8, content: &'v [u8], index: &'v mut [u8; LONGEST_TEMPORAL]) -> &'v [u8] {
    let length = match kind {
        // DATE
        0x0A => 4,
        // TIME
        0x0B => LONGEST_TEMPORAL,
        // TIMESTAMP, DATETIME
        _ => 11,
    };
    match index.get_mut(..content.len()) {
        Some(start) if content.len() <= length => start.copy_from_slice(content),
        _ => return content,
    }
    &index[..length]
}

pub fn too_long(what: &str) -> Failure {
    Failure::protocol(format!("{what} of 16 MB or more cannot be encrypted or checked"))
}
