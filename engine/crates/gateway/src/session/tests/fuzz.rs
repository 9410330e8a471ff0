//! Bounded fuzzing: arbitrary bytes, in chunks of any size, cause no panic and reveal no value that must be encrypted.

use super::*;

const MARK: &[u8] = b"S3CRET-OF-A-COLUMN";
const ITERATIONS: usize = 1000;

/// A source of choices that are read from a fuzzer's bytes. After the last byte all choices are 0.
struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    /// Change up to three bytes.
    fn damage(&mut self, bytes: &mut [u8]) {
        for _ in 0..self.byte() % 4 {
            let position = usize::from(self.byte()) * 2 % bytes.len();
            bytes[position] = self.byte();
        }
    }
}

/// Send arbitrary bytes from client and server, from the start of a connection or after a login.
#[test]
fn session_never_panics_on_arbitrary_bytes_from_client_or_server() {
    bolero::check!().with_iterations(ITERATIONS).for_each(|bytes: &[u8]| {
        let mut choices = Choices(bytes);
        let mut test = match choices.byte() % 4 {
            side @ 0..=1 => TestSession::new(rules(RULES), Limits::default(), side == 1),
            2 => TestSession::logged_in("admin"),
            _ => TestSession::logged_in("shop"),
        };
        while !choices.0.is_empty() {
            let (side, selector) = (choices.byte(), choices.byte());
            let input = choices.bytes();
            // Half of the inputs are put into valid packets, because other bytes seldom pass the first check.
            let input = if selector.is_multiple_of(2) { packet(test.session.sequence, input) } else { input.to_vec() };
            match side % 3 {
                0 => test.server_in_chunks(&input, usize::from(selector)),
                1 => drop(test.client(&input)),
                _ if test.session.awaits_tls() => test.session.secured(),
                _ => drop(test.client(&packet(0, &input))),
            }
        }
        test.session.server_lost(&mut test.to_client);
    });
}

/// Damage the packets of a login to a guarded account (one that may send only approved statements). The client must get
/// the OK for its login, or one error, or nothing while the login is incomplete.
#[test]
fn damaged_login_is_never_confirmed_before_session_settings_are_checked() {
    bolero::check!().with_iterations(ITERATIONS).for_each(|bytes: &[u8]| {
        let mut choices = Choices(bytes);
        let mut test = TestSession::new(rules(RULES), Limits::default(), choices.byte() % 4 == 1);
        let (mut greeting, mut response) = (greeting(), response("shop", true));
        if choices.byte().is_multiple_of(2) {
            choices.damage(&mut greeting);
            choices.damage(&mut response);
        }
        test.server_in_chunks(&greeting, 1 + usize::from(choices.byte()));
        test.client(&response);
        if test.session.awaits_tls() {
            test.session.secured();
        }
        test.to_client.clear();
        test.server(&packet(2, OK));
        let mut answers = pinned_answers(&PINNED, true);
        choices.damage(&mut answers);
        if test.session.phase != Phase::Pinning {
            return;
        }
        test.server_in_chunks(&answers, 1 + usize::from(choices.byte()));
        match &packets(&test.to_client)[..] {
            [] => assert!(!test.session.is_logged_in() && !test.session.listens_to_client()),
            [one] if test.session.is_logged_in() => assert_eq!(one, OK),
            [one] => assert!(one[0] == 0xFF && test.session.is_over()),
            more => panic!("{more:?}"),
        }
    });
}

/// Damage a server's answer that has the plaintext `MARK` in each row. The gateway must encrypt all result columns of
/// the statement, whatever tables and columns the answer names. The client must therefore never get `MARK`.
#[test]
fn damaged_server_responses_never_reveal_encrypted_values() {
    bolero::check!().with_iterations(ITERATIONS).for_each(|bytes: &[u8]| {
        let mut choices = Choices(bytes);
        let mut test = TestSession::logged_in(choices.pick(&["shop", "analyst"]));
        for _ in 0..1 + choices.byte() % 3 {
            if !test.session.listens_to_client() {
                // The previous answer was damaged and has no end, so the session accepts no further command.
                break;
            }
            let format = choices.pick(&[RowFormat::Text, RowFormat::Binary]);
            let columns = [choices.pick(&[SECRET, PLAIN, COMPUTED]), choices.pick(&[SECRET, PLAIN, COMPUTED])];
            let kind = choices.pick(&[0xFD_u8, 0xFC, 0x0F]);
            let mut payloads =
                vec![vec![2], definition_with_type(columns[0], kind), definition_with_type(columns[1], kind)];
            for _ in 0..choices.byte() % 6 {
                let row =
                    [MARK, choices.pick(&[MARK, b""])].map(|value| [&[value.len() as u8], value].concat()).concat();
                payloads.push(if format == RowFormat::Text { row } else { [&[0, 0][..], &row].concat() });
            }
            let error = b"\xff\x26\x04#23000Duplicate entry 'S3CRET-OF-A-COLUMN' for key 'k'";
            payloads.push(choices.pick(&[END, error, b"\xfe\0\0\x0a\0\0\0", b""]).to_vec());
            for payload in payloads.iter_mut().skip(1).filter(|payload| payload.len() > 1) {
                damage(payload, &mut choices);
            }
            let mut answer = numbered(&payloads);
            choices.damage(&mut answer);
            answer.truncate(answer.len().saturating_sub(usize::from(choices.byte() / 8)));
            if format == RowFormat::Text {
                test.query(ENCRYPTED);
            } else {
                test.prepare(ENCRYPTED);
                test.server(&prepared(7, 0, &columns));
                test.client(&execution(7, b""));
            }
            test.server_in_chunks(&answer, 1 + usize::from(choices.byte()));
        }
        test.session.server_lost(&mut test.to_client);
        assert!(!test.to_client.windows(MARK.len()).any(|window| window == MARK), "{bytes:?}");
    });
}

/// A statement with two result columns, both of which the gateway must encrypt.
const ENCRYPTED: &str = "SELECT x, y FROM (SELECT name AS x, name AS y FROM people) t";

fn damage(payload: &mut Vec<u8>, choices: &mut Choices<'_>) {
    match choices.byte() % 16 {
        0 => payload.truncate(1 + usize::from(choices.byte()) % payload.len()),
        1 => payload.extend_from_slice(choices.bytes()),
        2 => {
            let position = 1 + usize::from(choices.byte()) % (payload.len() - 1);
            payload[position] = choices.byte();
        }
        // A changed length of the first value shifts all following values.
        3 if payload[0] < 0xFB => payload[0] = choices.byte() % 0xFB,
        _ => {}
    }
}
