//! TPC-C's random values: uniform numbers and `NURand` (clauses 4.3.2.5 and 2.1.6), strings (clauses 4.3.2.2, 4.3.2.7
//! and 4.3.3.1) and last names (clause 4.3.2.3). No string contains characters that SQL must escape.

use super::{CUSTOMERS, ITEMS};
use base::Random;

/// The number of the random stream (sequence of random numbers) from which the constants are drawn. It is far above the
/// numbers of the workers' streams, so no worker draws from the same stream.
const CONSTANTS_STREAM: u64 = u64::MAX;

pub fn between(random: &mut Random, low: u32, high: u32) -> u32 {
    low + random.below(u64::from(high - low) + 1) as u32
}

/// Return true with a probability of `share` percent, and false otherwise.
pub fn percent(random: &mut Random, share: u32) -> bool {
    between(random, 1, 100) <= share
}

/// The constants C of `NURand`. They are drawn once for a run, and all terminals of the run use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    /// The constant C for last names in the loaded data.
    pub last_load: u32,
    /// The constant C for last names that transactions search for.
    pub last_run: u32,
    customer: u32,
    item: u32,
}

impl Constants {
    pub fn draw(seed: u64) -> Self {
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

    pub fn customer(&self, random: &mut Random) -> u32 {
        nurand(random, 1023, 1, CUSTOMERS, self.customer)
    }

    /// Draw the number of an item for an order line, OL_I_ID (NURand with A = 8191).
    pub fn item(&self, random: &mut Random) -> u32 {
        nurand(random, 8191, 1, ITEMS, self.item)
    }

    pub fn loaded_name(&self, random: &mut Random) -> u32 {
        nurand(random, 255, 0, 999, self.last_load)
    }

    pub fn requested_name(&self, random: &mut Random) -> u32 {
        nurand(random, 255, 0, 999, self.last_run)
    }
}

/// Return whether the constants for last names in transactions and data may differ by `delta` (clause 2.1.6.1).
fn is_allowed(delta: u32) -> bool {
    (65..=119).contains(&delta) && delta != 96 && delta != 112
}

fn nurand(random: &mut Random, a: u32, x: u32, y: u32, c: u32) -> u32 {
    ((between(random, 0, a) | between(random, x, y)) + c) % (y - x + 1) + x
}

const LETTERS: &[u8; 26] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const ALPHANUMERIC: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const DIGITS: &[u8; 10] = b"0123456789";
/// The text that a tenth of all values of I_DATA and S_DATA contain.
pub const ORIGINAL: &[u8; 8] = b"ORIGINAL";

pub fn append_text(random: &mut Random, low: u32, high: u32, sql: &mut Vec<u8>) {
    quoted(sql, |sql| {
        let length = between(random, low, high);
        append_random(random, ALPHANUMERIC, length, sql);
    });
}

pub fn append_letters(random: &mut Random, count: u32, sql: &mut Vec<u8>) {
    quoted(sql, |sql| append_random(random, LETTERS, count, sql));
}

pub fn append_digits(random: &mut Random, count: u32, sql: &mut Vec<u8>) {
    quoted(sql, |sql| append_random(random, DIGITS, count, sql));
}

/// Append a zip code in quotes: four random digits and 11111 (clause 4.3.2.7).
pub fn append_zip(random: &mut Random, sql: &mut Vec<u8>) {
    quoted(sql, |sql| {
        append_random(random, DIGITS, 4, sql);
        sql.extend_from_slice(b"11111");
    });
}

/// Append a value of I_DATA or S_DATA in quotes: 26 to 50 alphanumeric characters. A tenth of the values have ORIGINAL.
pub fn append_data(random: &mut Random, sql: &mut Vec<u8>) {
    let begins = sql.len() + 1;
    append_text(random, 26, 50, sql);
    if percent(random, 10) {
        let last = sql.len() - 1 - ORIGINAL.len() - begins;
        let at = begins + between(random, 0, last as u32) as usize;
        sql[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
}

/// Return whether a value of I_DATA or S_DATA contains ORIGINAL (clause 2.4.2.2).
pub fn is_original(data: &[u8]) -> bool {
    data.windows(ORIGINAL.len()).any(|window| window == ORIGINAL)
}

fn quoted(sql: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    sql.push(b'\'');
    fill(sql);
    sql.push(b'\'');
}

/// Append `count` random characters. With 16 random bits for at most 62 characters, probabilities are exact to 0.1 %.
fn append_random(random: &mut Random, characters: &[u8], count: u32, sql: &mut Vec<u8>) {
    let mut bits = 0;
    for place in 0..count {
        if place % 4 == 0 {
            bits = random.bits();
        }
        sql.push(characters[((bits & 0xFFFF) as usize * characters.len()) >> 16]);
        bits >>= 16;
    }
}

/// The syllables of last names. The index is the digit that the syllable stands for.
const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// The maximum length of a last name, which has three syllables.
const LONGEST: usize = 15;

/// A customer's last name, C_LAST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastName {
    letters: [u8; LONGEST],
    length: usize,
}

impl LastName {
    pub fn new(number: u32) -> Self {
        let mut name = LastName { letters: [0; LONGEST], length: 0 };
        for digit in [number / 100, number / 10 % 10, number % 10] {
            let syllable = SYLLABLES[digit as usize].as_bytes();
            name.letters[name.length..][..syllable.len()].copy_from_slice(syllable);
            name.length += syllable.len();
        }
        name
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.letters[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_name_constants_differ_as_clause_2_1_6_1_requires() {
        for seed in 0..2000 {
            let Constants { last_load, last_run, customer, item } = Constants::draw(seed);
            let delta = last_load.abs_diff(last_run);
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "{delta}");
            assert!(last_load <= 255 && last_run <= 255 && customer <= 1023 && item <= 8191);
        }
        assert_eq!(Constants::draw(7), Constants::draw(7));
        assert_ne!(Constants::draw(7), Constants::draw(8));
    }

    /// `NURand` computes each number from two uniform numbers. The test computes the exact distribution from all pairs
    /// of uniform numbers, and compares it with drawn numbers.
    #[test]
    fn drawn_nurand_numbers_follow_the_exact_distribution() {
        let (a, x, y, c) = (255, 0, 999, 77);
        let mut exact = vec![0_u32; 1000];
        for one in 0..=a {
            for other in x..=y {
                exact[(((one | other) + c) % 1000) as usize] += 1;
            }
        }
        let draws = 500_000;
        let mut random = Random::new(3);
        let mut draw = vec![0_u32; 1000];
        (0..draws).for_each(|_| draw[nurand(&mut random, a, x, y, c) as usize] += 1);
        let scale = f64::from(draws) / f64::from((a + 1) * 1000);
        let chi_squared: f64 = (0..1000)
            .filter(|at| exact[*at] > 0)
            .map(|at| {
                let expected = f64::from(exact[at]) * scale;
                (f64::from(draw[at]) - expected).powi(2) / expected
            })
            .sum();
        // With at most 999 degrees of freedom, 6 standard deviations above the mean are 1267.
        assert!(chi_squared < 1267.0, "{chi_squared}");
        assert!((0..1000).all(|at| (exact[at] == 0) <= (draw[at] == 0)));
    }

    #[test]
    fn function_percent_returns_true_with_the_given_probability() {
        let mut random = Random::new(5);
        let hits = (0..100_000).filter(|_| percent(&mut random, 10)).count();
        assert!((9_500..10_500).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| percent(&mut random, 100) && !percent(&mut random, 0)));
    }

    fn strings(count: usize, append: impl Fn(&mut Random, &mut Vec<u8>)) -> Vec<String> {
        let mut random = Random::new(1);
        let one = |_| {
            let mut sql = Vec::new();
            append(&mut random, &mut sql);
            let text = String::from_utf8(sql).unwrap();
            text.strip_prefix('\'').unwrap().strip_suffix('\'').unwrap().to_owned()
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn random_texts_use_all_allowed_lengths_and_characters() {
        let texts = strings(20_000, |random, sql| append_text(random, 6, 10, sql));
        let mut lengths: Vec<_> = texts.iter().map(String::len).collect();
        lengths.sort_unstable();
        lengths.dedup();
        assert_eq!(lengths, [6, 7, 8, 9, 10]);
        let all: String = texts.concat();
        assert!(ALPHANUMERIC.iter().all(|character| all.bytes().any(|byte| byte == *character)));
        assert!(all.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }

    #[test]
    fn zip_code_ends_in_11111() {
        let zips = strings(100, append_zip);
        assert!(zips.iter().all(|zip| zip.len() == 9 && zip.ends_with("11111")));
        assert!(zips.iter().all(|zip| zip.bytes().all(|byte| byte.is_ascii_digit())));
    }

    #[test]
    fn a_tenth_of_data_values_contain_the_word_original_at_any_position() {
        let data = strings(20_000, append_data);
        assert!(data.iter().all(|data| (26..=50).contains(&data.len())));
        let original: Vec<_> = data.iter().filter(|data| is_original(data.as_bytes())).collect();
        assert!((1800..2200).contains(&original.len()), "{}", original.len());
        assert!(original.iter().any(|data| data.starts_with("ORIGINAL")));
        assert!(original.iter().any(|data| data.ends_with("ORIGINAL")));
        assert!(!is_original(b"ORIGINA") && !is_original(b""));
    }

    #[test]
    fn last_names_match_the_example_in_the_specification() {
        assert_eq!(LastName::new(371).as_bytes(), b"PRICALLYOUGHT");
        assert_eq!(LastName::new(40).as_bytes(), b"BARPRESBAR");
        assert_eq!(LastName::new(777).as_bytes(), b"CALLYCALLYCALLY");
    }
}
