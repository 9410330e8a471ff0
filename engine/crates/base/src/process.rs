//! Settings of this process (core dumps, open files, panics, death of the parent), its exit status and its peak memory.

use crate::error::{Class, Failure, Result};
use crate::lines::write_fatal;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, getrlimit, set_dumpable_behavior, set_parent_process_death_signal,
    setrlimit,
};
use std::process::ExitCode;

/// The exit status after a fatal error, such as an invalid command.
const EXIT_USAGE: u8 = 2;

/// Run `work` and return the exit status. If `work` fails, write the failure as the last line of output.
pub fn run(work: impl FnOnce() -> Result<()>) -> ExitCode {
    die_with_parent();
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            write_fatal(failure);
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// Make the kernel kill this process when its parent thread dies. A parent that gets SIGKILL cannot end its children.
fn die_with_parent() {
    // A sandbox may forbid prctl. The process then still ends when its standard input ends.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// Forbid core dumps, and forbid the user's other processes from reading this process's memory, which contains keys and
/// decrypted values. Errors: `internal` if the system refuses.
pub fn keep_memory_private() -> Result<()> {
    let refused = |error| Failure::new(Class::Internal, format!("cannot forbid core dumps: {error}"));
    // The resource limit does not stop dumps that the kernel pipes to a handler. Clearing the dumpable flag stops them.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).map_err(refused)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(refused)
}

/// Raise this process's limit of open files as far as the system allows, and return the limit. Each connection needs a
/// file descriptor, and shells often allow only 1,024.
pub fn raise_open_files_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    raised.map_or(current, |()| maximum).unwrap_or(u64::MAX)
}

/// Make every panic write one line of JSON instead of a backtrace, and end the process with status 1.
pub fn report_panics_as_fatal_errors() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        write_fatal(Failure::new(Class::Internal, format!("defect in costof-engine{place}: {message}")));
        std::process::exit(1);
    }));
}

/// Return the peak resident memory of this process in bytes (`VmHWM` of proc(5)), or 0 without `/proc`.
pub fn peak_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::dumpable_behavior;

    /// The test runs in a child process, because a process that has forbidden core dumps cannot allow them again.
    #[test]
    fn process_with_private_memory_writes_no_core_dump() {
        if std::env::var_os("COSTOF_KEEPS_PRIVATE").is_none() {
            let this = "process::tests::process_with_private_memory_writes_no_core_dump";
            let mut program = std::process::Command::new(std::env::current_exe().unwrap());
            let run = program.args(["--exact", this]).env("COSTOF_KEEPS_PRIVATE", "1").output().unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
            return;
        }
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
        keep_memory_private().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        assert_eq!(getrlimit(Resource::Core), Rlimit { current: Some(0), maximum: Some(0) });
    }
}
