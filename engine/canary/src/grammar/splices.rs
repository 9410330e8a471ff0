//! Changes to a statement's bytes that lexers may read in two ways.

use crate::rng::Rng;

pub const NAMES: &[&str] = &[
    "splice: a token glued to FROM",
    "splice: a strange blank",
    "splice: a comment for a blank",
    "splice: an executable comment",
    "splice: a comment to the line's end",
    "splice: a strange quote",
    "splice: an introducer",
    "splice: braces",
    "splice: a lead byte before a quote",
    "splice: a second statement",
    "splice: a byte",
    "splice: an operator",
    "splice: a dot",
    "splice: a blank less",
    "splice: another case",
];

/// Behind which FROM needs no blank, to some lexers.
const GLUED: &[&[u8]] = &[
    b", 1e1",
    b", \\N",
    b", .5",
    b", 1.",
    b", 0x41",
    b", 0b1",
    b", @x",
    b", 'a'",
    b", 1 AS `x`",
    b", \"a\"",
    b", 1e+1",
    b", x'41'",
    b", 1.e1",
    b", @@version_comment",
    b", NULL",
    b", 1.5e",
    b", N'a'",
    b", @`x`",
    b", (1)",
    b", -1",
    b", 1.e",
    b", 0xg",
    b", TRUE",
    b", _utf8mb4'a'",
];
const BLANKS: &[&[u8]] = &[
    b"\x0b",
    b"\x0c",
    b"\xa0",
    b"\xc2\xa0",
    b"\xe3\x80\x80",
    b"\t",
    b"\r",
    b"\n",
    b"\0",
    b"\x1a",
    b"\x1f",
    b"\xe2\x80\x8b",
    b"\xef\xbb\xbf",
    b"",
];
const COMMENTS: &[&[u8]] = &[
    b"/**/",
    b"/* x */",
    b"/*\xbf*/",
    b"/*'*/",
    b"/*--*/",
    b"/*\0*/",
    b"/*/**/",
    b"/*!*/",
    b"/*M!*/",
    b"/*+ x */",
    b"/*!99999 x*/",
];
const EXECUTABLE: &[&[u8]] = &[
    b"/*!",
    b"/*!40101 ",
    b"/*!50701 ",
    b"/*!99997 ",
    b"/*M! ",
    b"/*M!100100 ",
    b"/*!050000 ",
    b"/*!5070 1 ",
    b"/*!100000",
];
const TO_THE_END: &[&[u8]] = &[
    b"-- x\n",
    b"#x\n",
    b"--\x01\n",
    b"--\n",
    b"-- '\n",
    b"# `\n",
    b"--x\n",
    b"#\0, CONCAT(name)\n",
    b"--\t\n",
    b"/*",
    b"-- ",
    b"#",
];
const QUOTED: &[&[u8]] = &[
    b"'a\\\\'",
    b"'a\\'",
    b"'a''b'",
    b"\"a\\\"b\"",
    b"`a\\`",
    b"`a``b`",
    b"'",
    b"\"",
    b"`",
    b"'\\\\\\''",
    b"'a\\\\', ', CONCAT(name) FROM people -- '",
    b"'a\\', CONCAT(name) FROM people -- '",
    b"\"name\"",
    b"'\xbf\\' , CONCAT(name) FROM people -- '",
    b"'\\0'",
    b"'a\0b'",
    b"'\xff'",
    b"q'[a]'",
    b"[name]",
    b"$$a$$",
];
const INTRODUCED: &[&[u8]] = &[
    b"_utf8mb4'a'",
    b"_gbk'\xbf\\'",
    b"_sjis'\x95\\'",
    b"_utf16'ab'",
    b"_ucs2 x'0061'",
    b"_binary'a'",
    b"N'a'",
    b"n'a'",
    b"_big5'a\\'",
    b"_utf8mb4 0x61",
    b"_latin1 b'1'",
    b"_utf8 'a' COLLATE utf8_bin",
    b"X'6'",
    b"x'zz'",
    b"0x",
    b"b'2'",
    b"_nothing'a'",
    b"_utf32 x'00000061'",
];
const BRACES: &[(&[u8], &[u8])] =
    &[(b"{fn ", b"}"), (b"{d ", b"}"), (b"{oj ", b"}"), (b"{any ", b"}"), (b"{", b"}"), (b"[", b"]"), (b"(((", b")))")];
