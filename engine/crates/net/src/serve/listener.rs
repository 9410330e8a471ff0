//! One thread's share of a listener.

use super::sockets::SOCKET_FLAGS;
use super::{Counters, Server};
use crate::runtime::{Reactor, Watched};
use crate::transport::Stream;
use base::clock;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::accept_with;
use std::rc::Rc;
use std::sync::Arc;

/// In nanoseconds; until then another connection may have ended and left its descriptor.
const OUT_OF_DESCRIPTORS_PAUSE: u64 = 10_000_000;

/// A socket that takes connections, and what becomes of them.
pub struct Listener<S: Server> {
    socket: OwnedFd,
    server: S,
    counters: Arc<S::Counters>,
}

impl<S: Server> Listener<S> {
    pub fn new(socket: OwnedFd, server: S) -> Self {
        Listener { socket, server, counters: Arc::default() }
    }

    pub fn counters(&self) -> Arc<S::Counters> {
        self.counters.clone()
    }

    /// Take connections for ever; each is a task of its own.
    pub async fn take_all(self, reactor: Rc<Reactor>) {
        let socket = Watched::new(&reactor, self.socket).expect("a socket can be watched");
        loop {
            socket.readable().await.expect("listening has no deadline");
            match accept_with(&socket, SOCKET_FLAGS) {
                Ok(accepted) => {
                    self.counters.connection();
                    // Where the kernel cannot watch one more, this connection ends, and the others go on.
                    let Ok(watched) = Watched::socket(&reactor, accepted) else { continue };
                    let stream = Stream::accepted(watched);
                    reactor.spawn(self.server.clone().serve(stream, reactor.clone(), self.counters.clone()));
                }
                Err(Errno::AGAIN) => socket.drained(),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    reactor.sleep_until(clock::now() + OUT_OF_DESCRIPTORS_PAUSE).await;
                }
                // accept(2): what went wrong with this connection already is told here, and concerns no other.
                Err(_) => {}
            }
        }
    }
}
