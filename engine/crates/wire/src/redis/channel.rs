//! A connection on which commands go out and replies come in, in buffers that are used again.

use super::reply::{self, Element, Reader};
use base::error::{Class, Failure, Result};
use net::transport::Stream;
use record::{Phase, Timeline, Traffic};

/// Enough for a record of YCSB's and all around it; what is larger grows it once.
const FIRST_INBOX: usize = 4096;

/// Commands out, replies in.
pub struct Channel {
    stream: Stream,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
    /// What has come and was not read yet is `inbox[start..end]`.
    start: usize,
    end: usize,
}

impl Channel {
    /// Over a stream that has been made secure, where it should be.
    pub fn new(stream: Stream) -> Self {
        Channel { stream, outbox: Vec::new(), inbox: vec![0; FIRST_INBOX], start: 0, end: 0 }
    }

    /// What has gone over it so far.
    pub fn traffic(&self) -> Traffic {
        self.stream.traffic()
    }

    /// What it runs over.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// A phase ends here.
    pub fn end_phase(&self, phase: Phase, timeline: &mut Timeline) {
        timeline.end_phase(phase, self.traffic());
    }

    /// Where the next commands are to be written; then [`Channel::ask`] or [`Channel::ask_all`].
    pub fn request(&mut self) -> &mut Vec<u8> {
        self.outbox.clear();
        &mut self.outbox
    }

    /// Send the command that was written, and have its reply read: `read` gets the first element, and the rest.
    ///
    /// # Errors
    /// The server's; `protocol`, those of `read` and of a broken connection.
    pub async fn ask<T>(&mut self, read: impl FnOnce(Element<'_>, Reader<'_>) -> Result<T>) -> Result<T> {
        self.send().await?;
        match self.take(read).await {
            Err(failure) if failure.class != Class::Server => Err(failure),
            answered => self.check_idle().and(answered),
        }
    }

    /// As `ask`, of so many commands that go out in one write; `read` gets each reply. An error that the server answers one of
    /// them with is told once all have been answered: the connection is then ready for more.
    ///
    /// # Errors
    /// As `ask`.
    pub async fn ask_all(
        &mut self,
        commands: usize,
        mut read: impl FnMut(Element<'_>, Reader<'_>) -> Result<()>,
    ) -> Result<()> {
        self.send().await?;
        let mut outcome = Ok(());
        for _ in 0..commands {
            match self.take(&mut read).await {
                Err(failure) if failure.class != Class::Server => return Err(failure),
                answered => outcome = outcome.and(answered),
            }
        }
        self.check_idle().and(outcome)
    }

    /// Say goodbye without waiting. Redis needs no farewell of the protocol's.
    pub fn close(self) {
        self.stream.close();
    }

    async fn send(&mut self) -> Result<()> {
        self.stream.send(&self.outbox).await
    }

    async fn take<T>(&mut self, read: impl FnOnce(Element<'_>, Reader<'_>) -> Result<T>) -> Result<T> {
        let whole = loop {
            match reply::length(&self.inbox[self.start..self.end])? {
                Some(length) => break length,
                None => self.fill().await?,
            }
        };
        let mut reader = Reader::new(&self.inbox[self.start..self.start + whole]);
        self.start += whole;
        let first = reply::first(&mut reader)?;
        read(first, reader)
    }

    /// Nothing is there that was not read: we would be out of step.
    fn check_idle(&self) -> Result<()> {
        if self.start == self.end { Ok(()) } else { Err(Failure::protocol("more was answered than asked")) }
    }

    /// Receive more. The inbox grows with what has come, not with what a length claims will.
    async fn fill(&mut self) -> Result<()> {
        if self.start > 0 {
            self.inbox.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.inbox.len() {
            self.inbox.resize(self.end * 2, 0);
        }
        match self.stream.receive(&mut self.inbox[self.end..]).await? {
            0 => Err(Failure::closed()),
            received => {
                self.end += received;
                Ok(())
            }
        }
    }
}

/// For a command that is answered with `OK`.
///
/// # Errors
/// `protocol`.
pub fn ok(element: Element<'_>, _rest: Reader<'_>) -> Result<()> {
    match element {
        Element::Line(b"OK") => Ok(()),
        _ => Err(Failure::protocol("the answer is not OK")),
    }
}

/// For a command that is answered with a whole number.
///
/// # Errors
/// `protocol`.
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
