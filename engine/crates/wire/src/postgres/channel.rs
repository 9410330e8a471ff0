//! A connection that sends and receives messages, with reusable buffers. Only this module reads answers to queries,
//! message by message up to ReadyForQuery.

use super::message::{self, HEADER, Reader, backend, frontend};
use crate::buffered::Buffered;
use base::error::{Class, Failure, Result};
use net::transport::Stream;
use std::ops::Range;

/// A connection to a PostgreSQL server. Requests are written to [`Channel::request`].
pub struct Channel {
    pub(super) io: Buffered,
}

impl Channel {
    pub fn new(stream: Stream) -> Self {
        Channel { io: Buffered::new(stream) }
    }

    pub fn request(&mut self) -> &mut Vec<u8> {
        self.io.outbox.clear();
        &mut self.io.outbox
    }

    pub async fn send(&mut self) -> Result<()> {
        self.io.send().await
    }

    /// Return the type and body of the next message. Notices and messages about changed settings are skipped,
    /// because a server may send them at any time.
    pub async fn receive(&mut self) -> Result<(u8, &[u8])> {
        let (kind, body) = self.receive_at().await?;
        Ok((kind, self.io.at(body)))
    }

    /// Send the outbox, and process the answer up to ReadyForQuery. `each` gets the body of every row. Afterwards the
    /// session can be used again, even if the server answered with an error.
    pub async fn ask(&mut self, each: impl FnMut(&[u8]) -> Result<()>) -> Result<Outcome> {
        self.send().await?;
        self.take_answer(Answer::new(each)).await
    }

    pub async fn take_answer<E: FnMut(&[u8]) -> Result<()>>(&mut self, mut answer: Answer<E>) -> Result<Outcome> {
        loop {
            let (kind, body) = match self.receive_at().await {
                Ok(message) => message,
                Err(failure) => return Err(answer.cut_short(failure)),
            };
            if let Step::Ready(outcome) = answer.take(kind, self.io.at(body))? {
                self.check_idle()?;
                return outcome;
            }
        }
    }

    /// Check that no message is left unread. Messages that a server may send at any time are allowed: notices, and the
    /// error with which it ends the session. They stay unread until the next call that receives an answer.
    pub fn check_idle(&self) -> Result<()> {
        match self.io.received_bytes().first() {
            None | Some(&backend::ERROR_RESPONSE) => Ok(()),
            Some(kind) if is_asynchronous(*kind) => Ok(()),
            Some(_) => Err(Failure::protocol("the server sent more than was requested")),
        }
    }

    pub fn close(mut self) {
        message::append(self.request(), frontend::TERMINATE, |_| ());
        self.io.close_with_outbox();
    }

    async fn receive_at(&mut self) -> Result<(u8, Range<usize>)> {
        loop {
            let received_bytes = self.io.received_bytes();
            match message::header(received_bytes)? {
                Some((kind, length)) if received_bytes.len() >= HEADER + length => {
                    self.io.take(HEADER);
                    let body = self.io.take(length);
                    if !is_asynchronous(kind) {
                        return Ok((kind, body));
                    }
                }
                _ => self.io.fill().await?,
            }
        }
    }
}

fn is_asynchronous(kind: u8) -> bool {
    matches!(kind, backend::NOTICE_RESPONSE | backend::PARAMETER_STATUS | backend::NOTIFICATION_RESPONSE)
}

/// The state of an answer while its messages arrive. `each` gets the body of every row.
pub struct Answer<E> {
    each: E,
    outcome: Outcome,
    failure: Option<Failure>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    pub commands: usize,
    pub rows: u64,
    /// The number of rows that the commands have read, changed or written.
    pub changed: u64,
    /// True if a transaction is open, or has failed and must still be ended.
    pub in_transaction: bool,
}

/// The state of an answer after a message: complete, or with more messages to come.
pub enum Step {
    More,
    Ready(Result<Outcome>),
}

impl<E: FnMut(&[u8]) -> Result<()>> Answer<E> {
    pub fn new(each: E) -> Self {
        Answer { each, outcome: Outcome::default(), failure: None }
    }

    pub fn take(&mut self, kind: u8, body: &[u8]) -> Result<Step> {
        match kind {
            backend::DATA_ROW => {
                self.outcome.rows += 1;
                (self.each)(body)?;
            }
            backend::COMMAND_COMPLETE => {
                self.outcome.commands += 1;
                self.outcome.changed += message::rows_in_tag(body).unwrap_or(0);
            }
            backend::ERROR_RESPONSE => {
                self.failure.get_or_insert_with(|| message::failure(body));
            }
            backend::READY_FOR_QUERY => return self.ready(body).map(Step::Ready),
            backend::PARSE_COMPLETE | backend::BIND_COMPLETE | backend::NO_DATA | backend::ROW_DESCRIPTION => {}
            _ => return Err(Failure::protocol("the answer to a query has an unexpected message")),
        }
        Ok(Step::More)
    }

