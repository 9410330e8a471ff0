//! Statements by a grammar: most of what the gateway lets pass, near misses of it, and texts that lexers read differently.
//!
//! The generator knows which columns are protected and what may be done with them, so that most of what it makes passes; where
//! it is `loose` it forgets.

mod expression;
mod names;
mod near_miss;
mod select;
mod session;
pub mod splices;
mod write;

use crate::command::{Command, Parameter};
use crate::rng::Rng;
use crate::schema::{Column, Guard, Kind};
use crate::world::GUESSES;
use std::collections::BTreeMap;

/// How protected columns may be compared, as the gateway's rules have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predicates {
    Refuse,
    Equality,
    Allow,
}

/// A table, view, derived table or CTE of a FROM clause.
#[derive(Debug, Clone)]
struct Source {
    alias: String,
    columns: Vec<Column>,
}

/// Sources of a query, and of those around it.
type Scope = Vec<Source>;

/// Of a hundred commands.
const SUBSET: usize = 70;
const NEAR_MISSES: usize = 20;
/// Prepared statements that a session holds.
const SLOTS: usize = 4;
/// Queries within queries.
const DEEPEST: usize = 3;

pub struct Generator {
    rng: Rng,
    database: String,
    predicates: Predicates,
    /// How often each production was used.
    pub coverage: BTreeMap<&'static str, u64>,
    /// Protected columns are taken for others.
    loose: bool,
    /// In another database than the tables'.
    is_elsewhere: bool,
    depth: usize,
    aliases: usize,
    /// Of the statement that is being made, if it is to be prepared.
    parameters: Option<Vec<Kind>>,
    prepared: [Option<Vec<Kind>>; SLOTS],
}

/// Where a command comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Subset,
    NearMiss,
    Splice,
}

impl Generator {
    pub fn new(rng: Rng, database: &str, predicates: Predicates) -> Self {
        Generator {
            rng,
            database: database.into(),
            predicates,
            coverage: BTreeMap::new(),
            loose: predicates == Predicates::Allow,
            is_elsewhere: false,
            depth: 0,
            aliases: 0,
            parameters: None,
            prepared: Default::default(),
        }
    }

    /// The next of a session.
    pub fn command(&mut self) -> (Origin, Command) {
        self.loose = self.predicates == Predicates::Allow;
        if self.is_elsewhere && self.rng.percent(50) {
            self.is_elsewhere = false;
            return (Origin::Subset, Command::Query(format!("USE {}", self.database).into_bytes()));
        }
        match self.rng.below(100) {
            share if share < SUBSET => (Origin::Subset, self.subset()),
            share if share < SUBSET + NEAR_MISSES => {
                self.loose = true;
                (Origin::NearMiss, self.near_miss_command())
            }
            _ => (Origin::Splice, self.spliced()),
        }
    }

    /// A query without parameters, of what passes.
    pub fn query(&mut self) -> String {
        (self.loose, self.aliases) = (self.rng.percent(50), 0);
        self.top_query()
    }

    fn subset(&mut self) -> Command {
        match self.rng.weighted(&[60, 17, 17, 6]) {
            0 => self.as_text_or_prepared(Self::data_statement),
            1 => self.execution(),
            2 => self.session_command(),
            _ => self.statement_command(),
        }
    }

    fn near_miss_command(&mut self) -> Command {
        match self.rng.weighted(&[36, 36, 28]) {
            0 => {
                self.hit("near miss: loose");
                self.as_text_or_prepared(Self::data_statement)
            }
            1 => self.as_text_or_prepared(Self::near_miss),
            _ => self.as_text_or_prepared(Self::of_names),
        }
    }

    fn spliced(&mut self) -> Command {
        let text = if self.rng.percent(50) { self.data_statement() } else { self.near_miss() };
        let mut bytes = text.into_bytes();
        for _ in 0..=self.rng.below(2) {
            let (name, spliced) = splices::splice(bytes, &mut self.rng);
            self.hit(name);
            bytes = spliced;
        }
        if self.rng.percent(25) {
            let slot = self.rng.below(SLOTS);
            self.prepared[slot] = Some(Vec::new());
            return Command::Prepare { slot, statement: bytes };
        }
        Command::Query(bytes)
    }

    /// SELECT, INSERT, REPLACE, UPDATE or DELETE.
    fn data_statement(&mut self) -> String {
        self.aliases = 0;
        match self.rng.weighted(&[70, 11, 9, 10]) {
            0 => self.top_query(),
            1 => self.insert(),
            2 => self.update(),
            _ => self.delete(),
        }
    }

    fn as_text_or_prepared(&mut self, make: fn(&mut Self) -> String) -> Command {
        if self.rng.percent(75) {
            return Command::Query(make(self).into_bytes());
        }
        self.hit("prepare");
        let slot = self.rng.below(SLOTS);
        self.parameters = Some(Vec::new());
        let statement = make(self).into_bytes();
        self.prepared[slot] = self.parameters.take();
        Command::Prepare { slot, statement }
    }

