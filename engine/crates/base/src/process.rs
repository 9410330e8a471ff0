//! This process as the machine sees it: how it ends, what it holds.

use crate::error::{Class, Failure, Result};
use crate::lines::say_fatal;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, getrlimit, set_dumpable_behavior, set_parent_process_death_signal,
    setrlimit,
};
use std::process::ExitCode;

/// Exit status after a fatal error in what was asked.
const EXIT_USAGE: u8 = 2;

pub fn follow(work: impl FnOnce() -> Result<()>) -> ExitCode {
    die_with_parent();
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say_fatal(failure);
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// Ask the kernel to end this process when the thread that started it dies: a `kill -9` of the parent leaves nobody to
/// say so. Standard input's end says it as well; whichever is seen first counts.
fn die_with_parent() {
    // Refused only where prctl is forbidden; the end of standard input still ends us there.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// A process that holds others' keys and values leaves no core dump, and no other of the same user may read its memory.
/// Errors: `internal`, where the system refuses.
pub fn keep_memory_private() -> Result<()> {
    let refused = |error| Failure::new(Class::Internal, format!("cannot forbid core dumps: {error}"));
    // A handler that the kernel pipes a dump to is not held up by the limit, but by the other.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).map_err(refused)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(refused)
}

/// Each connection is a descriptor, and shells give a process 1,024.
pub fn allow_many_connections() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Raising the soft limit to the hard one is refused to nobody.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// A defect of the engine ends as one line of JSON, not as a backtrace in the middle of somebody's report.
pub fn report_panics_as_fatal_errors() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        say_fatal(Failure::new(Class::Internal, format!("defect in costof-engine{place}: {message}")));
        std::process::exit(1);
    }));
}

/// The most memory this process has held, in bytes (`VmHWM` of proc(5)); 0 where `/proc` is not there.
pub fn peak_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::dumpable_behavior;

    /// In a process of its own: it cannot be taken back.
    #[test]
    fn a_process_that_keeps_its_memory_private_leaves_no_core() {
        if std::env::var_os("COSTOF_KEEPS_PRIVATE").is_none() {
            let this = "process::tests::a_process_that_keeps_its_memory_private_leaves_no_core";
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
