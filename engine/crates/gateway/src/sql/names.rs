//! Names of a statement, and names that the gateway makes in their place.
//!
//! Servers compare names by rules of their own: by case or not, folding characters beyond ASCII, cutting blanks off an alias.
//! So where a server would have to find out which of several things a name means, what is printed is a name that nothing else
//! in the statement has.

use super::tree::Name;

/// What a made name begins with; a number follows. It has no letter that a server could fold, and needs no quotes: MariaDB leaves
/// those of a common table out where it shows a view. One that a client writes is replaced like any other.
const MARK: &str = "__";
/// A column's name has so many characters at most; an alias may have more.
const LONGEST_COLUMN: usize = 64;

/// Whether two names are one to the gateway: to it, only ASCII has case.
pub fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// Whether a server might take two names for one, whatever it folds and cuts off.
pub fn could_be_same(one: &str, other: &str) -> bool {
    let is_like = |one: char, other: char| one.eq_ignore_ascii_case(&other) || !one.is_ascii() || !other.is_ascii();
    let (mut one, mut other) = (one.trim_matches(is_blank).chars(), other.trim_matches(is_blank).chars());
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(one), Some(other)) if is_like(one, other) => {}
            (_, _) => return false,
        }
    }
}

/// A server would cut off how an alias begins, and find another name than was printed.
pub fn begins_blank(name: &str) -> bool {
    name.starts_with(is_blank)
}

/// Every server keeps it as a column's name as it is, and takes it for another plain name only where [`is_same`] does.
pub fn is_plain(name: &str) -> bool {
    let is_graphic = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let ends = !name.is_empty() && !begins_blank(name) && !name.ends_with(' ');
    ends && name.len() <= LONGEST_COLUMN && !is_made(name) && name.bytes().all(is_graphic)
}

/// The gateway's own, or like one.
pub fn is_made(name: &str) -> bool {
    name.strip_prefix(MARK).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The name of this number.
pub fn made<'a>(number: u32) -> Name<'a> {
    format!("{MARK}{number}").into()
}

fn is_blank(character: char) -> bool {
    character.is_whitespace() || character.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_fold_or_cut_off_could_be_one_name() {
        for (one, other) in
            [("k", "\u{212A}"), ("prénom", "PRÉNOM"), ("\u{130}ks", "iks"), (" zzz", "zzz"), ("\u{1}a", "A")]
        {
            assert!(could_be_same(one, other) && !is_same(one, other), "{one} {other}");
        }
        assert!(could_be_same("Name", "NAME") && is_same("Name", "NAME"));
        assert!(!could_be_same("name", "names") && !could_be_same("éa", "éb"));
    }

    #[test]
    fn plain_names_stay() {
        for name in ["id", "COUNT(*)", "a b", "x$1"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["", " a", "a ", "\ta", "é", "__1", &"a".repeat(65)] {
            assert!(!is_plain(name), "{name}");
        }
        assert!(is_made(&made(7)));
    }
}
