//! The forwarding of bytes between clients and the server, with the delay before each request.

use super::cost::Entrance;
use base::Random;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{Read, Result, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

const CHUNK: usize = 1 << 16;

/// Accept connections on all entrances (listening addresses) and forward their bytes to the server, all on this one
/// thread. Each entrance belongs to one variant of the experiment. If each entrance had its own thread, one of them
/// could be on a faster CPU for the whole run, which would favour its variant. Errors: polling the sockets failed.
pub fn forward_all(entrances: &[(TcpListener, Arc<Entrance>)], server: SocketAddr, mut seed: Random) -> Result<()> {
    let mut connections: Vec<Connection> = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let listeners = entrances.iter().map(|(listener, _)| PollFd::new(listener, PollFlags::IN));
        let streams = connections.iter().flat_map(Connection::watched);
        let mut watched: Vec<_> = listeners.chain(streams).collect();
        poll(&mut watched, None)?;
        // A stream that has ended or failed is also ready. A read then returns the end or the error.
        let ready: Vec<_> = watched.iter().map(|each| !each.revents().is_empty()).collect();
        let (at_entrances, of_connections) = ready.split_at(entrances.len());
        let mut of_connections = of_connections.chunks(2);
        connections.retain_mut(|connection| {
            let Some(&[client_ready, server_ready]) = of_connections.next() else { return true };
            // Errors of a connection are not reported: the client sees that its connection ends.
            connection.forward(client_ready, server_ready, &mut chunk).unwrap_or(false)
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
    answer_pending: bool,
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
        Ok(Connection { client, server, entrance: Arc::clone(entrance), random, answer_pending: false })
    }

    fn watched(&self) -> [PollFd<'_>; 2] {
        [PollFd::new(&self.client, PollFlags::IN), PollFd::new(&self.server, PollFlags::IN)]
    }

    /// Forward the bytes that have arrived: from the client if `client_ready`, from the server if `server_ready`.
    /// Before each request, add the delay. A request begins with the first bytes that the client sends at the start of
    /// the connection or after an answer. Further bytes before the next answer belong to the same request. Return
    /// whether the connection is still open.
    fn forward(&mut self, client_ready: bool, server_ready: bool, chunk: &mut [u8]) -> Result<bool> {
        if server_ready {
            let length = self.server.read(chunk)?;
            self.answer_pending = false;
            self.client.write_all(&chunk[..length])?;
            if length == 0 {
                return Ok(false);
            }
        }
        if client_ready {
            let length = self.client.read(chunk)?;
            if length == 0 {
                return Ok(false);
            }
            if !self.answer_pending {
                self.entrance.delay(&mut self.random);
                self.answer_pending = true;
            }
            self.server.write_all(&chunk[..length])?;
        }
        Ok(true)
    }
}
