//! A conversation: the connection of one client, and the connection to the server that the gateway opens for it.

use crate::counters::{Counters, Tally};
use crate::errors::ErrPacket;
use crate::plan::nanoseconds;
use crate::session::{Session, Waiting};
use crate::site::{Place, Site};
use base::clock;
use base::error::{Class, Failure, Result};
use net::runtime::Reactor;
use net::serve::Server;
use net::transport::Stream;
use record::Timeline;
use std::rc::Rc;
use std::sync::Arc;
use zeroize::optimization_barrier;

/// The initial sizes in bytes of the buffers for received data. A buffer grows for commands or answers that do not fit.
const FROM_CLIENT: usize = 4 * 1024;
const FROM_SERVER: usize = 32 * 1024;
/// The maximum size in bytes of an empty buffer. A buffer that has grown beyond this size is shrunk once it is empty.
const KEPT: usize = 1 << 20;

#[derive(Clone)]
pub struct Conversations(pub Arc<Site>);

impl Server for Conversations {
    type Counters = Counters;

    /// Serve one client until its connection ends. Errors are sent to the client, so nothing is returned.
    async fn serve(self, client: Stream, reactor: Rc<Reactor>, counters: Arc<Counters>) {
        let site = self.0;
        reactor.set_deadline(clock::now() + nanoseconds(site.shared.limits.login_seconds));
        // A client that has already closed its connection has no address.
        let Some(address) = client.peer() else { return };
        let opened = match site.admission.enter(address) {
            Ok(place) => {
                let server = Stream::connect(&reactor, &site.server, &mut Timeline::default()).await;
                server.map(|server| (place, server)).map_err(|failure| ErrPacket::unreachable(&failure))
            }
            Err(error) => Err(error),
        };
        match opened {
            Ok((place, server)) => {
                let session = Session::new(site.shared.clone(), site.tls.is_some());
                let conversation = Conversation {
                    reactor,
                    site,
                    counters,
                    session,
                    from_client: Inbox::new(FROM_CLIENT),
                    from_server: Inbox::new(FROM_SERVER),
                    to_client: Vec::new(),
                    to_server: Vec::new(),
                    is_logged_in: false,
                    place,
                    waiting: Waiting::Server,
                };
                conversation.run(Ends { client, server }).await;
            }
            Err(error) => {
                counters.error();
                refuse(client, &error).await;
            }
        }
    }
}

/// Send the error to the client instead of a greeting, and close the connection.
async fn refuse(mut client: Stream, error: &ErrPacket) {
    let mut packet = Vec::new();
    error.append(0, false, &mut packet);
    let _ = client.send(&packet).await;
    client.close();
}

struct Ends {
    client: Stream,
    server: Stream,
}

struct Conversation {
    reactor: Rc<Reactor>,
    site: Arc<Site>,
    counters: Arc<Counters>,
    session: Session,
    from_client: Inbox,
    from_server: Inbox,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    is_logged_in: bool,
    place: Place,
    /// The event that the session was waiting for when the deadline was last set.
    waiting: Waiting,
}

#[derive(PartialEq, Eq)]
enum Step {
    /// Bytes were processed. More may have arrived, so the next step follows at once.
    Worked,
    Idle,
    Over,
}

impl Conversation {
    async fn run(mut self, mut ends: Ends) {
        let mut outcome = Ok(());
        while !self.session.is_over() {
            match self.step(&mut ends).await {
                Ok(Step::Worked) => {}
                Ok(Step::Over) => break,
                Ok(Step::Idle) => outcome = self.wait(&ends).await,
                Err(failure) => outcome = Err(failure),
            }
            if outcome.is_err() {
                break;
            }
            if self.session.awaits_tls() {
                match self.secure(ends).await {
                    Ok(secured) => ends = secured,
                    Err(()) => return self.count(),
                }
            }
        }
        if let Err(failure) = outcome {
            if failure.class == Class::Timeout && self.waiting != Waiting::Server {
                self.session.time_out(self.waiting, &mut self.to_client);
            } else {
                self.session.fail(&failure.into(), &mut self.to_client);
            }
        }
        self.count();
        // Try once to send unsent bytes, but do not wait for a client that does not read or has disconnected.
        match self.to_client.is_empty() {
            true => ends.client.close(),
            false => ends.client.close_with(&self.to_client),
        }
        ends.server.close();
    }

    /// Process bytes that have arrived. The server's bytes come first, because the client is waiting for the answer.
    async fn step(&mut self, ends: &mut Ends) -> Result<Step> {
        match self.server_step(ends).await? {
            Step::Idle => self.client_step(ends).await,
            step => Ok(step),
        }
    }

