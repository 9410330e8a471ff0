//! When a packet is due, and whether it arrives at all: pure functions of time and a seed.

/// Delay and bandwidth of one direction.
///
/// A packet is due when it has been put on the wire, one after the other at the bandwidth, and has then travelled the
/// delay. Both only ever move forward, so due times never go back and packets keep their order.
#[derive(Debug, Clone)]
pub struct Shaper {
    delay_ns: u64,
    ns_per_byte: f64,
    wire_free_at_ns: u64,
}

impl Shaper {
    /// `bandwidth_mbit`: none is unlimited.
    pub fn new(delay_ns: u64, bandwidth_mbit: Option<f64>) -> Self {
        Shaper { delay_ns, ns_per_byte: bandwidth_mbit.map_or(0.0, |mbit| 8000.0 / mbit), wire_free_at_ns: 0 }
    }

    /// How long a packet travels once it is on the wire.
    pub fn delay_ns(&self) -> u64 {
        self.delay_ns
    }

    /// When a packet of `bytes` that is sent at `now_ns` arrives. To be called in the order of sending.
    pub fn due_ns(&mut self, now_ns: u64, bytes: usize) -> u64 {
        let on_the_wire_ns = (bytes as f64 * self.ns_per_byte).round() as u64;
        self.wire_free_at_ns = self.wire_free_at_ns.max(now_ns).saturating_add(on_the_wire_ns);
        self.wire_free_at_ns.saturating_add(self.delay_ns)
    }
}

/// Which packets are lost: independent of each other, each with the same probability.
#[derive(Debug, Clone)]
pub struct Loss {
    /// A draw below it is a loss; none: nothing is lost.
    threshold: Option<u64>,
    state: u64,
}

impl Loss {
    /// `probability` from 0 to below 1. The same seed loses the same packets of a direction.
    pub fn new(probability: f64, seed: u64) -> Self {
        let threshold = (probability * u64::MAX as f64) as u64;
        Loss { threshold: (threshold > 0).then_some(threshold), state: seed }
    }

    pub fn strikes(&mut self) -> bool {
        match self.threshold {
            None => false,
            Some(threshold) => self.draw() < threshold,
        }
    }

    /// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_bandwidth_a_packet_is_due_after_the_delay() {
        let mut shaper = Shaper::new(85_063_000, None);
        assert_eq!(shaper.due_ns(1_000, 1500), 85_064_000);
        assert_eq!(shaper.due_ns(1_001, 40), 85_064_001);
    }

    #[test]
    fn packets_queue_for_the_wire_and_an_idle_wire_owes_nothing() {
        // 1500 bytes at 12 Mbit/s take 1 ms.
        let mut shaper = Shaper::new(5_000_000, Some(12.0));
        assert_eq!(shaper.due_ns(0, 1500), 6_000_000);
        assert_eq!(shaper.due_ns(0, 1500), 7_000_000);
        assert_eq!(shaper.due_ns(10_000_000, 1500), 16_000_000);
    }

    #[test]
    fn loss_is_as_frequent_as_asked_and_repeats_with_its_seed() {
        let losses =
            |seed| (0..100_000).scan(Loss::new(0.02, seed), |loss, _| Some(loss.strikes())).collect::<Vec<_>>();
        let lost = losses(7).iter().filter(|&&lost| lost).count();
        // Five standard deviations of a binomial are 221.
        assert!((1779..=2221).contains(&lost), "{lost} of 100000");
        assert_eq!(losses(7), losses(7));
        assert_ne!(losses(7), losses(8));
        assert!(!(0..1000).any(|_| Loss::new(0.0, 7).strikes()));
    }

    proptest! {
        #[test]
        fn due_times_keep_the_order_and_the_delay(
            delay in 0u64..400_000_000,
            mbit in proptest::option::of(0.1f64..10_000.0),
            gaps in prop::collection::vec((0u64..10_000_000, 20usize..1500), 1..200),
        ) {
            let mut shaper = Shaper::new(delay, mbit);
            let (mut now, mut last) = (0, 0);
            for (gap, bytes) in gaps {
                now += gap;
                let due = shaper.due_ns(now, bytes);
                prop_assert!(due >= last, "out of order");
                prop_assert!(due >= now + delay, "early");
                if mbit.is_none() {
                    prop_assert_eq!(due, now + delay);
                }
                last = due;
            }
        }

        #[test]
        fn a_backlog_leaves_at_the_bandwidth(mbit in 0.1f64..10_000.0, sizes in prop::collection::vec(20usize..1500, 2..300)) {
            let mut shaper = Shaper::new(1_000_000, Some(mbit));
            let last = sizes.iter().map(|&bytes| shaper.due_ns(0, bytes)).last().unwrap();
            let expected = sizes.iter().sum::<usize>() as f64 * 8000.0 / mbit;
            // Each packet's time is rounded to a nanosecond.
            prop_assert!(((last - 1_000_000) as f64 - expected).abs() <= sizes.len() as f64);
        }
    }
}
