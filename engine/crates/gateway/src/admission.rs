//! Limits on connections: in total, from one address, and not logged in yet.

use super::limits::Limits;
use super::messages::ErrPacket;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bits of an IPv6 address that name its network.
const NETWORK: u32 = 64;

/// The counts of one listener's connections, on all its threads.
#[derive(Debug)]
pub struct Admission {
    limits: Limits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    connections: usize,
    logins: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A connection's place in the counts, freed when it is dropped.
#[derive(Debug)]
pub struct Place {
    admission: Arc<Admission>,
    address: IpAddr,
    is_logging_in: bool,
}

impl Admission {
    /// Create the counts without any connection.
    pub fn new(limits: Limits) -> Self {
        Admission { limits, taken: Mutex::default() }
    }

    /// Take a place for a connection from this address.
    ///
    /// # Errors
    /// The error for the client if a limit is reached.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Result<Place, ErrPacket> {
        let address = network(address);
        let Limits { connections, connections_an_address, logins, .. } = self.limits;
        let mut taken = self.taken();
        let of_address = taken.by_address.get(&address).copied().unwrap_or_default();
        for (count, limit, of) in [
            (taken.connections, connections, "connections"),
            (of_address, connections_an_address, "connections of one address"),
            (taken.logins, logins, "connections that are not logged in"),
        ] {
            if count >= limit {
                return Err(ErrPacket::too_many_connections(limit, of));
            }
        }
        taken.connections += 1;
        taken.logins += 1;
        *taken.by_address.entry(address).or_default() += 1;
        Ok(Place { admission: self.clone(), address, is_logging_in: true })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Count the connection as logged in.
    pub fn logged_in(&mut self) {
        if std::mem::take(&mut self.is_logging_in) {
            self.admission.taken().logins -= 1;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.logged_in();
        let mut taken = self.admission.taken();
        taken.connections -= 1;
        if let Some(count) = taken.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

/// Return what counts as one address: an IPv6 network, or an IPv4 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> NETWORK << NETWORK).into(),
        short => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn admission(connections: usize, connections_an_address: usize, logins: usize) -> Arc<Admission> {
        Arc::new(Admission::new(Limits { connections, connections_an_address, logins, ..Limits::default() }))
    }

    fn told(outcome: Result<Place, ErrPacket>) -> String {
        let mut out = Vec::new();
        outcome.unwrap_err().append(0, false, &mut out);
        assert_eq!(out[5..7], 1040_u16.to_le_bytes());
        String::from_utf8_lossy(&out[7..]).into_owned()
    }

    #[test]
    fn each_limit_is_told_by_its_name_and_places_become_free() {
        let all = admission(3, 2, 9);
        let (first, _second) = (all.enter(ONE).unwrap(), all.enter(ONE).unwrap());
        assert!(told(all.enter(ONE)).contains("2 connections of one address"));
        let third = all.enter(OTHER).unwrap();
        assert!(told(all.enter(OTHER)).contains("3 connections"));
        drop(first);
        let _fourth = all.enter(ONE).unwrap();
        drop(third);
        assert_eq!(all.taken().by_address.len(), 1, "of an address that is gone nothing is kept");
    }

    #[test]
    fn a_login_is_counted_until_it_is_over() {
        let all = admission(9, 9, 1);
        let mut first = all.enter(ONE).unwrap();
        assert!(told(all.enter(OTHER)).contains("1 connections that are not logged in"));
        first.logged_in();
        first.logged_in();
        drop(all.enter(OTHER).unwrap());
        let _second = all.enter(OTHER).unwrap();
        let taken = all.taken();
        assert_eq!((taken.logins, taken.connections), (1, 2));
    }

    #[test]
    fn a_network_of_64_bits_is_one_address_and_a_mapped_address_its_own() {
        let counted = |text: &str| network(text.parse().unwrap());
        assert_eq!(counted("2001:db8::1"), counted("2001:db8:0:0:ffff::9"));
        assert_ne!(counted("2001:db8::1"), counted("2001:db8:0:1::1"));
        assert_eq!(counted("::ffff:192.0.2.1"), ONE);
    }
}
