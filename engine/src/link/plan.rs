//! The messages of `costof-engine link`.

use base::error::{Class, Failure, Result};
use base::lines;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

const LONGEST_ROUND_TRIP_MS: f64 = 10_000.0;
/// The maximum number of packets in a queue. A full queue takes 1.5 GB in each direction.
const LONGEST_QUEUE: usize = 1_000_000;

/// The first line of input: all links of this process.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    #[serde(default)]
    pub seed: u64,
    pub links: Vec<LinkPlan>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkPlan {
    pub name: String,
    pub a: End,
    pub b: End,
    pub round_trip_ms: f64,
    /// The bandwidth of each direction in Mbit/s, counted in bytes of IP packets; unlimited if absent.
    #[serde(default)]
    pub bandwidth_mbit: Option<f64>,
    #[serde(default)]
    pub loss: f64,
    /// The maximum number of packets that wait in one direction for bandwidth or their delay, like netem's `limit`.
    #[serde(default = "default_queue_packets")]
    pub queue_packets: usize,
}

/// One end of a link: a device in a network namespace. `namespace` is the path of the namespace's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    pub namespace: String,
    pub device: String,
    pub address: Address,
}

/// An IPv4 address with a prefix length, such as `10.83.1.1/30`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Address {
    pub ip: Ipv4Addr,
    pub prefix: u8,
}

pub type Answer = lines::Answer<Ready, AllCounters>;

/// The answer to the plan (the first line of input). It is sent when all devices are up and packets are forwarded.
#[derive(Debug, Serialize)]
pub struct Ready {
    /// The round-trip time of a link without configured delay, measured in microseconds. It is subtracted from the
    /// configured round-trip time of each link.
    pub path_cost_us: f64,
    /// For each link, the time in microseconds for which a packet is held in each direction.
    pub held_us: BTreeMap<String, f64>,
    /// True if the process has real-time priority. Otherwise a busy machine can add milliseconds to the delay.
    pub preferred: bool,
}

/// The counters of all links since `ready`, in answer to a command `counters`.
#[derive(Debug, Serialize)]
pub struct AllCounters {
    pub cpu_ns: u64,
    pub links: BTreeMap<String, LinkCounters>,
}

#[derive(Debug, Serialize)]
pub struct LinkCounters {
    pub a_to_b: Counters,
    pub b_to_a: Counters,
}

/// The packet counters of one direction. The packets that were read from the sending device (`sent`) are the sum of
/// `lost`, `dropped`, `delivered`, `refused` and the packets that are still in the queue.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counters {
    pub sent: u64,
    pub lost: u64,
    pub dropped: u64,
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// The number of packets that the receiving device refused because the device is down.
    pub refused: u64,
    /// The sum of all packets' delays beyond their due times, in nanoseconds.
    pub late_sum_ns: u64,
    pub late_max_ns: u64,
}

fn default_queue_packets() -> usize {
    10_000
}

fn plan_failure(detail: impl Into<String>) -> Failure {
    Failure::new(Class::Plan, detail)
}

impl Plan {
    pub fn parse(line: &[u8]) -> Result<Plan> {
        let plan: Plan = serde_json::from_slice(line).map_err(|error| plan_failure(error.to_string()))?;
        if plan.links.is_empty() {
            return Err(plan_failure("links must contain at least one link"));
        }
        plan.links.iter().try_for_each(LinkPlan::check)?;
        Ok(plan)
    }
}

