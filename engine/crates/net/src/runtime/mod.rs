//! A small single-threaded runtime: one epoll a thread, and workers that are plain futures.
//!
//! Why not a general one: the engine's own time per operation is a figure of every report. A task here is polled by the
//! thread that waits for it, straight from the event, so an operation costs one `send`, one `recv`, a share of an
//! `epoll_wait`, and no allocation, lock, wake-up queue or cross-thread message.

mod epoll;
mod reactor;
pub mod resolve;
mod semaphore;
#[cfg(test)]
mod tests;
mod watched;

pub use reactor::{Executor, Reactor, TaskId};
pub use semaphore::Semaphore;
pub use watched::Watched;
