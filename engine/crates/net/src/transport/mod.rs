//! How bytes go: plain or under TLS, behind one [`Stream`] so that a protocol does not know which.

mod address;
mod library;
mod tls;

pub use address::Address;
pub use library::library;
pub use tls::{Handshake, TlsClient, TlsServer};

use crate::runtime::resolve::resolve;
use crate::runtime::{Reactor, Watched};
use crate::settings;
use base::error::{Failure, Result};
use openssl::ssl::{ErrorCode, SslMode, SslStream};
use record::{Phase, Security, Timeline, Traffic};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, ipproto, sockopt};
use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// How the connections of an arm are made; TLS settings are shared by all threads.
#[derive(Clone, Debug)]
pub enum Transport {
    Plain,
    Tls(Arc<TlsClient>),
}

impl Transport {
    pub fn new(settings: &settings::Transport) -> Result<Self> {
        Self::with(settings, SslMode::empty(), None)
    }

    /// As `new`, for a protocol that names itself while TLS begins (RFC 7301).
    pub fn speaking(settings: &settings::Transport, protocol: &'static str) -> Result<Self> {
        Self::with(settings, SslMode::empty(), Some(protocol))
    }

    /// As `new`, for thousands of connections most of which are idle: their 16 KiB of buffers are given back meanwhile.
    pub fn for_many(settings: &settings::Transport) -> Result<Self> {
        Self::with(settings, SslMode::RELEASE_BUFFERS, None)
    }

    fn with(settings: &settings::Transport, mode: SslMode, protocol: Option<&str>) -> Result<Self> {
        match settings {
            settings::Transport::Plain {} => Ok(Transport::Plain),
            settings::Transport::Tls(settings) => {
                Ok(Transport::Tls(Arc::new(TlsClient::new(settings, mode, protocol)?)))
            }
        }
    }
}

/// What one read takes at most, from a connection whose data nobody keeps.
const ROOM: usize = 64 * 1024;

thread_local! {
    /// Shared by all connections of a thread: thousands of idle ones need no room of their own.
    static SHARED_ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; ROOM]);
}

/// A connection, plain or encrypted.
pub struct Stream {
    layer: Layer,
}

enum Layer {
    Plain(Tcp),
    Tls(SslStream<Tcp>),
}

/// What a layer did with an attempt to read or write without blocking.
enum Attempt {
    Done(usize),
    WantsReadable,
    WantsWritable,
}

impl Stream {
    /// Connect to the first of the host's addresses that answers, marking `resolve` (for a name) and `tcp`.
    /// Errors: `resolve`, or that of the last address tried.
    pub async fn connect(reactor: &Rc<Reactor>, address: &Address, timeline: &mut Timeline) -> Result<Self> {
        timeline.start(Traffic::default());
        let addresses = match address.literal() {
            Some(known) => vec![known],
            None => {
                let found = resolve(reactor, address.host(), address.port()).await?;
                timeline.end_phase(Phase::Resolve, Traffic::default());
                found
            }
        };
        let mut outcome = Err(Failure::closed());
        for socket_address in addresses {
            outcome = Tcp::connect(reactor, socket_address).await;
            if outcome.is_ok() {
                break;
            }
        }
        Ok(Self::over(outcome?, timeline))
    }

    pub async fn reach(reactor: &Rc<Reactor>, address: SocketAddr, timeline: &mut Timeline) -> Result<Self> {
        timeline.start(Traffic::default());
        Ok(Self::over(Tcp::connect(reactor, address).await?, timeline))
    }

    fn over(tcp: Tcp, timeline: &mut Timeline) -> Self {
        timeline.end_phase(Phase::Tcp, tcp.traffic());
        Stream { layer: Layer::Plain(tcp) }
    }

    /// Go on under TLS, marking `tls`, where the transport says so. The protocol decides when: MySQL after a greeting.
    pub async fn secure(self, transport: &Transport, address: &Address, timeline: &mut Timeline) -> Result<Self> {
        let (Transport::Tls(client), Layer::Plain(tcp)) = (transport, self.layer) else {
            return Err(Failure::protocol("TLS was asked for twice, or without settings"));
        };
        let stream = Stream { layer: Layer::Tls(client.handshake(tcp, address).await?) };
        timeline.end_phase(Phase::Tls, stream.traffic());
        Ok(stream)
    }

