//! Definitions of columns (MySQL Internals, "Protocol::ColumnDefinition41"): what they are of, and what goes in their place.

use super::sealing::Sealing;
use crate::encryption::{Algorithm, Envelope, OriginalType, RowFormat, associated_data};
use crate::error::{Failure, Result};
use crate::gateway::fence::Columns;
use crate::gateway::rules::{Expressions, Rules};
use crate::wire::mysql::bytes::Reader;
use std::collections::HashMap;
use std::rc::Rc;

/// Bytes that follow the fixed ones.
const FILLER: usize = 2;
/// Definitions that a session remembers: a client may make any number of names.
const MOST_REMEMBERED: usize = 4096;
/// Databases of the server's own, in which statements and statistics may quote data.
const OF_THE_SERVER: [&[u8]; 4] = [b"information_schema", b"performance_schema", b"mysql", b"sys"];

/// A definition, read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition<'a> {
    /// Original names of database, table and column.
    pub names: [&'a [u8]; 3],
    /// Its type.
    pub original: OriginalType,
    /// Where the type begins.
    at: usize,
}

impl<'a> Definition<'a> {
    /// # Errors
    /// `protocol`.
    pub fn parse(payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let _catalogue = reader.text()?;
        let database = reader.text()?;
        let _alias_of_table = reader.text()?;
        let table = reader.text()?;
        let _alias = reader.text()?;
        let column = reader.text()?;
        let fixed = usize::try_from(reader.length()?).unwrap_or(usize::MAX);
        let at = payload.len() - reader.clone().rest().len();
        let bytes: &[u8; OriginalType::LENGTH] = reader
            .bytes(fixed)?
            .first_chunk()
            // What follows would go on unread.
            .filter(|_| fixed == OriginalType::LENGTH + FILLER && reader.is_empty())
            .ok_or_else(|| Failure::protocol("a column's definition is none"))?;
        Ok(Definition { names: [database, table, column], original: OriginalType::from_bytes(*bytes), at })
    }
}

/// What becomes of a column.
#[derive(Debug)]
pub enum Column {
    /// It stays as it is.
    Plain {
        /// `MYSQL_TYPE_…`
        kind: u8,
    },
    /// Its values are encrypted.
    Sealed {
        /// `MYSQL_TYPE_…`, as the server has it.
        kind: u8,
        /// How.
        algorithm: Algorithm,
        /// What they are bound to.
        associated: Box<[u8]>,
        /// What goes in the definition's place.
        definition: Box<[u8]>,
    },
    /// The rules forbid it.
    Refused,
}

/// What a session knows of definitions that it has seen, by what their statement's answer is worth and by the rows' format.
#[derive(Debug, Default)]
pub struct Seen([HashMap<Box<[u8]>, Rc<Column>>; 2 * Columns::COUNT]);

impl Seen {
    /// What becomes of this column.
    ///
    /// # Errors
    /// `protocol`, `encryption`.
    pub fn column(
        &mut self,
        payload: &[u8],
        from: Columns,
        format: RowFormat,
        rules: &Rules,
        sealing: &mut Sealing,
    ) -> Result<Rc<Column>> {
        let place = 2 * from as usize + usize::from(format == RowFormat::Binary);
        if let Some(known) = self.0[place].get(payload) {
            return Ok(known.clone());
        }
        let made = Rc::new(make(payload, from, format, rules, sealing)?);
        if self.0[place].len() >= MOST_REMEMBERED {
            self.0[place].clear();
        }
        self.0[place].insert(payload.into(), made.clone());
        Ok(made)
    }
}

fn make(payload: &[u8], from: Columns, format: RowFormat, rules: &Rules, sealing: &mut Sealing) -> Result<Column> {
    let definition = Definition::parse(payload)?;
    let Definition { names, original, at } = definition;
    let algorithm = match treatment(names, from, rules) {
        Treatment::Plain => return Ok(Column::Plain { kind: original.kind }),
        Treatment::Refuse => return Ok(Column::Refused),
        Treatment::Seal(algorithm) => algorithm,
    };
    sealing.prepare(algorithm)?;
    let mut packet = payload[..at].to_vec();
    packet.extend_from_slice(&original.encrypted(algorithm).bytes());
    packet.extend_from_slice(&[0; FILLER]);
    Envelope { algorithm, original, key: sealing.wrapped_key() }.append(&mut packet)?;
    let associated = associated_data(algorithm, original, format, names).into();
    Ok(Column::Sealed { kind: original.kind, algorithm, associated, definition: packet.into() })
}

enum Treatment {
    Plain,
    Seal(Algorithm),
    Refuse,
}

fn treatment([database, table, column]: [&[u8]; 3], from: Columns, rules: &Rules) -> Treatment {
    let is_named = ![database, table, column].iter().any(|name| name.is_empty());
    if !column.is_empty()
        && let Some(algorithm) = rules.algorithm_of(database, table, column)
    {
        return Treatment::Seal(algorithm);
    }
    let is_of = |schema: &&[u8]| database.eq_ignore_ascii_case(schema);
    let is_known = match from {
        Columns::Server => true,
        Columns::Shown => is_named && is_of(&OF_THE_SERVER[0]),
        Columns::Tables => {
            let is_table = rules.catalogue.as_ref().is_none_or(|catalogue| catalogue.is_table(database, table));
            is_named && is_table && !OF_THE_SERVER.iter().any(is_of)
        }
        Columns::Anything => false,
    };
    match rules.expressions {
        _ if is_known => Treatment::Plain,
        Expressions::Plain => Treatment::Plain,
        Expressions::Encrypt => Treatment::Seal(rules.algorithm),
        Expressions::Refuse => Treatment::Refuse,
    }
}
