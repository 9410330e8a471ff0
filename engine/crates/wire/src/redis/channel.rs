//! A connection on which commands go out and replies come in, in buffers that are used again.

use super::reply::{self, Element, Reader};
use crate::buffered::Buffered;
use base::error::{Class, Failure, Result};
use net::transport::Stream;

/// Commands out, replies in.
pub struct Channel {
    pub(super) io: Buffered,
}

impl Channel {
    /// Over a stream that has been made secure, where it should be.
    pub fn new(stream: Stream) -> Self {
        Channel { io: Buffered::new(stream) }
    }

    /// Where the next commands are to be written; then [`Channel::ask`] or [`Channel::ask_all`].
    pub fn request(&mut self) -> &mut Vec<u8> {
        self.io.outbox.clear();
        &mut self.io.outbox
    }

    /// Send the command that was written, and have its reply read: `read` gets the first element, and the rest.
    /// Errors: the server's; `protocol`, those of `read` and of a broken connection.
    pub async fn ask<T>(&mut self, read: impl FnOnce(Element<'_>, Reader<'_>) -> Result<T>) -> Result<T> {
        self.io.send().await?;
        match self.take(read).await {
            Err(failure) if failure.class != Class::Server => Err(failure),
            answered => self.io.check_idle().and(answered),
        }
    }

    /// As `ask`, of so many commands that go out in one write; `read` gets each reply. An error that the server answers one of
    /// them with is told once all have been answered: the connection is then ready for more.
    pub async fn ask_all(
        &mut self,
        commands: usize,
        mut read: impl FnMut(Element<'_>, Reader<'_>) -> Result<()>,
    ) -> Result<()> {
        self.io.send().await?;
        let mut outcome = Ok(());
        for _ in 0..commands {
            match self.take(&mut read).await {
                Err(failure) if failure.class != Class::Server => return Err(failure),
                answered => outcome = outcome.and(answered),
            }
        }
        self.io.check_idle().and(outcome)
    }

    async fn take<T>(&mut self, read: impl FnOnce(Element<'_>, Reader<'_>) -> Result<T>) -> Result<T> {
        let whole = loop {
            match reply::length(self.io.come())? {
                Some(length) => break self.io.take(length),
                None => self.io.fill().await?,
            }
        };
        let mut reader = Reader::new(self.io.at(whole));
        let first = reply::first(&mut reader)?;
        read(first, reader)
    }
}

/// For a command that is answered with `OK`.
pub fn ok(element: Element<'_>, _rest: Reader<'_>) -> Result<()> {
    match element {
        Element::Line(b"OK") => Ok(()),
        _ => Err(Failure::protocol("the answer is not OK")),
    }
}

pub fn number(element: Element<'_>, _rest: Reader<'_>) -> Result<i64> {
    let Element::Line(text) = element else { return Err(not_a_number()) };
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(not_a_number)
}

fn not_a_number() -> Failure {
    Failure::protocol("the answer is no number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_of_their_kind() {
        let rest = Reader::new(b"");
        ok(Element::Line(b"OK"), rest).unwrap();
        assert_eq!(number(Element::Line(b"-3"), rest).unwrap(), -3);
        for element in [Element::Line(b"QUEUED"), Element::Bytes(b"OK"), Element::Null, Element::Aggregate(0)] {
            assert_eq!(ok(element, rest).unwrap_err().class, Class::Protocol);
            assert_eq!(number(element, rest).unwrap_err().class, Class::Protocol);
        }
    }
}
