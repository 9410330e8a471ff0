//! How bytes go: plain or under TLS, behind one [`Stream`] so that a protocol does not know which.

mod address;
mod certificate;
mod tcp;
mod tls;
mod tls_server;

pub use address::Address;
pub use tcp::Tcp;
pub use tls::TlsClient;
pub use tls_server::{Handshake, TlsServer};

use crate::border;
use crate::error::{Failure, Result};
use crate::record::{Phase, Security, Traffic, Trail};
use crate::runtime::{Reactor, resolve::resolve};
use openssl::ssl::{ErrorCode, SslStream};
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::sync::Arc;

/// How the connections of an arm are made; TLS settings are shared by all threads.
#[derive(Clone, Debug)]
pub enum Transport {
    /// As they are.
    Plain,
    /// Under TLS.
    Tls(Arc<TlsClient>),
}

impl Transport {
    /// # Errors
    /// `tls_configuration`: a CA file that is none, a version this OpenSSL does not have.
    pub fn new(settings: &border::Transport) -> Result<Self> {
        match settings {
            border::Transport::Plain {} => Ok(Transport::Plain),
            border::Transport::Tls(settings) => Ok(Transport::Tls(Arc::new(TlsClient::new(settings)?))),
        }
    }
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
    ///
    /// # Errors
    /// `resolve`, or that of the last address tried.
    pub async fn connect(reactor: &Rc<Reactor>, address: &Address, trail: &mut Trail) -> Result<Self> {
        trail.start(Traffic::default());
        let addresses = match address.literal() {
            Some(known) => vec![known],
            None => {
                let found = resolve(reactor, address.host(), address.port()).await?;
                trail.lap(Phase::Resolve, Traffic::default());
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
        let tcp = outcome?;
        trail.lap(Phase::Tcp, tcp.traffic());
        Ok(Stream { layer: Layer::Plain(tcp) })
    }

    /// Go on under TLS, marking `tls`, where the transport says so. The protocol decides when: MySQL after a greeting.
    ///
    /// # Errors
    /// The `tls_*` classes, and those of a broken connection.
    pub async fn secure(self, transport: &Transport, address: &Address, trail: &mut Trail) -> Result<Self> {
        let (Transport::Tls(client), Layer::Plain(tcp)) = (transport, self.layer) else {
            return Err(Failure::protocol("TLS was asked for twice, or without settings"));
        };
        let stream = Stream { layer: Layer::Tls(client.handshake(tcp, address).await?) };
        trail.lap(Phase::Tls, stream.traffic());
        Ok(stream)
    }

    /// Whether its bytes go as they are.
    pub fn is_plain(&self) -> bool {
        matches!(self.layer, Layer::Plain(_))
    }

    /// What has gone over it so far, on the wire.
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

    /// Send all of it.
    ///
    /// # Errors
    /// Those of a broken connection; `timeout`.
    pub async fn send(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match self.layer.write(bytes)? {
                Attempt::Done(sent) => bytes = &bytes[sent..],
                wait => self.wait(wait).await?,
            }
        }
        Ok(())
    }

    /// Receive what is there, at least one byte; 0 is the end of the stream.
    ///
    /// # Errors
    /// Those of a broken connection; `timeout`.
    pub async fn receive(&mut self, room: &mut [u8]) -> Result<usize> {
        loop {
            match self.layer.read(room)? {
                Attempt::Done(received) => return Ok(received),
                wait => self.wait(wait).await?,
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
