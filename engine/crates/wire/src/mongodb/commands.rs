//! The commands of key-value workloads. Reads and batch writes send the commands of `find_one` and `insert_many` in
//! MongoDB's drivers. YCSB's operations send those of YCSB's MongoDB binding (`site.ycsb.db.MongoDbClient`).
//!
//! A command's constant parts are built once. The rest is written into the message. Replies are parsed in place.

use super::message::{self, Channel};
use super::{ReadPreference, Settings, WriteConcern};
use crate::query_checks::check_scan;
use base::error::{Class, Failure, Result};
use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use std::io::Write;
use std::ops::Range;
use workload::ycsb::{Fields, Key, Table, Values};

/// The types of BSON elements.
const STRING: u8 = 0x02;
const DOCUMENT: u8 = 0x03;
const BINARY: u8 = 0x05;
const INT32: u8 = 0x10;
const INT64: u8 = 0x12;

/// The parts of the commands that are the same in all messages.
pub struct Commands {
    insert: RawDocumentBuf,
    /// The batch insert, which is unordered as in YCSB's binding.
    insert_many: RawDocumentBuf,
    update: RawDocumentBuf,
    /// The first BSON element of the command `find`, which names the collection.
    find: Vec<u8>,
    /// The last BSON elements of a `find` that reads one document: limit, database and read preference.
    one: Vec<u8>,
    /// The last BSON elements of a `find` that reads many documents: order, database and read preference.
    many: Vec<u8>,
    /// The BSON elements of the command `getMore` after the cursor's number: collection, database and read preference.
    more: Vec<u8>,
}

impl Commands {
    pub fn new(settings: &Settings) -> Self {
        let (collection, database) = (settings.collection.as_str(), settings.database.as_str());
        let mut insert = rawdoc! { "insert": collection, "ordered": true, "$db": database };
        let mut update = rawdoc! { "update": collection, "ordered": true, "$db": database };
        let mut insert_many = rawdoc! { "insert": collection, "ordered": false, "$db": database };
        for command in [&mut insert, &mut insert_many, &mut update] {
            append_write_concern(command, settings);
        }
        let mut one = rawdoc! { "limit": 1, "singleBatch": true, "$db": database };
        let mut many = rawdoc! { "sort": { "_id": 1 }, "$db": database };
        let mut more = rawdoc! { "collection": collection, "$db": database };
        // Drivers omit the read preference if it is the default.
        if settings.read_preference != ReadPreference::Primary {
            for command in [&mut one, &mut many, &mut more] {
                command.append(cstr!("$readPreference"), rawdoc! { "mode": mode(settings.read_preference) });
            }
        }
        Commands {
            insert,
            insert_many,
            update,
            find: elements(&rawdoc! { "find": collection }),
            one: elements(&one),
            many: elements(&many),
            more: elements(&more),
        }
    }

    pub async fn insert(&self, channel: &mut Channel, key: &Key, values: Values<'_>) -> Result<()> {
        let message = channel.request();
        append_command(message, &self.insert, b"documents\0", |message| {
            append_enclosed(message, |document| {
                append_id(document, key);
                append_values(document, values);
            });
        });
        written(channel.exchange().await?, "inserted")
    }

    pub async fn update(&self, channel: &mut Channel, key: &Key, values: Values<'_>) -> Result<()> {
        let message = channel.request();
        append_command(message, &self.update, b"updates\0", |message| {
            append_enclosed(message, |change| {
                append_document(change, b"q\0", |query| append_id(query, key));
                append_document(change, b"u\0", |update| {
                    append_document(update, b"$set\0", |set| append_values(set, values));
                });
            });
        });
        written(channel.exchange().await?, "updated")
    }

    pub async fn read(&self, channel: &mut Channel, key: &Key, fields: Fields) -> Result<()> {
        self.append_find(channel.request(), key, fields);
        check_one_document(channel.exchange().await?)
    }

    fn append_find(&self, message: &mut Vec<u8>, key: &Key, fields: Fields) {
        append_body(message, |message| {
            message.extend_from_slice(&self.find);
            append_document(message, b"filter\0", |filter| append_id(filter, key));
            append_projection(message, fields);
            message.extend_from_slice(&self.one);
        });
    }

