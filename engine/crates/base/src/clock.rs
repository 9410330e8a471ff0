//! The engine's clocks, all in nanoseconds: monotonic time, CPU time of the process, and wall-clock time.

use rustix::time::{ClockId, clock_gettime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Return the time of `CLOCK_MONOTONIC` in nanoseconds. Every measured duration is the difference of two such times.
pub fn now() -> u64 {
    read(ClockId::Monotonic)
}

pub fn process_cpu() -> u64 {
    read(ClockId::ProcessCPUTime)
}

/// Return the wall-clock time in nanoseconds since 1970 UTC. Use it only as a timestamp: for the start of a slice (a
/// measured window), and for dates in TPC-C's rows. Use [`now`] for durations.
pub fn unix() -> u64 {
    read(ClockId::Realtime)
}

pub fn from_seconds(seconds: f64) -> u64 {
    (seconds * NANOS_PER_SECOND as f64) as u64
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * NANOS_PER_SECOND + time.tv_nsec as u64
}
