//! Subcommand `drive`, which performs the measurements. One measurement (a slice) is a time window of one workload on
//! one variant of the experiment (an arm). The subcommand reads a plan (the configuration of a run) and then commands
//! from standard input, and writes an answer to each line on standard output.

mod pool;
mod runner;

use crate::calibrate;
use crate::ipc::{Answer, Arm, Command, Opener, Plan};
use base::error::Result;
use base::lines::{invalid_command, parse, read_on_thread, write};
use base::process;
use runner::Runner;
use std::process::ExitCode;
use std::sync::mpsc::Receiver;

/// Read commands until the end of standard input, and answer each command on standard output. If `sealed`, write a
/// public key first and accept only a plan (the configuration of a run) that is encrypted to this key.
pub fn run(sealed: bool) -> ExitCode {
    process::run(|| {
        let opener = sealed.then(send_public_key).transpose()?;
        answer(&read_on_thread(), opener)
    })
}

fn send_public_key() -> Result<Opener> {
    process::keep_memory_private()?;
    let opener = Opener::new();
    write(&Answer::PublicKey(opener.public_key()));
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
    write(&Answer::Ready(runner.ready()));
    for line in lines {
        match parse(&line)? {
            Command::Plan(_) => return Err(invalid_command("only one plan is accepted")),
            Command::Prepare(command) => write(&Answer::Prepared(runner.prepare(command)?)),
            Command::Slice(slice) => write(&Answer::Slice(Box::new(runner.measure(&slice)?))),
        }
    }
    Ok(())
}

fn expect_plan(command: Command) -> Result<Plan> {
    let Command::Plan(plan) = command else { return Err(invalid_command("the first command must be a plan")) };
    Ok(plan)
}

fn check(plan: &Plan) -> Result<()> {
    if plan.threads == 0 || plan.operation_timeout_ms == 0 {
        return Err(invalid_command("threads and operation_timeout_ms must be at least 1"));
    }
    plan.workloads.iter().try_for_each(workload::Settings::check)?;
    plan.arms.iter().try_for_each(|arm| check_arm(arm, &plan.workloads))?;
    reserve_descriptors(plan)
}

fn check_arm(arm: &Arm, workloads: &[workload::Settings]) -> Result<()> {
    let Arm { name, service, .. } = arm;
    let kinds: Vec<_> = workloads.iter().map(|workload| workload.kind).collect();
    service.settings.check(&kinds).map_err(|failure| invalid_command(&format!("arm '{name}': {failure}")))?;
    match workloads.iter().find(|workload| !service.protocol.kinds.contains(&workload.kind)) {
        None => Ok(()),
        Some(workload) => Err(invalid_command(&format!(
            "workload '{}' has kind '{}', which protocol '{}' of arm '{name}' does not support",
            workload.name,
            workload.kind.name(),
            service.protocol.name
        ))),
    }
}

/// The number of file descriptors to reserve besides connections: for standard streams, CA files, name lookups, and an
/// epoll instance and a timer in each thread.
const OTHER_DESCRIPTORS: u64 = 64;

/// Raise the limit of open files as far as the system allows. Errors: class `plan` (invalid configuration) if the limit
/// is too low for all connections of the plan.
pub fn reserve_descriptors(plan: &Plan) -> Result<()> {
    let limit = process::raise_open_files_limit();
    let needed = needed_connections(plan) + OTHER_DESCRIPTORS;
    if needed <= limit {
        return Ok(());
    }
    Err(invalid_command(&format!(
        "the plan needs {needed} open files, but the limit is {limit}; raise the limit (ulimit -n) or reduce \
         the workers"
    )))
}

/// Return the maximum number of open connections. Persistent connections of all workloads on all arms (variants of the
/// experiment) are open at once, temporary ones only in one slice (measured window).
fn needed_connections(plan: &Plan) -> u64 {
    let workers = || plan.arms.iter().flat_map(|arm| plan.workloads.iter().map(move |workload| (arm, workload)));
    let (mut persistent, mut temporary) = (0, 0);
    for (arm, workload) in workers() {
        let workers = plan.share.workers(workload).len() as u64;
        if arm.service.settings.is_persistent(workload.kind) {
            persistent += workers;
        } else {
            temporary = workers.max(temporary);
        }
    }
    persistent + temporary
}
