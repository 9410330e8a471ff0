//! `costof-engine`: what `costof` starts to measure. One subcommand for each thing on the path of a measured byte.

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
    /// Measure slices: a plan and slice commands in on standard input, answers out, one JSON object a line
    Drive {
        /// Take the plan encrypted to a key that is the first line out
        #[arg(long)]
        sealed: bool,
    },
    /// Print what measuring itself costs on this machine, in nanoseconds, as JSON
    Calibrate,
    /// Delay packets between network namespaces: links in on standard input, one JSON object a line
    Link,
    /// Serve HTTP behind a balancer: listeners in on standard input, one JSON object a line
    Origin,
    /// Encrypt columns of a MySQL server's answers: listeners in on standard input, one JSON object a line
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
