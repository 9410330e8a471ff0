//! Random numbers: which keys are asked for, what the records hold.

/// Printable, as YCSB's random strings: 64 characters from the space on, so that six random bits choose one. Eight
/// characters at a time: no sum overflows its byte.
const SIX_BITS: u64 = 0x3F3F_3F3F_3F3F_3F3F;
const FIRST_PRINTABLE: u64 = 0x2020_2020_2020_2020;

/// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014): a few instructions,
/// and the same numbers on every machine and in every version.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// A sequence of its own for each number: workers of one run must not ask for the same keys in step.
    pub fn for_stream(seed: u64, stream: u64) -> Self {
        Random(Random(seed ^ Random(stream).bits()).bits())
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in `0..limit` (Lemire's multiplication; its bias is below one in 2^64 / limit).
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Negatively exponential, of mean 1. The logarithm of 0 is none, and `fraction` never gives 1.
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
    fn random_stays_below_and_reaches_everything() {
        let mut random = Random::for_stream(7, 3);
        let mut seen = [0; 10];
        (0..10_000).for_each(|_| seen[random.below(10) as usize] += 1);
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
    }

    #[test]
    fn a_filled_text_has_every_character_as_often_and_no_other() {
        let mut text = vec![0; 64_003];
        Random::new(5).fill_printable(&mut text);
        let mut seen = [0; 256];
        text.iter().for_each(|byte| seen[usize::from(*byte)] += 1);
        for (byte, count) in seen.iter().enumerate() {
            // Six standard deviations of a binomial with a mean of 1000.
            let expected = if (32..96).contains(&byte) { 810..1190 } else { 0..1 };
            assert!(expected.contains(count), "{byte}: {count}");
        }
    }
}
