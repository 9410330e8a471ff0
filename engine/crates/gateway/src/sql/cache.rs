//! Statements that were read before. Applications send the same ones again and again: what was found out about them is kept
//! from their second time on, for each thread by itself. One that never comes again, with its values in its text, costs no
//! memory and drives no other out (the "doorkeeper" of TinyLFU, Einziger, Friedman and Manes, ACM ToS 13(4), 2017).

use super::{Plan, Refusal, Surroundings};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

/// Statements in each of two halves: when one is full the other one is forgotten.
const HALF: usize = 2048;
/// Bytes of a statement as it came and as it is printed, together.
const LONGEST: usize = 4096;
/// Statements of which it is remembered that they came; a later one may take an earlier one's place.
const MET: usize = 4096;

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::default();
}

/// A plan and what it was made against.
struct Known {
    rules: u64,
    is_prepared: bool,
    database: Option<Box<str>>,
    plan: Rc<Plan>,
}

struct Cache {
    young: HashMap<Box<[u8]>, Vec<Known>>,
    old: HashMap<Box<[u8]>, Vec<Known>>,
    /// Hashes.
    met: Box<[u64]>,
    hasher: RandomState,
}

impl Default for Cache {
    fn default() -> Self {
        let (young, old, hasher) = Default::default();
        Cache { young, old, met: vec![0; MET].into(), hasher }
    }
}

/// As [`super::read`], for statements that may have been read before. Nothing is allocated where it was.
///
/// # Errors
/// As there.
pub fn read(sql: &[u8], surroundings: &Surroundings<'_>) -> Result<Rc<Plan>, Refusal> {
    let is_short = sql.len() <= LONGEST;
    if is_short && let Some(plan) = CACHE.with_borrow_mut(|cache| cache.find(sql, surroundings)) {
        return Ok(plan);
    }
    let plan = Rc::new(super::read(sql, surroundings)?);
    if is_short && sql.len() + plan.text.len() <= LONGEST {
        CACHE.with_borrow_mut(|cache| {
            if cache.has_met(sql) {
                cache.add(sql, surroundings, plan.clone());
            }
        });
    }
    Ok(plan)
}

impl Cache {
    fn find(&mut self, sql: &[u8], surroundings: &Surroundings<'_>) -> Option<Rc<Plan>> {
        if let Some(known) = self.young.get(sql) {
            return plan_of(known, surroundings);
        }
        // What is asked for again stays.
        let (text, known) = self.old.remove_entry(sql)?;
        let found = plan_of(&known, surroundings);
        self.insert(text, known);
        found
    }

    /// Whether the statement has come before, as far as that is remembered.
    #[allow(clippy::cast_possible_truncation)]
    fn has_met(&mut self, sql: &[u8]) -> bool {
        let hash = self.hasher.hash_one(sql);
        std::mem::replace(&mut self.met[hash as usize % MET], hash) == hash
    }

    fn add(&mut self, sql: &[u8], surroundings: &Surroundings<'_>, plan: Rc<Plan>) {
        let database = surroundings.database.map(Box::from);
        let known = Known { rules: surroundings.rules.number, is_prepared: surroundings.is_prepared, database, plan };
        match self.young.get_mut(sql) {
            Some(all) => {
                // Those of rules that are no longer in force go.
                all.retain(|other| other.rules == known.rules);
                all.push(known);
            }
            None => self.insert(sql.into(), vec![known]),
        }
    }

    fn insert(&mut self, sql: Box<[u8]>, known: Vec<Known>) {
        if self.young.len() >= HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(sql, known);
    }
}

