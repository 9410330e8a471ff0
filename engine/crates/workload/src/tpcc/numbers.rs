//! Random numbers as TPC-C draws them: uniform (clause 4.3.2.5) and non-uniform, `NURand` (clause 2.1.6).

use super::{CUSTOMERS, ITEMS};
use base::Random;

/// Streams of random numbers that belong to no worker; workers' numbers are far below.
const CONSTANTS_STREAM: u64 = u64::MAX;

pub fn between(random: &mut Random, low: u32, high: u32) -> u32 {
    low + random.below(u64::from(high - low) + 1) as u32
}

pub fn percent(random: &mut Random, share: u32) -> bool {
    between(random, 1, 100) <= share
}

/// The constants C of `NURand`: drawn once for a run, the same for all of its terminals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    pub last_load: u32,
    pub last_run: u32,
    customer: u32,
    item: u32,
}

impl Constants {
    pub fn drawn(seed: u64) -> Self {
        let mut random = Random::for_stream(seed, CONSTANTS_STREAM);
        let last_load = between(&mut random, 0, 255);
        let allowed: Vec<u32> = (0..=255).filter(|c| is_allowed(last_load.abs_diff(*c))).collect();
        Constants {
            last_load,
            last_run: allowed[random.below(allowed.len() as u64) as usize],
            customer: between(&mut random, 0, 1023),
            item: between(&mut random, 0, 8191),
        }
    }

    /// C_ID (clause 2.1.6, A = 1023).
    pub fn customer(&self, random: &mut Random) -> u32 {
        nurand(random, 1023, 1, CUSTOMERS, self.customer)
    }

    /// OL_I_ID (A = 8191).
    pub fn item(&self, random: &mut Random) -> u32 {
        nurand(random, 8191, 1, ITEMS, self.item)
    }

    /// The number of a C_LAST that is loaded (A = 255).
    pub fn loaded_name(&self, random: &mut Random) -> u32 {
        nurand(random, 255, 0, 999, self.last_load)
    }

    pub fn asked_name(&self, random: &mut Random) -> u32 {
        nurand(random, 255, 0, 999, self.last_run)
    }
}

/// The difference between the C that C_LAST was loaded with and the one it is asked with (clause 2.1.6.1).
fn is_allowed(delta: u32) -> bool {
    (65..=119).contains(&delta) && delta != 96 && delta != 112
}

fn nurand(random: &mut Random, a: u32, x: u32, y: u32, c: u32) -> u32 {
    ((between(random, 0, a) | between(random, x, y)) + c) % (y - x + 1) + x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_differ_as_clause_2_1_6_1_wants() {
        for seed in 0..2000 {
            let Constants { last_load, last_run, customer, item } = Constants::drawn(seed);
            let delta = last_load.abs_diff(last_run);
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "{delta}");
            assert!(last_load <= 255 && last_run <= 255 && customer <= 1023 && item <= 8191);
        }
        assert_eq!(Constants::drawn(7), Constants::drawn(7));
        assert_ne!(Constants::drawn(7), Constants::drawn(8));
    }

    #[test]
    fn nurand_stays_in_its_range_and_reaches_its_ends() {
        let mut random = Random::new(1);
        for (a, x, y) in [(255, 0, 999), (1023, 1, 3000), (8191, 1, 100_000)] {
            for c in [0, 7, a] {
                let draws: Vec<_> = (0..500_000).map(|_| nurand(&mut random, a, x, y, c)).collect();
                assert!(draws.iter().all(|number| (x..=y).contains(number)));
                let tenth = (y - x) / 10;
                assert!(draws.iter().any(|number| *number < x + tenth), "{a} {c}");
                assert!(draws.iter().any(|number| *number > y - tenth), "{a} {c}");
            }
        }
    }

    /// The distribution itself, counted exactly over both draws, against what is drawn.
    #[test]
    fn nurand_is_as_uneven_as_its_definition() {
        let (a, x, y, c) = (255, 0, 999, 77);
        let mut exact = vec![0_u32; 1000];
        for one in 0..=a {
            for other in x..=y {
                exact[(((one | other) + c) % 1000) as usize] += 1;
            }
        }
        let draws = 2_000_000;
        let mut random = Random::new(3);
        let mut drawn = vec![0_u32; 1000];
        (0..draws).for_each(|_| drawn[nurand(&mut random, a, x, y, c) as usize] += 1);
        let scale = f64::from(draws) / f64::from((a + 1) * 1000);
        let chi_squared: f64 = (0..1000)
            .filter(|at| exact[*at] > 0)
            .map(|at| {
                let expected = f64::from(exact[at]) * scale;
                (f64::from(drawn[at]) - expected).powi(2) / expected
            })
            .sum();
        // 999 degrees of freedom at most: 6 standard deviations above their mean is 1267.
        assert!(chi_squared < 1267.0, "{chi_squared}");
        assert!((0..1000).all(|at| (exact[at] == 0) <= (drawn[at] == 0)));
    }

    #[test]
    fn a_percentage_is_one() {
        let mut random = Random::new(5);
        let hits = (0..100_000).filter(|_| percent(&mut random, 10)).count();
        assert!((9_500..10_500).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| percent(&mut random, 100) && !percent(&mut random, 0)));
    }
}
