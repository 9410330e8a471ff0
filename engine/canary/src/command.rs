//! What a session sends, as the campaign makes, repeats and keeps it.

use crate::client::{QUERY, STMT_CLOSE, STMT_EXECUTE, STMT_PREPARE, STMT_RESET, STMT_SEND_LONG_DATA};
use serde::{Deserialize, Serialize};

/// Bytes are written as the text that they are in Latin-1, so that a find can be read.
mod latin1 {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&bytes.iter().map(|byte| char::from(*byte)).collect::<String>())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.chars().map(|letter| u8::try_from(u32::from(letter)).map_err(serde::de::Error::custom)).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    Query(#[serde(with = "latin1")] Vec<u8>),
    Prepare {
        slot: usize,
        #[serde(with = "latin1")]
        statement: Vec<u8>,
    },
    /// Of a slot into which nothing was prepared, none is sent.
    Execute {
        slot: usize,
        parameters: Vec<Parameter>,
        sends_types: bool,
    },
    LongData {
        slot: usize,
        index: u16,
        #[serde(with = "latin1")]
        data: Vec<u8>,
    },
    Close {
        slot: usize,
    },
    Reset {
        slot: usize,
    },
    /// Any other command.
    Raw {
        command: u8,
        #[serde(with = "latin1")]
        body: Vec<u8>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    Null,
    Tiny(i8),
    Long(i32),
    LongLong(i64),
    Double(f64),
    Text(#[serde(with = "latin1")] Vec<u8>),
    Blob(#[serde(with = "latin1")] Vec<u8>),
    Decimal(String),
    Date(u16, u8, u8),
}

impl Parameter {
    /// Its type, and its bytes.
    fn encoded(&self) -> (u8, Vec<u8>) {
        let text = |bytes: &[u8]| [&[bytes.len() as u8], bytes].concat();
        match self {
            Parameter::Null => (6, Vec::new()),
            Parameter::Tiny(number) => (1, number.to_le_bytes().to_vec()),
            Parameter::Long(number) => (3, number.to_le_bytes().to_vec()),
            Parameter::LongLong(number) => (8, number.to_le_bytes().to_vec()),
            Parameter::Double(number) => (5, number.to_le_bytes().to_vec()),
            Parameter::Text(bytes) => (0xFD, text(bytes)),
            Parameter::Blob(bytes) => (0xFC, text(bytes)),
            Parameter::Decimal(digits) => (0xF6, text(digits.as_bytes())),
            Parameter::Date(year, month, day) => (10, [&[4][..], &year.to_le_bytes(), &[*month, *day]].concat()),
        }
    }
}

impl Command {
    pub fn code(&self) -> u8 {
        match self {
            Command::Query(_) => QUERY,
            Command::Prepare { .. } => STMT_PREPARE,
            Command::Execute { .. } => STMT_EXECUTE,
            Command::LongData { .. } => STMT_SEND_LONG_DATA,
            Command::Close { .. } => STMT_CLOSE,
            Command::Reset { .. } => STMT_RESET,
            Command::Raw { command, .. } => *command,
        }
    }

    pub fn slot(&self) -> Option<usize> {
        match self {
            Command::Prepare { slot, .. }
            | Command::Execute { slot, .. }
            | Command::LongData { slot, .. }
            | Command::Close { slot }
            | Command::Reset { slot } => Some(*slot),
            Command::Query(_) | Command::Raw { .. } => None,
        }
    }

    /// What is sent behind the command's number. `statement`: the server's number and count of parameters of what is in the slot.
    pub fn body(&self, statement: Option<(u32, usize)>) -> Vec<u8> {
        let number = statement.map_or(0, |(number, _)| number).to_le_bytes();
        match self {
            Command::Query(text) | Command::Prepare { statement: text, .. } => text.clone(),
            Command::Raw { body, .. } => body.clone(),
            Command::Close { .. } | Command::Reset { .. } => number.to_vec(),
            Command::LongData { index, data, .. } => [&number[..], &index.to_le_bytes(), data].concat(),
            Command::Execute { parameters, sends_types, .. } => {
                let wanted = statement.map_or(0, |(_, wanted)| wanted);
                [&number[..], &[0, 1, 0, 0, 0], &bound(parameters, wanted, *sends_types)].concat()
            }
        }
    }

    /// It cannot change data.
    pub fn only_reads(&self) -> bool {
        const READERS: &[&[u8]] = &[
            b"SELECT",
            b"(SELECT",
            b"WITH",
            b"SHOW",
            b"SET",
            b"USE",
            b"BEGIN",
            b"START",
            b"ROLLBACK",
            b"COMMIT",
            b"SAVEPOINT",
        ];
        match self {
            Command::Query(text) => READERS
                .iter()
                .any(|reader| text.len() > reader.len() && text[..reader.len()].eq_ignore_ascii_case(reader)),
            // What it prepares may be executed.
            Command::Prepare { statement, .. } => Command::Query(statement.clone()).only_reads(),
            _ => true,
        }
    }

    /// The statement's text, if it has one.
    pub fn text_mut(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Command::Query(text) | Command::Prepare { statement: text, .. } => Some(text),
            _ => None,
        }
    }
}

/// Parameters as COM_STMT_EXECUTE has them; as many as the statement wants, NULL for those that lack.
fn bound(parameters: &[Parameter], wanted: usize, sends_types: bool) -> Vec<u8> {
    if wanted == 0 {
        return Vec::new();
    }
    let parameters: Vec<_> = (0..wanted).map(|place| parameters.get(place).unwrap_or(&Parameter::Null)).collect();
    let mut nulls = vec![0; wanted.div_ceil(8)];
    let (mut types, mut values) = (Vec::new(), Vec::new());
    for (place, parameter) in parameters.iter().enumerate() {
        let (kind, value) = parameter.encoded();
        nulls[place / 8] |= u8::from(**parameter == Parameter::Null) << (place % 8);
        types.extend([kind, 0]);
        values.extend(value);
    }
    let types = if sends_types { types } else { Vec::new() };
    [nulls, vec![u8::from(sends_types)], types, values].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_kept() {
        let commands = vec![
            Command::Query((0..=255).collect()),
            Command::Execute {
                slot: 1,
                parameters: vec![Parameter::Text(vec![0xFF]), Parameter::Null],
                sends_types: true,
            },
        ];
        let written = serde_json::to_string(&commands).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Command>>(&written).unwrap(), commands);
    }

    #[test]
    fn parameters_as_the_manual_has_them() {
        let command =
            Command::Execute { slot: 0, parameters: vec![Parameter::Text(b"foo".to_vec())], sends_types: true };
        // MySQL Internals, "COM_STMT_EXECUTE".
        assert_eq!(command.body(Some((1, 1))), b"\x01\0\0\0\0\x01\0\0\0\0\x01\xfd\0\x03foo");
        assert_eq!(command.body(Some((1, 0))), b"\x01\0\0\0\0\x01\0\0\0");
    }
}
