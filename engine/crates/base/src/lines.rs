//! Messages over standard input and output, one JSON object on each line.
//!
//! Each subcommand of `costof-engine` reads [`Lines`] in one of three ways. `drive`, which measures, reads them on a
//! separate thread. `link`, which forwards packets, polls standard input together with its network devices. The other
//! subcommands iterate over the lines.

use crate::error::{Class, Failure, Result};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Stdin, Write, stdin};
use std::sync::mpsc::{Receiver, channel};

/// The maximum length of a line in bytes. The longest lines are plans (configurations of a run), which are far shorter.
const LONGEST_LINE: usize = 1 << 26;

/// A reader of the non-empty lines of standard input.
pub struct Lines {
    source: Stdin,
    received: Vec<u8>,
}

impl Lines {
    pub fn from_standard_input() -> Self {
        Lines { source: stdin(), received: Vec::new() }
    }

    pub fn source(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    /// Read once from standard input, blocking if nothing has arrived. Return false at the end of the input.
    /// Errors: class `internal` if reading fails; class `plan` (invalid input) if a line is too long.
    pub fn receive(&mut self) -> Result<bool> {
        let mut chunk = [0; 65536];
        let length = match rustix::io::read(&self.source, &mut chunk) {
            Err(Errno::INTR | Errno::AGAIN) => return Ok(true),
            other => other.map_err(|error| Failure::new(Class::Internal, format!("standard input: {error}")))?,
        };
        let read = &chunk[..length];
        self.received.extend_from_slice(read);
        if self.received.len() > LONGEST_LINE && !read.contains(&b'\n') {
            return Err(Failure::new(Class::Plan, format!("a line of standard input exceeds {LONGEST_LINE} bytes")));
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

    /// Block until a line is complete and return it. Return None if the input has ended or reading fails. The last line
    /// needs no newline.
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

/// Read lines on a separate thread and return a receiver for them. If standard input is a pipe or a terminal, this
/// process exits as soon as the input ends, even during a measurement, because the parent process has gone. If standard
/// input is a file, all commands in the file are executed.
pub fn read_on_thread() -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    let reader = move || {
        for line in Lines::from_standard_input() {
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

/// Parse a command from one line of JSON. Errors: class `plan` (invalid input), with serde's message. The message
/// contains the position in the line, and may quote a name or a value that serde did not expect.
pub fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T> {
    serde_json::from_slice(line).map_err(|error| invalid_command(&error.to_string()))
}

pub fn invalid_command(reason: &str) -> Failure {
    Failure::new(Class::Plan, format!("invalid command: {reason}"))
}

/// Write an answer as one line. Exit the process if standard output is closed.
pub fn write(answer: &impl Serialize) {
    let mut line = serde_json::to_vec(answer).expect("the answers are JSON");
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    if out.write_all(&line).and_then(|()| out.flush()).is_err() {
        // The parent process has gone, so the answers are no longer needed.
        std::process::exit(0);
    }
}

/// A command to one of the subcommands that report counters (`link`, `origin` and `relay`). The command may be sent any
/// number of times after the plan (the first line of input).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CountersCommand {
    Counters {},
}

/// A line of output of a subcommand that reports counters: `ready` once after the plan (the first line of input), then
/// `counters` for each [`CountersCommand`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<R, C> {
    Ready(R),
    Counters(C),
}

/// The last line of output before a fatal error ends the process.
#[derive(Serialize)]
struct Fatal {
    error: Failure,
}

pub fn write_fatal(error: Failure) {
    write(&Fatal { error });
}
