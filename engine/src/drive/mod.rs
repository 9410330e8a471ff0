//! `drive`: lines in, measurements out. A plan once, then slices, one after the other.

mod pool;
mod runner;

use crate::calibrate;
use crate::ipc::{Answer, Arm, Command, Opener, Plan};
use base::error::Result;
use base::lines::{on_a_thread, parse, say, wrong};
use base::process;
use runner::Runner;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::ExitCode;
use std::sync::mpsc::Receiver;

/// Read commands from standard input until its end, and answer them on standard output. A plan may be sealed to this
/// process, which then tells its key first.
pub fn run(sealed: bool) -> ExitCode {
    process::follow(|| {
        let opener = sealed.then(tell_key).transpose()?;
        answer(&on_a_thread(), opener)
    })
}

fn tell_key() -> Result<Opener> {
    process::keep_memory_private()?;
    let opener = Opener::new();
    say(&Answer::PublicKey(opener.public_key()));
    Ok(opener)
}

fn answer(lines: &Receiver<Vec<u8>>, opener: Option<Opener>) -> Result<()> {
    let Some(line) = lines.recv().ok() else { return Ok(()) };
    let plan = match opener {
        Some(opener) => opener.open(&line)?,
        None => expect_plan(parse(&line)?)?,
    };
    check(&plan)?;
    let mut runner = Runner::start(plan, calibrate::quick())?;
    say(&Answer::Ready(runner.ready()));
    for line in lines {
        match parse(&line)? {
            Command::Plan(_) => return Err(wrong("a second plan")),
            Command::Prepare(command) => say(&Answer::Prepared(runner.prepare(command)?)),
            Command::Slice(slice) => say(&Answer::Slice(Box::new(runner.measure(&slice)?))),
        }
    }
    Ok(())
}

fn expect_plan(command: Command) -> Result<Plan> {
    let Command::Plan(plan) = command else { return Err(wrong("a slice before the plan")) };
    Ok(plan)
}

fn check(plan: &Plan) -> Result<()> {
    if plan.threads == 0 || plan.operation_timeout_ms == 0 {
        return Err(wrong("threads and operation_timeout_ms are at least 1"));
    }
    plan.workloads.iter().try_for_each(workload::Settings::check)?;
    plan.arms.iter().try_for_each(|arm| check_arm(arm, &plan.workloads))?;
    reserve_descriptors(plan)
}

fn check_arm(arm: &Arm, workloads: &[workload::Settings]) -> Result<()> {
    let Arm { name, service, .. } = arm;
    let kinds: Vec<_> = workloads.iter().map(|workload| workload.kind).collect();
    service.settings.check(&kinds).map_err(|failure| wrong(&format!("arm '{name}': {failure}")))?;
    match workloads.iter().find(|workload| !service.protocol.kinds.contains(&workload.kind)) {
        None => Ok(()),
        Some(workload) => Err(wrong(&format!(
            "workload '{}' is of kind '{}', which arm '{name}' of protocol '{}' does not have",
            workload.name,
            workload.kind.name(),
            service.protocol.name
        ))),
    }
}

/// What is open beside connections: standard streams, an epoll and a timer a thread, CA files, lookups of names.
const BESIDE: u64 = 64;

/// Raise the limit as far as it may be, and see that the plan's connections fit.
/// Errors: `plan`, where they do not.
pub fn reserve_descriptors(plan: &Plan) -> Result<()> {
    let limit = raise_limit();
    let needed = needed_connections(plan) + BESIDE;
    if needed <= limit {
        return Ok(());
    }
    Err(wrong(&format!(
        "its connections need {needed} open files and this process may have {limit}: raise the limit (ulimit -n), or take \
         fewer workers"
    )))
}

fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum.unwrap_or(u64::MAX),
        Err(_) => current.unwrap_or(u64::MAX),
    }
}

/// Those that stand between slices, of all arms, and the most that one slice has besides.
fn needed_connections(plan: &Plan) -> u64 {
    let workers = || plan.arms.iter().flat_map(|arm| plan.workloads.iter().map(move |workload| (arm, workload)));
    let (mut standing, mut passing) = (0, 0);
    for (arm, workload) in workers() {
        let workers = plan.share.workers(workload).len() as u64;
        if arm.service.settings.is_persistent(workload.kind) {
            standing += workers;
        } else {
            passing = workers.max(passing);
        }
    }
    standing + passing
}
