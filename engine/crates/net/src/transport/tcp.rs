//! A non-blocking TCP connection that counts what goes over it. Plain protocols read and write it, and so does OpenSSL:
//! whatever layer lies above, bytes and round trips are those of the wire.

use crate::runtime::{Reactor, Watched};
use base::error::Result;
use record::Traffic;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, ipproto, sockopt};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::rc::Rc;

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
        let watched = Watched::socket(reactor, socket)?;
        watched.writable().await?;
        sockopt::socket_error(&watched)??;
        // The handshake's last packet was ours too: what a server says upon it, unasked, comes a round trip later.
        Ok(Tcp { watched, traffic: Traffic { round_trips: 1, ..Traffic::default() }, awaiting: true })
    }

    pub(super) fn accepted(watched: Watched) -> Self {
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

    /// To wait for more, or for room.
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
