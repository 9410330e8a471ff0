//! Standard input, one JSON object a line, and standard output likewise. Three programs wait for input in three ways, by
//! one reader: those that have nothing else to do iterate over it; one that measures has it read on a thread of its own;
//! one that forwards packets waits for its descriptor beside theirs, and reads when there is something to read.

use crate::error::{Class, Failure, Result};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Stdin, Write, stdin};
use std::sync::mpsc::{Receiver, channel};

/// No plan is longer; something else is at the other end.
const LONGEST_LINE: usize = 1 << 26;

/// Standard input's lines but empty ones: what has come in and was not used yet.
pub struct Lines {
    source: Stdin,
    received: Vec<u8>,
}

impl Lines {
    pub fn of_standard_input() -> Self {
        Lines { source: stdin(), received: Vec::new() }
    }

    pub fn source(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    /// Read once. False at the end of the input.
    /// Errors: `internal`, where it cannot be read; `plan`, for a line that does not end.
    pub fn receive(&mut self) -> Result<bool> {
        let mut chunk = [0; 65536];
        let length = match rustix::io::read(&self.source, &mut chunk) {
            Err(Errno::INTR | Errno::AGAIN) => return Ok(true),
            other => other.map_err(|error| Failure::new(Class::Internal, format!("standard input: {error}")))?,
        };
        let come = &chunk[..length];
        self.received.extend_from_slice(come);
        if self.received.len() > LONGEST_LINE && !come.contains(&b'\n') {
            return Err(Failure::new(Class::Plan, format!("a line of more than {LONGEST_LINE} bytes")));
        }
        Ok(length > 0)
    }

    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let end = self.received.iter().position(|&byte| byte == b'\n')?;
            let rest = self.received.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.received, rest);
            line.pop();
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }
}

impl Iterator for Lines {
    type Item = Vec<u8>;

    /// Blocks until there is a line; none when the input ends before, or cannot be read. Its last line may lack its end.
    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(line) = self.next_line() {
                return Some(line);
            }
            if !self.receive().ok()? {
                let last = std::mem::take(&mut self.received);
                return (!last.trim_ascii().is_empty()).then_some(last);
            }
        }
    }
}

/// The lines, read on a thread of its own, because the end of a pipe or terminal must end this process even in the middle
/// of a slice: whoever asked is gone. A file is answered to its end, so that a person can drive the engine with one.
pub fn on_a_thread() -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    let reader = move || {
        for line in Lines::of_standard_input() {
            if sender.send(line).is_err() {
                return;
            }
        }
        if !is_file() {
            std::process::exit(0);
        }
    };
    std::thread::Builder::new().name("input".into()).spawn(reader).expect("a thread can be started");
    receiver
}

fn is_file() -> bool {
    fstat(stdin()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// What a line asks for.
/// Errors: `plan`. serde's message names the field and the column, and quotes no value of ours but an unknown word.
pub fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T> {
    serde_json::from_slice(line).map_err(|error| wrong(&error.to_string()))
}

pub fn wrong(what: &str) -> Failure {
    Failure::new(Class::Plan, format!("cannot follow this command: {what}"))
}

pub fn say(answer: &impl Serialize) {
    let mut line = serde_json::to_vec(answer).expect("the answers are JSON");
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    if out.write_all(&line).and_then(|()| out.flush()).is_err() {
        // Nobody reads any more: the parent is gone, and so is the reason to measure.
        std::process::exit(0);
    }
}

/// What a program that counts is asked, on each line after its plan.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    Counters {},
}

/// What such a program says: once that it is ready, and what it has counted whenever it is asked.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<R, C> {
    Ready(R),
    Counters(C),
}

/// The last line, after which the process ends.
#[derive(Serialize)]
struct Fatal {
    error: Failure,
}

pub fn say_fatal(error: Failure) {
    say(&Fatal { error });
}
