//! A small single-threaded runtime. Each thread has one epoll instance and runs its tasks as ordinary futures.
//!
//! Every report shows the engine's own time per operation, which a general-purpose runtime would increase. Here the
//! thread that waits for events also polls the tasks. An operation costs one `send`, one `recv`, and a part of an
//! `epoll_wait`, which serves several operations. A client that has its thread to itself waits in `recv` instead, without
//! an `epoll_wait`. An operation needs no allocation, lock or message between threads.

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
