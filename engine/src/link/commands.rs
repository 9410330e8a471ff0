//! Lines of standard input, read only when there is something to read: packets must not wait for words.

use super::failure::Failure;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::io::{Stdin, stdin};

/// No plan is longer; something else is at the other end.
const LONGEST_LINE: usize = 1 << 20;

/// What has come in and was not used yet.
pub struct Commands {
    source: Stdin,
    received: Vec<u8>,
}

impl Commands {
    pub fn of_standard_input() -> Self {
        Commands { source: stdin(), received: Vec::new() }
    }

    /// Readable when `receive` would not block.
    pub fn source(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    /// Read once. False at the end of the input.
    pub fn receive(&mut self) -> Result<bool, Failure> {
        let mut chunk = [0; 65536];
        let length = match rustix::io::read(&self.source, &mut chunk) {
            Err(Errno::INTR | Errno::AGAIN) => return Ok(true),
            other => other.map_err(|error| Failure::link("standard input", error))?,
        };
        self.received.extend_from_slice(&chunk[..length]);
        if self.received.len() > LONGEST_LINE && !self.received.contains(&b'\n') {
            return Err(Failure::plan(format!("a line of more than {LONGEST_LINE} bytes")));
        }
        Ok(length > 0)
    }

    /// The next whole line without its end, if there is one.
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.received.iter().position(|&byte| byte == b'\n')?;
        let rest = self.received.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.received, rest);
        line.pop();
        Some(line)
    }

    /// Block until there is a line; none when the input ends before.
    pub fn wait_for_line(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            if let Some(line) = self.next_line() {
                return Ok(Some(line));
            }
            if !self.receive()? {
                return Ok(None);
            }
        }
    }
}
