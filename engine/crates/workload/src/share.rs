//! Which part of a population's work is this host's, where several hosts load a service together. All of them are told the
//! same, and what is numbered (workers, operations, new records) is divided by its numbers: n is of host n modulo `hosts`.

use crate::settings::{Kind, Settings};
use crate::tpcc::TpccPhase;
use serde::Deserialize;

/// One of several hosts; a host that is alone does all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Share {
    host: u64,
    hosts: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename = "Share")]
struct Written {
    host: u64,
    hosts: u64,
}

impl TryFrom<Written> for Share {
    type Error = &'static str;

    fn try_from(Written { host, hosts }: Written) -> Result<Self, Self::Error> {
        if host < hosts { Ok(Share { host, hosts }) } else { Err("hosts are counted from 0: host is below hosts") }
    }
}

impl Default for Share {
    fn default() -> Self {
        Share::ALL
    }
}

impl Share {
    /// A host's that is alone.
    pub const ALL: Share = Share { host: 0, hosts: 1 };

    /// Of one workload's work; None where this host has no worker of it. A load is not divided: it is measured by nobody,
    /// and begins with its first record.
    pub fn of(self, workload: &Settings) -> Option<Share> {
        let parts = if only_loads(workload) { 1 } else { workload.workers as u64 };
        self.among(parts)
    }

    /// Of what is divided into so many parts at most.
    pub fn among(self, parts: u64) -> Option<Share> {
        let hosts = self.hosts.min(parts);
        (self.host < hosts).then_some(Share { host: self.host, hosts })
    }

    pub fn workers(self, workload: &Settings) -> impl ExactSizeIterator<Item = usize> + use<> {
        let Share { host, hosts } = self.of(workload).unwrap_or(Share { host: workload.workers as u64, hosts: 1 });
        (host as usize..workload.workers).step_by(hosts as usize)
    }

    pub fn count(self, below: u64) -> u64 {
        below.saturating_sub(self.host).div_ceil(self.hosts)
    }

    pub fn number(self, nth: u64) -> u64 {
        nth.saturating_mul(self.hosts).saturating_add(self.host)
    }

    /// This host's first number that is at least so high.
    pub fn first_from(self, least: u64) -> u64 {
        self.number(self.count(least))
    }

    pub fn part<T>(self, all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        all.skip(self.host as usize).step_by(self.hosts as usize)
    }

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
    fn a_host_is_one_of_those_that_there_are() {
        let read = |text| serde_json::from_str::<Share>(text);
        assert_eq!(read(r#"{"host": 1, "hosts": 3}"#).unwrap(), Share { host: 1, hosts: 3 });
        for wrong in [r#"{"host": 3, "hosts": 3}"#, r#"{"host": 0, "hosts": 0}"#, r#"{"host": 0, "hosts": 1, "of": 1}"#]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_only_loads_is_the_first_hosts() {
        let mut of_tpcc = workload("tpcc", 5);
        of_tpcc.tpcc = Some(crate::tpcc::Settings { phase: TpccPhase::Load, ..Default::default() });
        for load in [workload("load", 4), of_tpcc] {
            let found: Vec<_> = shares(3).iter().map(|share| share.of(&load)).collect();
            assert_eq!(found, [Some(Share::ALL), None, None]);
            assert_eq!(Share { host: 0, hosts: 3 }.workers(&load).len(), load.workers);
        }
        assert_eq!(shares(3)[2].of(&workload("tpcc", 5)), Some(shares(3)[2]));
    }

    proptest! {
        #[test]
        fn every_worker_is_of_one_host(hosts in 1..=8_u64, workers in 1..100_usize) {
            let workload = workload("query", workers);
            let mut all: Vec<_> = shares(hosts).iter().flat_map(|share| share.workers(&workload)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..workers).collect::<Vec<_>>());
            for share in shares(hosts) {
                prop_assert_eq!(share.of(&workload).is_some(), share.workers(&workload).len() > 0);
            }
        }

        /// Operations are numbered within a slice: those of hosts that have a worker.
        #[test]
        fn every_number_is_of_one_host(hosts in 1..=8_u64, workers in 1..10_u64, below in 0..1000_u64) {
            let of_host = |share: Share| (0..share.count(below)).map(move |nth| share.number(nth));
            let parts = shares(hosts).into_iter().filter_map(|share| share.among(workers));
            let mut all: Vec<_> = parts.flat_map(of_host).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..below).collect::<Vec<_>>());
        }

        #[test]
        fn ceilings_of_any_size_are_divided(hosts in 1..=8_u64, ceiling in any::<u64>()) {
            let counts: Vec<_> = shares(hosts).iter().map(|share| share.count(ceiling)).collect();
            prop_assert_eq!(counts.iter().map(|count| u128::from(*count)).sum::<u128>(), u128::from(ceiling));
            prop_assert!(counts[0] - counts[counts.len() - 1] <= 1);
        }
    }
}
