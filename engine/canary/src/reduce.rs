//! The second oracle: what two answers may differ in is taken out, and the rest must be the same bytes.

use crate::client::{Answer, Kind};

const DOUBLE: u8 = 5;
const BLOB: u8 = 0xFC;
const BINARY: u16 = 63;
/// A number for the algorithm, 12 bytes of nonce, 16 of tag.
const LEAST_CIPHERTEXT: usize = 29;
const GCM: u8 = 1;
/// In place of what has gone.
const REDUCED: &[u8] = b"\xffciphertext";

/// An answer without its ciphertexts, which are reduced to their lengths, envelopes, numbers of prepared statements, and
/// the last digits of floating-point numbers; and where each of its packets begins in there.
fn reduced(answer: &Answer) -> (Vec<u8>, Vec<usize>) {
    let mut out = Vec::with_capacity(answer.bytes.len());
    let mut begins = Vec::with_capacity(answer.packets.len());
    let mut columns: Vec<Definition> = Vec::new();
    for (kind, payload) in answer.payloads() {
        begins.push(out.len());
        out.push(kind as u8);
        match kind {
            Kind::Count => {
                columns.clear();
                out.extend(payload);
            }
            Kind::Definition => {
                let (definition, known) = Definition::read(payload);
                columns.push(definition);
                out.extend(&payload[..known]);
                length(payload.len() - known, &mut out);
            }
            Kind::TextRow => text_row(payload, &columns, &mut out),
            Kind::BinaryRow => binary_row(payload, &columns, &mut out),
            Kind::Prepared => out.extend(&payload[5.min(payload.len())..]),
            Kind::Ok | Kind::Error | Kind::Eof | Kind::Words => out.extend(payload),
        }
    }
    (out, begins)
}

#[derive(Debug, Clone, Copy)]
struct Definition {
    charset: u16,
    kind: u8,
}

impl Definition {
    /// And where an envelope would begin.
    fn read(payload: &[u8]) -> (Self, usize) {
        let mut at = 0;
        for _ in 0..6 {
            let Some((size, after)) = length_at(payload, at) else {
                return (Definition { charset: 0, kind: 0 }, payload.len());
            };
            at = after + size;
        }
        let Some(fixed) = payload.get(at + 1..at + 13) else {
            return (Definition { charset: 0, kind: 0 }, payload.len());
        };
        (Definition { charset: u16::from_le_bytes([fixed[0], fixed[1]]), kind: fixed[6] }, at + 13)
    }

    fn seals(self, value: &[u8]) -> bool {
        (self.kind, self.charset) == (BLOB, BINARY) && value.len() >= LEAST_CIPHERTEXT && value[0] == GCM
    }
}

/// The order in which rows are summed decides the last bits of a floating-point sum, and is a plan's.
fn rounded(number: f64) -> Vec<u8> {
    format!("{number:.9e}").into_bytes()
}

fn value_out(definition: Option<&Definition>, value: &[u8], out: &mut Vec<u8>) {
    let is_double = definition.is_some_and(|definition| definition.kind == DOUBLE);
    let number = std::str::from_utf8(value).ok().filter(|_| is_double).and_then(|text| text.parse().ok());
    let rounded = number.map(rounded);
    let value = rounded.as_deref().unwrap_or(value);
    length(value.len(), out);
    if definition.is_some_and(|definition| definition.seals(value)) {
        out.extend(REDUCED);
    } else {
        out.extend(value);
    }
}

fn text_row(payload: &[u8], columns: &[Definition], out: &mut Vec<u8>) {
    let mut at = 0;
    let mut place = 0;
    while at < payload.len() {
        if payload[at] == 0xFB {
            out.push(0xFB);
            at += 1;
        } else {
            let Some((size, start)) = length_at(payload, at) else { break };
            let Some(value) = payload.get(start..start + size) else { break };
            value_out(columns.get(place), value, out);
            at = start + size;
        }
        place += 1;
    }
    out.extend(&payload[at.min(payload.len())..]);
}