    /// Return the failure of a connection that broke during the answer. If the server had already sent an error, the
    /// failure has the text of this error.
    pub fn cut_short(self, failure: Failure) -> Failure {
        self.failure.map_or(failure, |error| Failure { class: Class::Closed, ..error })
    }

    /// Process ReadyForQuery, which contains the session's state: `I` idle, `T` transaction, `E` failed transaction.
    fn ready(&mut self, body: &[u8]) -> Result<Result<Outcome>> {
        self.outcome.in_transaction = match body {
            b"I" => false,
            b"T" | b"E" => true,
            _ => return Err(Failure::protocol("the server reports an unknown transaction state")),
        };
        Ok(self.failure.take().map_or(Ok(self.outcome), Err))
    }
}

pub fn row(body: &[u8], columns: usize) -> Result<Reader<'_>> {
    let mut reader = Reader::new(body);
    if usize::try_from(reader.i16()?) == Ok(columns) {
        return Ok(reader);
    }
    Err(Failure::protocol("a row has another number of columns than requested"))
}

pub fn end(reader: Reader<'_>) -> Result<()> {
    if reader.is_empty() { Ok(()) } else { Err(Failure::protocol("a row has bytes after its last column")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(messages: &[(u8, &[u8])]) -> Result<Outcome> {
        let mut answer = Answer::new(|_: &[u8]| Ok(()));
        for (kind, body) in messages {
            if let Step::Ready(outcome) = answer.take(*kind, body)? {
                return outcome;
            }
        }
        Err(answer.cut_short(Failure::closed()))
    }

    const ROW: (u8, &[u8]) = (b'D', b"\0\x01\0\0\0\x011");
    const READY: (u8, &[u8]) = (b'Z', b"I");

    #[test]
    fn server_response_is_complete_at_message_ready_for_query() {
        let extended_answer = [(b'1', &b""[..]), (b'2', b""), (b'T', b""), ROW, (b'C', b"SELECT 1\0"), READY];
        let one = Outcome { commands: 1, rows: 1, changed: 1, in_transaction: false };
        assert_eq!(answer(&extended_answer).unwrap(), one);
        let begun = answer(&[(b'C', b"BEGIN\0"), (b'Z', b"T")]).unwrap();
        assert_eq!(begun, Outcome { commands: 1, in_transaction: true, ..Outcome::default() });
    }

    #[test]
    fn error_of_the_server_is_returned_at_message_ready_for_query() {
        let failed = answer(&[(b'E', b"C42P01\0Mno table\0\0"), (b'E', b"C25P02\0Mlater\0\0"), READY]).unwrap_err();
        assert_eq!((failed.class, &failed.detail[..]), (Class::Server, "42P01: no table"));
    }

    /// The session has ended, so the failure's class is always `closed`, and not the class of the server's error.
    #[test]
    fn error_for_a_truncated_server_response_contains_the_error_message_of_the_server() {
        assert_eq!(answer(&[(b'2', b""), ROW]).unwrap_err(), Failure::closed());
        let killed = answer(&[ROW, (b'E', b"C57P01\0Mterminating connection\0\0")]).unwrap_err();
        assert_eq!((killed.class, &killed.detail[..]), (Class::Closed, "57P01: terminating connection"));
        assert_eq!(answer(&[(b'E', b"C53300\0Mfull\0\0")]).unwrap_err().class, Class::Closed);
    }

    #[test]
    fn unexpected_messages_in_a_server_response_are_refused() {
        for message in [(b'G', &b""[..]), (b'R', b"\0\0\0\0"), (b'Z', b""), (b'Z', b"X"), (b'K', b"")] {
            assert_eq!(answer(&[message]).unwrap_err().class, Class::Protocol, "{message:?}");
        }
    }

    #[test]
    fn row_must_have_the_requested_number_of_columns() {
        let mut reader = row(ROW.1, 1).unwrap();
        assert_eq!(reader.value().unwrap(), Some(&b"1"[..]));
        end(reader).unwrap();
        assert!(row(ROW.1, 2).is_err() && row(b"\xff\xff", 1).is_err() && row(b"\0", 1).is_err());
        assert!(end(row(b"\0\x01\0\0\0\x011", 1).unwrap()).is_err(), "not read yet");
    }

    /// Fuzzing: process arbitrary messages, as if a channel had received them.
    #[test]
    fn reading_answers_from_arbitrary_messages_never_panics() {
        bolero::check!().with_iterations(2000).with_type().for_each(|messages: &Vec<(u8, Vec<u8>)>| {
            let mut answer = Answer::new(|body: &[u8]| row(body, 1)?.value().map(|_| ()));
            for (kind, body) in messages {
                let kind = b"DCEZ12nTSGRK"[usize::from(*kind) % 12];
                match answer.take(kind, body) {
                    Ok(Step::More) => {}
                    Ok(Step::Ready(_)) | Err(_) => return,
                }
            }
            answer.cut_short(Failure::closed());
        });
    }
}
