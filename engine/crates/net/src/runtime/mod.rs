//! A small single-threaded runtime: one epoll a thread, and workers that are plain futures.
//!
//! Why not a general one: the engine's own time per operation is a figure of every report. A task here is polled by the
//! thread that waits for it, straight from the event, so an operation costs one `write`, one `epoll_wait`, one `read`
//! and no allocation, lock, wake-up queue or cross-thread message.

mod alarm;
mod buffers;
mod epoll;
mod events;
mod executor;
mod reactor;
pub mod resolve;
mod ring;
mod semaphore;
mod watched;

pub use events::Runtime;
pub use executor::Executor;
pub use reactor::{Reactor, TaskId};
pub use semaphore::Semaphore;
pub use watched::Watched;