fn plan_of(known: &[Known], surroundings: &Surroundings<'_>) -> Option<Rc<Plan>> {
    let is_it = |known: &&Known| {
        known.rules == surroundings.rules.number
            && known.is_prepared == surroundings.is_prepared
            && known.database.as_deref() == surroundings.database
    };
    known.iter().find(is_it).map(|known| known.plan.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;
    use crate::testing::{self, CHECK};

    const SQL: &[u8] = b"SELECT name FROM people";

    /// In force under this number.
    fn rules(number: u64, column: &str) -> Rules {
        let text = format!("{CHECK}[[columns]]\ndatabase = '*'\ntable = '*'\ncolumn = '{column}'");
        let tables = testing::tables(&["people.name varchar", "people.city", "other.people.name varchar"]);
        let mut rules = testing::rules(&text, &tables);
        rules.number = number;
        rules
    }

    fn of<'a>(rules: &'a Rules, database: &'a str) -> Surroundings<'a> {
        Surroundings { rules, database: Some(database), is_prepared: false }
    }

    #[test]
    fn the_same_bytes_elsewhere_are_another_statement() {
        let (names, cities) = (rules(1, "name"), rules(2, "city"));
        let parameter = b"SELECT name FROM people WHERE city = ?";
        read(SQL, &of(&names, "d")).unwrap();
        assert_eq!(counted(), (0, 0), "it may never come again");
        let plan = read(SQL, &of(&names, "d")).unwrap();
        assert!(Rc::ptr_eq(&plan, &read(SQL, &of(&names, "d")).unwrap()), "it is kept");
        let elsewhere = read(SQL, &of(&names, "other")).unwrap();
        assert_eq!(elsewhere.text, plan.text.replace("`d`", "`other`").into());
        let under_others = read(SQL, &of(&cities, "d")).unwrap();
        assert!(under_others.text == plan.text && under_others.answer != plan.answer);
        assert!(read(SQL, &Surroundings { database: None, ..of(&names, "d") }).is_err());
        assert!(read(parameter, &Surroundings { is_prepared: true, ..of(&names, "d") }).is_ok());
        assert!(read(parameter, &of(&names, "d")).is_err(), "only what is prepared has parameters");
        // All of them are still what they were.
        assert_eq!(read(SQL, &of(&names, "d")).unwrap(), plan);
        assert_eq!(read(SQL, &of(&names, "other")).unwrap(), elsewhere);
        assert_eq!(read(SQL, &of(&cities, "d")).unwrap(), under_others);
    }

    fn counted() -> (usize, usize) {
        CACHE.with_borrow(|cache| (cache.young.len(), cache.old.len()))
    }

    #[test]
    fn the_older_half_is_forgotten_but_for_what_is_asked_for_again() {
        let names = rules(1, "name");
        let twice = |sql: &[u8]| {
            read(sql, &of(&names, "d")).unwrap();
            read(sql, &of(&names, "d")).unwrap()
        };
        let ask = |number: usize| twice(format!("SELECT {number}").as_bytes());
        let wanted = twice(SQL);
        (1..HALF).for_each(|number| drop(ask(number)));
        assert_eq!(counted(), (HALF, 0));
        let (kept, lost) = (ask(1), ask(2));
        ask(HALF);
        assert_eq!(counted(), (1, HALF));
        assert!(Rc::ptr_eq(&wanted, &read(SQL, &of(&names, "d")).unwrap()) && Rc::ptr_eq(&kept, &ask(1)));
        assert_eq!(counted(), (3, HALF - 2));
        (HALF + 1..2 * HALF).for_each(|number| drop(ask(number)));
        assert!(Rc::ptr_eq(&wanted, &read(SQL, &of(&names, "d")).unwrap()));
        assert!(!Rc::ptr_eq(&lost, &ask(2)));
    }

    #[test]
    fn long_ones_and_refusals_are_not_kept() {
        let names = rules(1, "name");
        for (length, is_kept) in [(LONGEST / 2 - 100, true), (LONGEST - 20, false), (LONGEST + 1, false)] {
            let sql = format!("SELECT '{}' AS x", "x".repeat(length));
            let ask = || read(sql.as_bytes(), &of(&names, "d")).unwrap();
            ask();
            assert_eq!(Rc::ptr_eq(&ask(), &ask()), is_kept, "{length}");
        }
        let before = counted();
        assert!(read(b"SELECT ORD(name) FROM people", &of(&names, "d")).is_err());
        assert_eq!(counted(), before);
    }
}
