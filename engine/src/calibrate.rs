//! What measuring itself costs: a figure of every report, measured on the machine and at the time of the run.

use crate::border::SelfCost;
use crate::clock;
use crate::record::{Phase, Recorder, Traffic, Trail};
use std::hint::black_box;
use std::process::ExitCode;

/// Few enough to take about a millisecond at the start of a run.
const QUICK: u64 = 20_000;
/// Enough for three digits.
const THOROUGH: u64 = 2_000_000;

/// Print it as JSON.
pub fn run() -> ExitCode {
    println!("{}", serde_json::to_string(&measure(THOROUGH)).expect("two numbers are JSON"));
    ExitCode::SUCCESS
}

/// As `ready` has it.
pub fn quick() -> SelfCost {
    measure(QUICK)
}

fn measure(times: u64) -> SelfCost {
    let timer = each(times, |_| {
        black_box(clock::now());
    });
    let mut recorder = Recorder::default();
    let mut trail = Trail::default();
    trail.start(Traffic::default());
    trail.lap(Phase::Operation, Traffic::default());
    let record = each(times, |_| recorder.record(black_box(&trail)));
    SelfCost { timer, record }
}

fn each(times: u64, mut what: impl FnMut(u64)) -> f64 {
    let start = clock::now();
    (0..times).for_each(&mut what);
    (clock::now() - start) as f64 / times as f64
}
