//! Episodes: a session on each side, a few hundred commands from one seed, and the data as it was before the next.

use crate::command::Command;
use crate::grammar::{Generator, Origin};
use crate::minimise;
use crate::oracle::Oracle;
use crate::rng::Rng;
use crate::session::{Outcome, Session};
use crate::target::{Data, Plan, SEED_OF_THE_DATA, State, TargetPlan, words};
use crate::world::World;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Commands of one session.
const EPISODE: usize = 150;

/// What a campaign says at its end.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub statements: u64,
    pub seconds: f64,
    /// By target and origin: how many were sent, and how many of them refused.
    pub sent: BTreeMap<String, u64>,
    pub refused: BTreeMap<String, u64>,
    /// Sessions that ended before their time.
    pub ended: u64,
    /// Leaks that did not come a second time.
    pub unrepeated: Vec<String>,
    pub finds: Vec<Find>,
    pub errors: Vec<String>,
    /// Why what should pass did not: how often, and such a statement.
    pub reasons: BTreeMap<String, (u64, String)>,
}

/// A leak, as short as it could be made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Find {
    pub target: String,
    pub what: String,
    pub commands: Vec<Command>,
    /// The statement at which it was found, counted from the campaign's start.
    pub after: u64,
}

/// What workers share.
pub struct Campaign {
    plan: Plan,
    pub oracle: Oracle,
    report: Mutex<Report>,
    statements: AtomicU64,
    over: AtomicBool,
    begun: Instant,
}

impl Campaign {
    pub fn new(plan: Plan) -> Self {
        let worlds = [World::new(SEED_OF_THE_DATA, 0).canaries(), World::new(SEED_OF_THE_DATA, 1).canaries()];
        let oracle = if plan.twins { Oracle::new(&[]) } else { Oracle::new(&[&worlds[0], &worlds[1]]) };
        Campaign {
            plan,
            oracle,
            report: Mutex::default(),
            statements: AtomicU64::new(0),
            over: AtomicBool::new(false),
            begun: Instant::now(),
        }
    }

