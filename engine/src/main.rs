//! `costof-engine`, the program that `costof` starts to measure, with one subcommand for each program on the path of a
//! measured byte.

use base::process;
use clap::{Parser, Subcommand};
use costof_engine::{calibrate, drive, link, origin};
use std::process::ExitCode;

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure slices: reads a plan and slice commands from standard input and writes answers, one JSON object a line
    Drive {
        /// Write a public key first, and accept only a plan that is encrypted to it
        #[arg(long)]
        sealed: bool,
    },
    /// Print the cost of measuring itself on this machine in nanoseconds, as JSON
    Calibrate,
    /// Delay packets between network namespaces: reads links from standard input, one JSON object a line
    Link,
    /// Serve HTTP behind a balancer: reads listeners from standard input, one JSON object a line
    Origin,
    /// Encrypt columns in a MySQL server's answers: reads listeners from standard input, one JSON object a line
    Gateway,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    process::report_panics_as_fatal_errors();
    match arguments.command {
        Command::Drive { sealed } => drive::run(sealed),
        Command::Calibrate => calibrate::run(),
        Command::Link => link::run(),
        Command::Origin => origin::run(),
        Command::Gateway => gateway::run(),
    }
}