    pub async fn insert_batch(&self, channel: &mut Channel, table: &Table, records: Range<u64>) -> Result<()> {
        append_command(channel.request(), &self.insert_many, b"documents\0", |message| {
            records.for_each(|record| append_record(message, table, record));
        });
        check_written(channel.exchange().await?).map(|_| ())
    }

    /// Read `count` documents, from this key on, in the server's batches. `last` is a reusable buffer for the last key.
    pub async fn scan(
        &self,
        channel: &mut Channel,
        from: &Key,
        count: u64,
        fields: Fields,
        last: &mut Vec<u8>,
    ) -> Result<()> {
        last.clear();
        last.extend_from_slice(from.as_bytes());
        append_body(channel.request(), |message| {
            message.extend_from_slice(&self.find);
            append_document(message, b"filter\0", |filter| {
                append_document(filter, b"_id\0", |range| append_string(range, b"$gte\0", from.as_bytes()));
            });
            append_projection(message, fields);
            append_int64(message, b"limit\0", count as i64);
            message.extend_from_slice(&self.many);
        });
        let mut batch = read_batch(channel.exchange().await?, last)?;
        let mut documents_read = batch.documents;
        while batch.cursor != 0 {
            append_body(channel.request(), |message| {
                append_int64(message, b"getMore\0", batch.cursor);
                message.extend_from_slice(&self.more);
            });
            batch = read_batch(channel.exchange().await?, last)?;
            documents_read += batch.documents;
        }
        check_scan(documents_read, count, "document")
    }
}

/// Return the bytes of a document's elements, without the document's length and end.
fn elements(document: &RawDocumentBuf) -> Vec<u8> {
    let bytes = document.as_bytes();
    bytes[4..bytes.len() - 1].to_vec()
}

fn append_body(message: &mut Vec<u8>, elements: impl FnOnce(&mut Vec<u8>)) {
    message::begin(message);
    append_enclosed(message, elements);
}

fn append_command(message: &mut Vec<u8>, body: &RawDocumentBuf, name: &[u8], documents: impl FnOnce(&mut Vec<u8>)) {
    message::begin(message);
    message.extend_from_slice(body.as_bytes());
    // A section of kind 1 is a document sequence: its length, its name, and its documents.
    message.push(1);
    let at = message.len();
    message.extend_from_slice(&[0; 4]);
    message.extend_from_slice(name);
    documents(message);
    set_length(message, at);
}

fn append_enclosed(message: &mut Vec<u8>, elements: impl FnOnce(&mut Vec<u8>)) {
    let at = message.len();
    message.extend_from_slice(&[0; 4]);
    elements(message);
    message.push(0);
    set_length(message, at);
}

/// Append a nested document. In all functions that append an element, `name` ends with a zero byte.
fn append_document(message: &mut Vec<u8>, name: &[u8], elements: impl FnOnce(&mut Vec<u8>)) {
    message.push(DOCUMENT);
    message.extend_from_slice(name);
    append_enclosed(message, elements);
}

fn append_id(message: &mut Vec<u8>, key: &Key) {
    append_string(message, b"_id\0", key.as_bytes());
}

fn append_string(message: &mut Vec<u8>, name: &[u8], text: &[u8]) {
    message.push(STRING);
    message.extend_from_slice(name);
    message.extend_from_slice(&(text.len() as i32 + 1).to_le_bytes());
    message.extend_from_slice(text);
    message.push(0);
}

fn append_int64(message: &mut Vec<u8>, name: &[u8], number: i64) {
    message.push(INT64);
    message.extend_from_slice(name);
    message.extend_from_slice(&number.to_le_bytes());
}

fn append_field_name(message: &mut Vec<u8>, field: u32) {
    message.extend_from_slice(b"field");
    // Write one-digit numbers directly, because a formatter would take as long as the rest of the field.
    match field {
        0..10 => message.push(b'0' + field as u8),
        _ => write!(message, "{field}").expect("writing to memory"),
    }
    message.push(0);
}

