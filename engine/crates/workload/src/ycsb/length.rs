//! Lengths: of fields and of scans.

use super::Zipfian;
use base::Random;

/// How a length is drawn.
#[derive(Debug, Clone)]
pub enum Lengths {
    Constant(u64),
    /// Each from `least` to `most` as often.
    Uniform {
        least: u64,
        most: u64,
    },
    Zipfian {
        least: u64,
        above: Zipfian,
    },
}

impl Lengths {
    /// From `least` to `most`, both included: `UniformLongGenerator`.
    pub fn uniform(least: u64, most: u64) -> Self {
        Lengths::Uniform { least, most }
    }

    /// From `least` to `most`, both included: `ZipfianGenerator`.
    pub fn zipfian(least: u64, most: u64) -> Self {
        Lengths::Zipfian { least, above: Zipfian::new(most - least + 1) }
    }

    pub fn next(&self, random: &mut Random) -> u64 {
        match self {
            Lengths::Constant(length) => *length,
            Lengths::Uniform { least, most } => least + random.below(most - least + 1),
            Lengths::Zipfian { least, above } => least + above.next(random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mean(lengths: &Lengths) -> f64 {
        let mut random = Random::new(5);
        (0..100_000).map(|_| lengths.next(&mut random) as f64).sum::<f64>() / 1e5
    }

    #[test]
    fn means_are_those_of_the_distributions() {
        assert_eq!(mean(&Lengths::Constant(100)), 100.0);
        // A uniform number's deviation is 28.9, its mean's 0.09.
        assert!((mean(&Lengths::uniform(1, 100)) - 50.5).abs() < 0.5);
        let weights: f64 = (1..=100).map(|item| f64::from(item).powf(-0.99)).sum();
        let zipf: f64 = (1..=100).map(|item| f64::from(item) * f64::from(item).powf(-0.99) / weights).sum();
        // Gray's method is an approximation past its second number.
        let drawn = mean(&Lengths::zipfian(1, 100));
        assert!((drawn - zipf).abs() < 0.1 * zipf, "{drawn}, not {zipf}");
    }

    proptest! {
        #[test]
        fn every_length_is_in_range(least in 0..300_u64, more in 0..300_u64, seed in any::<u64>()) {
            let mut random = Random::new(seed);
            for lengths in [Lengths::uniform(least, least + more), Lengths::zipfian(least, least + more)] {
                prop_assert!((0..20).all(|_| (least..=least + more).contains(&lengths.next(&mut random))));
            }
        }
    }
}
