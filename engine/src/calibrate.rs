//! What measuring itself costs: a figure of every report, measured on the machine and at the time of the run. Beside it,
//! where it is asked for alone, what encrypting and decrypting a value costs.

use crate::ipc::SelfCost;
use base::clock;
use base::error::Result;
use encryption::{Algorithm, DataKey, SessionSalt};
use record::{Phase, Recorder, Timeline, Traffic};
use serde::Serialize;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::ExitCode;

/// Few enough to take about a millisecond at the start of a run.
const QUICK: u64 = 20_000;
/// Enough for three digits.
const THOROUGH: u64 = 2_000_000;

/// Of each algorithm and length, so many times so many values: a few milliseconds, of which the quietest part is told.
const BATCHES: usize = 20;
const VALUES: u64 = 1000;
/// Bytes of a number, of a name or a date, of a longer text, and of the longest in TPC-C's tables, about.
const LENGTHS: [usize; 4] = [4, 20, 60, 500];
/// A column's associated data are about as long.
const ASSOCIATED: [u8; 40] = [7; 40];

#[derive(Serialize)]
struct Calibration {
    #[serde(flatten)]
    self_cost: SelfCost,
    /// By algorithm, then bytes of the value.
    encryption: BTreeMap<Algorithm, BTreeMap<usize, ValueCost>>,
}

/// Nanoseconds.
#[derive(Serialize)]
struct ValueCost {
    seal: f64,
    open: f64,
}

pub fn run() -> ExitCode {
    let of_algorithm = |algorithm| {
        Ok((algorithm, LENGTHS.map(|length| of_value(algorithm, length)).into_iter().collect::<Result<_>>()?))
    };
    let encryption: Result<_> = Algorithm::ALL.into_iter().map(of_algorithm).collect();
    let calibration = Calibration { self_cost: measure(THOROUGH), encryption: encryption.expect("keys are to be had") };
    println!("{}", serde_json::to_string(&calibration).expect("numbers are JSON"));
    ExitCode::SUCCESS
}

fn of_value(algorithm: Algorithm, length: usize) -> Result<(usize, ValueCost)> {
    let mut key = DataKey::random(SessionSalt::WITHOUT_NONCE, 0)?;
    let mut sealer = key.sealer(algorithm)?;
    let (plaintext, mut sealed, mut opened) = (vec![b'x'; length], Vec::new(), Vec::new());
    let seal = quietest(|_| {
        sealed.clear();
        sealer.seal(&ASSOCIATED, black_box(&plaintext), &mut sealed).expect("fewer than 2^32");
    });
    // An opener takes each value once.
    let values = (0..VALUES).map(|_| {
        let mut value = Vec::new();
        sealer.seal(&ASSOCIATED, &plaintext, &mut value).map(|()| value)
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    let open = (0..BATCHES).map(|_| {
        let opener = key.opener(algorithm);
        each(VALUES, |at| {
            opened.clear();
            opener.open(&ASSOCIATED, black_box(&values[at as usize]), &mut opened).expect("just sealed");
        })
    });
    Ok((length, ValueCost { seal, open: open.fold(f64::INFINITY, f64::min) }))
}

pub fn quick() -> SelfCost {
    measure(QUICK)
}

fn measure(times: u64) -> SelfCost {
    let timer = each(times, |_| {
        black_box(clock::now());
    });
    let mut recorder = Recorder::default();
    let mut timeline = Timeline::default();
    timeline.start(Traffic::default());
    timeline.end_phase(Phase::Operation, Traffic::default());
    let record = each(times, |_| recorder.record(black_box(&timeline)));
    SelfCost { timer, record }
}

fn quietest(mut what: impl FnMut(u64)) -> f64 {
    (0..BATCHES).map(|_| each(VALUES, &mut what)).fold(f64::INFINITY, f64::min)
}

fn each(times: u64, mut what: impl FnMut(u64)) -> f64 {
    let start = clock::now();
    (0..times).for_each(&mut what);
    (clock::now() - start) as f64 / times as f64
}
