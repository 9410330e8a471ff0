//! Reading one document by its key, as drivers' `find_one` does: a request of which only the key is new, and a reply
//! that is looked through where it lies.

use super::message;
use crate::mongodb::{ReadPreference, Settings};
use base::error::{Class, Failure, Result};
use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, rawdoc};
use workload::ycsb::Key;

/// A find command cut where the key goes.
pub struct FindRequest {
    head: Vec<u8>,
    tail: Vec<u8>,
    filter_at: usize,
}

impl FindRequest {
    pub fn new(settings: &Settings) -> Self {
        let before = rawdoc! { "find": settings.collection.as_str() };
        let mut after = rawdoc! { "limit": 1, "singleBatch": true, "$db": settings.database.as_str() };
        // Drivers leave the default out.
        if settings.read_preference != ReadPreference::Primary {
            after.append(cstr!("$readPreference"), rawdoc! { "mode": mode(settings.read_preference) });
        }
        let mut head = Vec::new();
        message::begin(&mut head);
        head.extend_from_slice(&before.as_bytes()[..before.as_bytes().len() - 1]);
        head.extend_from_slice(b"\x03filter\0");
        let filter_at = head.len();
        // The filter's length, then its one element `_id`, a string, and the string's length.
        head.extend_from_slice(b"\0\0\0\0\x02_id\0\0\0\0\0");
        let mut tail = vec![0, 0];
        tail.extend_from_slice(&after.as_bytes()[4..]);
        FindRequest { head, tail, filter_at }
    }

    /// Write the message that asks for this key, without allocating once `message` has grown to its size.
    pub fn encode(&self, message: &mut Vec<u8>, key: &Key) {
        let key = key.as_bytes();
        message.clear();
        message.extend_from_slice(&self.head);
        message.extend_from_slice(key);
        message.extend_from_slice(&self.tail);
        let body_length = message.len() - message::BODY_AT;
        // Length, type, "_id\0", string length, key, its zero, the document's zero.
        let filter_length = 4 + 1 + 4 + 4 + key.len() + 2;
        for (at, length) in
            [(message::BODY_AT, body_length), (self.filter_at, filter_length), (self.filter_at + 9, key.len() + 1)]
        {
            message[at..at + 4].copy_from_slice(&(length as i32).to_le_bytes());
        }
    }
}

/// The read preference's name on the wire.
pub fn mode(preference: ReadPreference) -> &'static str {
    match preference {
        ReadPreference::Primary => "primary",
        ReadPreference::PrimaryPreferred => "primaryPreferred",
        ReadPreference::Secondary => "secondary",
        ReadPreference::SecondaryPreferred => "secondaryPreferred",
        ReadPreference::Nearest => "nearest",
    }
}

/// The reply holds exactly one document.
/// Errors: `server` where the command failed or found nothing, `protocol` where it is no reply to a find.
pub fn check_one_document(reply: &RawDocument) -> Result<()> {
    let mut ok = false;
    let mut found = None;
    // One walk over the top: two lookups by name would be two walks.
    for element in reply.iter() {
        let (name, value) = element.map_err(message::malformed)?;
        match (name.as_str(), value) {
            ("ok", value) => ok = message::is_one(value),
            ("cursor", RawBsonRef::Document(cursor)) => found = Some(documents(cursor)?),
            _ => {}
        }
    }
    match (ok, found) {
        (false, _) => Err(message::server_error(reply)),
        (true, Some(1)) => Ok(()),
        (true, Some(0)) => Err(Failure::new(Class::Server, "the query found no document: is the data loaded?")),
        (true, Some(more)) => Err(Failure::protocol(format!("{more} documents for one key"))),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mongodb::Settings;
    use proptest::prelude::*;

    fn request(read_preference: &str) -> FindRequest {
        let settings: Settings = serde_json::from_value(serde_json::json!({
            "addresses": ["a"], "read_preference": read_preference, "database": "d", "collection": "c"}))
        .unwrap();
        FindRequest::new(&settings)
    }

    #[test]
    fn asks_a_secondary_as_drivers_do() {
        let mut message = Vec::new();
        request("secondary").encode(&mut message, &Key::new(0));
        let expected = rawdoc! {
            "find": "c", "filter": { "_id": "user6284781860667377211" }, "limit": 1, "singleBatch": true, "$db": "d",
            "$readPreference": { "mode": "secondary" },
        };
        assert_eq!(&message[message::BODY_AT..], expected.as_bytes());
    }

    #[test]
    fn counts_what_was_found() {
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
        /// Keys differ in length, so the lengths around them must be right for each.
        #[test]
        fn every_key_makes_a_whole_document(record in any::<u64>()) {
            let mut message = Vec::new();
            request("primary").encode(&mut message, &Key::new(record));
            let body = RawDocument::from_bytes(&message[message::BODY_AT..]).unwrap();
            let key = body.get_document("filter").unwrap().get_str("_id").unwrap();
            let expected = Key::new(record);
            prop_assert_eq!(key.as_bytes(), expected.as_bytes());
            prop_assert_eq!(body.iter().count(), 5);
        }
    }
}