fn binary_row(payload: &[u8], columns: &[Definition], out: &mut Vec<u8>) {
    let mut at = 1 + (columns.len() + 9) / 8;
    out.extend(&payload[..at.min(payload.len())]);
    for (place, column) in columns.iter().enumerate() {
        let bit = place + 2;
        if payload.get(1 + bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1) {
            continue;
        }
        let sized = match column.kind {
            1 => Some((1, at)),
            2 | 13 => Some((2, at)),
            3 | 4 | 9 => Some((4, at)),
            5 | 8 => Some((8, at)),
            6 => Some((0, at)),
            7 | 10 | 11 | 12 => payload.get(at).map(|size| (usize::from(*size), at + 1)),
            _ => length_at(payload, at),
        };
        let Some((size, start)) = sized else { break };
        let Some(value) = payload.get(start..start + size) else { break };
        match value.try_into() {
            Ok(bytes) if column.kind == DOUBLE => out.extend(rounded(f64::from_le_bytes(bytes))),
            _ => value_out(Some(column), value, out),
        }
        at = start + size;
    }
    out.extend(&payload[at.min(payload.len())..]);
}

fn length_at(payload: &[u8], at: usize) -> Option<(usize, usize)> {
    let first = *payload.get(at)?;
    let more = match first {
        0xFC => 2,
        0xFD => 3,
        0xFE => 8,
        _ => return Some((first.into(), at + 1)),
    };
    let bytes = payload.get(at + 1..at + 1 + more)?;
    let size = bytes.iter().rev().fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
    Some((size.min(payload.len()), at + 1 + more))
}

fn length(length: usize, out: &mut Vec<u8>) {
    out.extend((length as u32).to_le_bytes());
}

/// Where two answers differ, in words; `any_order`: whether it is no matter in which order their rows come.
pub fn difference(left: &Answer, right: &Answer, any_order: bool) -> Option<String> {
    let ((left_reduced, left_begins), (right_reduced, right_begins)) = (reduced(left), reduced(right));
    let is_alike = left_reduced == right_reduced
        || any_order && sorted(&left_reduced, &left_begins) == sorted(&right_reduced, &right_begins);
    if is_alike {
        return None;
    }
    let at = left_reduced.iter().zip(&right_reduced).position(|(left, right)| left != right);
    let at = at.unwrap_or(left_reduced.len().min(right_reduced.len()));
    let around = |bytes: &[u8]| bytes[at.saturating_sub(24)..(at + 24).min(bytes.len())].escape_ascii().to_string();
    Some(format!("answers differ: {} | {}", around(&left_reduced), around(&right_reduced)))
}

