//! What becomes of a result set's columns: their definitions (MySQL Internals, "Protocol::ColumnDefinition41") and their rows
//! ("ProtocolText::ResultsetRow", "Binary Protocol Resultset Row"), and the data key by which a session encrypts them.

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

/// If fewer values are left under a key, the session takes another one: no result set has as many.
const TIME_FOR_ANOTHER: u64 = 1 << 31;
const MOST_REMEMBERED: usize = 4096;
const LONGEST_TEMPORAL: usize = 12;

#[derive(Debug)]
pub struct Sealing {
    key: DataKey,
    /// The wrapped key for the client; None without a master key.
    wrapped: Option<(Arc<NamedKey>, [u8; WRAPPED_KEY])>,
    /// The salt of a client that reads envelopes; other clients get none, since not all skip what they do not know.
    salt: Option<SessionSalt>,
    /// Indexed by the algorithms' numbers, which begin with 1.
    sealers: [Option<Sealer>; Algorithm::ALL.len() + 1],
    /// The columns that the session has seen, by the statement's verdict and the rows' format, and by their definitions.
    seen: [HashMap<Box<[u8]>, Rc<Column>>; 2 * 3],
}

#[derive(Debug)]
pub struct Column {
    /// `MYSQL_TYPE_…`, as the server has it.
    kind: u8,
    /// None: it is sent unchanged.
    seal: Option<Seal>,
}

#[derive(Debug)]
struct Seal {
    algorithm: Algorithm,
    associated: Box<[u8]>,
    definition: Box<[u8]>,
}

impl Column {
    /// The definition that is sent in place of the server's; None where that is sent unchanged.
    pub fn definition(&self) -> Option<&[u8]> {
        self.seal.as_ref().map(|seal| &*seal.definition)
    }
}

impl Sealing {
    /// Create it with a session's data key of this number.
    pub fn new(role: &Role, salt: Option<SessionSalt>, number: u32) -> Result<Self> {
        let key = DataKey::random(salt.unwrap_or(SessionSalt::OF_NOBODY), number)?;
        let wrapped = match role {
            Role::Ciphertext(master) => Some((master.clone(), key.wrapped(&master.key))),
            Role::Plaintext | Role::Opaque => None,
        };
        Ok(Sealing { key, wrapped, salt, sealers: Default::default(), seen: Default::default() })
    }

    pub fn renewed(&self, role: &Role) -> Result<Self> {
        let next = self.key.number().checked_add(1);
        let next = next.ok_or_else(|| Failure::new(Class::Internal, "a session has had 2^32 data keys"))?;
        Self::new(role, self.salt, next)
    }

    pub fn is_spent(&self) -> bool {
        self.sealers.iter().flatten().any(|sealer| sealer.left() < TIME_FOR_ANOTHER)
    }

    /// Return how the column of this definition is sent.
    pub fn column(
        &mut self,
        payload: &[u8],
        verdict: Option<Verdict>,
        format: RowFormat,
        rules: &Rules,
    ) -> Result<Rc<Column>> {
        let of_verdict = match verdict {
            None => 0,
            Some(Verdict::Plain) => 1,
            Some(Verdict::Encrypt) => 2,
        };
        let place = 2 * of_verdict + usize::from(format == RowFormat::Binary);
        if let Some(known) = self.seen[place].get(payload) {
            return Ok(known.clone());
        }
        let column = Rc::new(self.new_column(payload, verdict, format, rules)?);
        if self.seen[place].len() >= MOST_REMEMBERED {
            self.seen[place].clear();
        }
        self.seen[place].insert(payload.into(), column.clone());
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
        // An envelope follows the definition; anything else there would be passed on unread.
        if !tail.is_empty() {
            return Err(Failure::protocol("a column's definition is longer than it should be"));
        }
        let Some(algorithm) = algorithm_of(names, verdict, rules) else {
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

    /// Append a row, its values encrypted where their columns are. It has these columns and no more.
    ///
    /// # Errors
    /// `protocol`, `encryption`; then a part of the row may have been appended.
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
                for (_, column) in columns.iter().enumerate().filter(|(place, _)| !nulls.has(*place)) {
                    let unknown = || Failure::protocol("a value is of a type that no row has");
                    let form = BinaryForm::of(column.kind).ok_or_else(unknown)?;
                    self.append_value(&mut reader, column, form, tally, out)?;
                }
            }
        }
        if !reader.is_empty() {
            return Err(Failure::protocol("a row is longer than its columns"));
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
            return Err(Failure::new(Class::Internal, "a column before its algorithm was prepared"));
        };
        let mut place = [0; LONGEST_TEMPORAL];
        let content = if form == BinaryForm::Short { filled(column.kind, content, &mut place) } else { content };
        let sealed = algorithm.sealed_length(content.len());
        append_length(out, sealed as u64);
        sealer.seal(associated, content, out)?;
        tally.values_encrypted += 1;
        tally.plaintext_bytes += content.len() as u64;
        tally.ciphertext_bytes += sealed as u64;
        Ok(())
    }
}

/// Return how a column is encrypted; None if it is sent unchanged. A protected column is always encrypted. Where the approval
/// says nothing, only a known column of a base table is sent unchanged.
fn algorithm_of(names: [&[u8]; 3], verdict: Option<Verdict>, rules: &Rules) -> Option<Algorithm> {
    let [Ok(database), Ok(table), Ok(column)] = names.map(str::from_utf8) else { return Some(rules.algorithm) };
    let names = [database, table, column];
    if let Some(algorithm) = rules.algorithm_of(names) {
        return Some(algorithm);
    }
    match verdict {
        Some(Verdict::Plain) => None,
        None if rules.catalogue.knows_as_plain(names) => None,
        Some(Verdict::Encrypt) | None => Some(rules.algorithm),
    }
}

/// Return a date or time with all its parts. Servers leave out trailing zeros, which depend on the time zone that a client
/// chooses, and would show in the length.
fn filled<'v>(kind: u8, content: &'v [u8], place: &'v mut [u8; LONGEST_TEMPORAL]) -> &'v [u8] {
    let length = match kind {
        // DATE
        0x0A => 4,
        // TIME
        0x0B => LONGEST_TEMPORAL,
        // TIMESTAMP, DATETIME
        _ => 11,
    };
    match place.get_mut(..content.len()) {
        Some(start) if content.len() <= length => start.copy_from_slice(content),
        _ => return content,
    }
    &place[..length]
}

pub fn too_long(what: &str) -> Failure {
    Failure::protocol(format!("{what} of 16 MB or more cannot be encrypted or checked"))
}
