//! Names with `*`.

use std::fmt;

/// A name in which `*` stands for any characters. The case of ASCII letters does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Create a pattern; None if the text is empty.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Pattern(text.to_ascii_lowercase()))
    }

    /// Return whether a name matches.
    pub fn matches(&self, name: &[u8]) -> bool {
        matches(self.0.as_bytes(), name)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Match without recursion and never in exponential time: only the last `*` is tried again.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                again = Some((at + 1, in_name));
                at += 1;
            }
            Some(byte) if byte.eq_ignore_ascii_case(&name[in_name]) => {
                at += 1;
                in_name += 1;
            }
            _ => match again {
                Some((after, from)) => {
                    again = Some((after, from + 1));
                    (at, in_name) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matched(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern).unwrap().matches(name.as_bytes())
    }

    #[test]
    fn a_star_is_any_characters() {
        for (pattern, name) in [("c_*", "c_last"), ("*", ""), ("*_id", "C_W_ID"), ("a*b*c", "aXbYbc"), ("x", "X")] {
            assert!(matched(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("c_*", "cx"), ("c", "cc"), ("a*b", "ac"), ("*_id", "id"), ("x", "")] {
            assert!(!matched(pattern, name), "{pattern} {name}");
        }
        assert_eq!(Pattern::new(""), None);
    }

    proptest! {
        #[test]
        fn what_a_name_is_made_from_matches_it(parts in prop::collection::vec("[a-c]{0,3}", 1..5), fill in "[a-c]{0,3}") {
            prop_assume!(parts.join("*").len() + parts.len() > 1);
            let pattern = parts.join("*") + "*";
            prop_assert!(matched(&pattern, &parts.join(&fill)));
        }

        #[test]
        fn a_name_matches_itself_alone(name in "[a-c]{1,4}", other in "[a-c]{1,4}") {
            prop_assert_eq!(matched(&name, &other), name == other);
        }
    }
}