/// All packets, those of each kind together.
fn sorted<'a>(reduced: &'a [u8], begins: &[usize]) -> Vec<&'a [u8]> {
    let ends = begins.iter().skip(1).copied().chain([reduced.len()]);
    let mut packets: Vec<_> = begins.iter().zip(ends).map(|(begin, end)| &reduced[*begin..end]).collect();
    packets.sort_unstable();
    packets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(packets: &[(Kind, &[u8])]) -> Answer {
        let mut answer = Answer::default();
        for (kind, payload) in packets {
            let start = answer.bytes.len();
            answer.bytes.extend(*payload);
            answer.packets.push((*kind, start..answer.bytes.len()));
        }
        answer
    }

    fn definition(kind: u8, charset: u8, envelope: &[u8]) -> Vec<u8> {
        [b"\x03def\x01d\x01t\x01t\x04name\x04name\x0c", &[charset, 0, 0, 1, 0, 0, kind, 0x90, 0, 0, 0, 0][..], envelope]
            .concat()
    }

    fn text(value: &[u8]) -> Vec<u8> {
        [&[value.len() as u8], value].concat()
    }

    #[test]
    fn ciphertexts_differ_by_length_alone() {
        let sealed = |fill: u8, length: usize| [&[GCM][..], &vec![fill; length]].concat();
        let of = |value: &[u8], envelope: &[u8]| {
            let definition = definition(BLOB, 63, envelope);
            let row = [text(value), text(b"plain")].concat();
            answer(&[(Kind::Count, b"\x02"), (Kind::Definition, &definition), (Kind::TextRow, &row)])
        };
        assert_eq!(difference(&of(&sealed(2, 30), b"one"), &of(&sealed(3, 30), b"two"), false), None);
        assert!(difference(&of(&sealed(2, 30), b"one"), &of(&sealed(3, 31), b"two"), false).is_some(), "length");
        assert!(
            difference(&of(&sealed(2, 30), b"one"), &of(&sealed(3, 30), b"three"), false).is_some(),
            "envelope's length"
        );
        assert!(difference(&of(b"short", b""), &of(b"shorn", b""), false).is_some(), "no ciphertext");
    }

    #[test]
    fn plain_values_and_errors_are_compared() {
        for kind in [253, BLOB] {
            let of = |value: &[u8]| {
                let definition = definition(kind, 45, b"");
                answer(&[(Kind::Count, b"\x01"), (Kind::Definition, &definition), (Kind::TextRow, &text(value))])
            };
            assert!(difference(&of(&[GCM; 40]), &of(&[[GCM; 39].as_slice(), &[2]].concat()), false).is_some());
            assert_eq!(difference(&of(b"same"), &of(b"same"), false), None);
        }
        let error = |words: &[u8]| answer(&[(Kind::Error, &[b"\xff\x26\x04#23000", words].concat())]);
        assert!(difference(&error(b"a"), &error(b"b"), false).is_some());
    }

    #[test]
    fn the_last_digits_of_doubles_are_a_plans() {
        let definition = definition(DOUBLE, 63, b"");
        let of = |kind, row: &[u8]| answer(&[(Kind::Count, b"\x01"), (Kind::Definition, &definition), (kind, row)]);
        let binary = |number: f64| of(Kind::BinaryRow, &[&[0, 0], &number.to_le_bytes()[..]].concat());
        let as_text = |number: f64| of(Kind::TextRow, &text(number.to_string().as_bytes()));
        for answer in [&binary as &dyn Fn(f64) -> Answer, &as_text] {
            assert_eq!(difference(&answer(1.25_f64.sqrt()), &answer(1.25_f64.sqrt().next_up()), false), None);
            assert!(difference(&answer(1.25), &answer(1.250_000_01), false).is_some());
        }
    }

    #[test]
    fn binary_rows_are_reduced_too() {
        let of = |fill: u8, number: u8| {
            let (sealed, long) = (definition(BLOB, 63, b""), definition(3, 63, b""));
            let row = [&[0, 0][..], &text(&[&[GCM][..], &[fill; 44]].concat()), &[number, 0, 0, 0]].concat();
            let packets: [(Kind, &[u8]); 4] = [
                (Kind::Count, b"\x02"),
                (Kind::Definition, &sealed),
                (Kind::Definition, &long),
                (Kind::BinaryRow, &row),
            ];
            answer(&packets)
        };
        assert_eq!(difference(&of(1, 7), &of(2, 7), false), None);
        assert!(difference(&of(1, 7), &of(2, 8), false).is_some());
    }

    #[test]
    fn rows_in_another_order_are_alike_where_that_is_no_matter() {
        let of = |rows: [&[u8]; 2]| {
            let rows = rows.map(text);
            let [first, second] = &rows;
            let definition = definition(BLOB, 63, b"");
            answer(&[
                (Kind::Count, b"\x01"),
                (Kind::Definition, &definition),
                (Kind::TextRow, first),
                (Kind::TextRow, second),
                (Kind::Eof, b"\xfe"),
            ])
        };
        assert_eq!(difference(&of([b"a", b"b"]), &of([b"b", b"a"]), true), None);
        assert!(difference(&of([b"a", b"b"]), &of([b"b", b"a"]), false).is_some());
        assert!(difference(&of([b"a", b"b"]), &of([b"a", b"a"]), true).is_some());
    }
}