    async fn server_step(&mut self, ends: &mut Ends) -> Result<Step> {
        let timeout_ns = self.timeout_ns();
        match ends.server.try_receive(self.from_server.room()) {
            Ok(None) => return Ok(Step::Idle),
            Ok(Some(0)) | Err(_) => {
                self.session.server_lost(&mut self.to_client);
                send(&mut ends.client, &mut self.to_client, timeout_ns).await?;
                return Ok(Step::Over);
            }
            Ok(Some(received)) => self.from_server.received(received),
        }
        let input = self.from_server.content();
        if self.session.is_open() {
            let count = input.len();
            ends.client.send(input).await?;
            self.from_server.processed(count);
            return Ok(Step::Worked);
        }
        let processed = self.session.from_server(input, &mut self.to_client, &mut self.to_server);
        self.from_server.processed(processed);
        // Update the counters before sending: a client may read the counters as soon as it has the answer.
        self.update_from_session();
        send(&mut ends.client, &mut self.to_client, timeout_ns).await?;
        send(&mut ends.server, &mut self.to_server, None).await?;
        Ok(Step::Worked)
    }

    async fn client_step(&mut self, ends: &mut Ends) -> Result<Step> {
        if !self.session.listens_to_client() {
            // While the server answers, do not read the client's next command. But if the client closes its connection
            // during the answer, end the conversation at once.
            return Ok(if ends.client.is_over() { Step::Over } else { Step::Idle });
        }
        // Process the bytes already received before receiving more.
        if !self.offer_to_session(ends).await? {
            let limit = self.session.client_read_limit(self.from_client.content());
            let room = self.from_client.room();
            let limit = limit.min(room.len());
            match ends.client.try_receive(&mut room[..limit])? {
                None => return Ok(Step::Idle),
                Some(0) => return Ok(Step::Over),
                Some(received) => self.from_client.received(received),
            }
            self.offer_to_session(ends).await?;
        }
        Ok(Step::Worked)
    }

    /// Pass received bytes of the client to the session, and send the resulting bytes to the server. Return whether the
    /// session processed any bytes.
    async fn offer_to_session(&mut self, ends: &mut Ends) -> Result<bool> {
        let input = self.from_client.content();
        if input.is_empty() {
            return Ok(false);
        }
        let processed = self.session.from_client(input, &mut self.to_server, &mut self.to_client);
        self.from_client.processed(processed);
        self.update_from_session();
        let timeout_ns = self.timeout_ns();
        let sent = send(&mut ends.server, &mut self.to_server, timeout_ns).await;
        send(&mut ends.client, &mut self.to_client, timeout_ns).await?;
        match sent {
            // The server has read nothing for the whole timeout, so it will not answer either.
            Err(failure) if failure.class == Class::Timeout => Err(failure),
            // Ignore any other failed write. A server that has closed the connection may have sent an error first, and
            // the next step can still receive this error.
            sent => Ok(sent.is_ok() && processed > 0),
        }
    }

    async fn wait(&mut self, ends: &Ends) -> Result<()> {
        // Set the deadline only when the session begins to wait for another event, because reading the clock takes
        // time. This happens once or twice for each command, and never in an open session (whose bytes pass unchanged).
        let waiting = self.session.waiting(!self.from_client.content().is_empty());
        if self.is_logged_in && self.waiting != waiting {
            self.waiting = waiting;
            let timeout_ns = waiting.timeout_ns(&self.site.shared.limits);
            self.reactor
                .set_deadline(timeout_ns.map_or(u64::MAX, |timeout_ns| clock::now().saturating_add(timeout_ns)));
        }
        let Ends { client, server } = ends;
        let listens = self.session.listens_to_client();
        let is_ready = || !server.is_quiet() || client.is_over() || listens && !client.is_quiet();
        Stream::wait_for(client, server, is_ready).await
    }

    /// Return the timeout in nanoseconds for one write. Return None during the login, which has a separate deadline,
    /// and for open sessions (whose bytes pass unchanged), which have no timeout.
    fn timeout_ns(&self) -> Option<u64> {
        let is_limited = self.is_logged_in && !self.session.is_open();
        is_limited.then(|| nanoseconds(self.site.shared.limits.write_seconds))
    }

