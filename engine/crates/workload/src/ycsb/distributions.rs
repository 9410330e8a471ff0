//! Zipfian distributions (Gray et al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994), as YCSB
//! implements them (`site.ycsb.generator.ZipfianGenerator`, `ScrambledZipfianGenerator`).

use super::fnv_hash;
use base::Random;

/// The exponent theta of the distribution, which YCSB calls `ZIPFIAN_CONSTANT`.
const THETA: f64 = 0.99;
/// The maximum number that YCSB's `ScrambledZipfianGenerator` draws before it hashes the number.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// A Zipfian distribution of numbers from 0. Smaller numbers are more frequent.
#[derive(Debug, Clone)]
pub struct Zipfian {
    /// The initial number of items. As in YCSB, `eta` is computed from this number even after items were added.
    items: u64,
    /// The number of items over which `zeta` is summed.
    summed_items: u64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// Create a distribution of the numbers below `items`. This takes seconds for a hundred million items.
    pub fn new(items: u64) -> Self {
        Zipfian::with_zeta(items, zeta(0, items, 0.0))
    }

    fn with_zeta(items: u64, zeta: f64) -> Self {
        Zipfian { items, summed_items: items, zeta, eta: eta(items, zeta) }
    }

    pub fn next(&self, random: &mut Random) -> u64 {
        self.draw(self.items, random)
    }

    /// Draw a number below `items`. `items` may have grown since the last call.
    pub fn next_below(&mut self, items: u64, random: &mut Random) -> u64 {
        if items > self.summed_items {
            self.zeta = zeta(self.summed_items, items, self.zeta);
            self.summed_items = items;
            self.eta = eta(self.items, self.zeta);
        }
        self.draw(items, random)
    }

    fn draw(&self, items: u64, random: &mut Random) -> u64 {
        let fraction = random.fraction();
        let sum = fraction * self.zeta;
        if sum < 1.0 {
            return 0;
        }
        if sum < 1.0 + 0.5_f64.powf(THETA) {
            return 1;
        }
        let rank = items as f64 * (self.eta * fraction - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        // Rounding can make the rank too large. In a very small table that has grown, `eta` can also make it too
        // large, because YCSB computes `eta` from the initial number of items.
        (rank as u64).min(items - 1)
    }
}

/// A Zipfian distribution whose frequent numbers are scattered over the whole range by a hash function.
#[derive(Debug, Clone)]
pub struct ScrambledZipfian {
    zipfian: Zipfian,
    first: u64,
    items: u64,
}

impl ScrambledZipfian {
    pub fn new(first: u64, items: u64) -> Self {
        // As in YCSB, the range has one number more than the range for which `SCRAMBLED_ZETA` was computed.
        ScrambledZipfian { zipfian: Zipfian::with_zeta(SCRAMBLED_ITEMS + 1, SCRAMBLED_ZETA), first, items }
    }

    pub fn next(&self, random: &mut Random) -> u64 {
        self.first + fnv_hash(self.zipfian.next(random)) % self.items
    }
}

/// Return the sum of 1 / i^theta for i from 1 to `items`. `sum` is the known sum for i up to `summed_items`.
fn zeta(summed_items: u64, items: u64, sum: f64) -> f64 {
    (summed_items..items).fold(sum, |sum, item| sum + 1.0 / ((item + 1) as f64).powf(THETA))
}

fn eta(items: u64, zeta_of_items: f64) -> f64 {
    (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta(0, 2, 0.0) / zeta_of_items)
}

/// A distribution of the lengths of fields or scans.
#[derive(Debug, Clone)]
pub enum Lengths {
    Constant(u64),
    /// All lengths from `minimum` to `maximum` are equally frequent.
    Uniform {
        minimum: u64,
        maximum: u64,
    },
    Zipfian {
        minimum: u64,
        above: Zipfian,
    },
}

impl Lengths {
    /// Create YCSB's `UniformLongGenerator` for lengths from `minimum` to `maximum`, both included.
    pub fn uniform(minimum: u64, maximum: u64) -> Self {
        Lengths::Uniform { minimum, maximum }
    }

    /// Create YCSB's `ZipfianGenerator` for lengths from `minimum` to `maximum`, both included.
    pub fn zipfian(minimum: u64, maximum: u64) -> Self {
        Lengths::Zipfian { minimum, above: Zipfian::new(maximum - minimum + 1) }
    }

