//! Random choices that a seed repeats (Steele, Lea and Flood: SplitMix64, 2014).

#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Rng(seed ^ stream.wrapping_mul(0xD134_2543_DE82_EF95));
        rng.next();
        rng
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// The place of one of these, by weight.
    pub fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut at = self.below(weights.iter().sum());
        weights
            .iter()
            .position(|weight| {
                let here = at < *weight;
                at = at.saturating_sub(*weight);
                here
            })
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_kept_and_seeds_repeat() {
        let mut rng = Rng::new(1, 2);
        let mut counts = [0; 3];
        for _ in 0..10_000 {
            counts[rng.weighted(&[7, 0, 3])] += 1;
        }
        assert!(counts[1] == 0 && (6_700..7_300).contains(&counts[0]), "{counts:?}");
        assert_eq!(Rng::new(1, 2).next(), Rng::new(1, 2).next());
        assert_ne!(Rng::new(1, 2).next(), Rng::new(1, 3).next());
    }
}
