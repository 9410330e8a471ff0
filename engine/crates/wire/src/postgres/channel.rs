//! A connection on which messages go, in buffers that are used again; and the one place where answers are read, message by
//! message, up to ReadyForQuery.

use super::message::{self, HEADER, Reader, backend, frontend};
use crate::buffered::Buffered;
use base::error::{Class, Failure, Result};
use net::transport::Stream;
use std::ops::Range;

/// Messages out, messages in.
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

    /// The next message: its type and its body. What a server says unasked (notices, and settings that change) is passed over.
    pub async fn receive(&mut self) -> Result<(u8, &[u8])> {
        let (kind, body) = self.receive_at().await?;
        Ok((kind, self.io.at(body)))
    }

    /// Send what was written, and take all that comes up to ReadyForQuery; `each` looks at every row. The session is then
    /// ready for more, also after an error that the server has answered.
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

    /// Nothing is there that was not read, but what a server may say at any time: a notice, or why it ends the session. The
    /// next answer begins with it.
    pub fn check_idle(&self) -> Result<()> {
        match self.io.come().first() {
            None | Some(&backend::ERROR_RESPONSE) => Ok(()),
            Some(kind) if is_unasked(*kind) => Ok(()),
            Some(_) => Err(Failure::protocol("more was answered than asked")),
        }
    }

    pub fn close(mut self) {
        message::append(self.request(), frontend::TERMINATE, |_| ());
        self.io.close_with_outbox();
    }

    async fn receive_at(&mut self) -> Result<(u8, Range<usize>)> {
        loop {
            let come = self.io.come();
            match message::header(come)? {
                Some((kind, length)) if come.len() >= HEADER + length => {
                    self.io.take(HEADER);
                    let body = self.io.take(length);
                    if !is_unasked(kind) {
                        return Ok((kind, body));
                    }
                }
                _ => self.io.fill().await?,
            }
        }
    }
}

fn is_unasked(kind: u8) -> bool {
    matches!(kind, backend::NOTICE_RESPONSE | backend::PARAMETER_STATUS | backend::NOTIFICATION_RESPONSE)
}

/// An answer on its way. `each` looks at every row's body.
pub struct Answer<E> {
    each: E,
    outcome: Outcome,
    failure: Option<Failure>,
}

/// What an answer came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    pub commands: usize,
    pub rows: u64,
    /// Rows that commands say they were about: read, changed or written.
    pub changed: u64,
    /// A transaction is under way, or has failed and is to be ended.
    pub in_transaction: bool,
}

/// Whether an answer goes on.
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
                self.outcome.changed += message::rows_of_tag(body).unwrap_or(0);
            }
            backend::ERROR_RESPONSE => {
                self.failure.get_or_insert_with(|| message::failure(body));
            }
            backend::READY_FOR_QUERY => return self.ready(body).map(Step::Ready),
            backend::PARSE_COMPLETE | backend::BIND_COMPLETE | backend::NO_DATA | backend::ROW_DESCRIPTION => {}
            _ => return Err(Failure::protocol("a message has no place in the answer to a query")),
        }
        Ok(Step::More)
    }

    /// The connection broke: what the server has said before tells why.
    pub fn cut_short(self, failure: Failure) -> Failure {
        self.failure.map_or(failure, |said| Failure { class: Class::Closed, ..said })
    }

    /// `I`: idle; `T`: within a transaction; `E`: within one that has failed.
    fn ready(&mut self, body: &[u8]) -> Result<Result<Outcome>> {
        self.outcome.in_transaction = match body {
            b"I" => false,
            b"T" | b"E" => true,
            _ => return Err(Failure::protocol("a server is ready, and not in a state that there is")),
        };
        Ok(self.failure.take().map_or(Ok(self.outcome), Err))
    }
}

pub fn row(body: &[u8], columns: usize) -> Result<Reader<'_>> {
    let mut reader = Reader::new(body);
    if usize::try_from(reader.i16()?) == Ok(columns) {
        return Ok(reader);
    }
    Err(Failure::protocol("a row has another number of columns than was asked for"))
}

pub fn end(reader: Reader<'_>) -> Result<()> {
    if reader.is_empty() { Ok(()) } else { Err(Failure::protocol("a row holds more than its columns")) }
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
    fn an_answer_ends_when_the_server_is_ready() {
        let of_extended = [(b'1', &b""[..]), (b'2', b""), (b'T', b""), ROW, (b'C', b"SELECT 1\0"), READY];
        let one = Outcome { commands: 1, rows: 1, changed: 1, in_transaction: false };
        assert_eq!(answer(&of_extended).unwrap(), one);
        let begun = answer(&[(b'C', b"BEGIN\0"), (b'Z', b"T")]).unwrap();
        assert_eq!(begun, Outcome { commands: 1, in_transaction: true, ..Outcome::default() });
    }

    #[test]
    fn an_error_is_told_once_the_server_is_ready_for_more() {
        let failed = answer(&[(b'E', b"C42P01\0Mno table\0\0"), (b'E', b"C25P02\0Mlater\0\0"), READY]).unwrap_err();
        assert_eq!((failed.class, &failed.detail[..]), (Class::Server, "42P01: no table"));
    }

    /// The session is gone, whatever the error's own class.
    #[test]
    fn an_end_in_the_middle_is_told_in_the_servers_words() {
        assert_eq!(answer(&[(b'2', b""), ROW]).unwrap_err(), Failure::closed());
        let killed = answer(&[ROW, (b'E', b"C57P01\0Mterminating connection\0\0")]).unwrap_err();
        assert_eq!((killed.class, &killed.detail[..]), (Class::Closed, "57P01: terminating connection"));
        assert_eq!(answer(&[(b'E', b"C53300\0Mfull\0\0")]).unwrap_err().class, Class::Closed);
    }

    #[test]
    fn what_has_no_place_in_an_answer_is_refused() {
        for message in [(b'G', &b""[..]), (b'R', b"\0\0\0\0"), (b'Z', b""), (b'Z', b"X"), (b'K', b"")] {
            assert_eq!(answer(&[message]).unwrap_err().class, Class::Protocol, "{message:?}");
        }
    }

    #[test]
    fn a_row_has_the_columns_that_were_asked_for() {
        let mut reader = row(ROW.1, 1).unwrap();
        assert_eq!(reader.value().unwrap(), Some(&b"1"[..]));
        end(reader).unwrap();
        assert!(row(ROW.1, 2).is_err() && row(b"\xff\xff", 1).is_err() && row(b"\0", 1).is_err());
        assert!(end(row(b"\0\x01\0\0\0\x011", 1).unwrap()).is_err(), "not read yet");
    }

    /// Fuzzing: bytes that are cut into messages as a channel cuts them.
    #[test]
    fn fuzz_answers_of_arbitrary_messages() {
        bolero::check!().with_iterations(20_000).with_type().for_each(|messages: &Vec<(u8, Vec<u8>)>| {
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
