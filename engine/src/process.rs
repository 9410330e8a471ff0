//! This process as the machine sees it: how it ends, what it holds.

use crate::border::Answer;
use crate::error::{Class, Failure, Result};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::process::ExitCode;

/// Exit status after a fatal error in what was asked.
const EXIT_USAGE: u8 = 2;

/// Do what standard input asks for, until it ends; an error is the last answer.
pub fn follow(work: impl FnOnce() -> Result<()>) -> ExitCode {
    die_with_parent();
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&Answer::Error(failure));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// Standard input's lines, but empty ones.
pub fn lines() -> impl Iterator<Item = String> {
    std::io::stdin().lines().map_while(std::result::Result::ok).filter(|line| !line.trim().is_empty())
}

/// A line of standard input.
///
/// # Errors
/// `plan`. serde's message names the field and the column, and quotes no value of ours but an unknown word.
pub fn parse<T: DeserializeOwned>(line: &str) -> Result<T> {
    serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))
}

/// Why a line cannot be followed, as a failure of class `plan`.
pub fn wrong(what: &str) -> Failure {
    Failure::new(Class::Plan, format!("cannot follow this command: {what}"))
}

/// Ask the kernel to end this process when the thread that started it dies: a `kill -9` of the parent leaves nobody to
/// say so. Standard input's end says it as well; whichever is seen first counts.
fn die_with_parent() {
    // Refused only where prctl is forbidden; the end of standard input still ends us there.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// Each connection is a descriptor, and shells give a process 1,024.
pub fn allow_many_connections() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Raising the soft limit to the hard one is refused to nobody.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// A defect of the engine ends as one line of the border, not as a backtrace in the middle of somebody's report.
pub fn report_panics_as_fatal_errors() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        say(&Answer::Error(Failure::new(Class::Internal, format!("defect in costof-engine{place}: {message}"))));
        std::process::exit(1);
    }));
}

/// Write one answer, one line, now.
pub fn say(answer: &impl Serialize) {
    let mut line = serde_json::to_vec(answer).expect("the border's types are JSON");
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    if out.write_all(&line).and_then(|()| out.flush()).is_err() {
        // Nobody reads any more: the parent is gone, and so is the reason to measure.
        std::process::exit(0);
    }
}

/// The most memory this process has held, in bytes (`VmHWM` of proc(5)); 0 where `/proc` is not there.
pub fn peak_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
