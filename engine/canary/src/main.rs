//! Attacks the gateway: statements by a grammar, and two oracles that tell whether anything protected came out.
//!
//! It is told on standard input, as JSON, where gateways and servers are (`target::Plan`), and says on standard output what it
//! has found (`campaign::Report`). Its exit status is 0 without a find, and 1 with one.
//!
//! `canary make DATABASE` makes one, which a gateway must find when it starts; `canary campaign` attacks, `canary replay FOLDER` plays earlier finds, `canary generate SEED COUNT` shows statements,
//! `canary differential DATABASE COUNT PRINTER` holds what is printed of statements against the statements; the printer is a file
//! of rules, for the gateway's own, or the name of a wrong one. `canary checks` names what of a gateway can be switched off.

mod campaign;
mod client;
mod command;
mod differential;
mod grammar;
mod minimise;
mod oracle;
mod printer;
mod reduce;
mod rng;
mod schema;
mod second_reader;
mod session;
mod target;
mod world;

use campaign::{Campaign, Find, Report};
use gateway::sql::Check;
use grammar::{Generator, Predicates};
use rng::Rng;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use target::{Data, Plan};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["campaign"] => plan().map(|plan| Campaign::new(plan).run()),
        ["make", database] => plan().and_then(|plan| Data::make(&plan.servers, database)).map(|()| Report::default()),
        ["replay", folder] => plan().and_then(|plan| replay(plan, Path::new(folder))),
        ["checks"] => {
            Check::ALL.iter().for_each(|(name, _)| println!("{name}"));
            return ExitCode::SUCCESS;
        }
        ["differential", database, count, printer] => return compare(database, count, printer),
        ["generate", seed, count] => generate(seed, count),
        _ => Err("usage: canary campaign | canary replay FOLDER | canary generate SEED COUNT".into()),
    };
    match outcome {
        Ok(report) => {
            println!("{}", serde_json::to_string(&report).expect("plain data"));
            ExitCode::from(u8::from(!report.finds.is_empty() || !report.errors.is_empty()))
        }
        Err(why) => {
            eprintln!("canary: {why}");
            ExitCode::from(2)
        }
    }
}

fn plan() -> Result<Plan, String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| format!("the plan: {error}"))
}

/// Prints against originals; the report and the status are as a campaign's.
fn compare(database: &str, count: &str, printer: &str) -> ExitCode {
    let outcome = plan().and_then(|plan| {
        let count = count.parse().map_err(|_| format!("'{count}' is no number"))?;
        let server = &plan.servers[0];
        if let Some(mut print) = differential::named(printer) {
            return differential::run(server, database, plan.seed, count, &mut print);
        }
        let printer = printer::Printer::new(Path::new(printer), server, database)?;
        differential::run(server, database, plan.seed, count, &mut |statement| printer.print(statement))
    });
    match outcome {
        Ok(report) => {
            println!("{}", serde_json::to_string(&report).expect("plain data"));
            ExitCode::from(u8::from(!report.differences.is_empty()))
        }
        Err(why) => {
            eprintln!("canary: {why}");
            ExitCode::from(2)
        }
    }
}

/// Earlier finds, each before the target where it was found, or before all.
fn replay(plan: Plan, folder: &Path) -> Result<Report, String> {
    let targets = plan.targets.clone();
    let servers = plan.servers.clone();
    let campaign = Campaign::new(plan);
    let mut report = Report::default();
    let mut files: Vec<_> = std::fs::read_dir(folder).map_err(|error| error.to_string())?.flatten().collect();
    files.sort_by_key(std::fs::DirEntry::path);
    for target in &targets {
        let mut data = Data::open(&servers[..target.gateways.len()], &target.database, false)?;
        for file in files.iter().filter(|file| file.path().extension().is_some_and(|end| end == "json")) {
            let text = std::fs::read_to_string(file.path()).map_err(|error| error.to_string())?;
            let find: Find =
                serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.path().display()))?;
            report.statements += find.commands.len() as u64;
            for decrypts in [false, true] {
                if let Some((_, what)) = campaign.replay(target, decrypts, &mut data, &find.commands)? {
                    report.finds.push(Find { target: target.name.clone(), what, ..find.clone() });
                }
            }
        }
    }
    Ok(report)
}

fn generate(seed: &str, count: &str) -> Result<Report, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{text}' is no number"));
    let mut generator = Generator::new(Rng::new(number(seed)?, 0), "da", Predicates::Equality);
    for _ in 0..number(count)? {
        let (origin, mut command) = generator.command();
        let shown = command.text_mut().map(|text| text.escape_ascii().to_string());
        println!("{origin:?} {}", shown.unwrap_or_else(|| format!("{command:?}")));
    }
    for (production, uses) in &generator.coverage {
        eprintln!("{uses:8} {production}");
    }
    Ok(Report::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;

    /// As a file of finds has it.
    #[test]
    fn a_find_is_written_and_read() {
        let commands = vec![Command::Query(b"SELECT CONCAT(name), \\NFROM people".to_vec())];
        let find = Find { target: "default".into(), what: "a piece".into(), commands, after: 7 };
        let written = serde_json::to_string(&find).unwrap();
        assert_eq!(serde_json::from_str::<Find>(&written).unwrap().commands, find.commands);
    }
}
