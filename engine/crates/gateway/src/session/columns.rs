//! Definitions of columns (MySQL Internals, "Protocol::ColumnDefinition41"): what they are of, and what goes in their place.

use super::sealing::Sealing;
use crate::rules::Rules;
use crate::sql::{Output, Taint};
use base::error::{Failure, Result};
use encryption::{Algorithm, associated_data, encrypted};
use mysql::{Definition, RowFormat};
use std::collections::HashMap;
use std::rc::Rc;

/// Definitions that a session remembers: a client may make any number of names.
const MOST_REMEMBERED: usize = 4096;
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
}

/// What a session knows of definitions that it has seen, by what was decided of them and by the rows' format.
#[derive(Debug, Default)]
pub struct Seen([HashMap<Box<[u8]>, Rc<Column>>; 2 * (1 + Algorithm::ALL.len())]);

impl Seen {
    /// What becomes of this column, of which the statement's tree has this to say.
    ///
    /// # Errors
    /// `protocol`, `encryption`.
    pub fn column(
        &mut self,
        payload: &[u8],
        output: Output,
        format: RowFormat,
        rules: &Rules,
        sealing: &mut Sealing,
    ) -> Result<Rc<Column>> {
        let decided = match output {
            Output::Plain => 0,
            // They begin with 1.
            Output::Sealed(algorithm) => usize::from(algorithm.number()),
        };
        let place = 2 * decided + usize::from(format == RowFormat::Binary);
        if let Some(known) = self.0[place].get(payload) {
            return Ok(known.clone());
        }
        let made = Rc::new(make(payload, output, format, rules, sealing)?);
        if self.0[place].len() >= MOST_REMEMBERED {
            self.0[place].clear();
        }
        self.0[place].insert(payload.into(), made.clone());
        Ok(made)
    }
}

fn make(payload: &[u8], output: Output, format: RowFormat, rules: &Rules, sealing: &mut Sealing) -> Result<Column> {
    let Definition { original: names, stated: original, tail, .. } = Definition::parse(payload)?;
    // What follows would go on unread.
    if !tail.is_empty() {
        return Err(Failure::protocol("a column's definition is longer than it should be"));
    }
    let algorithm = match (output, named_algorithm(names, rules)) {
        (Output::Sealed(algorithm), _) | (Output::Plain, Some(algorithm)) => algorithm,
        (Output::Plain, None) => return Ok(Column::Plain { kind: original.kind }),
    };
    sealing.prepare(algorithm)?;
    let mut packet = payload[..payload.len() - Definition::FROM_TYPE].to_vec();
    packet.extend_from_slice(&encrypted(original, algorithm).bytes());
    packet.resize(payload.len(), 0);
    sealing.append_envelope(algorithm, original, &mut packet)?;
    let associated = associated_data(algorithm, original, format, names).into();
    Ok(Column::Sealed { kind: original.kind, algorithm, associated, definition: packet.into() })
}

/// A second opinion, by the original names that the server sends: what they say is protected is encrypted, whatever the
/// statement's tree says. A table that is too new to be known is held against the rules alone.
fn named_algorithm([database, table, column]: [&[u8]; 3], rules: &Rules) -> Option<Algorithm> {
    if let Some(taint) = rules.catalogue.protection_of(database, table, column) {
        return Some(match taint {
            Taint::Bare(number) => rules.catalogue.protection(number).algorithm,
            Taint::Clean | Taint::Mixed { .. } => rules.algorithm,
        });
    }
    let [database, table, column] = [database, table, column].map(|name| str::from_utf8(name).unwrap_or_default());
    rules.rule_for(database, table, column).map(|(algorithm, _)| algorithm)
}
