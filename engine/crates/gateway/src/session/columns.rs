//! Column definitions (MySQL Internals, "Protocol::ColumnDefinition41"): which are encrypted, and what is sent in their place.

use super::sealing::Sealing;
use crate::rules::Rules;
use crate::statements::Verdict;
use base::error::{Failure, Result};
use encryption::{Algorithm, associated_data, encrypted};
use mysql::{Definition, RowFormat};
use std::collections::HashMap;
use std::rc::Rc;

/// The most definitions that a session remembers.
const MOST_REMEMBERED: usize = 4096;
/// How a column is sent.
#[derive(Debug)]
pub enum Column {
    /// Unchanged.
    Plain {
        /// `MYSQL_TYPE_…`
        kind: u8,
    },
    /// Encrypted.
    Sealed {
        /// `MYSQL_TYPE_…`, as the server has it.
        kind: u8,
        /// The algorithm of its values.
        algorithm: Algorithm,
        /// The associated data of its values.
        associated: Box<[u8]>,
        /// The definition that is sent.
        definition: Box<[u8]>,
    },
}

/// The definitions that a session has seen, by the statement's verdict and the rows' format.
#[derive(Debug, Default)]
pub struct Seen([HashMap<Box<[u8]>, Rc<Column>>; 2 * 3]);

impl Seen {
    /// Return how this column is sent.
    ///
    /// # Errors
    /// `protocol`, `encryption`.
    pub fn column(
        &mut self,
        payload: &[u8],
        verdict: Option<Verdict>,
        format: RowFormat,
        rules: &Rules,
        sealing: &mut Sealing,
    ) -> Result<Rc<Column>> {
        let said = match verdict {
            None => 0,
            Some(Verdict::Plain) => 1,
            Some(Verdict::Encrypt) => 2,
        };
        let place = 2 * said + usize::from(format == RowFormat::Binary);
        if let Some(known) = self.0[place].get(payload) {
            return Ok(known.clone());
        }
        let made = Rc::new(make(payload, verdict, format, rules, sealing)?);
        if self.0[place].len() >= MOST_REMEMBERED {
            self.0[place].clear();
        }
        self.0[place].insert(payload.into(), made.clone());
        Ok(made)
    }
}

fn make(
    payload: &[u8],
    verdict: Option<Verdict>,
    format: RowFormat,
    rules: &Rules,
    sealing: &mut Sealing,
) -> Result<Column> {
    let Definition { original: names, stated: original, tail, .. } = Definition::parse(payload)?;
    // An envelope follows the definition; anything else there would be passed on unread.
    if !tail.is_empty() {
        return Err(Failure::protocol("a column's definition is longer than it should be"));
    }
    let Some(algorithm) = algorithm_of(names, verdict, rules) else {
        return Ok(Column::Plain { kind: original.kind });
    };
    sealing.prepare(algorithm)?;
    let mut packet = payload[..payload.len() - Definition::FROM_TYPE].to_vec();
    packet.extend_from_slice(&encrypted(original, algorithm).bytes());
    packet.resize(payload.len(), 0);
    sealing.append_envelope(algorithm, original, &mut packet)?;
    let associated = associated_data(algorithm, original, format, names).into();
    Ok(Column::Sealed { kind: original.kind, algorithm, associated, definition: packet.into() })
}

/// Return how a column is encrypted; None if it is sent unchanged. A protected column is always encrypted. Where
/// the approval says nothing, only a known column of a base table is sent unchanged.
fn algorithm_of(names: [&[u8]; 3], verdict: Option<Verdict>, rules: &Rules) -> Option<Algorithm> {
    let [Ok(database), Ok(table), Ok(column)] = names.map(str::from_utf8) else { return Some(rules.algorithm) };
    if let Some(algorithm) = rules.algorithm_of(database, table, column) {
        return Some(algorithm);
    }
    match verdict {
        Some(Verdict::Plain) => None,
        None if rules.catalogue.knows_as_plain([database, table, column]) => None,
        Some(Verdict::Encrypt) | None => Some(rules.algorithm),
    }
}
