//! OP_MSG on bytes (MongoDB Wire Protocol, "OP_MSG"): the header, one body section, and nothing trusted; and a connection on
//! which one request and its reply go at a time, in buffers that are used again.

use crate::buffered::Buffered;
use base::error::{Class, Failure, Result};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use net::transport::Stream;
use std::ops::Range;

/// The largest message either side may send (`maxMessageSizeBytes` of hello).
pub const MAX_MESSAGE: usize = 48_000_000;
/// messageLength, requestID, responseTo, opCode.
pub const HEADER: usize = 16;
/// Header, flagBits, section kind.
pub const BODY_AT: usize = HEADER + 5;

const OP_MSG: i32 = 2013;
const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 2;
/// Bits 0 to 15 must be understood by whoever gets the message.
const REQUIRED_BITS: u32 = 0xffff;
const CHECKSUM: usize = 4;
/// Codes of "state change errors" (Server Discovery and Monitoring specification): in shutdown or
/// interrupted by it, not or no more the primary, neither primary nor secondary.
const NOT_PRIMARY: [i32; 8] = [91, 189, 10058, 10107, 11600, 11602, 13435, 13436];
/// An empty BSON document.
const SMALLEST_BODY: usize = 5;

/// Begin a message with its header, no flags, and the kind byte of its body; the length is set by [`finish`].
pub fn begin(message: &mut Vec<u8>) {
    message.clear();
    for word in [0, 0, 0, OP_MSG, 0] {
        message.extend_from_slice(&word.to_le_bytes());
    }
    message.push(0);
}

pub fn finish(message: &mut [u8], request_id: i32) {
    let length = message.len() as i32;
    message[0..4].copy_from_slice(&length.to_le_bytes());
    message[4..8].copy_from_slice(&request_id.to_le_bytes());
}

/// The whole length of the message that begins with these bytes; None while too few are there.
pub fn length(start: &[u8]) -> Result<Option<usize>> {
    let Some(bytes) = start.first_chunk::<4>() else { return Ok(None) };
    let length = i32::from_le_bytes(*bytes);
    match usize::try_from(length) {
        Ok(length) if (BODY_AT + SMALLEST_BODY..=MAX_MESSAGE).contains(&length) => Ok(Some(length)),
        _ => Err(Failure::protocol(format!("an answer of {length} bytes is no MongoDB message"))),
    }
}

pub fn body(message: &[u8], request_id: i32) -> Result<&RawDocument> {
    let wrong = |what: &str| Failure::protocol(format!("the answer {what}"));
    if message.len() < BODY_AT + SMALLEST_BODY {
        return Err(wrong("is too short"));
    }
    if int32(message, 8) != request_id {
        return Err(wrong("is to another request"));
    }
    if int32(message, 12) != OP_MSG {
        return Err(wrong("is no OP_MSG"));
    }
    let flags = int32(message, HEADER) as u32;
    if flags & MORE_TO_COME != 0 || flags & REQUIRED_BITS & !(CHECKSUM_PRESENT | MORE_TO_COME) != 0 {
        return Err(wrong("has flags that were not asked for"));
    }
    if message[HEADER + 4] != 0 {
        return Err(wrong("does not begin with a body"));
    }
    let end = message.len() - if flags & CHECKSUM_PRESENT == 0 { 0 } else { CHECKSUM };
    // The document's own length must fill the message: a second section would be a surprise, and is one here.
    RawDocument::from_bytes(&message[BODY_AT..end]).map_err(|error| wrong(&format!("is no BSON: {error}")))
}

pub fn check_ok(reply: &RawDocument) -> Result<()> {
    match reply.get("ok").map_err(malformed)? {
        Some(value) if is_one(value) => Ok(()),
        Some(_) => Err(server_error(reply)),
        None => Err(Failure::protocol("the answer does not say whether it is ok")),
    }
}

pub fn is_one(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Double(number) => number == 1.0,
        RawBsonRef::Int32(number) => number == 1,
        RawBsonRef::Int64(number) => number == 1,
        RawBsonRef::Boolean(truth) => truth,
        _ => false,
    }
}

pub fn server_error(document: &RawDocument) -> Failure {
    let words = document.get_str("errmsg").unwrap_or("no message");
    let code = document.get_i32("code").unwrap_or_default();
    let name = document.get_str("codeName").unwrap_or("error");
    Failure { moved: NOT_PRIMARY.contains(&code), ..Failure::new(Class::Server, format!("{name} ({code}): {words}")) }
}

pub fn malformed(error: impl std::fmt::Display) -> Failure {
    Failure::protocol(format!("the answer is malformed: {error}"))
}

