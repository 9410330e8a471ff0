//! Bounded fuzzing: whatever comes from either side, in whatever pieces, nothing panics and nothing encrypted gets out.

use super::*;

const MARK: &[u8] = b"S3CRET-OF-A-COLUMN";
const ITERATIONS: usize = 3000;

/// Choices out of a fuzzer's bytes; zeros when they are used up.
struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    /// Change up to three bytes.
    fn damage(&mut self, bytes: &mut [u8]) {
        for _ in 0..self.byte() % 4 {
            let place = usize::from(self.byte()) * 2 % bytes.len();
            bytes[place] = self.byte();
        }
    }
}

/// Arbitrary bytes in both directions, from the first one on or after a login.
#[test]
fn arbitrary_bytes_from_both_sides() {
    bolero::check!().with_iterations(ITERATIONS).for_each(|bytes: &[u8]| {
        let mut choices = Choices(bytes);
        let mut between = match choices.byte() % 4 {
            side @ 0..=1 => Between::new(rules(RULES), Limits::default(), side == 1),
            2 => Between::logged_in("admin"),
            _ => Between::logged_in("shop"),
        };
        while !choices.0.is_empty() {
            let (side, own) = (choices.byte(), choices.byte());
            let said = choices.bytes();
            // Half of it is packets in number, or nothing would get past the first header.
            let said = if own.is_multiple_of(2) { packet(between.session.sequence, said) } else { said.to_vec() };
            match side % 3 {
                0 => between.server_in_pieces(&said, usize::from(own)),
                1 => drop(between.client(&said)),
                _ if between.session.wants_tls() => between.session.secured(),
                _ => drop(between.client(&packet(0, &said))),
            }
        }
        between.session.server_lost(&mut between.to_client);
    });
}

/// The beginning of a connection, damaged anywhere: a client of a guarded account gets its OK, one error, or nothing yet.
#[test]
fn damaged_logins() {
    bolero::check!().with_iterations(ITERATIONS).for_each(|bytes: &[u8]| {
        let mut choices = Choices(bytes);
        let mut between = Between::new(rules(RULES), Limits::default(), choices.byte() % 4 == 1);
        let (mut greeting, mut response) = (greeting(), response("shop", true));
        if choices.byte().is_multiple_of(2) {
            choices.damage(&mut greeting);
            choices.damage(&mut response);
        }
        between.server_in_pieces(&greeting, 1 + usize::from(choices.byte()));
        between.client(&response);
        if between.session.wants_tls() {
            between.session.secured();
        }
        between.to_client.clear();
        between.server(&packet(2, OK));
        let mut answers = pinned_answers(&PINNED, true);
        choices.damage(&mut answers);
        if between.session.phase != Phase::Pinning {
            return;
        }
        between.server_in_pieces(&answers, 1 + usize::from(choices.byte()));
        match &packets(&between.to_client)[..] {
            [] => assert!(!between.session.is_logged_in() && !between.session.listens_to_client()),
            [one] if between.session.is_logged_in() => assert_eq!(one, OK),
            [one] => assert!(one[0] == 0xFF && between.session.is_over()),
            more => panic!("{more:?}"),
        }
    });
}

/// An output of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selected {
    Name,
    City,
    Computed,
}

/// Rules that approve each SELECT of up to four outputs, with what they are.
static ALL_SELECTS: LazyLock<Rules> = LazyLock::new(|| {
    let mut text = String::from(RULES.split("[[statements]]").next().unwrap());
    let mut lists = vec![Vec::new()];
    for _ in 0..4 {
        let longer = |list: &Vec<Selected>| {
            [Selected::Name, Selected::City, Selected::Computed].map(|output| [&list[..], &[output]].concat())
        };
        lists = lists.iter().flat_map(longer).collect();
        for list in &lists {
            let verdict = |output: &Selected| if *output == Selected::City { "\"plain\"" } else { "\"encrypt\"" };
            let outputs = list.iter().map(verdict).collect::<Vec<_>>().join(", ");
            text.push_str(&format!("[[statements]]\ntext = \"{}\"\noutputs = [{outputs}]\n", select(list)));
        }
    }
    rules(&text)
});

fn select(outputs: &[Selected]) -> String {
    let outputs = outputs.iter().map(|output| match output {
        Selected::Name => "name",
        Selected::City => "city",
        Selected::Computed => "MAX(name)",
    });
    format!("SELECT {} FROM people", outputs.collect::<Vec<_>>().join(", "))
}

/// What is asked for, and the packets of an answer with the mark in each column that is to be encrypted, damaged by choice.
/// Whatever the server calls a column that the statement says is protected; one that is plain has its own name or none.
struct Damaged {
    format: RowFormat,
    sql: String,
    prepared: Vec<u8>,
    answer: Vec<u8>,
}

