//! One client's connection and the server's behind it, from the first packet to the last.

use super::admission::{Admission, Place};
use super::counters::Counters;
use super::inbox::Inbox;
use super::limits::nanoseconds;
use super::messages::ErrPacket;
use super::session::{Progress, Session, Shared, Tally, Waiting};
use base::clock;
use base::error::{Class, Failure, Result};
use net::runtime::Reactor;
use net::serve::Server;
use net::transport::{Address, Stream, TlsServer, Transport};
use record::Timeline;
use std::rc::Rc;
use std::sync::Arc;

/// Initial sizes of the two inboxes: enough for most commands and for a good part of most answers. Larger packets grow them.
const FROM_CLIENT: usize = 4 * 1024;
const FROM_SERVER: usize = 32 * 1024;

/// The capacity that a write buffer keeps after a long row.
const KEPT: usize = 1 << 20;

/// The settings that all conversations of a listener share.
pub struct Site {
    /// The listener's TLS; None for plain clients.
    pub tls: Option<TlsServer>,
    /// The server behind the gateway.
    pub server: Address,
    /// The transport to that server.
    pub transport: Transport,
    /// The rules and limits.
    pub shared: Arc<Shared>,
    /// The counts of connections.
    pub admission: Arc<Admission>,
}

/// One listener's conversations.
#[derive(Clone)]
pub struct Conversations(pub Arc<Site>);

impl Server for Conversations {
    type Counters = Counters;

    /// Hold a conversation. The client itself gets its errors, so none is returned.
    async fn serve(self, stream: Stream, reactor: Rc<Reactor>, counters: Arc<Counters>) {
        converse(stream, reactor, self.0, counters).await;
    }
}

async fn converse(client: Stream, reactor: Rc<Reactor>, site: Arc<Site>, counters: Arc<Counters>) {
    reactor.set_deadline(clock::now() + nanoseconds(site.shared.limits.login_seconds));
    // A client that has gone already has no address.
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
            let conversation = Conversation::new(reactor, site, counters, place);
            conversation.hold(Ends { client, server }).await;
        }
        Err(error) => {
            counters.error();
            refuse(client, &error).await;
        }
    }
}

async fn refuse(mut client: Stream, why: &ErrPacket) {
    let mut packet = Vec::new();
    why.append(0, false, &mut packet);
    let _ = client.send(&packet).await;
    client.close();
}

/// The connections to the client and to the server.
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
    /// Buffers for everything that is not passed on unchanged.
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    is_logged_in: bool,
    place: Place,
    /// What the conversation waited for when its deadline was last set.
    waiting: Waiting,
}

/// The outcome of one turn of a conversation.
#[derive(PartialEq, Eq)]
enum Turn {
    /// Something was done, and there may be more to do.
    Worked,
    /// There was nothing to do.
    Idle,
    /// The conversation has ended.
    Over,
}

impl Conversation {
    fn new(reactor: Rc<Reactor>, site: Arc<Site>, counters: Arc<Counters>, place: Place) -> Self {
        let session = Session::new(site.shared.clone(), site.tls.is_some());
        Conversation {
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
        }
    }

    async fn hold(mut self, mut ends: Ends) {
        let mut outcome = Ok(());
        while !self.session.is_over() {
            match self.turn(&mut ends).await {
                Ok(Turn::Worked) => {}
                Ok(Turn::Over) => break,
                Ok(Turn::Idle) => outcome = self.wait(&ends).await,
                Err(failure) => outcome = Err(failure),
            }
            if outcome.is_err() {
                break;
            }
            if self.session.wants_tls() {
                match self.secure(ends).await {
                    Ok(secured) => ends = secured,
                    Err(()) => return self.account(),
                }
            }
        }
        if let Err(failure) = outcome {
            self.complain(&failure);
        }
        self.account();
        // Do not wait for a client that reads nothing or has gone.
        match self.to_client.is_empty() {
            true => ends.client.close(),
            false => ends.client.close_with(&self.to_client),
        }
        ends.server.close();
    }

    /// Tell the client why the conversation ends; a timeout by what it waited for.
    fn complain(&mut self, failure: &Failure) {
        if failure.class == Class::Timeout && self.waiting != Waiting::Server {
            self.session.late(self.waiting, &mut self.to_client);
        } else {
            self.session.fail(&ErrPacket::broken(failure), &mut self.to_client);
        }
    }

    /// Serve the server first, since the client waits for its answer.
    async fn turn(&mut self, ends: &mut Ends) -> Result<Turn> {
        match self.server_turn(ends).await? {
            Turn::Idle => self.client_turn(ends).await,
            turn => Ok(turn),
        }
    }

    async fn server_turn(&mut self, ends: &mut Ends) -> Result<Turn> {
        let received = match ends.server.try_receive(self.from_server.room()) {
            Ok(None) => return Ok(Turn::Idle),
            Ok(Some(0)) | Err(_) => {
                self.session.server_lost(&mut self.to_client);
                let timeout_ns = self.timeout_ns();
                ends.client.send_within(&self.to_client, timeout_ns).await?;
                self.to_client.clear();
                return Ok(Turn::Over);
            }
            Ok(Some(received)) => received,
        };
        self.from_server.received(received);
        let progress = self.session.from_server(self.from_server.come(), &mut self.to_client, &mut self.to_server);
        // Count before sending: a client may ask for the counters as soon as it has its answer.
        self.look_at_session();
        let timeout_ns = self.timeout_ns();
        send(&mut ends.client, &self.from_server, progress, &mut self.to_client, timeout_ns).await?;
        self.from_server.done(progress.taken);
        if !self.to_server.is_empty() {
            ends.server.send(&self.to_server).await?;
            self.to_server.clear();
        }
        Ok(Turn::Worked)
    }

