//! The command `WAIT`, which the server answers when replicas have all earlier writes of the connection.

use super::channel::{append_argument, append_head, append_number, number};
use super::reply::{Element, Reader};
use base::error::{Class, Failure, Result};
use serde::Deserialize;
use std::num::NonZeroU32;

/// The time in milliseconds after which the server answers even if too few replicas have the write. An operation may
/// continue for longer than this time after its slice (a measured window) has ended. So the server's answer, which is
/// the number of replicas that have the write, still arrives.
const TIMEOUT_MS: i64 = 500;

/// The number of replicas that must have a write before its operation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Wait(NonZeroU32);

impl Wait {
    pub fn append(self, out: &mut Vec<u8>) {
        append_head(out, 3);
        append_argument(out, b"WAIT");
        append_number(out, self.0.get().into());
        append_number(out, TIMEOUT_MS);
    }

    /// Check the answer, which is the number of replicas that have the write. Errors: class `server` for too few
    /// replicas; `protocol` for another kind of answer.
    pub fn check(self, element: Element<'_>, rest: Reader<'_>) -> Result<()> {
        match number(element, rest)? {
            replicas if replicas >= self.0.get().into() => Ok(()),
            replicas => {
                let detail = format!("the write was on {replicas} of {} replicas after {TIMEOUT_MS} ms", self.0);
                Err(Failure::new(Class::Server, detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::reply::first;

    fn wait(replicas: u32) -> Wait {
        Wait(NonZeroU32::new(replicas).unwrap())
    }

    fn check(reply: &[u8]) -> Result<()> {
        let mut reader = Reader::new(reply);
        let element = first(&mut reader)?;
        wait(2).check(element, reader)
    }

    #[test]
    fn wait_command_contains_the_number_of_replicas_and_the_timeout() {
        let mut out = Vec::new();
        wait(1).append(&mut out);
        assert_eq!(out, b"*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$3\r\n500\r\n");
    }

    #[test]
    fn write_stored_on_too_few_replicas_is_a_server_error() {
        for reply in [&b":2\r\n"[..], b":3\r\n"] {
            check(reply).unwrap();
        }
        let failure = check(b":1\r\n").unwrap_err();
        assert_eq!((failure.class, &*failure.detail), (Class::Server, "the write was on 1 of 2 replicas after 500 ms"));
        assert_eq!(check(b":0\r\n").unwrap_err().class, Class::Server);
        assert_eq!(check(b"+OK\r\n").unwrap_err().class, Class::Protocol);
    }

    #[test]
    fn checking_arbitrary_answers_never_panics() {
        bolero::check!().with_iterations(2000).for_each(|reply: &[u8]| _ = check(reply));
    }
}
