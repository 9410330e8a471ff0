//! A session, or the same one on both sides, and what the oracles say of its answers.

use crate::client::{Answer, Client, Login, Lost};
use crate::command::Command;
use crate::oracle::Oracle;
use crate::reduce::difference;
use std::collections::{HashMap, HashSet};

const RESET_CONNECTION: u8 = 0x1F;

/// One side: a connection, and what was prepared on it.
struct Side {
    client: Client,
    /// By slot: the server's number, and the count of parameters.
    prepared: HashMap<usize, (u32, usize)>,
}

impl Side {
    fn send(&mut self, command: &Command) -> Result<(), Lost> {
        let statement = command.slot().and_then(|slot| self.prepared.get(&slot).copied());
        self.client.send(command.code(), &command.body(statement))
    }

    fn receive(&mut self, command: &Command) -> (Answer, Result<(), Lost>) {
        let (answer, outcome) = self.client.receive(command.code());
        match (command, answer.prepared()) {
            (Command::Prepare { slot, .. }, Some(prepared)) => {
                self.prepared.insert(*slot, prepared);
            }
            (Command::Prepare { slot, .. } | Command::Close { slot }, _) => {
                self.prepared.remove(slot);
            }
            // Its statements are forgotten, by numbers that servers give as they like.
            (Command::Raw { command: RESET_CONNECTION, .. }, _) => self.prepared.clear(),
            _ => {}
        }
        (answer, outcome)
    }
}

/// What became of a command.
pub enum Outcome {
    Answered,
    /// In the words of an error.
    Refused(String),
    /// The session is over.
    Ended,
    /// Something came out.
    Leak(String),
    /// There was no answer.
    Stalled,
}

pub struct Session<'a> {
    sides: Vec<Side>,
    /// Slots of statements whose rows come in any order.
    any_order: HashSet<usize>,
    oracle: &'a Oracle,
}

impl<'a> Session<'a> {
    /// On one side, or on two whose answers must be alike.
    pub fn begin(logins: &[Login], database: &str, decrypts: bool, oracle: &'a Oracle) -> Result<Self, Lost> {
        let side =
            |login| Client::connect(login, database, decrypts).map(|client| Side { client, prepared: HashMap::new() });
        let sides = logins.iter().map(side).collect::<Result<_, _>>()?;
        Ok(Session { sides, any_order: HashSet::new(), oracle })
    }

    /// Both sides work at the same time.
    pub fn play(&mut self, command: &Command) -> Outcome {
        let is_unprepared = command.slot().is_some_and(|slot| !self.sides[0].prepared.contains_key(&slot));
        if is_unprepared && !matches!(command, Command::Prepare { .. }) {
            return Outcome::Answered;
        }
        let any_order = self.any_order(command);
        for side in &mut self.sides {
            if side.send(command).is_err() {
                return Outcome::Ended;
            }
        }
        let answers: Vec<_> = self.sides.iter_mut().map(|side| side.receive(command)).collect();
        if let Some(leak) = answers.iter().find_map(|(answer, _)| self.oracle.finds(&answer.bytes)) {
            return Outcome::Leak(leak);
        }
        // Rows come in any order: what came of them so far may be others.
        if answers.iter().any(|(_, outcome)| matches!(outcome, Err(Lost::TooLong))) {
            return Outcome::Ended;
        }
        if answers.iter().any(|(answer, _)| answer.is_given_up()) {
            return Outcome::Ended;
        }
        if let [(left, _), (right, _)] = &answers[..]
            && let Some(differ) = difference(left, right, any_order)
        {
            return Outcome::Leak(differ);
        }
        let lost = answers.iter().filter_map(|(_, outcome)| outcome.as_ref().err()).collect::<Vec<_>>();
        match lost[..] {
            [] => answers[0].0.error().map_or(Outcome::Answered, Outcome::Refused),
            [Lost::Stalled, ..] => Outcome::Stalled,
            [_] if answers.len() == 2 => Outcome::Leak("one session ended, and the other did not".into()),
            _ => Outcome::Ended,
        }
    }

    /// A comment may have cut off what gives rows an order, and a union is ordered by its outputs alone, some of which are
    /// alike to their collation: the order is a plan's then (docs/column-encryption.md, "Plans").
    fn any_order(&mut self, command: &Command) -> bool {
        let lacks_order = |text: &[u8]| {
            let has = |mark: &[u8]| text.windows(mark.len()).any(|piece| piece.eq_ignore_ascii_case(mark));
            [&b"#"[..], b"--", b"/*", b"UNION"].into_iter().any(has)
        };
        match command {
            Command::Query(text) => lacks_order(text),
            Command::Prepare { slot, statement } => {
                if lacks_order(statement) {
                    self.any_order.insert(*slot)
                } else {
                    self.any_order.remove(slot)
                };
                false
            }
            Command::Execute { slot, .. } => self.any_order.contains(slot),
            _ => false,
        }
    }
}