fn int32(bytes: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Requests out, replies in.
pub struct Channel {
    pub(super) io: Buffered,
    request_id: i32,
}

impl Channel {
    pub fn new(stream: Stream) -> Self {
        Channel { io: Buffered::new(stream), request_id: 0 }
    }

    pub fn request(&mut self) -> &mut Vec<u8> {
        &mut self.io.outbox
    }

    pub async fn command(&mut self, command: &RawDocumentBuf) -> Result<&RawDocument> {
        begin(&mut self.io.outbox);
        self.io.outbox.extend_from_slice(command.as_bytes());
        self.exchange().await
    }

    pub async fn exchange(&mut self) -> Result<&RawDocument> {
        self.request_id = self.request_id.wrapping_add(1);
        finish(&mut self.io.outbox, self.request_id);
        self.io.send().await?;
        let reply = self.receive().await?;
        body(self.io.at(reply), self.request_id)
    }

    async fn receive(&mut self) -> Result<Range<usize>> {
        loop {
            match length(self.io.come())? {
                Some(length) if self.io.come().len() >= length => {
                    let reply = self.io.take(length);
                    self.io.check_idle()?;
                    return Ok(reply);
                }
                _ => self.io.fill().await?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;
    use proptest::prelude::*;

    fn reply(flags: u32, body: &[u8], after: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        begin(&mut message);
        message[HEADER..HEADER + 4].copy_from_slice(&flags.to_le_bytes());
        message.extend_from_slice(body);
        message.extend_from_slice(after);
        finish(&mut message, 1);
        message[8..12].copy_from_slice(&7_i32.to_le_bytes());
        message
    }

    #[test]
    fn a_reply_is_its_body() {
        let document = rawdoc! { "ok": 1.0 };
        let message = reply(0, document.as_bytes(), &[]);
        assert_eq!(length(&message).unwrap(), Some(message.len()));
        assert_eq!(body(&message, 7).unwrap(), &*document);
        assert_eq!(body(&reply(CHECKSUM_PRESENT, document.as_bytes(), &[0; 4]), 7).unwrap(), &*document);
    }

    #[test]
    fn what_was_not_asked_for_is_refused() {
        let document = rawdoc! { "ok": 1.0 };
        let good = reply(0, document.as_bytes(), &[]);
        assert!(body(&good, 8).is_err(), "another request's");
        assert!(body(&reply(MORE_TO_COME, document.as_bytes(), &[]), 7).is_err());
        assert!(body(&reply(1 << 9, document.as_bytes(), &[]), 7).is_err(), "an unknown required bit");
        assert!(body(&reply(1 << 16, document.as_bytes(), &[]), 7).is_ok(), "an unknown optional bit");
        assert!(body(&reply(0, document.as_bytes(), &[1]), 7).is_err(), "a second section");
    }

    #[test]
    fn no_message_is_that_long_or_short() {
        for claimed in [i32::MIN, -1, 0, 25, MAX_MESSAGE as i32 + 1, i32::MAX] {
            assert_eq!(length(&claimed.to_le_bytes()).unwrap_err().class, Class::Protocol, "{claimed}");
        }
        assert_eq!(length(&[0, 0, 0]).unwrap(), None);
    }

    #[test]
    fn an_error_is_said_in_the_servers_words() {
        let error = rawdoc! { "ok": 0.0, "errmsg": "not allowed", "code": 13, "codeName": "Unauthorized" };
        let failure = check_ok(&error).unwrap_err();
        assert_eq!((failure.class, failure.detail.as_str()), (Class::Server, "Unauthorized (13): not allowed"));
        assert_eq!(check_ok(&rawdoc! {}).unwrap_err().class, Class::Protocol);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), id in any::<i32>()) {
            let _ = length(&bytes);
            if let Ok(document) = body(&bytes, id) {
                let _ = check_ok(document);
            }
        }

        /// Past the header, where arbitrary bytes hardly ever get.
        #[test]
        fn a_damaged_reply_never_panics(at in 0..200_usize, with in any::<u8>(), cut in 0..200_usize) {
            let document = rawdoc! {
                "cursor": { "firstBatch": [{ "_id": "user1", "field0": 1_i64 }], "id": 0_i64, "ns": "a.b" },
                "ok": 1.0, "errmsg": "words", "hosts": ["a:1"], "writeErrors": [{ "code": 1 }],
            };
            let mut message = reply(0, document.as_bytes(), &[]);
            let place = at % message.len();
            message[place] = with;
            message.truncate(message.len().saturating_sub(cut / 4));
            if let Ok(document) = body(&message, 7) {
                let _ = check_ok(document);
                let _ = crate::mongodb::commands::check_one_document(document);
                let _ = crate::mongodb::commands::check_written(document);
                let _ = super::super::topology::describe(document);
            }
        }
    }
}
