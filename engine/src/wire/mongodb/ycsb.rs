//! YCSB's operations as its MongoDB binding asks for them (`site.ycsb.db.MongoDbClient`): each command is written
//! straight into the message, around parts that never change.

use super::channel::Channel;
use super::find::mode;
use super::insert::{append_write_concern, check_written, set_length};
use super::message;
use crate::border::{MongodbService, ReadPreference};
use crate::error::{Class, Failure, Result};
use crate::workload::ycsb::{Fields, Key, Values};
use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use std::io::Write;

/// Element types of BSON.
const STRING: u8 = 0x02;
const DOCUMENT: u8 = 0x03;
const BINARY: u8 = 0x05;
const INT32: u8 = 0x10;
const INT64: u8 = 0x12;

/// What never changes in the commands of an arm.
pub struct Commands {
    insert: RawDocumentBuf,
    update: RawDocumentBuf,
    /// `find`'s first element, its last ones where it reads one document, and those where it reads many.
    find: Vec<u8>,
    one: Vec<u8>,
    many: Vec<u8>,
    /// `getMore`'s after the cursor.
    more: Vec<u8>,
}

impl Commands {
    /// For this collection, read preference and write concern.
    pub fn new(settings: &MongodbService) -> Self {
        let (collection, database) = (settings.collection.as_str(), settings.database.as_str());
        let mut insert = rawdoc! { "insert": collection, "ordered": true, "$db": database };
        let mut update = rawdoc! { "update": collection, "ordered": true, "$db": database };
        append_write_concern(&mut insert, settings);
        append_write_concern(&mut update, settings);
        let mut one = rawdoc! { "limit": 1, "singleBatch": true, "$db": database };
        let mut many = rawdoc! { "sort": { "_id": 1 }, "$db": database };
        let mut more = rawdoc! { "collection": collection, "$db": database };
        // Drivers leave the default out.
        if settings.read_preference != ReadPreference::Primary {
            for command in [&mut one, &mut many, &mut more] {
                command.append(cstr!("$readPreference"), rawdoc! { "mode": mode(settings.read_preference) });
            }
        }
        Commands {
            insert,
            update,
            find: elements(&rawdoc! { "find": collection }),
            one: elements(&one),
            many: elements(&many),
            more: elements(&more),
        }
    }

    /// Insert a document.
    ///
    /// # Errors
    /// `server`, also where the write concern was not met; `protocol`, those of a broken connection.
    pub async fn insert(&self, channel: &mut Channel, key: &Key, values: Values<'_>) -> Result<()> {
        let message = channel.request();
        append_command(message, &self.insert, b"documents\0", |message| {
            append_id(message, key);
            append_values(message, values);
        });
        written(channel.exchange().await?, "inserted")
    }

    /// Set a document's fields.
    ///
    /// # Errors
    /// As `insert`; `server`, where there is none.
    pub async fn update(&self, channel: &mut Channel, key: &Key, values: Values<'_>) -> Result<()> {
        let message = channel.request();
        append_command(message, &self.update, b"updates\0", |message| {
            append_document(message, b"q\0", |query| append_id(query, key));
            append_document(message, b"u\0", |update| {
                append_document(update, b"$set\0", |set| append_values(set, values));
            });
        });
        written(channel.exchange().await?, "updated")
    }

    /// Read a document.
    ///
    /// # Errors
    /// `server`, where there is none; `protocol`, those of a broken connection.
    pub async fn read(&self, channel: &mut Channel, key: &Key, fields: Fields) -> Result<()> {
        let message = channel.request();
        append_body(message, |message| {
            message.extend_from_slice(&self.find);
            append_document(message, b"filter\0", |filter| append_id(filter, key));
            append_projection(message, fields);
            message.extend_from_slice(&self.one);
        });
        super::find::check_one_document(channel.exchange().await?)
    }

    /// Read so many documents from this key on, in as many batches as the server makes of them. `last` is where the
    /// last key is kept.
    ///
    /// # Errors
    /// `server`, where there is none; `protocol`, also where they are out of order.
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
        let mut found = batch.documents;
        while batch.cursor != 0 {
            append_body(channel.request(), |message| {
                append_int64(message, b"getMore\0", batch.cursor);
                message.extend_from_slice(&self.more);
            });
            batch = read_batch(channel.exchange().await?, last)?;
            found += batch.documents;
        }
        match found {
            0 => Err(Failure::new(Class::Server, "the scan found no document: is the data loaded?")),
            found if found > count => {
                Err(Failure::protocol(format!("{found} documents, where {count} were asked for")))
            }
            _ => Ok(()),
        }
    }
}

/// A document's elements, without its length and its end.
fn elements(document: &RawDocumentBuf) -> Vec<u8> {
    let bytes = document.as_bytes();
    bytes[4..bytes.len() - 1].to_vec()
}

/// A message whose body is written by `elements`.
fn append_body(message: &mut Vec<u8>, elements: impl FnOnce(&mut Vec<u8>)) {
    message::begin(message);
    enclosed(message, elements);
}

/// A message with this body, and a section of this name (its zero included) with one document.
fn append_command(message: &mut Vec<u8>, body: &RawDocumentBuf, name: &[u8], document: impl FnOnce(&mut Vec<u8>)) {
    message::begin(message);
    message.extend_from_slice(body.as_bytes());
    // Section kind 1, a document sequence: its length, its name, its documents.
    message.push(1);
    let at = message.len();
    message.extend_from_slice(&[0; 4]);
    message.extend_from_slice(name);
    enclosed(message, document);
    set_length(message, at);
}

/// A document's length, its elements, its end.
fn enclosed(message: &mut Vec<u8>, elements: impl FnOnce(&mut Vec<u8>)) {
    let at = message.len();
    message.extend_from_slice(&[0; 4]);
    elements(message);
    message.push(0);
    set_length(message, at);
}

/// Names here and below end with their zero.
fn append_document(message: &mut Vec<u8>, name: &[u8], elements: impl FnOnce(&mut Vec<u8>)) {
    message.push(DOCUMENT);
    message.extend_from_slice(name);
    enclosed(message, elements);
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
    write!(message, "field{field}\0").expect("memory takes what is written");
}

/// The fields as YCSB's binding stores them: binary.
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

fn written(reply: &RawDocument, how: &str) -> Result<()> {
    match check_written(reply)? {
        1 => Ok(()),
        other => {
            Err(Failure::new(Class::Server, format!("{other} documents were {how}, where one is: is the data loaded?")))
        }
    }
}

/// A part of a scan's answer.
struct Batch {
    documents: u64,
    /// 0: there are no more.
    cursor: i64,
}

/// Keys come in order, none below `last`, where the last of them is left.
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
                    let document = document.ok_or_else(|| Failure::protocol("a batch holds more than documents"))?;
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
