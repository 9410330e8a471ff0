//! Sockets that listen.

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, ipproto, listen, socket_with, sockopt};
use std::io;
use std::net::SocketAddr;

/// How sockets are made and taken.
pub const SOCKET_FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
/// Connections that the kernel completes before they are taken: a burst of clients is no reason to lose a SYN. The
/// kernel's own bound, `net.core.somaxconn`, is 4096 as well.
const BACKLOG: i32 = 4096;
/// One listening socket for each thread, among which the kernel shares new connections out.
/// Errors: the address is not this machine's, or in use.
pub fn sockets(asked: SocketAddr, threads: usize) -> io::Result<Vec<OwnedFd>> {
    let alone = bound(asked, false)?;
    let address = address(&alone)?;
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

/// Where it listens.
pub fn address(socket: &OwnedFd) -> io::Result<SocketAddr> {
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
            let held = sockets(any, first).unwrap();
            assert_eq!(held.len(), first);
            let again = sockets(address(&held[0]).unwrap(), second).unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        }
    }

    #[test]
    fn all_threads_share_one_address() {
        let held = sockets("[::1]:0".parse().unwrap(), 3).unwrap();
        let addresses: Vec<_> = held.iter().map(|socket| address(socket).unwrap()).collect();
        assert_ne!(addresses[0].port(), 0);
        assert_eq!(addresses, [addresses[0]; 3]);
    }
}