/// Append the fields as binary values, as YCSB's binding does.
fn append_values(message: &mut Vec<u8>, values: Values<'_>) {
    values.append(message, |message, field, length| {
        message.push(BINARY);
        append_field_name(message, field);
        message.extend_from_slice(&(length as i32).to_le_bytes());
        message.push(BinarySubtype::Generic.into());
    });
}

fn append_projection(message: &mut Vec<u8>, fields: Fields) {
    if let Fields::One(field) = fields {
        append_document(message, b"projection\0", |projection| {
            projection.push(INT32);
            append_field_name(projection, field);
            projection.extend_from_slice(&1_i32.to_le_bytes());
        });
    }
}

fn written(reply: &RawDocument, verb: &str) -> Result<()> {
    match check_written(reply)? {
        1 => Ok(()),
        count => Err(Failure::new(
            Class::Server,
            format!("{count} documents were {verb} instead of one: is the data loaded?"),
        )),
    }
}

/// A batch of the documents that a scan returns. `cursor` is 0 in the last batch.
struct Batch {
    documents: u64,
    cursor: i64,
}

/// Parse a batch. Its keys must be in order, and not less than `last`. Then set `last` to the batch's last key.
fn read_batch(reply: &RawDocument, last: &mut Vec<u8>) -> Result<Batch> {
    let (mut ok, mut batch) = (false, None);
    for element in reply.iter() {
        let (name, value) = element.map_err(message::malformed)?;
        match (name.as_str(), value) {
            ("ok", value) => ok = message::is_one(value),
            ("cursor", RawBsonRef::Document(cursor)) => batch = Some(read_cursor(cursor, last)?),
            _ => {}
        }
    }
    match (ok, batch) {
        (false, _) => Err(message::server_error(reply)),
        (true, Some(batch)) => Ok(batch),
        (true, None) => Err(Failure::protocol("the answer to a scan has no cursor")),
    }
}

fn read_cursor(cursor: &RawDocument, last: &mut Vec<u8>) -> Result<Batch> {
    let mut batch = Batch { documents: 0, cursor: 0 };
    for element in cursor.iter() {
        let (name, value) = element.map_err(message::malformed)?;
        match (name.as_str(), value) {
            ("id", RawBsonRef::Int64(id)) => batch.cursor = id,
            ("firstBatch" | "nextBatch", RawBsonRef::Array(documents)) => {
                let mut newest: Option<&[u8]> = None;
                for document in documents {
                    let document = document.map_err(message::malformed)?.as_document();
                    let document =
                        document.ok_or_else(|| Failure::protocol("a batch contains a value that is not a document"))?;
                    let key = document.get_str("_id").map_err(message::malformed)?.as_bytes();
                    if key < newest.unwrap_or(last) {
                        return Err(Failure::protocol("the documents of a scan are out of order"));
                    }
                    newest = Some(key);
                    batch.documents += 1;
                }
                if let Some(newest) = newest {
                    last.clear();
                    last.extend_from_slice(newest);
                }
            }
            _ => {}
        }
    }
    Ok(batch)
}

fn mode(preference: ReadPreference) -> &'static str {
    match preference {
        ReadPreference::Primary => "primary",
        ReadPreference::PrimaryPreferred => "primaryPreferred",
        ReadPreference::Secondary => "secondary",
        ReadPreference::SecondaryPreferred => "secondaryPreferred",
        ReadPreference::Nearest => "nearest",
    }
}

pub fn check_one_document(reply: &RawDocument) -> Result<()> {
    let mut ok = false;
    let mut documents_read = None;
    // Go through the top level of the reply only once. Two lookups by name would go through it twice.
    for element in reply.iter() {
        let (name, value) = element.map_err(message::malformed)?;
        match (name.as_str(), value) {
            ("ok", value) => ok = message::is_one(value),
            ("cursor", RawBsonRef::Document(cursor)) => documents_read = Some(documents(cursor)?),
            _ => {}
        }
    }
    match (ok, documents_read) {
        (false, _) => Err(message::server_error(reply)),
        (true, Some(1)) => Ok(()),
        (true, Some(0)) => Err(Failure::new(Class::Server, "the query found no document: is the data loaded?")),
        (true, Some(more)) => Err(Failure::protocol(format!("the server returned {more} documents for one key"))),
        (true, None) => Err(Failure::protocol("the answer to find has no cursor")),
    }
}