    fn execution(&mut self) -> Command {
        let slot = self.rng.below(SLOTS);
        let Some(kinds) = self.prepared[slot].clone() else { return self.as_text_or_prepared(Self::data_statement) };
        self.hit("execute");
        if !kinds.is_empty() && self.rng.percent(10) {
            self.hit("long data");
            let index = self.rng.below(kinds.len()) as u16;
            return Command::LongData { slot, index, data: self.rng.pick(GUESSES).as_bytes().to_vec() };
        }
        let strange = self.loose || self.rng.percent(15);
        let parameters = kinds.iter().map(|kind| self.parameter(*kind, strange)).collect();
        // The types of the execution before stay where none are sent.
        Command::Execute { slot, parameters, sends_types: !self.rng.percent(15) }
    }

    /// `strange`: perhaps of another type than what it is compared with.
    fn parameter(&mut self, kind: Kind, strange: bool) -> Parameter {
        if strange && self.rng.percent(40) {
            self.hit("parameter of another type");
            return match self.rng.below(7) {
                0 => Parameter::Tiny(1),
                1 => Parameter::Long(4000),
                2 => Parameter::LongLong(4_000_500_000_000_000_000),
                3 => Parameter::Double(4.0005e18),
                4 => Parameter::Blob(b"M".to_vec()),
                5 => Parameter::Decimal("5.0".into()),
                _ => Parameter::Date(2024, 1, 3),
            };
        }
        if self.rng.percent(5) {
            return Parameter::Null;
        }
        match kind {
            Kind::Text => Parameter::Text(self.word().into_bytes()),
            Kind::Int => Parameter::LongLong(self.rng.below(12) as i64),
            Kind::Decimal => Parameter::Decimal("20.50".into()),
            Kind::Date | Kind::DateTime => Parameter::Date(2024, 1, 1 + self.rng.below(9) as u8),
        }
    }

    /// A production was used.
    fn hit(&mut self, production: &'static str) {
        *self.coverage.entry(production).or_default() += 1;
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("a{}", self.aliases)
    }

    /// A text without quotes that need doubling.
    fn word(&mut self) -> String {
        (*self.rng.pick(&["guess", "Alice", "city-1", "city-2", "note 3", "x", "", "M", "town-1", "a_b%"])).to_owned()
    }

    fn may_use(&mut self, guard: Guard) -> bool {
        guard == Guard::Clean || self.loose && self.rng.percent(60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::World;
    use std::collections::BTreeSet;

    fn commands(count: usize) -> (Generator, Vec<(Origin, Command)>) {
        let mut all = Vec::new();
        let mut generator = Generator::new(Rng::new(3, 0), "da", Predicates::Equality);
        for _ in 0..count {
            all.push(generator.command());
        }
        (generator, all)
    }

    /// The names are read from the sources, so that a new production cannot be forgotten.
    #[test]
    fn every_production_is_used() {
        let sources = [
            include_str!("mod.rs"),
            include_str!("expression.rs"),
            include_str!("select.rs"),
            include_str!("write.rs"),
            include_str!("session.rs"),
            include_str!("near_miss.rs"),
            include_str!("names.rs"),
        ];
        let written: BTreeSet<&str> = sources
            .iter()
            .flat_map(|source| source.split(concat!("self.", "hit(\"")).skip(1))
            .filter_map(|rest| rest.split_once('"').map(|(name, _)| name))
            .collect();
        let (generator, _) = commands(40_000);
        let rare: Vec<_> =
            written.iter().filter(|name| generator.coverage.get(**name).is_none_or(|count| *count < 5)).collect();
        assert!(written.len() > 80 && rare.is_empty(), "{} productions, hardly used: {rare:?}", written.len());
        let spliced = splices::NAMES.iter().filter(|name| !generator.coverage.contains_key(**name));
        assert_eq!(spliced.collect::<Vec<_>>(), Vec::<&&str>::new());
    }

    #[test]
    fn shares_are_kept_and_no_statement_holds_a_canary() {
        let (_, all) = commands(10_000);
        let share = |wanted| all.iter().filter(|(origin, _)| *origin == wanted).count();
        assert!((6_700..7_300).contains(&share(Origin::Subset)), "{}", share(Origin::Subset));
        assert!((1_800..2_200).contains(&share(Origin::NearMiss)), "{}", share(Origin::NearMiss));
        let canaries = [World::new(1, 0).canaries(), World::new(1, 1).canaries()];
        let oracle = crate::oracle::Oracle::new(&[&canaries[0], &canaries[1]]);
        for (_, command) in all {
            let shown = serde_json::to_vec(&command).unwrap();
            assert_eq!(oracle.finds(&shown), None);
        }
    }
}
