//! An engine process, with its standard streams.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The maximum duration in seconds of a slice (a measured window) that ends after a number of operations. A longer
/// slice has hung.
pub const HANG_SECONDS: f64 = 600.0;
/// The maximum number of attempts to measure a slice (a window). A slow machine can make an attempt unusable.
const ATTEMPTS: usize = 20;

pub struct Engine {
    pub child: Child,
    pub input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Engine {
    pub fn start() -> Self {
        Self::start_subcommand("drive")
    }

    pub fn start_subcommand(subcommand: &str) -> Self {
        Self::start_with(Command::new(env!("CARGO_BIN_EXE_costof-engine")).arg(subcommand))
    }

    pub fn start_with(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Engine { child, input, output }
    }

    pub fn send(&mut self, line: &Value) {
        writeln!(self.input, "{line}").unwrap();
    }

    pub fn ask(&mut self, line: &Value) -> Value {
        self.send(line);
        self.receive()
    }

    pub fn receive(&mut self) -> Value {
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// Close the process's standard input, which ends the process, and return the exit code.
    pub fn end(mut self) -> Option<i32> {
        drop(self.input);
        self.child.wait().unwrap().code()
    }

    pub fn slice(&mut self, arm: &str, workload: &str, operations: u64, seconds: f64) -> Value {
        let slice = json!({"id": 1, "arm": arm, "workload": workload, "operations": operations, "seconds": seconds});
        self.ask(&json!({ "slice": slice }))["slice"].take()
    }

    /// Measure slices (measured windows) that end after `seconds`, until one has no errors and satisfies `is_right`. On
    /// a slow machine, operations may be unfinished when the extra time after the slice's end is over. Such a slice has
    /// errors of class `abandoned`, and is repeated. Any other error fails the test.
    pub fn undisturbed(
        &mut self,
        arm: &str,
        workload: &str,
        operations: u64,
        seconds: f64,
        is_right: impl Fn(&Value) -> bool,
    ) {
        let mut slices = (0..ATTEMPTS).map(|_| self.slice(arm, workload, operations, seconds));
        let right = slices.find(|slice| {
            let errors = slice["errors"].as_array().unwrap();
            assert!(errors.iter().all(|error| error["class"] == "abandoned"), "{slice}");
            is_right(slice) && errors.is_empty()
        });
        assert!(right.is_some(), "all {ATTEMPTS} slices were disturbed");
    }
}