impl LinkPlan {
    fn check(&self) -> Result<()> {
        let refuse = |reason: String| Err(plan_failure(format!("link {}: {reason}", self.name)));
        if !(0.0..=LONGEST_ROUND_TRIP_MS).contains(&self.round_trip_ms) {
            let value = self.round_trip_ms;
            return refuse(format!("round_trip_ms must be from 0 to {LONGEST_ROUND_TRIP_MS}, not {value}"));
        }
        if !self.bandwidth_mbit.is_none_or(|mbit| mbit.is_finite() && mbit > 0.0) {
            return refuse("bandwidth_mbit must be above 0".into());
        }
        if !(0.0..1.0).contains(&self.loss) {
            return refuse(format!("loss must be at least 0 and below 1, not {}", self.loss));
        }
        if !(1..=LONGEST_QUEUE).contains(&self.queue_packets) {
            return refuse(format!("queue_packets must be from 1 to {LONGEST_QUEUE}, not {}", self.queue_packets));
        }
        for end in [&self.a, &self.b] {
            // IFNAMSIZ includes the terminating zero.
            if !(1..libc::IFNAMSIZ).contains(&end.device.len()) || end.device.contains(['/', '%', '\0']) {
                return refuse(format!("'{}' is not a valid device name", end.device));
            }
            if !end.namespace.starts_with('/') || end.namespace.contains('\0') {
                return refuse(format!("'{}' is not an absolute path of a namespace", end.namespace));
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        let parts = text.split_once('/').and_then(|(ip, prefix)| Some((ip.parse().ok()?, prefix.parse().ok()?)));
        match parts {
            Some((ip, prefix @ 1..=32)) => Ok(Address { ip, prefix }),
            _ => Err(format!("'{text}' is not an IPv4 address with a prefix length, such as 10.83.1.1/30")),
        }
    }
}

impl Address {
    pub fn mask(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::MAX << (32 - u32::from(self.prefix)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_with(fields: &str) -> Result<Plan> {
        let end = |number| format!(r#"{{"namespace":"/n{number}","device":"d","address":"10.83.1.{number}/30"}}"#);
        Plan::parse(format!(r#"{{"links":[{{"name":"x","a":{},"b":{},{fields}}}]}}"#, end(1), end(2)).as_bytes())
    }

    #[test]
    fn link_has_by_default_unlimited_bandwidth_and_no_loss() {
        let plan = plan_with(r#""round_trip_ms":5"#).unwrap();
        let link = &plan.links[0];
        assert_eq!((link.bandwidth_mbit, link.loss, link.queue_packets), (None, 0.0, 10_000));
        assert_eq!(link.a.address, Address { ip: Ipv4Addr::new(10, 83, 1, 1), prefix: 30 });
        assert_eq!(link.a.address.mask(), Ipv4Addr::new(255, 255, 255, 252));
    }

    #[test]
    fn error_for_an_invalid_value_names_its_field() {
        for (fields, word) in [
            (r#""round_trip_ms":-1"#, "round_trip_ms"),
            (r#""round_trip_ms":1e9"#, "round_trip_ms"),
            (r#""round_trip_ms":1,"loss":1.0"#, "loss"),
            (r#""round_trip_ms":1,"bandwidth_mbit":0"#, "bandwidth_mbit"),
            (r#""round_trip_ms":1,"queue_packets":0"#, "queue_packets"),
            (r#""round_trip_ms":1,"jitter_ms":1"#, "jitter_ms"),
        ] {
            let failure = plan_with(fields).unwrap_err();
            assert_eq!(failure.class, Class::Plan);
            assert!(failure.detail.contains(word), "{fields}: {}", failure.detail);
        }
    }

    #[test]
    fn namespace_must_be_an_absolute_path() {
        let end = r#"{"namespace":"../x","device":"d","address":"10.0.0.1/30"}"#;
        let line = format!(r#"{{"links":[{{"name":"x","a":{end},"b":{end},"round_trip_ms":1}}]}}"#);
        assert!(Plan::parse(line.as_bytes()).unwrap_err().detail.contains("namespace"));
    }

    #[test]
    fn ipv4_address_without_a_valid_prefix_length_is_refused() {
        for text in ["10.0.0.1", "10.0.0.1/0", "10.0.0.1/33", "::1/64", "/30", ""] {
            assert!(Address::try_from(text.to_string()).is_err(), "{text}");
        }
    }
}
