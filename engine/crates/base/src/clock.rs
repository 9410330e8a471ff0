//! The clocks, all in nanoseconds.

use rustix::time::{ClockId, clock_gettime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// `CLOCK_MONOTONIC`: every measured duration is a difference of two of these.
pub fn now() -> u64 {
    read(ClockId::Monotonic)
}

pub fn process_cpu() -> u64 {
    read(ClockId::ProcessCPUTime)
}

/// Nanoseconds since 1970 UTC; only ever to say when a slice was, never to measure.
pub fn unix() -> u64 {
    read(ClockId::Realtime)
}

/// Seconds as a plan states them, in nanoseconds.
pub fn from_seconds(seconds: f64) -> u64 {
    (seconds * NANOS_PER_SECOND as f64) as u64
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * NANOS_PER_SECOND + time.tv_nsec as u64
}
