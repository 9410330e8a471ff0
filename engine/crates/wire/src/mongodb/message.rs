//! Building and validation of OP_MSG messages (MongoDB Wire Protocol, "OP_MSG"), and a connection that sends one
//! request at a time and receives its reply. The connection reuses its buffers.

use crate::buffered::Buffered;
use base::error::{Class, Failure, Result};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use net::transport::Stream;
use std::ops::Range;

/// The maximum number of bytes of a message in either direction (`maxMessageSizeBytes` in the answer to `hello`).
pub const MAX_MESSAGE: usize = 48_000_000;
/// The number of bytes of the header: messageLength, requestID, responseTo and opCode.
pub const HEADER: usize = 16;
/// The position of the body: after the header, flagBits and the kind of the section.
pub const BODY_AT: usize = HEADER + 5;

const OP_MSG: i32 = 2013;
const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 2;
/// The flag bits 0 to 15. If one of these bits is set and the receiver does not know it, the receiver must refuse the
/// message.
const REQUIRED_BITS: u32 = 0xffff;
const CHECKSUM: usize = 4;
/// The codes of "state change errors" (Server Discovery and Monitoring specification). A server sends one of them
/// if it is shutting down, is not the primary, has stopped being the primary, or is neither primary nor secondary.
const NOT_PRIMARY: [i32; 8] = [91, 189, 10058, 10107, 11600, 11602, 13435, 13436];
/// The minimum number of bytes of a body: an empty BSON document.
const SMALLEST_BODY: usize = 5;

/// Begin a message: append the header, flags of 0, and the kind of the body section. [`finish`] sets the length.
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

/// Return the length of the message that begins with these bytes. Return None if the length field is incomplete.
pub fn length(start: &[u8]) -> Result<Option<usize>> {
    let Some(bytes) = start.first_chunk::<4>() else { return Ok(None) };
    let length = i32::from_le_bytes(*bytes);
    match usize::try_from(length) {
        Ok(length) if (BODY_AT + SMALLEST_BODY..=MAX_MESSAGE).contains(&length) => Ok(Some(length)),
        _ => Err(Failure::protocol(format!("an answer of {length} bytes is not a MongoDB message"))),
    }
}

pub fn body(message: &[u8], request_id: i32) -> Result<&RawDocument> {
    let wrong = |detail: &str| Failure::protocol(format!("the answer {detail}"));
    if message.len() < BODY_AT + SMALLEST_BODY {
        return Err(wrong("is too short"));
    }
    if int32(message, 8) != request_id {
        return Err(wrong("belongs to another request"));
    }
    if int32(message, 12) != OP_MSG {
        return Err(wrong("is not an OP_MSG"));
    }
    let flags = int32(message, HEADER) as u32;
    if flags & MORE_TO_COME != 0 || flags & REQUIRED_BITS & !(CHECKSUM_PRESENT | MORE_TO_COME) != 0 {
        return Err(wrong("has unexpected flags"));
    }
    if message[HEADER + 4] != 0 {
        return Err(wrong("does not begin with a body"));
    }
    let end = message.len() - if flags & CHECKSUM_PRESENT == 0 { 0 } else { CHECKSUM };
    // The document must fill the rest of the message, because a second section is not expected.
    RawDocument::from_bytes(&message[BODY_AT..end]).map_err(|error| wrong(&format!("is not valid BSON: {error}")))
}

pub fn check_ok(reply: &RawDocument) -> Result<()> {
    match reply.get("ok").map_err(malformed)? {
        Some(value) if is_one(value) => Ok(()),
        Some(_) => Err(server_error(reply)),
        None => Err(Failure::protocol("the answer has no field 'ok'")),
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

/// A connection to a MongoDB server. [`Channel::exchange`] sends [`Channel::request`] and returns the reply.
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
            match length(self.io.received_bytes())? {
                Some(length) if self.io.received_bytes().len() >= length => {
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
    fn body_of_a_valid_reply_is_returned() {
        let document = rawdoc! { "ok": 1.0 };
        let message = reply(0, document.as_bytes(), &[]);
        assert_eq!(length(&message).unwrap(), Some(message.len()));
        assert_eq!(body(&message, 7).unwrap(), &*document);
        assert_eq!(body(&reply(CHECKSUM_PRESENT, document.as_bytes(), &[0; 4]), 7).unwrap(), &*document);
    }

    #[test]
    fn unexpected_replies_are_refused() {
        let document = rawdoc! { "ok": 1.0 };
        let good = reply(0, document.as_bytes(), &[]);
        assert!(body(&good, 8).is_err(), "another request's");
        assert!(body(&reply(MORE_TO_COME, document.as_bytes(), &[]), 7).is_err());
        assert!(body(&reply(1 << 9, document.as_bytes(), &[]), 7).is_err(), "an unknown required bit");
        assert!(body(&reply(1 << 16, document.as_bytes(), &[]), 7).is_ok(), "an unknown optional bit");
        assert!(body(&reply(0, document.as_bytes(), &[1]), 7).is_err(), "a second section");
    }

    #[test]
    fn impossible_message_lengths_are_refused() {
        for claimed in [i32::MIN, -1, 0, 25, MAX_MESSAGE as i32 + 1, i32::MAX] {
            assert_eq!(length(&claimed.to_le_bytes()).unwrap_err().class, Class::Protocol, "{claimed}");
        }
        assert_eq!(length(&[0, 0, 0]).unwrap(), None);
    }

    #[test]
    fn error_reply_becomes_a_failure_with_the_message_of_the_server() {
        let error = rawdoc! { "ok": 0.0, "errmsg": "not allowed", "code": 13, "codeName": "Unauthorized" };
        let failure = check_ok(&error).unwrap_err();
        assert_eq!((failure.class, failure.detail.as_str()), (Class::Server, "Unauthorized (13): not allowed"));
        assert_eq!(check_ok(&rawdoc! {}).unwrap_err().class, Class::Protocol);
    }

    proptest! {
        /// A damaged reply reaches deeper states of the parser than arbitrary bytes would.
        #[test]
        fn parsing_damaged_replies_never_panics(at in 0..200_usize, with in any::<u8>(), cut in 0..200_usize) {
            let document = rawdoc! {
                "cursor": { "firstBatch": [{ "_id": "user1", "field0": 1_i64 }], "id": 0_i64, "ns": "a.b" },
                "ok": 1.0, "errmsg": "words", "hosts": ["a:1"], "writeErrors": [{ "code": 1 }],
            };
            let mut message = reply(0, document.as_bytes(), &[]);
            let place = at % message.len();
            message[place] = with;
            message.truncate(message.len().saturating_sub(cut / 4));
            let _ = length(&message);
            if let Ok(document) = body(&message, 7) {
                let _ = check_ok(document);
                let _ = crate::mongodb::commands::check_one_document(document);
                let _ = crate::mongodb::commands::check_written(document);
                let _ = super::super::topology::describe(document);
            }
        }
    }
}