    /// To its end, a thread for each target.
    pub fn run(self) -> Report {
        let campaign = Arc::new(self);
        let workers: Vec<_> = campaign
            .plan
            .targets
            .iter()
            .cloned()
            .enumerate()
            .map(|(number, target)| {
                let campaign = campaign.clone();
                std::thread::spawn(move || {
                    if let Err(error) = campaign.work(number as u64, &target) {
                        campaign.say(|report| report.errors.push(format!("{}: {error}", target.name)));
                        campaign.over.store(true, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().expect("a worker that does not panic");
        }
        let mut report = std::mem::take(&mut *campaign.report.lock().expect("no worker that panics"));
        report.statements = campaign.statements.load(Ordering::Relaxed);
        report.seconds = campaign.begun.elapsed().as_secs_f64();
        report
    }

    fn work(&self, number: u64, target: &TargetPlan) -> Result<(), String> {
        let mut data = Data::open(&self.plan.servers[..target.gateways.len()], &target.database, self.plan.twins)?;
        for episode in 0.. {
            if self.is_over(0) {
                break;
            }
            self.episode(target, number << 32 | episode, &mut data)?;
        }
        Ok(())
    }

    fn episode(&self, target: &TargetPlan, episode: u64, data: &mut Data) -> Result<(), String> {
        data.fill()?;
        let mut generator = Generator::new(Rng::new(self.plan.seed, episode), &target.database, target.predicates);
        // Every other session is told envelopes.
        let decrypts = episode % 2 == 1;
        let begin = Session::begin(&target.gateways, &target.database, decrypts, &self.oracle);
        let mut session = begin.map_err(|lost| words(&lost))?;
        let mut played = Vec::new();
        let mut tally = Tally::default();
        for _ in 0..EPISODE {
            if self.is_over(1) {
                break;
            }
            let (origin, command) = generator.command();
            touch(data, &command);
            played.push(command);
            let outcome = session.play(&played[played.len() - 1]);
            tally.count(origin, &outcome, &played[played.len() - 1]);
            if !matches!(outcome, Outcome::Answered | Outcome::Refused(_)) {
                data.touched(State::Unknown);
            }
            match outcome {
                Outcome::Answered | Outcome::Refused(_) => {}
                Outcome::Ended => break,
                Outcome::Stalled => {
                    let what = format!("no answer to {:?}", played.last());
                    drop(session);
                    self.say(|report| report.errors.push(what));
                    break;
                }
                Outcome::Leak(what) => {
                    drop(session);
                    self.keep(target, decrypts, data, played, &what)?;
                    break;
                }
            }
        }
        self.say(|report| tally.add_to(&target.name, report));
        Ok(())
    }

    /// Make it short, and write it down.
    fn keep(
        &self,
        target: &TargetPlan,
        decrypts: bool,
        data: &mut Data,
        played: Vec<Command>,
        what: &str,
    ) -> Result<(), String> {
        let after = self.statements.load(Ordering::Relaxed);
        let mut replay = |commands: &[Command]| self.replay(target, decrypts, data, commands);
        let Some((commands, what)) = minimise::minimise(played, &mut replay)? else {
            self.say(|report| report.unrepeated.push(what.to_owned()));
            return Ok(());
        };
        let find = Find { target: target.name.clone(), what, commands, after };
        let mut report = self.report.lock().expect("no worker that panics");
        if let Some(folder) = &self.plan.folder {
            let path = folder.join(format!("{}-{}-{}.json", target.name, self.plan.seed, report.finds.len()));
            let text = serde_json::to_string_pretty(&find).expect("plain data");
            std::fs::write(&path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
        }
        report.finds.push(find);
        if report.finds.len() >= self.plan.finds {
            self.over.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// In sessions of their own, over data as it was at first: what leaks, and at which command.
    pub fn replay(
        &self,
        target: &TargetPlan,
        decrypts: bool,
        data: &mut Data,
        commands: &[Command],
    ) -> Result<Option<(usize, String)>, String> {
        data.fill()?;
        let begin = Session::begin(&target.gateways, &target.database, decrypts, &self.oracle);
        let mut session = begin.map_err(|lost| words(&lost))?;
        for (place, command) in commands.iter().enumerate() {
            touch(data, command);
            match session.play(command) {
                Outcome::Leak(what) => return Ok(Some((place, what))),
                Outcome::Ended | Outcome::Stalled => break,
                Outcome::Answered | Outcome::Refused(_) => {}
            }
        }
        Ok(None)
    }

    fn is_over(&self, more: u64) -> bool {
        let sent = self.statements.fetch_add(more, Ordering::Relaxed);
        let is_enough = self.plan.statements.is_some_and(|most| sent >= most);
        let is_late = self.plan.seconds.is_some_and(|most| self.begun.elapsed() >= Duration::from_secs(most));
        if is_enough && more > 0 {
            self.statements.fetch_sub(more, Ordering::Relaxed);
        }
        is_enough || is_late || self.over.load(Ordering::Relaxed)
    }

    fn say(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.report.lock().expect("no worker that panics"));
    }
}

fn touch(data: &mut Data, command: &Command) {
    if !command.only_reads() {
        data.touched(State::Written);
    }
}

/// Of one episode.
#[derive(Default)]
struct Tally {
    sent: BTreeMap<Origin, u64>,
    refused: BTreeMap<Origin, u64>,
    reasons: BTreeMap<String, (u64, String)>,
    ended: u64,
}

impl Tally {
    fn count(&mut self, origin: Origin, outcome: &Outcome, command: &Command) {
        *self.sent.entry(origin).or_default() += 1;
        match outcome {
            Outcome::Refused(why) => {
                *self.refused.entry(origin).or_default() += 1;
                if origin == Origin::Subset {
                    let such = || (0, serde_json::to_string(command).expect("plain data"));
                    self.reasons.entry(shape(why)).or_insert_with(such).0 += 1;
                }
            }
            Outcome::Ended => self.ended += 1,
            _ => {}
        }
    }

    fn add_to(self, target: &str, report: &mut Report) {
        let name = |origin| format!("{target} {origin:?}");
        self.sent.into_iter().for_each(|(origin, count)| *report.sent.entry(name(origin)).or_default() += count);
        self.refused.into_iter().for_each(|(origin, count)| *report.refused.entry(name(origin)).or_default() += count);
        for (why, (count, such)) in self.reasons {
            report.reasons.entry(why).or_insert((0, such)).0 += count;
        }
        report.ended += self.ended;
    }
}

/// A reason without its numbers and what it quotes.
fn shape(why: &str) -> String {
    let quoted = why.split('\'').step_by(2).collect::<Vec<_>>().join("'…'");
    quoted.chars().filter(|letter| !letter.is_ascii_digit()).take(90).collect()
}
