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

/// An answer with the mark in each row, damaged anywhere, to a statement whose outputs are all encrypted, whatever the server
/// calls them.
#[test]
fn damaged_answers_never_show_what_is_to_be_encrypted() {
    bolero::check!().with_iterations(ITERATIONS).for_each(|bytes: &[u8]| {
        let mut choices = Choices(bytes);
        let mut between = Between::logged_in(choices.of(&["shop", "analyst"]));
        for _ in 0..1 + choices.byte() % 3 {
            if !between.session.listens_to_client() {
                // It still waits for the end of the answer before, and the server is not asked for another.
                break;
            }
            let format = choices.of(&[RowFormat::Text, RowFormat::Binary]);
            let columns = [choices.of(&[SECRET, PLAIN, COMPUTED]), choices.of(&[SECRET, PLAIN, COMPUTED])];
            let kind = choices.of(&[0xFD_u8, 0xFC, 0x0F]);
            let mut payloads = vec![vec![2], of_type(columns[0], kind), of_type(columns[1], kind)];
            for _ in 0..choices.byte() % 6 {
                let row = [MARK, choices.of(&[MARK, b""])].map(|value| [&[value.len() as u8], value].concat()).concat();
                payloads.push(if format == RowFormat::Text { row } else { [&[0, 0][..], &row].concat() });
            }
            let error = b"\xff\x26\x04#23000Duplicate entry 'S3CRET-OF-A-COLUMN' for key 'k'";
            payloads.push(choices.of(&[END, error, b"\xfe\0\0\x0a\0\0\0", b""]).to_vec());
            for payload in payloads.iter_mut().skip(1).filter(|payload| payload.len() > 1) {
                damage(payload, &mut choices);
            }
            let mut answer = numbered(&payloads);
            choices.damage(&mut answer);
            answer.truncate(answer.len().saturating_sub(usize::from(choices.byte() / 8)));
            if format == RowFormat::Text {
                between.query(ENCRYPTED);
            } else {
                between.prepare(ENCRYPTED);
                between.server(&prepared(7, 0, &columns));
                between.client(&execution(7, b""));
            }
            between.server_in_pieces(&answer, 1 + usize::from(choices.byte()));
        }
        between.session.server_lost(&mut between.to_client);
        assert!(!between.to_client.windows(MARK.len()).any(|window| window == MARK), "{bytes:?}");
    });
}

/// Of two columns, both encrypted.
const ENCRYPTED: &str = "SELECT x, y FROM (SELECT name AS x, name AS y FROM people) t";

fn damage(payload: &mut Vec<u8>, choices: &mut Choices<'_>) {
    match choices.byte() % 16 {
        0 => payload.truncate(1 + usize::from(choices.byte()) % payload.len()),
        1 => payload.extend_from_slice(choices.bytes()),
        2 => {
            let place = 1 + usize::from(choices.byte()) % (payload.len() - 1);
            payload[place] = choices.byte();
        }
        // Another length of the first value, and so of all that follow.
        3 if payload[0] < 0xFB => payload[0] = choices.byte() % 0xFB,
        _ => {}
    }
}
