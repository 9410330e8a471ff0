//! Last names of customers (clause 4.3.2.3): three syllables, one for each digit of a number.

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
    /// Of this number, which is below 1000.
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