fn damaged_answer(choices: &mut Choices<'_>) -> Damaged {
    let format = choices.of(&[RowFormat::Text, RowFormat::Binary]);
    let columns: Vec<_> = (0..1 + choices.byte() % 4)
        .map(|_| choices.of(&[Selected::Name, Selected::City, Selected::Computed]))
        .collect();
    let named = |column: &Selected| match column {
        Selected::City => choices.of(&[PLAIN, COMPUTED]),
        Selected::Name | Selected::Computed => choices.of(&[SECRET, PLAIN, COMPUTED]),
    };
    let names: Vec<_> = columns.iter().map(named).collect();
    let mut payloads = vec![vec![columns.len() as u8]];
    payloads.extend(names.iter().map(|column| of_type(*column, choices.of(&[0xFD_u8, 0xFC, 0x0F]))));
    for _ in 0..choices.byte() % 6 {
        let value = |column: &Selected| match choices.byte() % 5 {
            0 => None,
            _ if *column == Selected::City => Some(&b"plain"[..]),
            _ => Some(MARK),
        };
        let row: Vec<_> = columns.iter().map(value).collect();
        payloads.push(match format {
            RowFormat::Text => text_row(&row),
            RowFormat::Binary => binary_row(&row),
        });
    }
    let error = b"\xff\x26\x04#23000Duplicate entry 'S3CRET-OF-A-COLUMN' for key 'k'";
    payloads.push(choices.of(&[END, error, b"\xfe\0\0\x0a\0\0\0", b""]).to_vec());
    // What then stands where a plain column's value does is one.
    let shifts = columns.iter().all(|column| *column != Selected::City);
    let (mut answer, mut sequence) = (Vec::new(), 1_u8);
    for (place, mut payload) in payloads.into_iter().enumerate() {
        let is_row = place > columns.len() && payload.len() > 1 && payload[0] != 0xFF;
        if is_row && choices.byte().is_multiple_of(4) {
            damage(&mut payload, shifts, choices);
        }
        sequence = sequence.wrapping_add(u8::from(choices.byte() % 32 == 1));
        let mut whole = packet(sequence, &payload);
        if choices.byte() % 32 == 1 {
            let place = usize::from(choices.byte() % 3);
            whole[place] ^= choices.byte();
        }
        answer.extend_from_slice(&whole);
        sequence = sequence.wrapping_add(1);
    }
    answer.truncate(answer.len().saturating_sub(usize::from(choices.byte() / 8)));
    Damaged { format, sql: select(&columns), prepared: prepared(7, 0, &names), answer }
}

/// `shifts`: a value may come to stand for another column's.
fn damage(payload: &mut Vec<u8>, shifts: bool, choices: &mut Choices<'_>) {
    match choices.byte() % if shifts { 4 } else { 2 } {
        0 => payload.truncate(1 + usize::from(choices.byte()) % payload.len()),
        1 => payload.extend_from_slice(choices.bytes()),
        2 => {
            let place = 1 + usize::from(choices.byte()) % (payload.len() - 1);
            payload[place] = choices.byte();
        }
        // Another length of the first value, and so of all that follow.
        _ if payload[0] < 0xFB => payload[0] = choices.byte() % 0xFB,
        _ => {}
    }
}

fn binary_row(row: &[Option<&[u8]>]) -> Vec<u8> {
    let mut payload = vec![0; 1 + (row.len() + 2).div_ceil(8)];
    for (place, value) in row.iter().enumerate() {
        match value {
            None => payload[1 + (place + 2) / 8] |= 1 << ((place + 2) % 8),
            Some(value) => {
                payload.push(value.len() as u8);
                payload.extend_from_slice(value);
            }
        }
    }
    payload
}

fn damaged_answers(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let account = choices.of(&["shop", "analyst"]);
    let size = 1 + usize::from(choices.byte());
    let mut between = Between::new(ALL_SELECTS.clone(), Limits::default(), false);
    between.log_in(&response(account, true));
    for _ in 0..1 + choices.byte() % 3 {
        if !between.session.listens_to_client() {
            // It still waits for the end of the answer before, and the server is not asked for another.
            break;
        }
        let Damaged { format, sql, prepared, answer } = damaged_answer(&mut choices);
        match format {
            RowFormat::Text => between.query(&sql),
            RowFormat::Binary => {
                between.prepare(&sql);
                between.server(&prepared);
                between.client(&execution(7, b""));
            }
        }
        between.server_in_pieces(&answer, size);
    }
    between.session.server_lost(&mut between.to_client);
    assert!(!between.to_client.windows(MARK.len()).any(|window| window == MARK), "{bytes:?}");
}

#[test]
fn damaged_answers_never_show_what_is_to_be_encrypted() {
    bolero::check!().with_iterations(ITERATIONS).for_each(damaged_answers);
}

/// Definitions alone, whose parser looks furthest into a packet. Whatever it makes of them, the statement is of a protected
/// column.
#[test]
fn damaged_definitions() {
    bolero::check!().with_iterations(ITERATIONS).for_each(|bytes: &[u8]| {
        let mut payload = definition(SECRET);
        damage(&mut payload, true, &mut Choices(bytes));
        let mut between = Between::logged_in("shop");
        between.query(NAME);
        between.server(&[packet(1, b"\x01"), packet(2, &payload), packet(3, b"\x05smith"), packet(4, END)].concat());
        between.session.server_lost(&mut between.to_client);
        assert!(!between.shows());
    });
}
