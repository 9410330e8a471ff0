//! Connections over TCP, plain or with TLS. One type, [`Stream`], represents both kinds.

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

/// The transport of an arm (one variant of the experiment). All threads share the TLS settings.
#[derive(Clone, Debug)]
pub enum Transport {
    Plain,
    Tls(Arc<TlsClient>),
}

impl Transport {
    pub fn new(settings: &settings::Transport) -> Result<Self> {
        Self::with(settings, SslMode::empty(), None)
    }

    /// Create a transport for a client that offers this application protocol by ALPN (RFC 7301).
    pub fn speaking(settings: &settings::Transport, protocol: &'static str) -> Result<Self> {
        Self::with(settings, SslMode::empty(), Some(protocol))
    }

    /// Create a transport for thousands of mostly idle connections: OpenSSL frees the buffers of idle connections.
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

const SHARED_BUFFER_SIZE: usize = 64 * 1024;

thread_local! {
    /// The receive buffer that all connections of a thread share. Thousands of idle connections then need no buffers.
    static SHARED_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; SHARED_BUFFER_SIZE]);
}

/// A connection, plain or encrypted.
pub struct Stream {
    layer: Layer,
}

enum Layer {
    Plain(Tcp),
    Tls(SslStream<Tcp>),
}

/// The outcome of one attempt to read or write.
enum Attempt {
    Done(usize),
    WantsReadable,
    WantsWritable,
}

