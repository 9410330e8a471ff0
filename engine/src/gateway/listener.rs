//! Sockets that take clients.

use super::conversation::{Site, converse};
use super::counters::Counters;
use crate::clock;
use crate::runtime::{Reactor, Watched};
use crate::transport::Stream;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, sockopt};
use std::rc::Rc;
use std::sync::Arc;

/// In nanoseconds; until then another connection may have ended and left its descriptor.
const OUT_OF_DESCRIPTORS_PAUSE: u64 = 10_000_000;
const ACCEPTED: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// One thread's share of a listener.
pub struct Listener {
    socket: OwnedFd,
    site: Arc<Site>,
    counters: Arc<Counters>,
}

impl Listener {
    /// Of a socket that listens.
    pub fn new(socket: OwnedFd, site: Arc<Site>) -> Self {
        // A client's machine that is gone without a word would hold its server's session for ever. Linux hands it on to the
        // connections that are taken; it is never refused.
        let _ = sockopt::set_socket_keepalive(&socket, true);
        Listener { socket, site, counters: Arc::default() }
    }

    /// What it will have done.
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Take clients for ever; each is a task of its own.
    pub async fn serve(self, reactor: Rc<Reactor>) {
        let socket = Watched::new(&reactor, self.socket).expect("a socket can be watched");
        loop {
            socket.readable().await.expect("listening has no deadline");
            match accept_with(&socket, ACCEPTED) {
                Ok(accepted) => {
                    self.counters.connection();
                    // Where the kernel cannot watch one more, this connection ends, and the others go on.
                    let Ok(watched) = Watched::new(&reactor, accepted) else { continue };
                    let stream = Stream::accepted(watched);
                    reactor.spawn(converse(stream, reactor.clone(), self.site.clone(), self.counters.clone()));
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
