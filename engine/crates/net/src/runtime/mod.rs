//! A small single-threaded runtime: one epoll or one io_uring a thread, and workers that are plain futures.
//!
//! Why not a general one: the engine's own time per operation is a figure of every report. A task here is polled by the
//! thread that waits for it, straight from the event, so an operation costs one `send`, a share of the call that
//! waits, with epoll one `recv`, and no allocation, lock, wake-up queue or cross-thread message. Servers of our own wait by
//! epoll: theirs is to notice an end that nobody reads up to.

mod events;
mod reactor;
pub mod resolve;
mod ring;
mod semaphore;
#[cfg(test)]
mod tests;
mod watched;

pub use events::Runtime;
pub use reactor::{Executor, Reactor, TaskId};
pub use semaphore::Semaphore;
pub use watched::Watched;
