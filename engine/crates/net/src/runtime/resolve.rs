//! Names to addresses. `getaddrinfo` blocks, so it runs on a thread of its own: the other workers of this thread go on,
//! and the operation's deadline holds.

use super::{Reactor, Watched};
use base::error::{Class, Failure, Result};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;

/// All addresses of a host, in the order the system prefers them; never empty.
/// Errors: `resolve` where the name has no address, `timeout` at the task's deadline.
pub async fn resolve(reactor: &Rc<Reactor>, host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let name = host.to_owned();
    let lookup = std::thread::Builder::new().name("resolve".into()).spawn(move || {
        let found = (name.as_str(), port).to_socket_addrs().map(Vec::from_iter);
        // Closing our end is the message; there is no other.
        drop(theirs);
        found
    })?;
    Watched::new(reactor, ours)?.readable().await?;
    let found = lookup.join().unwrap_or_else(|_| Err(io::Error::other("the resolver failed")));
    match found {
        Ok(addresses) if !addresses.is_empty() => Ok(addresses),
        Ok(_) => Err(Failure::new(Class::Resolve, format!("the name {host} has no address"))),
        Err(error) => Err(Failure::new(Class::Resolve, format!("the name {host} has no address: {error}"))),
    }
}