const OPERATORS: &[&[u8]] = &[
    b"||", b":=", b"!", b"<=>", b"->", b"->>", b"&&", b"<>", b"!=", b"~", b"^", b"%", b"@", b"@@", b"?", b"*", b"**",
    b"=", b"==", b"<<", b":", b"$", b"\\", b"..",
];

/// Its name, and the changed bytes.
pub fn splice(bytes: Vec<u8>, rng: &mut Rng) -> (&'static str, Vec<u8>) {
    let kind = rng.below(NAMES.len());
    let changed = match kind {
        0 => glue(&bytes, rng),
        1 => at_a_blank(&bytes, rng, BLANKS),
        2 => at_a_blank(&bytes, rng, COMMENTS),
        3 => {
            let open = *rng.pick(EXECUTABLE);
            around(&bytes, rng, open, b"*/ ")
        }
        4 => at_a_blank(&bytes, rng, TO_THE_END),
        5 => replaced_word(&bytes, rng, QUOTED),
        6 => replaced_word(&bytes, rng, INTRODUCED),
        7 => {
            let (open, close) = *rng.pick(BRACES);
            around(&bytes, rng, open, close)
        }
        8 => before(&bytes, rng, b'\'', &[b"\xbf", b"\x95", b"\xa1", b"\\", b"\xc3", b"\xf0\x9f"]),
        9 => appended(bytes, rng),
        10 => any_byte(bytes, rng),
        11 => at_a_blank(&bytes, rng, OPERATORS),
        12 => before_a_word(&bytes, rng, b"."),
        13 => without_a_blank(&bytes, rng),
        _ => turned(bytes, rng),
    };
    (NAMES[kind], changed)
}

/// `SELECT …, 1e1FROM`.
fn glue(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let Some(at) = bytes.windows(6).position(|window| window.eq_ignore_ascii_case(b" FROM ")) else {
        return [bytes, b" "].concat();
    };
    let behind = if rng.percent(20) { at + 6 } else { at + 5 };
    let (head, tail) = (&bytes[..at], &bytes[behind..]);
    [head, *rng.pick(GLUED), b"FROM", tail].concat()
}

fn blanks(bytes: &[u8]) -> Vec<usize> {
    (0..bytes.len()).filter(|at| bytes[*at] == b' ').collect()
}

fn at_a_blank(bytes: &[u8], rng: &mut Rng, instead: &[&[u8]]) -> Vec<u8> {
    let places = blanks(bytes);
    if places.is_empty() {
        return bytes.to_vec();
    }
    let at = *rng.pick(&places);
    let filler = *rng.pick(instead);
    // In place of the blank, or beside it.
    let tail = if rng.percent(60) { &bytes[at + 1..] } else { &bytes[at..] };
    [&bytes[..at], filler, tail].concat()
}

fn without_a_blank(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    at_a_blank(bytes, rng, &[b""])
}

/// A stretch of words between these.
fn around(bytes: &[u8], rng: &mut Rng, open: &[u8], close: &[u8]) -> Vec<u8> {
    let places = blanks(bytes);
    if places.len() < 2 {
        return bytes.to_vec();
    }
    let first = rng.below(places.len() - 1);
    let last = (first + 1 + rng.below(4)).min(places.len() - 1);
    let (start, end) = (places[first] + 1, places[last]);
    [&bytes[..start], open, &bytes[start..end], close, &bytes[end..]].concat()
}

