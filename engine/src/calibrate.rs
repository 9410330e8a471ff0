//! The time that the engine itself takes to measure an operation. Every report shows this time. Subcommand `calibrate`
//! also measures how long encrypting and decrypting a value takes.

use crate::ipc::SelfCost;
use base::clock;
use base::error::Result;
use encryption::{Algorithm, DataKey, SessionSalt};
use record::{Phase, Recorder, Timeline, Traffic};
use serde::Serialize;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::ExitCode;

/// The number of measurements of the engine's own time at the start of a run. They take about a millisecond together.
const QUICK: u64 = 20_000;
/// The number of measurements of the engine's own time in subcommand `calibrate`, enough for three significant digits.
const THOROUGH: u64 = 2_000_000;

/// The number of batches of encryptions, or decryptions, for each algorithm and length. The fastest batch is reported.
const BATCHES: usize = 20;
/// The number of values in a batch.
const VALUES: u64 = 1000;
/// The lengths of the encrypted values in bytes: of a number, a name or date, a longer text, and TPC-C's longest text.
const LENGTHS: [usize; 4] = [4, 20, 60, 500];
/// The associated data of each value, about as long as that in the encrypting gateway.
const ASSOCIATED: [u8; 40] = [7; 40];

#[derive(Serialize)]
struct Calibration {
    #[serde(flatten)]
    self_cost: SelfCost,
    /// The time to encrypt and decrypt a value, by algorithm and then by the value's length in bytes.
    encryption: BTreeMap<Algorithm, BTreeMap<usize, ValueCost>>,
}

/// The time to encrypt and to decrypt one value, in nanoseconds.
#[derive(Serialize)]
struct ValueCost {
    seal: f64,
    open: f64,
}

pub fn run() -> ExitCode {
    let costs = |algorithm| {
        Ok((algorithm, LENGTHS.map(|length| value_cost(algorithm, length)).into_iter().collect::<Result<_>>()?))
    };
    let encryption: Result<_> = Algorithm::ALL.into_iter().map(costs).collect();
    let calibration =
        Calibration { self_cost: measure(THOROUGH), encryption: encryption.expect("random keys can be generated") };
    println!("{}", serde_json::to_string(&calibration).expect("numbers are JSON"));
    ExitCode::SUCCESS
}

fn value_cost(algorithm: Algorithm, length: usize) -> Result<(usize, ValueCost)> {
    let mut key = DataKey::random(SessionSalt::WITHOUT_NONCE, 0)?;
    let mut sealer = key.sealer(algorithm)?;
    let (plaintext, mut sealed, mut opened) = (vec![b'x'; length], Vec::new(), Vec::new());
    let seal = fastest_batch(|_| {
        sealed.clear();
        sealer.seal(&ASSOCIATED, black_box(&plaintext), &mut sealed).expect("fewer than 2^32");
    });
    // An opener (decryptor) accepts each value only once, so each batch has a new opener.
    let values = (0..VALUES).map(|_| {
        let mut value = Vec::new();
        sealer.seal(&ASSOCIATED, &plaintext, &mut value).map(|()| value)
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    let open = (0..BATCHES).map(|_| {
        let opener = key.opener(algorithm);
        mean_ns(VALUES, |at| {
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
    let timer = mean_ns(times, |_| {
        black_box(clock::now());
    });
    let mut recorder = Recorder::default();
    let mut timeline = Timeline::default();
    timeline.start(Traffic::default());
    timeline.end_phase(Phase::Operation, Traffic::default());
    let record = mean_ns(times, |_| recorder.record(black_box(&timeline)));
    SelfCost { timer, record }
}

/// Return the mean time of one call in the fastest batch, in nanoseconds.
fn fastest_batch(mut action: impl FnMut(u64)) -> f64 {
    (0..BATCHES).map(|_| mean_ns(VALUES, &mut action)).fold(f64::INFINITY, f64::min)
}

fn mean_ns(times: u64, mut action: impl FnMut(u64)) -> f64 {
    let start = clock::now();
    (0..times).for_each(&mut action);
    (clock::now() - start) as f64 / times as f64
}
