//! How the scheduler treats a thread of workers, which in a lab shares its cores with the server.

use std::cell::Cell;
use workload::Settings;

/// Whether the thread has several operations under way, each begun when another ends.
///
/// Such a thread should not interrupt the server for each answer, which halves what the two do together: woken as a
/// `SCHED_BATCH` thread (sched(7)) it waits for its turn and takes all that has come. One operation at a time has nothing
/// to gain, and where operations begin by a schedule an answer's time must not hold a wait for the server's next ones.
pub fn is_batch(workload: &Settings, workers_of_thread: usize) -> bool {
    workers_of_thread > 1 && workload.pace.is_none() && workload.think_ms.is_none()
}

/// What this thread is treated as.
pub struct Policy {
    /// Neither of the two that any user may choose between, if somebody has set it so: that is left alone.
    is_ours: bool,
    batch: Cell<bool>,
}

impl Policy {
    /// As it is now.
    pub fn of_this_thread() -> Self {
        // SAFETY: it takes and gives numbers; 0 is this thread.
        let policy = unsafe { libc::sched_getscheduler(0) };
        Policy {
            is_ours: [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&policy),
            batch: Cell::new(policy == libc::SCHED_BATCH),
        }
    }

    /// A sandbox that refuses costs speed and nothing else.
    pub fn set(&self, batch: bool) {
        if !self.is_ours || self.batch.replace(batch) == batch {
            return;
        }
        let policy = if batch { libc::SCHED_BATCH } else { libc::SCHED_OTHER };
        // SAFETY: the parameter outlives the call, and any thread may change between these two.
        unsafe { libc::sched_setscheduler(0, policy, &libc::sched_param { sched_priority: 0 }) };
    }
}
