//! Pseudorandom numbers, from which the keys of operations and the contents of records are drawn.

/// A mask that keeps the low six bits of each of eight bytes. Adding [`FIRST_PRINTABLE`] to a masked random number
/// gives eight printable characters, from the space to the underscore, as in YCSB's random strings.
const SIX_BITS: u64 = 0x3F3F_3F3F_3F3F_3F3F;
const FIRST_PRINTABLE: u64 = 0x2020_2020_2020_2020;

/// A SplitMix64 generator (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014). It is
/// fast and gives the same numbers on every machine and in every version.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Return the generator of one of many independent streams with the same seed. Each worker has a stream number of
    /// its own. If all workers had the same number, they would all read the same keys at the same time.
    pub fn for_stream(seed: u64, stream: u64) -> Self {
        Random(Random(seed ^ Random(stream).bits()).bits())
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Return a uniformly distributed number below `limit` (Lemire's multiplication; the bias is below `limit` / 2^64).
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Return an exponentially distributed number with mean 1. [`Random::fraction`] is below 1, so the logarithm
    /// is of a number above 0.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.fraction()).ln()
    }

    pub fn fill_printable(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let printable = ((self.bits() & SIX_BITS) + FIRST_PRINTABLE).to_le_bytes();
            chunk.copy_from_slice(&printable[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_integers_below_a_limit_are_uniformly_distributed() {
        let mut random = Random::for_stream(7, 3);
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[random.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn random_characters_are_printable_and_uniformly_distributed() {
        let mut text = vec![0; 64_003];
        Random::new(5).fill_printable(&mut text);
        let mut counts = [0; 256];
        text.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        for (byte, count) in counts.iter().enumerate() {
            // Each printable byte should occur 1000 times. The bounds lie six standard deviations below and above.
            let expected = if (32..96).contains(&byte) { 810..1190 } else { 0..1 };
            assert!(expected.contains(count), "{byte}: {count}");
        }
    }
}
