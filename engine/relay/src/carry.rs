//! Connections: bytes of clients and of the server, as they come, and the cost before each request.

use crate::cost::Entrance;
use base::Random;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{Read, Result, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

const CHUNK: usize = 1 << 16;

/// Take connections at all entrances and carry them, all on this thread: one of its own would have a place on the machine that
/// is better or worse than the others', and an arm of a run would have that luck for as long as it lasts.
/// Errors: where it cannot wait for sockets.
pub fn carry_all(entrances: &[(TcpListener, Arc<Entrance>)], server: SocketAddr, mut seed: Random) -> Result<()> {
    let mut connections: Vec<Connection> = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let listeners = entrances.iter().map(|(listener, _)| PollFd::new(listener, PollFlags::IN));
        let streams = connections.iter().flat_map(Connection::watched);
        let mut watched: Vec<_> = listeners.chain(streams).collect();
        poll(&mut watched, None)?;
        // An end or an error of a stream is read from it too.
        let ready: Vec<_> = watched.iter().map(|each| !each.revents().is_empty()).collect();
        let (at_entrances, of_connections) = ready.split_at(entrances.len());
        let mut of_connections = of_connections.chunks(2);
        connections.retain_mut(|connection| {
            let Some(&[asks, answers]) = of_connections.next() else { return true };
            // Of its errors nobody has to know: the client sees that its connection ends.
            connection.carry(asks, answers, &mut chunk).unwrap_or(false)
        });
        for ((listener, entrance), _) in entrances.iter().zip(at_entrances).filter(|(_, ready)| **ready) {
            connections.extend(Connection::accept(listener, server, entrance, Random::new(seed.bits())));
        }
    }
}

struct Connection {
    client: TcpStream,
    server: TcpStream,
    entrance: Arc<Entrance>,
    random: Random,
    under_way: bool,
}

impl Connection {
    fn accept(
        listener: &TcpListener,
        server: SocketAddr,
        entrance: &Arc<Entrance>,
        random: Random,
    ) -> Result<Connection> {
        let (client, _) = listener.accept()?;
        let server = TcpStream::connect(server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        Ok(Connection { client, server, entrance: Arc::clone(entrance), random, under_way: false })
    }

    fn watched(&self) -> [PollFd<'_>; 2] {
        [PollFd::new(&self.client, PollFlags::IN), PollFd::new(&self.server, PollFlags::IN)]
    }

    /// Carry what has come; whether the connection stands. What the client sends first, or after an answer, is a request, in
    /// however many pieces it comes.
    fn carry(&mut self, asks: bool, answers: bool, chunk: &mut [u8]) -> Result<bool> {
        if answers {
            let length = self.server.read(chunk)?;
            self.under_way = false;
            self.client.write_all(&chunk[..length])?;
            if length == 0 {
                return Ok(false);
            }
        }
        if asks {
            let length = self.client.read(chunk)?;
            if length == 0 {
                return Ok(false);
            }
            if !self.under_way {
                self.entrance.charge(&mut self.random);
                self.under_way = true;
            }
            self.server.write_all(&chunk[..length])?;
        }
        Ok(true)
    }
}
