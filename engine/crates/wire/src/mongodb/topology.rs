//! Discovery of the members of a service, and selection of the members for reads and for writes (Server Discovery and
//! Monitoring, Server Selection specifications).
//!
//! Members are not monitored. A run measures the members found at its start, and operations on a member that disappears
//! fail. Only YCSB's workloads search for the members again, so that a run continues after an election.

use super::message::{self, Channel};
use super::{DEFAULT_PORT, login};
use crate::mongodb::{ReadPreference, Settings};
use crate::one_server::after_last_step;
use base::clock;
use base::error::{Class, Failure, Result};
use bson::RawDocument;
use net::runtime::Reactor;
use net::transport::{Address, Transport};
use record::Timeline;
use std::rc::Rc;

/// The members from which clients read, and the member to which they write.
#[derive(Debug, PartialEq, Eq)]
pub struct Members {
    /// The member that accepts writes. If it is None, `readers` can still be read.
    pub writer: Option<Address>,
    /// The members that match the read preference, sorted. There is at least one.
    pub readers: Vec<Address>,
}

/// A server's description of itself and of its replica set.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Description {
    set: Option<String>,
    writable: bool,
    secondary: bool,
    /// The members in the lists `hosts` and `passives` of the answer to `hello`. Clients may read from these members.
    /// Hidden members are in neither list.
    members: Vec<String>,
}

/// A search for the members of a service. It sends the command `hello` to servers, which answer with their
/// descriptions. It uses separate connections without authentication.
pub struct Scout<'a> {
    pub settings: &'a Settings,
    /// The transport of all connections. If it is TLS, members without TLS cannot be used.
    pub transport: &'a Transport,
    pub reactor: &'a Rc<Reactor>,
    pub timeout_ns: u64,
}

impl Scout<'_> {
    pub async fn discover(&self) -> Result<Members> {
        let mut outcome = Err(Failure::new(Class::Plan, "the service has no address"));
        for seed in &self.settings.addresses {
            let seed = Address::parse(seed, DEFAULT_PORT)?;
            match self.query(&seed).await {
                Ok(description) => return self.members(seed, description).await,
                Err(failure) => outcome = Err(failure.with(&seed)),
            }
        }
        outcome
    }

    async fn members(&self, seed: Address, description: Description) -> Result<Members> {
        let Some(set) = &self.settings.replica_set else {
            return Ok(Members { writer: description.writable.then(|| seed.clone()), readers: vec![seed] });
        };
        if description.set.as_ref() != Some(set) {
            let other = description.set.as_deref().map_or("no replica set".into(), |set| format!("replica set {set}"));
            return Err(Failure::new(
                Class::NoMember,
                format!("{seed}: the server belongs to {other}, not to replica set {set}"),
            ));
        }
        let mut answered = Vec::new();
        let mut silent = None;
        for name in &description.members {
            let address = Address::parse(name, DEFAULT_PORT).map_err(|failure| Failure::protocol(failure.detail))?;
            match self.query(&address).await {
                Ok(description) => answered.push((address, description)),
                Err(failure) => silent = silent.or(Some(failure.with(&address))),
            }
        }
        select(answered, self.settings.read_preference, silent)
    }

    async fn query(&self, address: &Address) -> Result<Description> {
        self.reactor.set_deadline(clock::now() + self.timeout_ns);
        let mut timeline = Timeline::default();
        let result = self.describe(address, &mut timeline).await;
        result.map_err(|failure| after_last_step(failure, &timeline, self.timeout_ns))
    }

    async fn describe(&self, address: &Address, timeline: &mut Timeline) -> Result<Description> {
        let stream = super::connect(self.reactor, address, self.transport, timeline).await?;
        let mut channel = Channel::new(stream);
        let hello = login::hello(&mut channel, None).await?;
        let description = describe(&hello.reply)?;
        channel.io.close();
        Ok(description)
    }
}