    /// Start TLS on both connections. The client's handshake comes first, so that an error of the server's handshake
    /// can be sent to the client under TLS.
    async fn secure(&mut self, ends: Ends) -> std::result::Result<Ends, ()> {
        let Some(tls) = &self.site.tls else { return Err(()) };
        let Ok((mut client, handshake)) = ends.client.secure_as_server(tls).await else {
            self.counters.error();
            return Err(());
        };
        self.counters.handshake(handshake.version);
        let has_plain_rest = !self.from_client.content().is_empty() || !self.from_server.content().is_empty();
        let secured = if has_plain_rest {
            Err(Failure::protocol("a peer sent plaintext after the TLS request"))
        } else {
            ends.server.secure(&self.site.transport, &self.site.server, &mut Timeline::default()).await
        };
        match secured {
            Ok(server) => {
                self.session.secured();
                Ok(Ends { client, server })
            }
            Err(failure) => {
                self.session.fail(&ErrPacket::unreachable(&failure), &mut self.to_client);
                let _ = client.send(&self.to_client).await;
                client.close();
                Err(())
            }
        }
    }

    fn update_from_session(&mut self) {
        if !self.is_logged_in && self.session.is_logged_in() {
            self.is_logged_in = true;
            self.place.logged_in();
            self.reactor.set_deadline(u64::MAX);
            if !self.session.is_open() {
                self.from_client.erases = true;
                self.from_server.erases = true;
            }
        }
        self.count();
    }

    fn count(&mut self) {
        let tally = self.session.take_tally();
        if tally != Tally::default() {
            self.counters.add(tally);
        }
    }
}

/// Send the buffer's bytes, then erase and empty the buffer, also after an error.
async fn send(to: &mut Stream, written: &mut Vec<u8>, timeout_ns: Option<u64>) -> Result<()> {
    if written.is_empty() {
        return Ok(());
    }
    let sent = to.send_within(written, timeout_ns).await;
    erase(written);
    written.clear();
    // Release the additional memory that a long row needed.
    written.shrink_to(KEPT);
    sent
}

fn erase(bytes: &mut [u8]) {
    // `fill` is faster than `zeroize`, which writes single bytes. The barrier keeps the compiler from removing `fill`.
    bytes.fill(0);
    optimization_barrier(bytes);
}

/// A reusable buffer for received bytes. The bytes may be secret, so they are erased when the buffer is dropped. If
/// `erases` is true, [`Inbox::room`] also erases them when all of them are processed.
#[derive(Debug)]
struct Inbox {
    bytes: Vec<u8>,
    size: usize,
    start: usize,
    end: usize,
    /// The end of the part of the buffer that has been written to. Only this part must be erased.
    used: usize,
    erases: bool,
}

impl Inbox {
    fn new(size: usize) -> Self {
        Inbox { bytes: vec![0; size], size, start: 0, end: 0, used: 0, erases: false }
    }

    /// Return the free part of the buffer, which is never empty. The buffer grows only as bytes arrive, so a packet
    /// that only announces a large length allocates no memory.
    fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.erases || self.bytes.len() > KEPT {
                self.erase();
            }
            if self.bytes.len() > KEPT {
                self.bytes = vec![0; self.size];
            }
        } else if self.end == self.bytes.len() || self.start > self.bytes.len() / 2 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            let mut larger = vec![0; 2 * self.bytes.len()];
            larger[..self.end].copy_from_slice(&self.bytes[..self.end]);
            self.erase();
            (self.bytes, self.used) = (larger, self.end);
        }
        &mut self.bytes[self.end..]
    }

    fn received(&mut self, count: usize) {
        self.end += count;
        self.used = self.used.max(self.end);
    }

    fn processed(&mut self, count: usize) {
        self.start += count;
    }

    fn content(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn erase(&mut self) {
        erase(&mut self.bytes[..self.used]);
        self.used = 0;
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.erase();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn received_bytes_are_erased_once_they_are_processed(
            steps in prop::collection::vec((1..40_000_usize, 0..40_000_usize), 1..30),
        ) {
            let (mut inbox, mut expected, mut next) = (Inbox::new(64), Vec::new(), 0_u32);
            inbox.erases = true;
            for (count, processed) in steps {
                let room = inbox.room();
                let count = count.min(room.len());
                for place in &mut room[..count] {
                    next = next.wrapping_mul(31).wrapping_add(7);
                    *place = next as u8;
                    expected.push(*place);
                }
                inbox.received(count);
                prop_assert_eq!(inbox.content(), &expected[..]);
                let processed = processed.min(expected.len());
                inbox.processed(processed);
                expected.drain(..processed);
                prop_assert_eq!(inbox.content(), &expected[..]);
            }
            inbox.processed(expected.len());
            inbox.room();
            prop_assert!(inbox.bytes.iter().all(|byte| *byte == 0));
        }
    }
}
