//! The division of work among several hosts that load a service together. All hosts get the same commands. Workers,
//! operations and new records are numbered. Number n belongs to host n modulo `hosts`.

use crate::settings::{Kind, Settings};
use crate::tpcc::TpccPhase;
use serde::Deserialize;

/// The position of this host among the hosts that divide the work. By default, a single host does all the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "UncheckedShare")]
pub struct Share {
    host: u64,
    hosts: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename = "Share")]
struct UncheckedShare {
    host: u64,
    hosts: u64,
}

impl TryFrom<UncheckedShare> for Share {
    type Error = &'static str;

    fn try_from(UncheckedShare { host, hosts }: UncheckedShare) -> Result<Self, Self::Error> {
        if host < hosts { Ok(Share { host, hosts }) } else { Err("host must be below hosts; hosts are counted from 0") }
    }
}

impl Default for Share {
    fn default() -> Self {
        Share::ALL
    }
}

impl Share {
    /// The share of a single host, which does all the work.
    pub const ALL: Share = Share { host: 0, hosts: 1 };

    /// Return this host's share of a workload, or None if none of its workers run on this host. Loading runs only on
    /// the first host, because it must begin with the first record. Several hosts would be of no use: the speed of
    /// loading is not measured.
    pub fn for_workload(self, workload: &Settings) -> Option<Share> {
        let parts = if only_loads(workload) { 1 } else { workload.workers as u64 };
        self.divided_into(parts)
    }

    /// Return this host's share of work of at most `parts` parts, or None if no part is left for this host.
    pub fn divided_into(self, parts: u64) -> Option<Share> {
        let hosts = self.hosts.min(parts);
        (self.host < hosts).then_some(Share { host: self.host, hosts })
    }

    /// Return the numbers of those workers of the workload that run on this host.
    pub fn workers(self, workload: &Settings) -> impl ExactSizeIterator<Item = usize> + use<> {
        let Share { host, hosts } =
            self.for_workload(workload).unwrap_or(Share { host: workload.workers as u64, hosts: 1 });
        (host as usize..workload.workers).step_by(hosts as usize)
    }

    /// Return how many of the numbers from 0 to `below` - 1 belong to this host.
    pub fn count(self, below: u64) -> u64 {
        below.saturating_sub(self.host).div_ceil(self.hosts)
    }

    /// Return the number at position `nth`, counted from 0, among the numbers (of workers, operations or new records)
    /// that belong to this host. For host 1 of 3, these numbers are 1, 4, 7, and so on.
    pub fn number(self, nth: u64) -> u64 {
        nth.saturating_mul(self.hosts).saturating_add(self.host)
    }

    /// Return the smallest number that belongs to this host and is at least `least`.
    pub fn first_from(self, least: u64) -> u64 {
        self.number(self.count(least))
    }

    /// Return those items of a sequence whose positions (counted from 0) belong to this host.
    pub fn part<T>(self, all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        all.skip(self.host as usize).step_by(self.hosts as usize)
    }

    /// Return the distance between two consecutive numbers that belong to this host.
    pub fn step(self) -> u64 {
        self.hosts
    }
}

fn only_loads(workload: &Settings) -> bool {
    workload.kind == Kind::Load || workload.tpcc.as_ref().is_some_and(|tpcc| tpcc.phase == TpccPhase::Load)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    pub fn shares(hosts: u64) -> Vec<Share> {
        (0..hosts).map(|host| Share { host, hosts }).collect()
    }

    fn workload(kind: &str, workers: usize) -> Settings {
        serde_json::from_value(json!({"name": "w", "kind": kind, "workers": workers})).unwrap()
    }

    #[test]
    fn host_number_must_be_below_the_number_of_hosts() {
        let read = |text| serde_json::from_str::<Share>(text);
        assert_eq!(read(r#"{"host": 1, "hosts": 3}"#).unwrap(), Share { host: 1, hosts: 3 });
        for wrong in [r#"{"host": 3, "hosts": 3}"#, r#"{"host": 0, "hosts": 0}"#, r#"{"host": 0, "hosts": 1, "of": 1}"#]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_the_first_of_several_hosts_loads_the_data() {
        let mut tpcc_load = workload("tpcc", 5);
        tpcc_load.tpcc = Some(crate::tpcc::Settings { phase: TpccPhase::Load, ..Default::default() });
        for load in [workload("load", 4), tpcc_load] {
            let parts: Vec<_> = shares(3).iter().map(|share| share.for_workload(&load)).collect();
            assert_eq!(parts, [Some(Share::ALL), None, None]);
            assert_eq!(Share { host: 0, hosts: 3 }.workers(&load).len(), load.workers);
        }
        assert_eq!(shares(3)[2].for_workload(&workload("tpcc", 5)), Some(shares(3)[2]));
    }

    proptest! {
        #[test]
        fn every_worker_belongs_to_one_host(hosts in 1..=8_u64, workers in 1..100_usize) {
            let workload = workload("query", workers);
            let mut all: Vec<_> = shares(hosts).iter().flat_map(|share| share.workers(&workload)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..workers).collect::<Vec<_>>());
            for share in shares(hosts) {
                prop_assert_eq!(share.for_workload(&workload).is_some(), share.workers(&workload).len() > 0);
            }
        }

        #[test]
        fn every_operation_belongs_to_one_host(hosts in 1..=8_u64, workers in 1..10_u64, below in 0..1000_u64) {
            let numbers = |share: Share| (0..share.count(below)).map(move |nth| share.number(nth));
            let parts = shares(hosts).into_iter().filter_map(|share| share.divided_into(workers));
            let mut all: Vec<_> = parts.flat_map(numbers).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..below).collect::<Vec<_>>());
        }

        #[test]
        fn operations_are_divided_evenly_among_hosts(hosts in 1..=8_u64, ceiling in any::<u64>()) {
            let counts: Vec<_> = shares(hosts).iter().map(|share| share.count(ceiling)).collect();
            prop_assert_eq!(counts.iter().map(|count| u128::from(*count)).sum::<u128>(), u128::from(ceiling));
            prop_assert!(counts[0] - counts[counts.len() - 1] <= 1);
        }
    }
}
