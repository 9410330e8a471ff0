//! `costof-engine`: what `costof` starts to measure. One subcommand for each thing on the path of a measured byte.

use clap::{Parser, Subcommand};
use costof_engine::{calibrate, drive, process};
use std::process::ExitCode;

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure slices: a plan and slice commands in on standard input, answers out, one JSON object a line
    Drive,
    /// Print what measuring itself costs on this machine, in nanoseconds, as JSON
    Calibrate,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    process::report_panics_as_fatal_errors();
    match arguments.command {
        Command::Drive => drive::run(),
        Command::Calibrate => calibrate::run(),
    }
}
