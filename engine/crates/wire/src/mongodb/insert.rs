//! Writing records in batches, as drivers' `insert_many` does: the documents go in a section of their own.

use super::message;
use crate::mongodb::{Settings, WriteConcern};
use base::error::Result;
use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc, spec::BinarySubtype};
use std::ops::Range;
use workload::ycsb::Table;

/// An insert command without its documents.
pub struct InsertRequest {
    body: Vec<u8>,
}

impl InsertRequest {
    /// Into this collection. Unordered, as YCSB's binding writes: a load is no sequence.
    pub fn new(settings: &Settings) -> Self {
        let mut body = rawdoc! {
            "insert": settings.collection.as_str(),
            "ordered": false,
            "$db": settings.database.as_str(),
        };
        append_write_concern(&mut body, settings);
        InsertRequest { body: body.into_bytes() }
    }

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

/// Of a command that writes; the server's default where the plan has none.
pub fn append_write_concern(command: &mut RawDocumentBuf, settings: &Settings) {
    let concern = settings.write_concern.map(|concern| match concern {
        WriteConcern::Majority => rawdoc! { "w": "majority" },
        WriteConcern::Members(members) => rawdoc! { "w": members },
    });
    if let Some(concern) = concern {
        command.append(cstr!("writeConcern"), concern);
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

pub fn set_length(message: &mut [u8], at: usize) {
    let length = (message.len() - at) as i32;
    message[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// All of the batch was written, to as many members as its write concern asks. How many documents that were (`n`).
/// Errors: `server` with the first error.
pub fn check_written(reply: &RawDocument) -> Result<i32> {
    let (mut ok, mut written, mut failed) = (false, 0, None);
    // One walk over the top: a lookup for each name would be a walk each.
    for element in reply.iter() {
        let (name, value) = element.map_err(message::malformed)?;
        match (name.as_str(), value) {
            ("ok", value) => ok = message::is_one(value),
            ("n", RawBsonRef::Int32(count)) => written = count,
            ("writeErrors", RawBsonRef::Array(errors)) => {
                if let Some(first) = errors.into_iter().next() {
                    failed = first.map_err(message::malformed)?.as_document();
                }
            }
            ("writeConcernError", RawBsonRef::Document(error)) => failed = failed.or(Some(error)),
            _ => {}
        }
    }
    match failed {
        Some(error) => Err(message::server_error(error)),
        None if ok => Ok(written),
        None => message::check_ok(reply).map(|()| written),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mongodb::Settings;
    use base::error::Class;
    use workload::Data;

    #[test]
    fn writes_whole_documents_with_ycsbs_fields() {
        let settings: Settings =
            serde_json::from_value(serde_json::json!({"addresses": ["a"], "database": "d", "collection": "c"}))
                .unwrap();
        let table = Table::new(Data { records: 5, fields: 10, field_length: 100 }, 1);
        let mut message = Vec::new();
        let request = InsertRequest::new(&settings);
        request.encode(&mut message, &table, 3..5);
        let sequence = &message[message::BODY_AT + request.body.len() + 1..];
        assert_eq!(sequence[..4], (sequence.len() as i32).to_le_bytes());
        let mut documents = sequence[4..].strip_prefix(b"documents\0").unwrap();
        for record in 3..5 {
            let length = i32::from_le_bytes(documents[..4].try_into().unwrap()) as usize;
            let document = RawDocument::from_bytes(&documents[..length]).unwrap();
            assert_eq!(document.get_str("_id").unwrap().as_bytes(), table.key(record).as_bytes());
            assert_eq!(document.get_binary("field9").unwrap().bytes.len(), 100);
            assert_eq!(document.iter().count(), 11);
            documents = &documents[length..];
        }
        assert!(documents.is_empty());
    }

    #[test]
    fn an_error_in_the_batch_is_an_error() {
        let failed = rawdoc! { "n": 0, "ok": 1.0, "writeErrors": [{ "index": 0, "code": 11000, "errmsg": "dup key" }] };
        assert_eq!(check_written(&failed).unwrap_err().class, Class::Server);
        let unsafe_write = rawdoc! { "n": 1, "ok": 1.0, "writeConcernError": { "code": 64, "errmsg": "waiting" } };
        assert_eq!(check_written(&unsafe_write).unwrap_err().class, Class::Server);
        check_written(&rawdoc! { "n": 1, "ok": 1.0 }).unwrap();
    }
}
