//! What is attacked: gateways with some rules, before one or two servers that hold the two sides' data.

use crate::client::{Client, Login, Lost, QUERY};
use crate::grammar::Predicates;
use crate::world::{World, schema};
use serde::Deserialize;

/// What the campaign is told on standard input.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Past the gateways, of an account that may do anything: one for each side.
    pub servers: Vec<Login>,
    pub targets: Vec<TargetPlan>,
    pub seed: u64,
    /// Of all targets together, at most so many; endless without.
    pub statements: Option<u64>,
    pub seconds: Option<u64>,
    /// After so many finds it ends.
    #[serde(default = "one")]
    pub finds: usize,
    /// Both sides hold the same data, which may come out: whatever differs then is noise of the attack's own.
    #[serde(default)]
    pub twins: bool,
    /// Where minimised finds are written to.
    pub folder: Option<std::path::PathBuf>,
}

fn one() -> usize {
    1
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetPlan {
    pub name: String,
    pub database: String,
    pub predicates: Predicates,
    /// The gateways: a second one makes answers be compared.
    pub gateways: Vec<Login>,
}

pub const SEED_OF_THE_DATA: u64 = 20_240_102;

/// The data of one database on both servers.
pub struct Data {
    sides: Vec<Side>,
    database: String,
    state: State,
}

/// What of it may be another than at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    AsItWas,
    Written,
    /// Perhaps on one side alone: the numbers of new rows too.
    Unknown,
}

struct Side {
    client: Client,
    fill: Vec<String>,
}

impl Data {
    /// Make the database anew, so that gateways find it when they start.
    ///
    /// # Errors
    /// In words.
    pub fn make(servers: &[Login], database: &str) -> Result<(), String> {
        let mut data = Data::open(servers, database, false)?;
        for statement in schema(database) {
            data.sides.iter_mut().try_for_each(|side| side.run(&statement))?;
        }
        data.fill()?;
        data.count_once()
    }

    /// Of a database that was made.
    ///
    /// # Errors
    /// In words.
    pub fn open(servers: &[Login], database: &str, twins: bool) -> Result<Self, String> {
        let mut sides = Vec::new();
        for (number, login) in servers.iter().enumerate() {
            let client = Client::connect(login, "", false).map_err(|lost| format!("{}: {lost:?}", login.address))?;
            let fill = World::new(SEED_OF_THE_DATA, if twins { 0 } else { number as u64 }).fill(database);
            sides.push(Side { client, fill });
        }
        Ok(Data { sides, database: database.into(), state: State::Unknown })
    }

    /// As it was at first.
    ///
    /// # Errors
    /// In words.
    pub fn fill(&mut self) -> Result<(), String> {
        let empty = match self.state {
            State::AsItWas => return Ok(()),
            state => World::empty(&self.database, state == State::Unknown),
        };
        for side in &mut self.sides {
            empty.iter().try_for_each(|statement| side.run(statement))?;
            side.fill.clone().iter().try_for_each(|statement| side.run(statement))?;
        }
        self.state = State::AsItWas;
        Ok(())
    }

    /// A session has done this to it.
    pub fn touched(&mut self, state: State) {
        self.state = self.state.max(state);
    }

    /// Both servers plan by the same counts, which they do not renew.
    fn count_once(&mut self) -> Result<(), String> {
        let database = &self.database;
        let tables = ["people", "owners", "orders", "badges", "guesses", "notes", "odd", "moments"];
        let analyze: Vec<_> = tables.iter().map(|table| format!("{database}.{table}")).collect();
        self.sides.iter_mut().try_for_each(|side| side.run(&format!("ANALYZE TABLE {}", analyze.join(", "))))
    }
}

impl Side {
    fn run(&mut self, statement: &str) -> Result<(), String> {
        let answer = self.client.ask(QUERY, statement.as_bytes());
        let failure = match answer {
            Ok(answer) => answer.error(),
            Err(lost) => Some(format!("{lost:?}")),
        };
        failure.map_or(Ok(()), |failure| Err(format!("{statement}: {failure}")))
    }
}

/// Why a login failed, in words.
pub fn words(lost: &Lost) -> String {
    match lost {
        Lost::Refused(words) => words.clone(),
        Lost::HungUp => "hung up".into(),
        Lost::Stalled => "no answer".into(),
        Lost::TooLong => "an answer without an end".into(),
    }
}