fn documents(cursor: &RawDocument) -> Result<usize> {
    let batch = cursor.get_array("firstBatch").map_err(message::malformed)?;
    let mut count = 0;
    for document in batch {
        document.map_err(message::malformed)?;
        count += 1;
    }
    Ok(count)
}

/// Append the configured write concern to a command. The server's defaults apply to the parts that are not configured.
fn append_write_concern(command: &mut RawDocumentBuf, settings: &Settings) {
    let mut concern = RawDocumentBuf::new();
    match settings.write_concern {
        Some(WriteConcern::Majority) => concern.append(cstr!("w"), "majority"),
        Some(WriteConcern::Members(members)) => concern.append(cstr!("w"), members),
        None => {}
    }
    if let Some(journal) = settings.journal {
        concern.append(cstr!("j"), journal);
    }
    if !concern.is_empty() {
        command.append(cstr!("writeConcern"), concern);
    }
}

/// Append the document `{_id: "user…", field0: <binary>, …}`, with fields as in YCSB's MongoDB binding.
fn append_record(message: &mut Vec<u8>, table: &Table, record: u64) {
    append_enclosed(message, |document| {
        append_id(document, &table.key(record));
        table.for_each_field(record, |name, value| {
            document.push(BINARY);
            document.extend_from_slice(name.as_bytes());
            document.push(0);
            document.extend_from_slice(&(value.len() as i32).to_le_bytes());
            document.push(BinarySubtype::Generic.into());
            document.extend_from_slice(value);
        });
    });
}

