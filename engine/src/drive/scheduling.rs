//! How the scheduler treats a thread of workers, which in a lab shares its cores with the server.

use workload::Settings;

/// Whether the thread has several operations under way, each begun when another ends.
///
/// Such a thread should not interrupt the server for each answer, which halves what the two do together: woken as a
/// `SCHED_BATCH` thread (sched(7)) it waits for its turn and takes all that has come. One operation at a time has nothing
/// to gain, and where operations begin by a schedule an answer's time must not hold a wait for the server's next ones.
pub fn is_batch(workload: &Settings, workers_of_thread: usize) -> bool {
    workers_of_thread > 1 && workload.pace.is_none() && workload.think_ms.is_none()
}

/// Have this thread scheduled so, or as any other. A policy that somebody chose for it stays, such as a real-time one; a
/// sandbox that refuses costs speed and nothing else.
pub fn treat_as_batch(batch: bool) {
    let wanted = if batch { libc::SCHED_BATCH } else { libc::SCHED_OTHER };
    // SAFETY: it takes and gives numbers; 0 is this thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    if policy != wanted && [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&policy) {
        // SAFETY: the parameter outlives the call, and any thread may change between these two.
        unsafe { libc::sched_setscheduler(0, wanted, &libc::sched_param { sched_priority: 0 }) };
    }
}
