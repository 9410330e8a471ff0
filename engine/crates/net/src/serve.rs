//! What processes that serve connections have in common, whatever they serve: a [`Server`] for each listener, taken by
//! as many threads as the plan says.
//!
//! Every thread has its own socket for each listener, its own executor and its own counters: what threads share is the
//! server's own affair.

use crate::runtime::{Executor, Reactor, Watched};
use crate::transport::{Stream, TlsServer};
use base::clock;
use base::error::{Class, Failure, Result};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept_with, bind, getsockname, ipproto, listen, socket_with, sockopt,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::iter::Sum;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Of a thread, in bytes: a statement nested as deep as the gateway reads it takes some megabytes. Untouched pages cost nothing.
pub const STACK: usize = 32 << 20;

/// What becomes of a listener's connections; each thread has a clone.
pub trait Server: Clone + Send + 'static {
    /// Of one thread.
    type Counters: Counters;

    async fn serve(self, stream: Stream, reactor: Rc<Reactor>, counters: Arc<Self::Counters>);
}

/// One listener's on one thread, which alone writes them; another may read.
pub trait Counters: Default + Send + Sync + 'static {
    /// As they are told.
    type Told: Sum;

    /// A connection was taken, whatever becomes of it.
    fn connection(&self);

    fn read(&self) -> Self::Told;
}

/// PEM files; one may be both.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The leaf first.
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
}

impl TlsFiles {
    pub fn open(&self) -> Result<TlsServer> {
        TlsServer::new(&self.certificate_file, &self.key_file)
    }
}

/// Since the start.
#[derive(Debug, Serialize)]
pub struct AllCounters<T> {
    pub cpu_ns: u64,
    pub listeners: BTreeMap<SocketAddr, T>,
}

/// All listeners of a process, on all of its threads.
pub struct Listeners<C> {
    addresses: Vec<SocketAddr>,
    /// Of each thread, in the order of the addresses.
    counters: Vec<Vec<Arc<C>>>,
}

impl<C: Counters> Listeners<C> {
    /// Listen on all addresses before any of them is served; port 0 is any that is free. Threads are called `name`, and
    /// serve until the process ends.
    pub fn open<S: Server<Counters = C>>(asked: Vec<(SocketAddr, S)>, threads: usize, name: &str) -> Result<Self> {
        let mut addresses = Vec::new();
        let mut shares: Vec<Vec<Listener<S>>> = (0..threads).map(|_| Vec::new()).collect();
        for (address, server) in asked {
            let unheard = |error| Failure::new(Class::Plan, format!("cannot listen on {address}: {error}"));
            let sockets = listening_sockets(address, threads).map_err(unheard)?;
            addresses.push(local_address(&sockets[0])?);
            for (share, socket) in shares.iter_mut().zip(sockets) {
                share.push(Listener::new(socket, server.clone()));
            }
        }
        let counters = shares.iter().map(|share| share.iter().map(Listener::counters).collect()).collect();
        shares.into_iter().for_each(|share| start(share, name));
        Ok(Listeners { addresses, counters })
    }

    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn counters(&self) -> AllCounters<C::Told> {
        let total = |place: usize| self.counters.iter().map(|thread| thread[place].read()).sum();
        let listeners = self.addresses.iter().enumerate().map(|(place, address)| (*address, total(place)));
        AllCounters { cpu_ns: clock::process_cpu(), listeners: listeners.collect() }
    }
}

fn start<S: Server>(share: Vec<Listener<S>>, name: &str) {
    let work = move || {
        let outcome = Executor::new().and_then(|mut executor| {
            for listener in share {
                let reactor = executor.reactor().clone();
                executor.spawn(listener.take_all(reactor));
            }
            executor.run_to_end()
        });
        // Listeners never end, so it is an error that did.
        panic!("a thread that serves ended: {outcome:?}");
    };
    std::thread::Builder::new().name(name.into()).stack_size(STACK).spawn(work).expect("a thread can be started");
}

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

    pub async fn take_all(self, reactor: Rc<Reactor>) {
        let socket = Watched::new(&reactor, self.socket).expect("a socket can be watched");
        loop {
            socket.readable().await.expect("listening has no deadline");
            match accept_with(&socket, SOCKET_FLAGS) {
                Ok(accepted) => {
                    self.counters.connection();
                    // Where the kernel cannot watch one more, this connection ends, and the others go on.
                    let Ok(watched) = Watched::new(&reactor, accepted) else { continue };
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

/// How sockets are made and taken.
pub const SOCKET_FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
/// Connections that the kernel completes before they are taken: a burst of clients is no reason to lose a SYN. The
/// kernel's own bound, `net.core.somaxconn`, is 4096 as well.
const BACKLOG: i32 = 4096;
/// One listening socket for each thread, among which the kernel shares new connections out.
/// Errors: the address is not this machine's, or in use.
pub fn listening_sockets(asked: SocketAddr, threads: usize) -> io::Result<Vec<OwnedFd>> {
    let alone = bound(asked, false)?;
    let address = local_address(&alone)?;
    let sockets = if threads == 1 {
        vec![alone]
    } else {
        // Sockets that share a port share it with any other program of this user that does so too. The first was bound
        // alone to learn that there is none, and which port is free.
        drop(alone);
        (0..threads).map(|_| bound(address, true)).collect::<io::Result<_>>()?
    };
    for socket in &sockets {
        listen(socket, BACKLOG)?;
    }
    Ok(sockets)
}

pub fn local_address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    Ok(getsockname(socket)?.try_into()?)
}

fn bound(address: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SOCKET_FLAGS, Some(ipproto::TCP))?;
    // Connections of a process before us may still be in TIME_WAIT.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, shared)?;
    // Linux hands these on to the connections that are taken, which saves each two system calls. A client's machine that is
    // gone without a word would hold its connection for ever.
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_once_whatever_the_threads() {
        let any = "127.0.0.1:0".parse().unwrap();
        for (first, second) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            let held = listening_sockets(any, first).unwrap();
            assert_eq!(held.len(), first);
            let again = listening_sockets(local_address(&held[0]).unwrap(), second).unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        }
    }

    #[test]
    fn all_threads_share_one_address() {
        let held = listening_sockets("[::1]:0".parse().unwrap(), 3).unwrap();
        let addresses: Vec<_> = held.iter().map(|socket| local_address(socket).unwrap()).collect();
        assert_ne!(addresses[0].port(), 0);
        assert_eq!(addresses, [addresses[0]; 3]);
    }
}
