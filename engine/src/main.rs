//! `costof-engine`: what `costof` starts to measure. One subcommand for each thing on the path of a measured byte.

use clap::{Parser, Subcommand};
use costof_engine::link;
use std::process::ExitCode;

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Delay packets between network namespaces: links in on standard input, one JSON object a line
    Link,
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Link => link::run(),
    }
}
