//! `drive`: lines in, measurements out. A plan once, then slices, one after the other.

mod crew;
mod descriptors;
mod fleet;
mod input;
mod schedule;
mod seat;
mod tpcc;
mod worker;
mod ycsb;

pub use schedule::Schedule;
pub use seat::{Order, Seat, Window};
pub use worker::work;

use crate::border::{Answer, Arm, Command, Kind, Plan, Service, Workload};
use crate::calibrate;
use crate::error::Result;
use crate::process::{self, parse, wrong};
use crate::wire;
use fleet::Fleet;
use std::process::ExitCode;
use std::sync::mpsc::Receiver;

/// Read commands from standard input until its end, and answer them on standard output.
pub fn run() -> ExitCode {
    process::follow(|| answer(&input::lines()))
}

fn answer(lines: &Receiver<String>) -> Result<()> {
    let Some(plan) = lines.recv().ok() else { return Ok(()) };
    let mut fleet = Fleet::start(expect_plan(&plan)?, calibrate::quick())?;
    process::say(&Answer::Ready(fleet.ready()));
    for line in lines {
        match parse(&line)? {
            Command::Plan(_) => return Err(wrong("a second plan")),
            Command::Slice(slice) => process::say(&Answer::Slice(Box::new(fleet.measure(&slice)?))),
        }
    }
    Ok(())
}

fn expect_plan(line: &str) -> Result<Plan> {
    let Command::Plan(plan) = parse(line)? else { return Err(wrong("a slice before the plan")) };
    if plan.threads == 0 || plan.operation_timeout_ms == 0 {
        return Err(wrong("threads and operation_timeout_ms are at least 1"));
    }
    plan.workloads.iter().try_for_each(check)?;
    plan.arms.iter().try_for_each(|arm| check_arm(arm, &plan.workloads))?;
    ycsb::check(&plan)?;
    tpcc::check(&plan)?;
    descriptors::reserve(&plan)?;
    Ok(plan)
}

fn check(workload: &Workload) -> Result<()> {
    let name = &workload.name;
    if workload.workers == 0 {
        return Err(wrong(&format!("workload '{name}' has no workers")));
    }
    if workload.first_operation.is_some() && workload.kind != Kind::Connect {
        return Err(wrong(&format!("workload '{name}': first_operation is a matter of connect alone")));
    }
    if workload.pace.is_some_and(|pace| !(pace.per_second.is_finite() && pace.per_second > 0.0)) {
        return Err(wrong(&format!("workload '{name}': per_second is a number above 0")));
    }
    Ok(())
}

fn check_arm(arm: &Arm, workloads: &[Workload]) -> Result<()> {
    if let Service::Http(settings) = &arm.service {
        wire::http::check(settings).map_err(|failure| wrong(&format!("arm '{}': {failure}", arm.name)))?;
    }
    match workloads.iter().find(|workload| !arm.service.has(workload.kind)) {
        None => Ok(()),
        Some(Workload { name, kind, .. }) => Err(wrong(&format!(
            "workload '{name}' is of kind '{}', which arm '{}' of protocol '{}' does not have",
            kind.name(),
            arm.name,
            arm.service.protocol()
        ))),
    }
}