fn set_length(message: &mut [u8], at: usize) {
    let length = (message.len() - at) as i32;
    message[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Check that a write's reply has no write error or write concern error. Return the number of written documents (`n`).
pub fn check_written(reply: &RawDocument) -> Result<i32> {
    let (mut ok, mut written, mut failed) = (false, 0, None);
    // Go through the reply's top level once. Each lookup by name would go through the top level again.
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
    use base::Random;
    use proptest::prelude::*;
    use workload::Data;
    use workload::ycsb::Lengths;

    fn commands(more: serde_json::Value) -> Commands {
        let mut settings = serde_json::json!({"addresses": ["a"], "database": "d", "collection": "c"});
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Commands::new(&serde_json::from_value(settings).unwrap())
    }

    fn parts<'a>(message: &'a [u8], name: &[u8]) -> (&'a RawDocument, &'a RawDocument) {
        let body_length = i32::from_le_bytes(message[message::BODY_AT..][..4].try_into().unwrap()) as usize;
        let (body, section) = message[message::BODY_AT..].split_at(body_length);
        let section = section.strip_prefix(&[1]).unwrap();
        assert_eq!(section[..4], (section.len() as i32).to_le_bytes());
        let document = section[4..].strip_prefix(name).unwrap();
        (RawDocument::from_bytes(body).unwrap(), RawDocument::from_bytes(document).unwrap())
    }

    fn field_lengths(document: &RawDocument) -> Vec<(String, usize)> {
        let fields = document.iter().map(|element| element.unwrap());
        let fields = fields.filter(|(name, _)| name.as_str() != "_id");
        fields.map(|(name, value)| (name.as_str().to_owned(), value.as_binary().unwrap().bytes.len())).collect()
    }

    #[test]
    fn write_commands_contain_the_write_concern() {
        for (settings, expected) in [
            (serde_json::json!({"write_concern": "majority"}), rawdoc! { "w": "majority" }),
            (serde_json::json!({"write_concern": 3}), rawdoc! { "w": 3 }),
            (serde_json::json!({"write_concern": 1, "journal": true}), rawdoc! { "w": 1, "j": true }),
            (
                serde_json::json!({"write_concern": "majority", "journal": false}),
                rawdoc! { "w": "majority", "j": false },
            ),
            (serde_json::json!({"journal": true}), rawdoc! { "j": true }),
        ] {
            let commands = commands(settings);
            for command in [&commands.insert, &commands.insert_many, &commands.update] {
                assert_eq!(command.get_document("writeConcern").unwrap(), &*expected);
            }
        }
        assert!(commands(serde_json::json!({})).insert.get("writeConcern").unwrap().is_none());
    }

    #[test]
    fn read_commands_contain_the_read_preference() {
        let commands = commands(serde_json::json!({"read_preference": "nearest"}));
        let mut message = Vec::new();
        append_body(&mut message, |message| message.extend_from_slice(&commands.many));
        let body = RawDocument::from_bytes(&message[message::BODY_AT..]).unwrap();
        assert_eq!(body, &*rawdoc! { "sort": { "_id": 1 }, "$db": "d", "$readPreference": { "mode": "nearest" } });
    }

    #[test]
    fn scanned_documents_are_counted_and_must_be_in_key_order() {
        let reply = |keys: &[&str], id: i64| {
            let documents: bson::RawArrayBuf = keys.iter().map(|key| rawdoc! { "_id": *key }).collect();
            rawdoc! { "cursor": { "firstBatch": documents, "id": id, "ns": "d.c" }, "ok": 1.0 }
        };
        let mut last = b"user2".to_vec();
        let batch = read_batch(&reply(&["user2", "user30", "user4"], 9), &mut last).unwrap();
        assert_eq!((batch.documents, batch.cursor, &last[..]), (3, 9, &b"user4"[..]));
        for keys in [&["user3"][..], &["user5", "user40"]] {
            assert_eq!(read_batch(&reply(keys, 0), &mut last.clone()).err().map(|e| e.class), Some(Class::Protocol));
        }
        assert_eq!(read_batch(&reply(&[], 0), &mut last).unwrap().documents, 0);
        let failed = rawdoc! { "ok": 0.0, "errmsg": "cursor id 9 not found", "code": 43 };
        assert_eq!(read_batch(&failed, &mut last).err().map(|e| e.class), Some(Class::Server));
    }

    #[test]
    fn error_of_a_server_that_is_not_the_primary_is_recognized() {
        let reply = |code: i32| rawdoc! { "ok": 0.0, "errmsg": "not primary", "code": code };
        let moved = |reply: &RawDocument| written(reply, "written").unwrap_err().moved;
        assert!(moved(&reply(10107)) && moved(&reply(11602)) && !moved(&reply(11000)));
        assert!(moved(&rawdoc! { "n": 1, "ok": 1.0, "writeConcernError": { "code": 189, "errmsg": "stepped down" } }));
        assert_eq!(written(&rawdoc! { "n": 0, "ok": 1.0 }, "updated").unwrap_err().class, Class::Server);
    }

    proptest! {
        /// Keys and values have various lengths, so every length field around them is tested.
        #[test]
        fn insert_contains_a_complete_document_for_every_key_and_length(record in any::<u64>(), count in 1..12_u32, longest in 1..400_u64) {
            let commands = commands(serde_json::json!({}));
            let (key, lengths) = (Key::new(record), Lengths::uniform(1, longest));
            let (mut message, mut random) = (Vec::new(), Random::new(record));
            append_command(&mut message, &commands.insert, b"documents\0", |message| {
                append_enclosed(message, |document| {
                    append_id(document, &key);
                    append_values(document, Values::new(Fields::All, count, &lengths, &mut random));
                });
            });
            let (body, document) = parts(&message, b"documents\0");
            prop_assert_eq!(body, &*rawdoc! { "insert": "c", "ordered": true, "$db": "d" });
            prop_assert_eq!(document.get_str("_id").unwrap().as_bytes(), key.as_bytes());
            let fields = field_lengths(document);
            prop_assert_eq!(fields.len(), count as usize);
            for (at, (name, length)) in fields.iter().enumerate() {
                let expected = format!("field{at}");
                prop_assert_eq!(name, &expected);
                prop_assert!((1..=longest as usize).contains(length));
            }
        }

        /// A damaged batch reaches deeper states of the parser than arbitrary bytes would.
        #[test]
        fn parsing_damaged_batches_of_documents_never_panics(at in 4..120_usize, with in any::<u8>()) {
            let reply = rawdoc! { "cursor": { "firstBatch": [{ "_id": "user1", "field0": 1 }], "id": 5_i64 }, "ok": 1.0 };
            let mut bytes = reply.into_bytes();
            let place = at % (bytes.len() - 5) + 4;
            bytes[place] = with;
            if let Ok(document) = RawDocument::from_bytes(&bytes) {
                let _ = (read_batch(document, &mut Vec::new()), written(document, "written"));
            }
        }
    }

    #[test]
    fn find_command_with_read_preference_secondary_contains_the_read_preference() {
        let mut message = Vec::new();
        let commands = commands(serde_json::json!({"read_preference": "secondary"}));
        commands.append_find(&mut message, &Key::new(0), Fields::All);
        let expected = rawdoc! {
            "find": "c", "filter": { "_id": "user6284781860667377211" }, "limit": 1, "singleBatch": true, "$db": "d",
            "$readPreference": { "mode": "secondary" },
        };
        assert_eq!(&message[message::BODY_AT..], expected.as_bytes());
    }

    #[test]
    fn reply_to_find_must_contain_one_document() {
        let reply = |batch: bson::RawArrayBuf| rawdoc! { "cursor": { "id": 0_i64, "firstBatch": batch }, "ok": 1.0 };
        let one = || rawdoc! { "_id": "user1" };
        let class = |batch| check_one_document(&reply(batch)).err().map(|failure| failure.class);
        assert_eq!(class([one()].into_iter().collect()), None);
        assert_eq!(class(bson::RawArrayBuf::new()), Some(Class::Server));
        assert_eq!(class([one(), one()].into_iter().collect()), Some(Class::Protocol));
        assert_eq!(check_one_document(&rawdoc! { "ok": 1.0 }).unwrap_err().class, Class::Protocol);
        assert_eq!(check_one_document(&rawdoc! { "ok": 0.0 }).unwrap_err().class, Class::Server);
    }

    proptest! {
        /// Keys have various lengths, so every length field around them is tested.
        #[test]
        fn find_command_is_a_complete_document_for_every_key(record in any::<u64>()) {
            let mut message = Vec::new();
            commands(serde_json::json!({})).append_find(&mut message, &Key::new(record), Fields::All);
            let body = RawDocument::from_bytes(&message[message::BODY_AT..]).unwrap();
            let key = body.get_document("filter").unwrap().get_str("_id").unwrap();
            let expected = Key::new(record);
            prop_assert_eq!(key.as_bytes(), expected.as_bytes());
            prop_assert_eq!(body.iter().count(), 5);
        }
    }

    #[test]
    fn insert_of_a_batch_contains_complete_documents_with_the_fields_of_ycsb() {
        let table = Table::new(Data { records: 5, fields: 10, field_length: 100 }, 1);
        let mut message = Vec::new();
        let body = commands(serde_json::json!({})).insert_many;
        append_command(&mut message, &body, b"documents\0", |message| {
            (3..5).for_each(|record| append_record(message, &table, record));
        });
        let sequence = &message[message::BODY_AT + body.as_bytes().len() + 1..];
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
    fn reply_with_write_errors_is_an_error() {
        let failed = rawdoc! { "n": 0, "ok": 1.0, "writeErrors": [{ "index": 0, "code": 11000, "errmsg": "dup key" }] };
        assert_eq!(check_written(&failed).unwrap_err().class, Class::Server);
        let unsafe_write = rawdoc! { "n": 1, "ok": 1.0, "writeConcernError": { "code": 64, "errmsg": "waiting" } };
        assert_eq!(check_written(&unsafe_write).unwrap_err().class, Class::Server);
        check_written(&rawdoc! { "n": 1, "ok": 1.0 }).unwrap();
    }
}
