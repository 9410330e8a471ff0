//! Resolution of host names. `getaddrinfo` blocks, so it runs on a separate thread while the other tasks continue.

use super::{Reactor, Watched};
use base::error::{Class, Failure, Result};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;

/// Return all addresses of a host, at least one, in the order that the system prefers.
/// Errors: class `resolve` if the name has no address, `timeout` at the task's deadline.
pub async fn resolve(reactor: &Rc<Reactor>, host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let name = host.to_owned();
    let lookup = std::thread::Builder::new().name("resolve".into()).spawn(move || {
        let addresses = (name.as_str(), port).to_socket_addrs().map(Vec::from_iter);
        // When this thread closes its end of the pipe, the waiting task wakes up.
        drop(theirs);
        addresses
    })?;
    Watched::new(reactor, ours)?.readable().await?;
    let addresses = lookup.join().unwrap_or_else(|_| Err(io::Error::other("the resolver failed")));
    match addresses {
        Ok(addresses) if !addresses.is_empty() => Ok(addresses),
        Ok(_) => Err(Failure::new(Class::Resolve, format!("the name {host} has no address"))),
        Err(error) => Err(Failure::new(Class::Resolve, format!("the name {host} has no address: {error}"))),
    }
}
