//! `costof-engine`: the program that measures, and the other programs through which measured traffic passes. Each is a
//! subcommand.

use base::process;
use clap::{Parser, Subcommand};
use costof_engine::{calibrate, drive, link, origin, relay};
use std::process::ExitCode;

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure workloads: read a plan and commands from standard input and write answers, one JSON object on each line
    Drive {
        /// Write a public key first, and accept only a plan that is encrypted to it
        #[arg(long)]
        sealed: bool,
    },
    /// Print how long the engine itself needs to measure an operation, and to encrypt and decrypt a value, as JSON
    Calibrate,
    /// Delay packets between network namespaces: read the links from standard input, one JSON object on each line
    Link,
    /// Serve HTTP behind a balancer: read the listeners from standard input, one JSON object on each line
    Origin,
    /// Forward requests to a server with a known delay: read the listening addresses from standard input, one JSON
    /// object on each line
    Relay,
    /// Encrypt columns in a MySQL server's answers: read the listeners from standard input, one JSON object on each
    /// line
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
        Command::Relay => relay::run(),
        Command::Gateway => gateway::run(),
    }
}