    pub fn is_plain(&self) -> bool {
        matches!(self.layer, Layer::Plain(_))
    }

    pub fn traffic(&self) -> Traffic {
        self.tcp().traffic()
    }

    /// What the handshake agreed on; None for plain. Not for the measured path: it decodes the certificate.
    pub fn security(&self, transport: &Transport) -> Option<Security> {
        match (&self.layer, transport) {
            (Layer::Tls(stream), Transport::Tls(client)) => Some(client.security(stream.ssl())),
            _ => None,
        }
    }

    /// What ties a proof of who we are to this very server (channel binding `tls-server-end-point`, RFC 5929); None where
    /// there is no TLS, or its certificate's signature names no hash.
    pub fn server_end_point(&self) -> Option<Vec<u8>> {
        match &self.layer {
            Layer::Plain(_) => None,
            Layer::Tls(stream) => tls::end_point(stream.ssl().peer_certificate()?.as_ref()),
        }
    }

    pub fn agreed_protocol(&self) -> Option<&[u8]> {
        match &self.layer {
            Layer::Plain(_) => None,
            Layer::Tls(stream) => stream.ssl().selected_alpn_protocol(),
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.send_within(bytes, None).await
    }

    /// As `send`, to an end that takes something within so many nanoseconds, again and again; without them the task's own
    /// deadline holds, which otherwise does not.
    pub async fn send_within(&mut self, mut bytes: &[u8], timeout_ns: Option<u64>) -> Result<()> {
        while !bytes.is_empty() {
            match (self.layer.write(bytes)?, timeout_ns) {
                (Attempt::Done(sent), _) => bytes = &bytes[sent..],
                (wait, None) => self.wait(wait).await?,
                (wait, Some(timeout_ns)) => {
                    let within = self.tcp().watched().within(timeout_ns);
                    self.wait(wait).await?;
                    drop(within);
                }
            }
        }
        Ok(())
    }

    /// Receive what is there, at least one byte; 0 is the end of the stream.
    pub async fn receive(&mut self, room: &mut [u8]) -> Result<usize> {
        loop {
            match self.layer.read(room)? {
                Attempt::Done(received) => return Ok(received),
                wait => self.wait(wait).await?,
            }
        }
    }

    /// Receive what is there now: 0 is the end of the stream, None nothing yet.
    pub fn try_receive(&mut self, room: &mut [u8]) -> Result<Option<usize>> {
        match self.layer.read(room)? {
            Attempt::Done(received) => Ok(Some(received)),
            Attempt::WantsReadable | Attempt::WantsWritable => Ok(None),
        }
    }

    pub fn peer(&self) -> Option<IpAddr> {
        let address = rustix::net::getpeername(self.tcp().watched()).ok()?;
        SocketAddr::try_from(address?).ok().map(|address| address.ip())
    }

    /// Whether the other side has ended or broken it, as far as this thread has been told; what it sent before may still be
    /// read.
    pub fn is_over(&self) -> bool {
        self.tcp().watched().is_over()
    }

    /// Wait until this holds. It is looked at whenever something has happened to one of the two.
    pub async fn wait_for(one: &Stream, other: &Stream, holds: impl Fn() -> bool) -> Result<()> {
        Watched::until([one.tcp().watched(), other.tcp().watched()], holds).await
    }

    /// As `receive`, into room that the thread's connections share, for what is looked at once: no bytes are the end of
    /// the stream.
    pub async fn receive_for<T>(&mut self, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        // Borrowed within a turn only, never while it waits.
        loop {
            let attempt = SHARED_ROOM.with_borrow_mut(|room| self.layer.read(room))?;
            match attempt {
                Attempt::Done(received) => return Ok(SHARED_ROOM.with_borrow(|room| look(&room[..received]))),
                wait => self.wait(wait).await?,
            }
        }
    }

    /// Whether nothing has come since it was last read, as far as this thread has been told.
    pub fn is_quiet(&self) -> bool {
        !self.tcp().watched().is_readable()
    }

    /// Whether the other side still holds it and has said nothing unasked: the kernel is asked. TLS's own messages, such as
    /// late tickets, are taken in.
    pub async fn is_open(&mut self) -> bool {
        loop {
            if !matches!(self.layer.read(&mut [0; 1]), Ok(Attempt::WantsReadable)) {
                return false;
            }
            match self.tcp().peek() {
                Ok(None) => return true,
                Ok(Some(0)) | Err(_) => return false,
                // It is there, and the event that says so is still to be taken.
                Ok(Some(_)) => {
                    if self.tcp().watched().readable().await.is_err() {
                        return false;
                    }
                }
            }
        }
    }

    /// Say goodbye without waiting for an answer. With TLS a `close_notify` (RFC 8446, 6.1): without one OpenSSL holds
    /// the session for broken and will not resume it.
    pub fn close(self) {
        if let Layer::Tls(mut stream) = self.layer {
            let _ = stream.shutdown();
        }
    }

    /// As `close`, after these few last bytes of the protocol's own. They are tried once: nobody waits for them to fit.
    pub fn close_with(mut self, farewell: &[u8]) {
        let _ = self.layer.write(farewell);
        self.close();
    }

    async fn wait(&self, attempt: Attempt) -> Result<()> {
        match attempt {
            Attempt::WantsWritable => self.tcp().watched().writable().await,
            _ => self.tcp().watched().readable().await,
        }
    }

    fn tcp(&self) -> &Tcp {
        match &self.layer {
            Layer::Plain(tcp) => tcp,
            Layer::Tls(stream) => stream.get_ref(),
        }
    }
}

impl Layer {
    fn read(&mut self, room: &mut [u8]) -> Result<Attempt> {
        match self {
            Layer::Plain(tcp) => plain_attempt(tcp.read(room), Attempt::WantsReadable),
            Layer::Tls(stream) => tls_attempt(stream.ssl_read(room)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<Attempt> {
        match self {
            Layer::Plain(tcp) => plain_attempt(tcp.write(bytes), Attempt::WantsWritable),
            Layer::Tls(stream) => tls_attempt(stream.ssl_write(bytes)),
        }
    }
}

fn plain_attempt(result: io::Result<usize>, wait: Attempt) -> Result<Attempt> {
    match result {
        Ok(count) => Ok(Attempt::Done(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(wait),
        Err(error) => Err(error.into()),
    }
}

fn tls_attempt(result: std::result::Result<usize, openssl::ssl::Error>) -> Result<Attempt> {
    match result {
        Ok(count) => Ok(Attempt::Done(count)),
        Err(error) => match error.code() {
            ErrorCode::WANT_READ => Ok(Attempt::WantsReadable),
            ErrorCode::WANT_WRITE => Ok(Attempt::WantsWritable),
            ErrorCode::ZERO_RETURN => Ok(Attempt::Done(0)),
            _ => Err(tls::broken(&error)),
        },
    }
}

/// A connected socket.
pub struct Tcp {
    watched: Watched,
    traffic: Traffic,
    /// Something was sent since the last arrival, so the next arrival ends a round trip.
    awaiting: bool,
}

impl Tcp {
    /// The three-way handshake, `TCP_NODELAY` on as drivers have it.
    pub async fn connect(reactor: &Rc<Reactor>, address: SocketAddr) -> Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let watched = Watched::new(reactor, socket)?;
        watched.writable().await?;
        sockopt::socket_error(&watched)??;
        // The handshake's last packet was ours too: what a server says upon it, unasked, comes a round trip later.
        Ok(Tcp { watched, traffic: Traffic { round_trips: 1, ..Traffic::default() }, awaiting: true })
    }

    fn accepted(watched: Watched) -> Self {
        Tcp { watched, traffic: Traffic::default(), awaiting: false }
    }

    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// What is there to be read, without reading it: None where there is nothing yet, 0 bytes where nothing will come.
    pub fn peek(&self) -> Result<Option<usize>> {
        match rustix::net::recv(&self.watched, &mut [0; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, there)) => Ok(Some(there)),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub fn watched(&self) -> &Watched {
        &self.watched
    }
}

impl Read for Tcp {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let received = self.watched.receive(room)?;
        self.traffic.bytes_received += received as u64;
        if received > 0 && std::mem::take(&mut self.awaiting) {
            self.traffic.round_trips += 1;
        }
        Ok(received)
    }
}

impl Write for Tcp {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.watched.send(bytes)?;
        self.traffic.bytes_sent += sent as u64;
        self.awaiting = true;
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
