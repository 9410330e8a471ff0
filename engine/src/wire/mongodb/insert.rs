//! Writing records in batches, as drivers' `insert_many` does: the documents go in a section of their own.

use super::message;
use crate::border::MongodbService;
use crate::error::Result;
use crate::workload::ycsb::Table;
use bson::{RawDocument, rawdoc, spec::BinarySubtype};
use std::ops::Range;

/// An insert command without its documents.
pub struct InsertRequest {
    body: Vec<u8>,
}

impl InsertRequest {
    /// Into this collection. Unordered, as YCSB's binding writes: a load is no sequence.
    pub fn new(settings: &MongodbService) -> Self {
        let body = rawdoc! {
            "insert": settings.collection.as_str(),
            "ordered": false,
            "$db": settings.database.as_str(),
        };
        InsertRequest { body: body.into_bytes() }
    }

    /// Write the message that inserts these records.
    pub fn encode(&self, message: &mut Vec<u8>, table: &Table, records: Range<u64>) {
        message::begin(message);
        message.extend_from_slice(&self.body);
        // Section kind 1, a document sequence: its length, its name, the documents one after the other.
        message.push(1);
        let section_at = message.len();
        message.extend_from_slice(b"\0\0\0\0documents\0");
        for record in records {
            append_document(message, table, record);
        }
        set_length(message, section_at);
    }
}

/// `{_id: "user…", field0: <binary>, …}`, the fields as YCSB's MongoDB binding stores them.
fn append_document(message: &mut Vec<u8>, table: &Table, record: u64) {
    let at = message.len();
    message.extend_from_slice(b"\0\0\0\0\x02_id\0");
    let key = table.key(record);
    message.extend_from_slice(&(key.as_bytes().len() as i32 + 1).to_le_bytes());
    message.extend_from_slice(key.as_bytes());
    message.push(0);
    table.for_each_field(record, |name, value| {
        message.push(5);
        message.extend_from_slice(name.as_bytes());
        message.push(0);
        message.extend_from_slice(&(value.len() as i32).to_le_bytes());
        message.push(BinarySubtype::Generic.into());
        message.extend_from_slice(value);
    });
    message.push(0);
    set_length(message, at);
}

fn set_length(message: &mut [u8], at: usize) {
    let length = (message.len() - at) as i32;
    message[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// All of the batch was written, to as many members as the server's default write concern asks.
///
/// # Errors
/// `server` with the first error.
pub fn check_written(reply: &RawDocument) -> Result<()> {
    message::check_ok(reply)?;
    if let Ok(errors) = reply.get_array("writeErrors")
        && let Some(first) = errors.into_iter().next()
    {
        let first = first.map_err(message::malformed)?;
        return Err(message::server_error(first.as_document().unwrap_or(reply)));
    }
    match reply.get_document("writeConcernError") {
        Ok(error) => Err(message::server_error(error)),
        Err(_) => Ok(()),
    }
}
