//! Random strings (clauses 4.3.2.2, 4.3.2.7 and 4.3.3.1), appended to SQL: none holds what would have to be escaped.

use super::numbers::{between, percent};
use base::Random;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
