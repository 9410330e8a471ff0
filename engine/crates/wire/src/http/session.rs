//! An HTTP connection that sends one request at a time.

use super::Service;
use super::response::{Reader, Response};
use base::error::{Class, Failure, Result};
use base::{Random, clock};
use net::runtime::Reactor;
use net::transport::Stream;
use record::{Connection, Counts, Tally, Traffic};
use std::rc::Rc;
use std::sync::Arc;
use workload::{Ask, Requests};

/// The timeout in nanoseconds for a server that has announced (`Connection: close`) that it closes the connection.
const CLOSE_TIMEOUT_NS: u64 = 200_000_000;
/// The number of successful reads in a row after which other tasks run and the deadline is checked. Without this
/// limit, a body that arrives faster than it is read would block the other tasks and the check.
const READS_IN_A_ROW: u32 = 64;

pub struct Session {
    service: Arc<Service>,
    reactor: Rc<Reactor>,
    stream: Stream,
    reader: Reader,
    sent: u64,
    reuse: Reuse,
}

/// The state of a connection after a response: usable for another request or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reuse {
    Possible,
    ServerEnds,
    /// The connection cannot be used: the client has closed it, or its state is unknown.
    Over,
}

impl Session {
    pub fn new(service: Arc<Service>, reactor: Rc<Reactor>, stream: Stream) -> Self {
        Session { service, reactor, stream, reader: Reader::default(), sent: 0, reuse: Reuse::Possible }
    }

    pub fn is_plain_and_silent(&self) -> bool {
        self.stream.is_plain() && self.stream.traffic().bytes_received == 0
    }

    pub fn software(&self) -> Option<String> {
        self.reader.software()
    }

    async fn receive(&mut self) -> Result<Option<Response>> {
        let Session { stream, reader, .. } = self;
        let read = |bytes: &[u8]| match bytes {
            [] => reader.end().map(Some),
            bytes => match reader.take(bytes)? {
                Some((_, response_length)) if response_length < bytes.len() => {
                    Err(Failure::protocol("the server sent more than was requested"))
                }
                Some((response, _)) => Ok(Some(response)),
                None => Ok(None),
            },
        };
        let result = stream.receive_for(read).await;
        result.unwrap_or_else(|failure| if failure.class == Class::Closed { Err(reader.cut()) } else { Err(failure) })
    }

    fn check_status(&self, status: u16) -> Result<()> {
        if self.service.any_status || (200..300).contains(&status) {
            return Ok(());
        }
        Err(Failure::new(Class::Status, format!("the server answered with status {status}")))
    }
}

impl workload::Session for Session {
    type Tally = Responses;

    fn traffic(&self) -> Traffic {
        self.stream.traffic()
    }

    fn connection(&self) -> Connection {
        Connection { server: self.service.address.to_string(), security: self.stream.security(&self.service.transport) }
    }

    fn close(self) {
        self.stream.close();
    }

    async fn end(mut self) {
        if self.reuse == Reuse::ServerEnds {
            self.reactor.set_deadline(clock::now() + CLOSE_TIMEOUT_NS);
            // The result does not matter, because the connection is closed next.
            let _ = self.stream.receive_for(|_| ()).await;
        }
        self.close();
    }
}

impl Requests for Session {
    async fn request(&mut self, last: bool, tally: &mut Responses, mut arrived: impl FnMut(Traffic)) -> Result<()> {
        self.reuse = Reuse::Over;
        let reused = self.sent > 0;
        self.sent += 1;
        self.stream.send(self.service.request.bytes(last)).await?;
        let mut reads = 0;
        let response = loop {
            let result = self.receive().await;
            if reads == 0 {
                arrived(self.stream.traffic());
            }
            if let Some(response) = result? {
                break response;
            }
            reads += 1;
            if reads % READS_IN_A_ROW == 0 {
                self.reactor.yield_now().await?;
            }
        };
        self.reuse = match response.keep_alive {
            true if last => Reuse::Over,
            true => Reuse::Possible,
            false => Reuse::ServerEnds,
        };
        tally.count(&response, reused, response.body_bytes == self.service.first_response.body_length);
        self.check_status(response.status)
    }

    fn may_go_on(&self) -> bool {
        self.reuse == Reuse::Possible
    }

    async fn is_still_open(&mut self) -> bool {
        self.stream.is_quiet() || self.is_open().await
    }

    async fn is_open(&mut self) -> bool {
        self.stream.is_open().await
    }
}

impl Ask for Session {
    type About = ();

    async fn ask(&mut self, _about: &(), _random: &mut Random, tally: &mut Responses) -> Result<()> {
        self.request(true, tally, |_| {}).await
    }

    async fn ask_and_go_on(&mut self, _about: &(), _random: &mut Random, tally: &mut Responses) -> Result<()> {
        self.request(false, tally, |_| {}).await
    }
}

/// The counts of the complete responses that one worker has received, including error responses such as 500. Bytes are
/// counted as the application sees them, without TLS.
#[derive(Debug, Default)]
pub struct Responses {
    statuses: Vec<(u16, u64)>,
    reused: u64,
    bytes: u64,
    pub body_bytes: u64,
    other_length: u64,
}

impl Responses {
    /// Count a response. `reused` means that the connection had already carried another request, `usual` that the body
    /// is as long as that of the server's first response.
    pub fn count(&mut self, response: &Response, reused: bool, usual: bool) {
        match self.statuses.iter_mut().find(|(known, _)| *known == response.status) {
            Some((_, count)) => *count += 1,
            None => self.statuses.push((response.status, 1)),
        }
        self.reused += u64::from(reused);
        self.bytes += response.bytes;
        self.body_bytes += response.body_bytes;
        self.other_length += u64::from(!usual);
    }
}

impl Tally for Responses {
    fn add_to(&self, counts: &mut Counts) {
        for (status, count) in &self.statuses {
            counts.add(("http.status", *status), *count);
        }
        counts.add("http.reused", self.reused);
        counts.add("http.response_bytes", self.bytes);
        counts.add("http.body_bytes", self.body_bytes);
        counts.add("http.other_length", self.other_length);
    }
}