impl Stream {
    /// Connect to the first of the host's addresses that accepts the connection. Record the phases `resolve` (if the
    /// host is a name) and `tcp` in `timeline`.
    /// Errors: class `resolve` if the name has no address, otherwise the error of the last address that was tried.
    pub async fn connect(reactor: &Rc<Reactor>, address: &Address, timeline: &mut Timeline) -> Result<Self> {
        timeline.start(Traffic::default());
        let addresses = match address.literal() {
            Some(known) => vec![known],
            None => {
                let resolved = resolve(reactor, address.host(), address.port()).await?;
                timeline.end_phase(Phase::Resolve, Traffic::default());
                resolved
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

    /// Connect to an address that is already resolved, and record the phase `tcp`.
    pub async fn reach(reactor: &Rc<Reactor>, address: SocketAddr, timeline: &mut Timeline) -> Result<Self> {
        timeline.start(Traffic::default());
        Ok(Self::over(Tcp::connect(reactor, address).await?, timeline))
    }

    fn over(tcp: Tcp, timeline: &mut Timeline) -> Self {
        timeline.end_phase(Phase::Tcp, tcp.traffic());
        Stream { layer: Layer::Plain(tcp) }
    }

    /// Perform the TLS handshake and record the phase `tls`. Each database protocol begins TLS at a different time: in
    /// MySQL's protocol, for example, this function is called after the server's greeting.
    pub async fn secure(self, transport: &Transport, address: &Address, timeline: &mut Timeline) -> Result<Self> {
        let (Transport::Tls(client), Layer::Plain(tcp)) = (transport, self.layer) else {
            return Err(Failure::protocol("TLS is already active, or the transport has no TLS settings"));
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

    /// Return the TLS handshake's outcome, or None without TLS. Do not measure this call: it decodes the certificate.
    pub fn security(&self, transport: &Transport) -> Option<Security> {
        match (&self.layer, transport) {
            (Layer::Tls(stream), Transport::Tls(client)) => Some(client.security(stream.ssl())),
            _ => None,
        }
    }

    /// Return the data of channel binding `tls-server-end-point` (RFC 5929), which ties an authentication to this
    /// server's certificate. Return None without TLS, or if the certificate's signature names no hash algorithm.
    pub fn server_end_point(&self) -> Option<Vec<u8>> {
        match &self.layer {
            Layer::Plain(_) => None,
            Layer::Tls(stream) => tls::end_point(stream.ssl().peer_certificate()?.as_ref()),
        }
    }

    /// Return the application protocol that ALPN negotiated, or None if none was negotiated.
    pub fn agreed_protocol(&self) -> Option<&[u8]> {
        match &self.layer {
            Layer::Plain(_) => None,
            Layer::Tls(stream) => stream.ssl().selected_alpn_protocol(),
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.send_within(bytes, None).await
    }

    /// Send all bytes. Each wait until the peer accepts more bytes may take `timeout_ns` nanoseconds. If `timeout_ns`
    /// is None, the task's deadline applies instead.
    pub async fn send_within(&mut self, mut bytes: &[u8], timeout_ns: Option<u64>) -> Result<()> {
        while !bytes.is_empty() {
            match (self.layer.write(bytes)?, timeout_ns) {
                (Attempt::Done(sent), _) => bytes = &bytes[sent..],
                (wait, None) => self.wait(wait).await?,
                (wait, Some(timeout_ns)) => {
                    let deadline = self.tcp().watched().with_timeout(timeout_ns);
                    self.wait(wait).await?;
                    drop(deadline);
                }
            }
        }
        Ok(())
    }

    /// Wait for bytes, receive them and return their number. Return 0 at the end of the stream.
    pub async fn receive(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.layer.read_or_wait(buffer)? {
                Attempt::Done(received) => return Ok(received),
                wait => self.wait(wait).await?,
            }
        }
    }

    /// Receive without waiting. Return the number of bytes, 0 at the end of the stream, None if nothing has arrived.
    pub fn try_receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>> {
        match self.layer.read(buffer)? {
            Attempt::Done(received) => Ok(Some(received)),
            Attempt::WantsReadable | Attempt::WantsWritable => Ok(None),
        }
    }

    pub fn peer(&self) -> Option<IpAddr> {
        let address = rustix::net::getpeername(self.tcp().watched()).ok()?;
        SocketAddr::try_from(address?).ok().map(|address| address.ip())
    }

    /// Return whether an event has reported that the peer ended or reset the connection. Unread bytes may remain.
    pub fn is_over(&self) -> bool {
        self.tcp().watched().is_over()
    }

    /// Wait until `done` returns true. `done` is called after each event on one of the two streams.
    pub async fn wait_for(one: &Stream, other: &Stream, done: impl Fn() -> bool) -> Result<()> {
        Watched::wait_for_either([one.tcp().watched(), other.tcp().watched()], done).await
    }

    /// Receive bytes into the thread's shared buffer, call `look` with these bytes, and return its result. At the end
    /// of the stream, `look` gets an empty slice.
    pub async fn receive_for<T>(&mut self, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        // Other tasks of this thread use the same buffer, so it must not be borrowed while this task waits.
        loop {
            let attempt = SHARED_BUFFER.with_borrow_mut(|buffer| self.layer.read_or_wait(buffer))?;
            match attempt {
                Attempt::Done(received) => return Ok(SHARED_BUFFER.with_borrow(|buffer| look(&buffer[..received]))),
                wait => self.wait(wait).await?,
            }
        }
    }

    /// Return whether no event has reported new bytes or the end of the stream since the last read. Return false where
    /// this is unknown ([`Watched::is_quiet`]).
    pub fn is_quiet(&self) -> bool {
        self.tcp().watched().is_quiet()
    }

    /// Ask the kernel and return whether the connection is still usable: the peer has neither ended it nor sent
    /// application data. TLS's own messages, such as late session tickets, are consumed.
    pub async fn is_open(&mut self) -> bool {
        loop {
            if !matches!(self.layer.read(&mut [0; 1]), Ok(Attempt::WantsReadable)) {
                return false;
            }
            match self.tcp().peek() {
                Ok(None) => return true,
                Ok(Some(0)) | Err(_) => return false,
                // Bytes have arrived, but their event has not been handled yet. Wait for the event, then read them.
                Ok(Some(_)) => {
                    if self.tcp().watched().readable().await.is_err() {
                        return false;
                    }
                }
            }
        }
    }

    /// Close the connection without waiting for an answer. With TLS, send `close_notify` (RFC 8446, 6.1). Without this
    /// message OpenSSL would not resume the session.
    pub fn close(self) {
        if let Layer::Tls(mut stream) = self.layer {
            let _ = stream.shutdown();
        }
    }

    /// Try once to send `farewell`, the protocol's last message, and close the connection as [`Stream::close`] does.
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
        self.layer.tcp()
    }
}

impl Layer {
    fn tcp(&self) -> &Tcp {
        match self {
            Layer::Plain(tcp) => tcp,
            Layer::Tls(stream) => stream.get_ref(),
        }
    }

    fn tcp_mut(&mut self) -> &mut Tcp {
        match self {
            Layer::Plain(tcp) => tcp,
            Layer::Tls(stream) => stream.get_mut(),
        }
    }

    /// Read like `read`, but wait for bytes as [`Watched::receive_or_wait`] does.
    fn read_or_wait(&mut self, buffer: &mut [u8]) -> Result<Attempt> {
        self.tcp_mut().may_wait = true;
        let attempt = self.read(buffer);
        self.tcp_mut().may_wait = false;
        attempt
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<Attempt> {
        match self {
            Layer::Plain(tcp) => plain_attempt(tcp.read(buffer), Attempt::WantsReadable),
            Layer::Tls(stream) => tls_attempt(stream.ssl_read(buffer)),
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

/// A connected TCP socket, which counts its traffic.
pub struct Tcp {
    watched: Watched,
    traffic: Traffic,
    /// True if bytes were sent since bytes last arrived: the next arrival of bytes completes a round trip.
    awaiting: bool,
    /// True if `read` may wait until bytes arrive. Otherwise it returns at once.
    may_wait: bool,
}

impl Tcp {
    /// Connect with `TCP_NODELAY`, as drivers do.
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
        // In the TCP handshake the client sends the last packet. If the server speaks first, its greeting arrives one
        // round trip after that packet, so `awaiting` begins as true.
        Ok(Tcp { watched, traffic: Traffic { round_trips: 1, ..Traffic::default() }, awaiting: true, may_wait: false })
    }

    fn accepted(watched: Watched) -> Self {
        Tcp { watched, traffic: Traffic::default(), awaiting: false, may_wait: false }
    }

    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Peek without reading: return 1 if a byte has arrived, 0 at the end of the stream, None if nothing has arrived.
    pub fn peek(&self) -> Result<Option<usize>> {
        match rustix::net::recv(&self.watched, &mut [0; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, available)) => Ok(Some(available)),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub fn watched(&self) -> &Watched {
        &self.watched
    }
}

impl Read for Tcp {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let received = if self.may_wait { self.watched.receive_or_wait(buffer) } else { self.watched.receive(buffer) }?;
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
