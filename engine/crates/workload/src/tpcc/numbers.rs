//! Random numbers as TPC-C draws them, uniform (clause 4.3.2.5) and non-uniform, `NURand` (clause 2.1.6); random strings
//! (clauses 4.3.2.2, 4.3.2.7 and 4.3.3.1), of which none holds what would have to be escaped in SQL; and last names
//! (clause 4.3.2.3).

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

    pub fn customer(&self, random: &mut Random) -> u32 {
        nurand(random, 1023, 1, CUSTOMERS, self.customer)
    }

    /// OL_I_ID (A = 8191).
    pub fn item(&self, random: &mut Random) -> u32 {
        nurand(random, 8191, 1, ITEMS, self.item)
    }

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

const LETTERS: &[u8; 26] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const ALPHANUMERIC: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const DIGITS: &[u8; 10] = b"0123456789";
/// What a tenth of all data says.
pub const ORIGINAL: &[u8; 8] = b"ORIGINAL";

pub fn append_text(random: &mut Random, low: u32, high: u32, sql: &mut Vec<u8>) {
    quoted(sql, |sql| {
        let length = between(random, low, high);
        append_of(random, ALPHANUMERIC, length, sql);
    });
}

pub fn append_letters(random: &mut Random, count: u32, sql: &mut Vec<u8>) {
    quoted(sql, |sql| append_of(random, LETTERS, count, sql));
}

pub fn append_digits(random: &mut Random, count: u32, sql: &mut Vec<u8>) {
    quoted(sql, |sql| append_of(random, DIGITS, count, sql));
}

/// A zip code: four random digits and 11111 (clause 4.3.2.7), in quotes.
pub fn append_zip(random: &mut Random, sql: &mut Vec<u8>) {
    quoted(sql, |sql| {
        append_of(random, DIGITS, 4, sql);
        sql.extend_from_slice(b"11111");
    });
}

/// I_DATA or S_DATA: an a-string of 26 to 50, in a tenth of all with ORIGINAL somewhere in it, in quotes.
pub fn append_data(random: &mut Random, sql: &mut Vec<u8>) {
    let begins = sql.len() + 1;
    append_text(random, 26, 50, sql);
    if percent(random, 10) {
        let last = sql.len() - 1 - ORIGINAL.len() - begins;
        let at = begins + between(random, 0, last as u32) as usize;
        sql[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
}

/// Whether a data field says that it is original (clause 2.4.2.2).
pub fn is_original(data: &[u8]) -> bool {
    data.windows(ORIGINAL.len()).any(|window| window == ORIGINAL)
}

fn quoted(sql: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    sql.push(b'\'');
    fill(sql);
    sql.push(b'\'');
}

/// Four characters of each 64 random bits; 16 of them choose one of 62 with an error below a thousandth.
fn append_of(random: &mut Random, characters: &[u8], count: u32, sql: &mut Vec<u8>) {
    let mut bits = 0;
    for place in 0..count {
        if place % 4 == 0 {
            bits = random.bits();
        }
        sql.push(characters[((bits & 0xFFFF) as usize * characters.len()) >> 16]);
        bits >>= 16;
    }
}

/// For the digits from 0 on.
const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// Three of the longest.
const LONGEST: usize = 15;

/// A C_LAST.
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
    use std::collections::HashSet;

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
    fn strings_have_every_length_and_every_character() {
        let texts = strings(20_000, |random, sql| append_text(random, 6, 10, sql));
        let mut lengths: Vec<_> = texts.iter().map(String::len).collect();
        lengths.sort_unstable();
        lengths.dedup();
        assert_eq!(lengths, [6, 7, 8, 9, 10]);
        let all: String = texts.concat();
        assert!(ALPHANUMERIC.iter().all(|wanted| all.bytes().any(|byte| byte == *wanted)));
        assert!(all.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }

    #[test]
    fn a_zip_code_ends_in_ones() {
        let zips = strings(100, append_zip);
        assert!(zips.iter().all(|zip| zip.len() == 9 && zip.ends_with("11111")));
        assert!(zips.iter().all(|zip| zip.bytes().all(|byte| byte.is_ascii_digit())));
    }

    #[test]
    fn a_tenth_of_data_is_original_wherever_in_it() {
        let data = strings(20_000, append_data);
        assert!(data.iter().all(|data| (26..=50).contains(&data.len())));
        let found: Vec<_> = data.iter().filter(|data| is_original(data.as_bytes())).collect();
        assert!((1800..2200).contains(&found.len()), "{}", found.len());
        assert!(found.iter().any(|data| data.starts_with("ORIGINAL")));
        assert!(found.iter().any(|data| data.ends_with("ORIGINAL")));
        assert!(!is_original(b"ORIGINA") && !is_original(b""));
    }

    #[test]
    fn the_specifications_example() {
        assert_eq!(LastName::new(371).as_bytes(), b"PRICALLYOUGHT");
        assert_eq!(LastName::new(40).as_bytes(), b"BARPRESBAR");
        assert_eq!(LastName::new(777).as_bytes(), b"CALLYCALLYCALLY");
    }

    #[test]
    fn a_thousand_different_names() {
        let names: HashSet<Vec<u8>> = (0..1000).map(|number| LastName::new(number).as_bytes().to_vec()).collect();
        assert_eq!(names.len(), 1000);
    }
}
