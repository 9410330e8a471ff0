//! The first oracle: protected values as they may come out, looked for in all bytes that a client receives.

use crate::world::Canaries;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use md5::Digest;

/// Of a text, in bytes: long enough to be no accident together with a repetition (see `Find::is_certain`).
const PIECE: usize = 6;
/// Of a number that has 19 digits, the first four of which all have.
const DIGITS: usize = 10;

pub struct Oracle {
    automaton: AhoCorasick,
    kinds: Vec<&'static str>,
}

impl Oracle {
    pub fn new(canaries: &[&Canaries]) -> Self {
        let mut forms = Vec::new();
        for each in canaries {
            each.texts.iter().for_each(|text| text_forms(text, &mut forms));
            each.numbers.iter().for_each(|number| number_forms(*number, &mut forms));
        }
        forms.sort();
        forms.dedup_by(|left, right| left.0 == right.0);
        let (patterns, kinds): (Vec<_>, Vec<_>) = forms.into_iter().unzip();
        let automaton = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .match_kind(MatchKind::LeftmostFirst)
            .build(patterns)
            .expect("a few thousand short patterns");
        Oracle { automaton, kinds }
    }

    /// What leaks, in words.
    pub fn finds(&self, bytes: &[u8]) -> Option<String> {
        let found = self.automaton.find(bytes)?;
        let kind = self.kinds[found.pattern().as_usize()];
        Some(format!("{kind}: {}", bytes[found.range()].escape_ascii()))
    }
}

type Forms = Vec<(Vec<u8>, &'static str)>;

fn text_forms(text: &[u8], forms: &mut Forms) {
    for (kind, digest) in [
        ("MD5", md5::Md5::digest(text).to_vec()),
        ("SHA-1", sha1::Sha1::digest(text).to_vec()),
        ("SHA-256", sha2::Sha256::digest(text).to_vec()),
    ] {
        hexadecimal(&digest[..8], kind, forms);
        forms.push((digest[..8].to_vec(), kind));
    }
    for piece in text.windows(PIECE) {
        for (kind, turned) in [
            ("a piece", piece.to_vec()),
            (
                "a piece in other case",
                piece.iter().map(|byte| byte ^ (0x20 * u8::from(byte.is_ascii_alphabetic()))).collect(),
            ),
            ("a piece in capitals", piece.to_ascii_uppercase()),
            ("a piece in small letters", piece.to_ascii_lowercase()),
        ] {
            forms.push((turned.iter().rev().copied().collect(), "a reversed piece"));
            forms.push((turned, kind));
        }
        hexadecimal(piece, "a piece in hexadecimal", forms);
        wide(piece, forms);
        for phase in 0..3 {
            // What stands before and behind decides the characters at both ends.
            let coded = STANDARD_NO_PAD.encode([&[0; 3][..phase], piece].concat());
            let (start, end) = ((phase * 8).div_ceil(6), (phase + PIECE) * 8 / 6);
            forms.push((coded.as_bytes()[start..end].to_vec(), "a piece in base64"));
        }
    }
}

fn number_forms(number: i64, forms: &mut Forms) {
    for digits in number.to_string().as_bytes().windows(DIGITS) {
        forms.push((digits.to_vec(), "digits of a number"));
        forms.push((digits.iter().rev().copied().collect(), "reversed digits of a number"));
        hexadecimal(digits, "digits of a number in hexadecimal", forms);
        wide(digits, forms);
    }
    for (kind, bytes) in [
        ("a binary number", number.to_le_bytes()),
        ("a binary number", number.to_be_bytes()),
        ("a binary number as a double", (number as f64).to_le_bytes()),
    ] {
        forms.push((bytes.to_vec(), kind));
    }
    for text in [format!("{number:x}"), format!("{number:X}"), format!("{number:b}"), format!("{number:o}")] {
        forms.push((text.into_bytes(), "a number to another base"));
    }
    forms.push((md5::Md5::digest(number.to_string()).to_vec(), "MD5 of a number"));
    hexadecimal(&md5::Md5::digest(number.to_string()), "MD5 of a number", forms);
}

fn hexadecimal(bytes: &[u8], kind: &'static str, forms: &mut Forms) {
    let small: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    forms.push((small.to_ascii_uppercase().into_bytes(), kind));
    forms.push((small.into_bytes(), kind));
}

/// UTF-16 and UTF-32. Of big-endian ones the first character's zeros are not among the bytes: the one before has them.
fn wide(piece: &[u8], forms: &mut Forms) {
    for (kind, zeros) in [("a piece in UTF-16", 1), ("a piece in UTF-32", 3)] {
        let wide: Vec<u8> = piece.iter().flat_map(|byte| std::iter::once(*byte).chain(vec![0; zeros])).collect();
        forms.push((wide[..wide.len() - zeros].to_vec(), kind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::world::World;

    fn oracle() -> (Oracle, Canaries) {
        let canaries = World::new(1, 0).canaries();
        (Oracle::new(&[&canaries]), canaries)
    }

    fn between(form: &[u8]) -> Vec<u8> {
        [b"\x05before", form, b"behind"].concat()
    }

    #[test]
    fn each_form_of_each_text_is_found() {
        let (oracle, canaries) = oracle();
        for text in &canaries.texts {
            let shown = std::str::from_utf8(text).unwrap();
            let little: Vec<u8> = shown.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let big: Vec<u8> = shown.encode_utf16().flat_map(u16::to_be_bytes).collect();
            let four: Vec<u8> = shown.chars().flat_map(|letter| (letter as u32).to_be_bytes()).collect();
            let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02X}")).collect() };
            for form in [
                text.to_vec(),
                text[10..].to_vec(),
                text.to_ascii_uppercase(),
                text.to_ascii_lowercase()[3..9].to_vec(),
                text.iter().rev().copied().collect(),
                hex(text).into_bytes(),
                hex(text).to_lowercase().as_bytes()[4..16].to_vec(),
                little,
                big,
                four,
                md5::Md5::digest(text).to_vec(),
                hex(&sha1::Sha1::digest(text)).to_lowercase().into_bytes(),
                sha2::Sha256::digest(text).to_vec(),
            ] {
                assert!(oracle.finds(&between(&form)).is_some(), "{shown} {form:?}");
            }
            for phase in 0..3 {
                let coded = STANDARD_NO_PAD.encode([&b"xyz"[..phase], text].concat());
                assert!(oracle.finds(&between(coded.as_bytes())).is_some(), "base64, {phase}");
            }
        }
    }

    #[test]
    fn each_form_of_each_number_is_found() {
        let (oracle, canaries) = oracle();
        for number in canaries.numbers {
            let double = format!("{:e}", number as f64);
            for form in [
                number.to_string().into_bytes(),
                format!("{number:X}").into_bytes(),
                number.to_le_bytes().to_vec(),
                (number as f64).to_le_bytes().to_vec(),
                double.into_bytes(),
                (number as f64 / 1000.0).to_string().into_bytes(),
            ] {
                assert!(oracle.finds(&between(&form)).is_some(), "{number} {form:?}");
            }
        }
    }

    #[test]
    fn noise_and_five_bytes_are_nothing() {
        let (oracle, canaries) = oracle();
        let mut rng = Rng::new(9, 9);
        let noise: Vec<u8> = std::iter::repeat_with(|| rng.next().to_le_bytes()).take(1 << 17).flatten().collect();
        assert_eq!(oracle.finds(&noise), None);
        let cut: Vec<u8> = canaries.texts[0].chunks(5).flat_map(|five| [five, b"."].concat()).collect();
        assert_eq!(oracle.finds(&cut), None);
    }
}
