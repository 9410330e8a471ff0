//! How many connections this process can hold.

use crate::ipc::Plan;
use base::error::Result;
use base::lines::wrong;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is open beside connections: standard streams, an epoll and a timer a thread, CA files, lookups of names.
const BESIDE: u64 = 64;

/// Raise the limit as far as it may be, and see that the plan's connections fit.
/// Errors: `plan`, where they do not.
pub fn reserve(plan: &Plan) -> Result<()> {
    let limit = raise();
    let needed = needed(plan) + BESIDE;
    if needed <= limit {
        return Ok(());
    }
    Err(wrong(&format!(
        "its connections need {needed} open files and this process may have {limit}: raise the limit (ulimit -n), or take \
         fewer workers"
    )))
}

fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum.unwrap_or(u64::MAX),
        Err(_) => current.unwrap_or(u64::MAX),
    }
}

/// Those that stand between slices, of all arms, and the most that one slice has besides.
fn needed(plan: &Plan) -> u64 {
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