    pub fn next(&self, random: &mut Random) -> u64 {
        match self {
            Lengths::Constant(length) => *length,
            Lengths::Uniform { minimum, maximum } => minimum + random.below(maximum - minimum + 1),
            Lengths::Zipfian { minimum, above } => minimum + above.next(random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zeta_by_integral(items: f64) -> f64 {
        let power = |x: f64| x.powf(-THETA);
        let head: f64 = (1..100).map(|item| power(f64::from(item))).sum();
        let integral = (items.powf(1.0 - THETA) - 100_f64.powf(1.0 - THETA)) / (1.0 - THETA);
        let slopes = THETA * (power(100.0) / 100.0 - power(items) / items) / 12.0;
        head + integral + (power(100.0) + power(items)) / 2.0 + slopes
    }

    #[test]
    fn zeta_matches_its_integral_approximation() {
        for items in [100, 1000, 1_000_000_u64] {
            let difference = zeta(0, items, 0.0) - zeta_by_integral(items as f64);
            assert!(difference.abs() < 1e-7, "{items}: {difference}");
        }
        assert!((SCRAMBLED_ZETA - zeta_by_integral(SCRAMBLED_ITEMS as f64)).abs() < 1e-7);
    }

    #[test]
    fn extending_a_zipfian_distribution_gives_the_zeta_of_a_new_distribution_of_the_same_size() {
        let mut grown = Zipfian::new(100);
        grown.next_below(1000, &mut Random::new(1));
        assert!((grown.zeta - Zipfian::new(1000).zeta).abs() < 1e-12);
    }

    /// Gray's method is exact for the first two numbers, with frequencies 1 / (i^theta zeta).
    #[test]
    fn most_popular_numbers_have_zipfian_frequencies() {
        const DRAWS: usize = 200_000;
        let zipfian = Zipfian::new(1000);
        let mut random = Random::new(3);
        let mut counts = vec![0_u32; 1000];
        (0..DRAWS).for_each(|_| counts[zipfian.next(&mut random) as usize] += 1);
        for (item, count) in counts.iter().take(2).enumerate() {
            let expected = DRAWS as f64 / ((item + 1) as f64).powf(THETA) / zeta_by_integral(1000.0);
            let deviation = f64::from(*count) - expected;
            assert!(deviation.abs() < 5.0 * expected.sqrt(), "{item}: {count}, not {expected}");
        }
        assert!(counts[2..].iter().sum::<u32>() > 0 && counts[900..].iter().sum::<u32>() > 0);
    }

    #[test]
    fn scrambled_zipfian_favours_the_hashes_of_the_smallest_numbers() {
        const DRAWS: usize = 200_000;
        let scrambled = ScrambledZipfian::new(50, 1000);
        let mut random = Random::new(4);
        let mut counts = vec![0_u32; 1050];
        (0..DRAWS).for_each(|_| counts[scrambled.next(&mut random) as usize] += 1);
        assert_eq!(counts[..50], [0; 50]);
        let popular = (0..1050).max_by_key(|at| counts[*at]).unwrap();
        assert_eq!(popular as u64, 50 + 6_284_781_860_667_377_211 % 1000, "the hash of 0");
        let share = f64::from(counts[popular]) / DRAWS as f64;
        // The number 0 has the frequency 1 / zeta. About a thousandth of the other numbers are mapped to the same
        // record.
        assert!((0.0378..0.0410).contains(&share), "{share}");
    }

    proptest! {
        #[test]
        fn drawn_numbers_are_in_range(items in 1..5000_u64, more in 0..5000_u64, seed in any::<u64>()) {
            let mut random = Random::new(seed);
            let mut zipfian = Zipfian::new(items);
            let scrambled = ScrambledZipfian::new(more, items);
            for _ in 0..20 {
                prop_assert!(zipfian.next(&mut random) < items);
                prop_assert!((more..more + items).contains(&scrambled.next(&mut random)));
            }
            for _ in 0..20 {
                prop_assert!(zipfian.next_below(items + more, &mut random) < items + more);
            }
        }
    }

    fn mean(lengths: &Lengths) -> f64 {
        let mut random = Random::new(5);
        (0..100_000).map(|_| lengths.next(&mut random) as f64).sum::<f64>() / 1e5
    }

    #[test]
    fn mean_of_drawn_lengths_matches_the_distribution() {
        assert_eq!(mean(&Lengths::Constant(100)), 100.0);
        // The standard deviation of a uniformly distributed length is 28.9; that of the mean is 0.09.
        assert!((mean(&Lengths::uniform(1, 100)) - 50.5).abs() < 0.5);
        let weights: f64 = (1..=100).map(|item| f64::from(item).powf(-0.99)).sum();
        let zipf: f64 = (1..=100).map(|item| f64::from(item) * f64::from(item).powf(-0.99) / weights).sum();
        // Gray's method is exact only for the first two numbers.
        let drawn = mean(&Lengths::zipfian(1, 100));
        assert!((drawn - zipf).abs() < 0.1 * zipf, "{drawn}, not {zipf}");
    }

    proptest! {
        #[test]
        fn drawn_lengths_are_in_range(minimum in 0..300_u64, more in 0..300_u64, seed in any::<u64>()) {
            let mut random = Random::new(seed);
            for lengths in [Lengths::uniform(minimum, minimum + more), Lengths::zipfian(minimum, minimum + more)] {
                prop_assert!((0..20).all(|_| (minimum..=minimum + more).contains(&lengths.next(&mut random))));
            }
        }
    }
}
