//! Servers: a program runs one [`Server`] for each listening address, on several threads.
//!
//! Each thread has its own executor, and for each address its own socket, counters and clone of the [`Server`]. The
//! threads share only what these clones share.

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

/// The stack size of a thread in bytes. The gateway that encrypts columns parses SQL, and a statement with
/// the maximum nesting needs several megabytes. Stack memory that is never used costs nothing.
pub const STACK: usize = 32 << 20;

/// The handler of the connections to one address. Each thread has a clone of it.
pub trait Server: Clone + Send + 'static {
    type Counters: Counters;

    async fn serve(self, stream: Stream, reactor: Rc<Reactor>, counters: Arc<Self::Counters>);
}

/// The counters of one address on one thread. Only this thread changes the counters. Other threads may read them.
pub trait Counters: Default + Send + Sync + 'static {
    /// The values of the counters. [`Listeners::counters`] sums them over the threads.
    type Totals: Sum;

    /// Count an accepted connection.
    fn connection(&self);

    fn read(&self) -> Self::Totals;
}

/// The PEM files of a certificate and its key. Both may be in the same file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The file with the server's certificate, followed by its chain.
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
}

impl TlsFiles {
    pub fn open(&self) -> Result<TlsServer> {
        TlsServer::new(&self.certificate_file, &self.key_file)
    }
}

/// The counters of all addresses since the start of the process.
#[derive(Debug, Serialize)]
pub struct AllCounters<T> {
    pub cpu_ns: u64,
    pub listeners: BTreeMap<SocketAddr, T>,
}

/// All listening addresses of a process, on all of its threads.
pub struct Listeners<C> {
    addresses: Vec<SocketAddr>,
    /// The outer index is the thread, the inner one the address.
    counters: Vec<Vec<Arc<C>>>,
}

impl<C: Counters> Listeners<C> {
    /// Listen on all addresses, then start threads called `name` that serve connections until the process ends. Port 0
    /// selects a free port. Errors: class `plan` (invalid configuration) if an address cannot be used.
    pub fn open<S: Server<Counters = C>>(servers: Vec<(SocketAddr, S)>, threads: usize, name: &str) -> Result<Self> {
        let mut addresses = Vec::new();
        let mut shares: Vec<Vec<Listener<S>>> = (0..threads).map(|_| Vec::new()).collect();
        for (address, server) in servers {
            let failure = |error| Failure::new(Class::Plan, format!("cannot listen on {address}: {error}"));
            let sockets = listening_sockets(address, threads).map_err(failure)?;
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

    pub fn counters(&self) -> AllCounters<C::Totals> {
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
                executor.spawn(listener.accept_all(reactor));
            }
            executor.run_to_end()
        });
        // Listeners never end, so waiting for events must have failed.
        panic!("a serving thread ended: {outcome:?}");
    };
    std::thread::Builder::new().name(name.into()).stack_size(STACK).spawn(work).expect("a thread can be started");
}

/// The pause in nanoseconds after `accept` fails for lack of descriptors or memory. Connections that end during
/// the pause free both.
const OUT_OF_DESCRIPTORS_PAUSE: u64 = 10_000_000;

/// A listening socket of one thread, and the server for its connections.
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

    pub async fn accept_all(self, reactor: Rc<Reactor>) {
        let socket = Watched::new(&reactor, self.socket).expect("a socket can be watched");
        loop {
            socket.readable().await.expect("listening has no deadline");
            match accept_with(&socket, SOCKET_FLAGS) {
                Ok(accepted) => {
                    self.counters.connection();
                    // If the kernel cannot watch another descriptor, only this connection is lost.
                    let Ok(watched) = Watched::new(&reactor, accepted) else { continue };
                    let stream = Stream::accepted(watched);
                    reactor.spawn(self.server.clone().serve(stream, reactor.clone(), self.counters.clone()));
                }
                Err(Errno::AGAIN) => socket.drained(),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    reactor.sleep_until(clock::now() + OUT_OF_DESCRIPTORS_PAUSE).await;
                }
                // accept(2) also returns errors of the new connection, which do not affect other connections.
                Err(_) => {}
            }
        }
    }
}

/// The flags of all sockets, both listening and accepted ones.
pub const SOCKET_FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
/// The maximum number of established connections that wait to be accepted: the kernel's default `net.core.somaxconn`.
/// With fewer, the kernel would drop SYN packets when many clients connect at once.
const BACKLOG: i32 = 4096;

/// Open listening sockets for an address, one for each thread. The kernel distributes new connections among them.
/// Errors: the address does not belong to this machine or is in use.
pub fn listening_sockets(requested: SocketAddr, threads: usize) -> io::Result<Vec<OwnedFd>> {
    let alone = bound(requested, false)?;
    let address = local_address(&alone)?;
    let sockets = if threads == 1 {
        vec![alone]
    } else {
        // With SO_REUSEPORT, binding would succeed even if another program of the same user uses the port with
        // SO_REUSEPORT. So first bind a socket without this option. Binding then fails if the port is in use, and
        // selects a free port for port 0.
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
    // Without SO_REUSEADDR, binding would fail while connections of an earlier process are still in TIME_WAIT.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, shared)?;
    // Accepted connections inherit these options, which saves two system calls for each connection. Without keepalive,
    // the connection of a client machine that has vanished would stay open forever.
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_in_use_is_refused_for_any_number_of_threads() {
        let any = "127.0.0.1:0".parse().unwrap();
        for (first, second) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            let held = listening_sockets(any, first).unwrap();
            assert_eq!(held.len(), first);
            let again = listening_sockets(local_address(&held[0]).unwrap(), second).unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        }
    }

    #[test]
    fn sockets_of_all_threads_share_one_address() {
        let held = listening_sockets("[::1]:0".parse().unwrap(), 3).unwrap();
        let addresses: Vec<_> = held.iter().map(|socket| local_address(socket).unwrap()).collect();
        assert_ne!(addresses[0].port(), 0);
        assert_eq!(addresses, [addresses[0]; 3]);
    }
}
