//! Statements that were read before. Applications send the same ones again and again: what was found out about them is kept,
//! for each thread by itself.

use super::{Plan, Refusal, Surroundings};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Statements in each of two halves: when one is full the other one is forgotten.
const HALF: usize = 2048;
/// Bytes of a statement as it came and as it is printed, together.
const LONGEST: usize = 4096;

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

#[derive(Default)]
struct Cache {
    young: HashMap<Box<[u8]>, Vec<Known>>,
    old: HashMap<Box<[u8]>, Vec<Known>>,
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
        CACHE.with_borrow_mut(|cache| cache.add(sql, surroundings, plan.clone()));
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

    fn add(&mut self, sql: &[u8], surroundings: &Surroundings<'_>, plan: Rc<Plan>) {
        let database = surroundings.database.map(Box::from);
        let known =
            Known { rules: surroundings.rules.number, is_prepared: surroundings.is_prepared, database, plan };
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