    async fn client_turn(&mut self, ends: &mut Ends) -> Result<Turn> {
        if !self.session.listens_to_client() {
            // Commands that were sent ahead wait, but a client that has gone ends the conversation.
            return Ok(if ends.client.is_over() { Turn::Over } else { Turn::Idle });
        }
        // Process what has been received already before receiving more.
        if !self.offer_to_session(ends).await? {
            let most = self.session.wants_of_client(self.from_client.come());
            let room = self.from_client.room();
            let most = most.min(room.len());
            match ends.client.try_receive(&mut room[..most])? {
                None => return Ok(Turn::Idle),
                Some(0) => return Ok(Turn::Over),
                Some(received) => self.from_client.received(received),
            }
            self.offer_to_session(ends).await?;
        }
        Ok(Turn::Worked)
    }

    /// Give the session what has come from the client; return whether it took any.
    async fn offer_to_session(&mut self, ends: &mut Ends) -> Result<bool> {
        if self.from_client.come().is_empty() {
            return Ok(false);
        }
        let progress = self.session.from_client(self.from_client.come(), &mut self.to_server, &mut self.to_client);
        self.look_at_session();
        let timeout_ns = self.timeout_ns();
        let sent = send(&mut ends.server, &self.from_client, progress, &mut self.to_server, timeout_ns).await;
        self.from_client.done(progress.taken);
        if !self.to_client.is_empty() {
            ends.client.send_within(&self.to_client, timeout_ns).await?;
            self.to_client.clear();
        }
        match sent {
            // A server that reads nothing for so long will not answer either.
            Err(failure) if failure.class == Class::Timeout => Err(failure),
            // A server that has gone may have sent the reason, which is still to be received.
            sent => Ok(sent.is_ok() && progress.taken > 0),
        }
    }

    async fn wait(&mut self, ends: &Ends) -> Result<()> {
        self.limit_wait();
        let Ends { client, server } = ends;
        let listens = self.session.listens_to_client();
        let holds = || !server.is_quiet() || client.is_over() || listens && !client.is_quiet();
        Stream::wait_for(client, server, holds).await
    }

    /// The clock is looked at where something else is waited for than before: once or twice a command, and never for
    /// sessions without a guard.
    fn limit_wait(&mut self) {
        if !self.is_logged_in || !self.session.is_guarded() && self.waiting == Waiting::Server {
            return;
        }
        let waiting = match self.session.is_guarded() {
            true => self.session.waiting(!self.from_client.come().is_empty()),
            false => Waiting::Server,
        };
        if self.waiting != waiting {
            self.waiting = waiting;
            let timeout_ns = waiting.timeout_ns(&self.site.shared.limits);
            self.reactor
                .set_deadline(timeout_ns.map_or(u64::MAX, |timeout_ns| clock::now().saturating_add(timeout_ns)));
        }
    }

    /// In which an end must take something of what it is sent, in nanoseconds; None where that is not limited, or the
    /// login's end limits it.
    fn timeout_ns(&self) -> Option<u64> {
        let is_limited = self.is_logged_in && self.session.is_guarded();
        is_limited.then(|| nanoseconds(self.site.shared.limits.write_seconds))
    }

    /// Secure the client's side first, so that the client can be told what is wrong with the server's.
    async fn secure(&mut self, ends: Ends) -> std::result::Result<Ends, ()> {
        let Some(tls) = &self.site.tls else { return Err(()) };
        let Ok((mut client, made)) = ends.client.secure_as_server(tls).await else {
            self.counters.error();
            return Err(());
        };
        self.counters.handshake(made.version);
        let unsaid = self.from_client.come().is_empty() && self.from_server.come().is_empty();
        let secured = if unsaid {
            ends.server.secure(&self.site.transport, &self.site.server, &mut Timeline::default()).await
        } else {
            Err(Failure::protocol("something was said in plain behind the wish for TLS"))
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

    fn look_at_session(&mut self) {
        if !self.is_logged_in && self.session.is_logged_in() {
            self.is_logged_in = true;
            self.place.logged_in();
            self.reactor.set_deadline(u64::MAX);
            if self.session.is_guarded() {
                self.from_client.erase_at_once();
                self.from_server.erase_at_once();
            }
        }
        self.account();
    }

    fn account(&mut self) {
        let done = self.session.take_tally();
        if done != Tally::default() {
            self.counters.add(done);
        }
    }
}

/// Send what the session passes on: the input's own bytes, or what was written.
async fn send(
    to: &mut Stream,
    from: &Inbox,
    progress: Progress,
    written: &mut Vec<u8>,
    timeout_ns: Option<u64>,
) -> Result<()> {
    let sent = match progress.passed {
        0 if written.is_empty() => Ok(()),
        0 => to.send_within(written, timeout_ns).await,
        passed => to.send_within(&from.come()[..passed], timeout_ns).await,
    };
    written.clear();
    // Give back the memory of a long row.
    written.shrink_to(KEPT);
    sent
}