fn replaced_word(bytes: &[u8], rng: &mut Rng, instead: &[&[u8]]) -> Vec<u8> {
    let mut places = blanks(bytes);
    places.push(bytes.len());
    if places.len() < 3 {
        return bytes.to_vec();
    }
    let place = rng.below(places.len() - 1);
    let (start, end) = (places[place] + 1, places[place + 1]);
    // In its place, or in front of it as one more item.
    if rng.percent(50) {
        return [&bytes[..start], *rng.pick(instead), &bytes[end..]].concat();
    }
    [&bytes[..start], *rng.pick(instead), b", ", &bytes[start..]].concat()
}

fn before(bytes: &[u8], rng: &mut Rng, letter: u8, inserted: &[&[u8]]) -> Vec<u8> {
    let places: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at] == letter).collect();
    if places.is_empty() {
        return bytes.to_vec();
    }
    let at = *rng.pick(&places);
    [&bytes[..at], *rng.pick(inserted), &bytes[at..]].concat()
}

fn before_a_word(bytes: &[u8], rng: &mut Rng, inserted: &[u8]) -> Vec<u8> {
    let places = blanks(bytes);
    if places.is_empty() {
        return bytes.to_vec();
    }
    let at = *rng.pick(&places) + 1;
    [&bytes[..at], inserted, &bytes[at..]].concat()
}

fn appended(mut bytes: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    const TAILS: &[&[u8]] = &[
        b"; SELECT CONCAT(name) FROM people",
        b";",
        b" ;\0",
        b"\0; SELECT 1",
        b" -- ",
        b" #",
        b" /*",
        b" LIMIT 1 PROCEDURE ANALYSE()",
        b" INTO @x",
        b"; DELETE FROM notes",
        b" UNION ALL SELECT CONCAT(name) FROM people",
        b"\n--\nUNION SELECT name FROM people",
        b"\xff",
        b" \\G",
    ];
    bytes.extend_from_slice(rng.pick::<&[u8]>(TAILS));
    bytes
}

fn any_byte(mut bytes: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    let at = rng.below(bytes.len() + 1);
    let byte = *rng.pick(&[
        0, 1, 9, 0x1a, b'\'', b'"', b'`', b'\\', b'/', b'*', b'-', b'#', b';', b'(', b')', 0x7f, 0x80, 0xbf, 0xff,
    ]);
    if rng.percent(30) && at < bytes.len() {
        bytes[at] = byte;
    } else {
        bytes.insert(at, byte);
    }
    bytes
}

fn turned(mut bytes: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    for byte in &mut bytes {
        if rng.percent(20) && byte.is_ascii_alphabetic() {
            *byte ^= 0x20;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_changes_a_statement_and_the_known_ones_come() {
        let statement = b"SELECT CONCAT(name), 'a' FROM people WHERE id = 'b'".to_vec();
        let mut rng = Rng::new(1, 1);
        let mut changed: BTreeMap<&str, usize> = BTreeMap::new();
        let mut known =
            [&b"1e1FROM"[..], b"\\NFROM", b"/*!40101", b"\xbf'", b"--\x01\n", b"{fn ", b"\0"].map(|part| (part, 0));
        for _ in 0..20_000 {
            let (name, bytes) = splice(statement.clone(), &mut rng);
            *changed.entry(name).or_default() += usize::from(bytes != statement);
            for (part, count) in &mut known {
                *count += usize::from(bytes.windows(part.len()).any(|window| window == *part));
            }
        }
        assert!(NAMES.iter().all(|name| changed[name] > 400), "{changed:?}");
        assert!(known.iter().all(|(_, count)| *count > 10), "{known:?}");
    }

    #[test]
    fn whatever_is_given_is_survived() {
        let mut rng = Rng::new(2, 2);
        for statement in [&b""[..], b" ", b"x", b"  ", b"'", b"SELECT"] {
            for _ in 0..500 {
                splice(statement.to_vec(), &mut rng);
            }
        }
    }
}