/// Select the members for reads and for writes from the members that `answered`. `silent` is the failure of a member
/// that did not answer. Errors, if no member matches the read preference: `silent` if it is not None, and otherwise
/// class `no_member`.
fn select(
    mut answered: Vec<(Address, Description)>,
    preference: ReadPreference,
    silent: Option<Failure>,
) -> Result<Members> {
    answered.sort_by(|one, other| one.0.cmp(&other.0));
    let addresses = |is_selected: fn(&Description) -> bool| -> Vec<Address> {
        answered.iter().filter(|(_, member)| is_selected(member)).map(|(address, _)| address.clone()).collect()
    };
    let primary = addresses(|member| member.writable);
    let secondaries = addresses(|member| member.secondary);
    let first_non_empty = |one: &Vec<Address>, other: &Vec<Address>| if one.is_empty() { other } else { one }.clone();
    let readers = match preference {
        ReadPreference::Primary => primary.clone(),
        ReadPreference::PrimaryPreferred => first_non_empty(&primary, &secondaries),
        ReadPreference::Secondary => secondaries.clone(),
        ReadPreference::SecondaryPreferred => first_non_empty(&secondaries, &primary),
        ReadPreference::Nearest => addresses(|member| member.writable || member.secondary),
    };
    if readers.is_empty() {
        let counts = format!("{} primary and {} secondaries answered", primary.len(), secondaries.len());
        let detail = format!("no member matches the read preference {preference:?}: {counts}");
        return Err(silent.unwrap_or_else(|| Failure::new(Class::NoMember, detail)));
    }
    Ok(Members { writer: primary.into_iter().next(), readers })
}

pub(super) fn describe(reply: &RawDocument) -> Result<Description> {
    let is = |name| reply.get_bool(name).unwrap_or(false);
    let mut members = Vec::new();
    for list in ["hosts", "passives"] {
        let Ok(names) = reply.get_array(list) else { continue };
        for name in names {
            let name = name.map_err(message::malformed)?.as_str();
            members.push(name.ok_or_else(|| Failure::protocol("a member's name is not a text"))?.to_owned());
        }
    }
    Ok(Description {
        set: reply.get_str("setName").ok().map(str::to_owned),
        writable: is("isWritablePrimary"),
        secondary: is("secondary"),
        members,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(port: u16, writable: bool, secondary: bool) -> (Address, Description) {
        let address = Address::parse(&format!("host:{port}"), DEFAULT_PORT).unwrap();
        (address, Description { writable, secondary, ..Description::default() })
    }

    fn readers(answered: &[(u16, bool, bool)], preference: ReadPreference) -> Vec<u16> {
        let answered = answered.iter().map(|&(port, writable, secondary)| member(port, writable, secondary)).collect();
        let members = select(answered, preference, None);
        members.map_or_else(|_| Vec::new(), |members| members.readers.iter().map(Address::port).collect())
    }

    #[test]
    fn each_read_preference_selects_the_matching_members_in_sorted_order() {
        use ReadPreference::*;
        let set = [(3, false, true), (1, true, false), (2, false, true), (4, false, false)];
        for (preference, expected) in [
            (Primary, vec![1]),
            (PrimaryPreferred, vec![1]),
            (Secondary, vec![2, 3]),
            (SecondaryPreferred, vec![2, 3]),
            (Nearest, vec![1, 2, 3]),
        ] {
            assert_eq!(readers(&set, preference), expected, "{preference:?}");
        }
    }

    #[test]
    fn only_read_preferences_with_suffix_preferred_fall_back_to_other_members() {
        use ReadPreference::*;
        assert_eq!(readers(&[(1, true, false)], SecondaryPreferred), [1]);
        assert_eq!(readers(&[(2, false, true)], PrimaryPreferred), [2]);
        assert!(readers(&[(1, true, false)], Secondary).is_empty());
        assert!(readers(&[(2, false, true)], Primary).is_empty());
    }

    #[test]
    fn unreachable_member_is_reported_if_no_member_has_the_wanted_role() {
        let lonely = || vec![member(1, true, false)];
        let reason = |silent| select(lonely(), ReadPreference::Secondary, silent).unwrap_err().class;
        assert_eq!(reason(None), Class::NoMember);
        assert_eq!(reason(Some(Failure::new(Class::Refused, ""))), Class::Refused);
    }
}
