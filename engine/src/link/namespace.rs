//! Work inside another network namespace, with all the rest of the process staying outside.

use super::refused;
use base::error::Result;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Run `work` in the namespace that the file at `path` holds, on a thread of its own: a namespace belongs to a thread,
/// and what was opened in it stays in it wherever it is used later.
pub fn inside<T: Send>(path: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let namespace =
        open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(|error| refused(path, error))?;
    let enter_and_work = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| refused(path, error))?;
        work()
    };
    std::thread::scope(|scope| scope.spawn(enter_and_work).join())
        .unwrap_or_else(|_| Err(refused(path, "the thread in it panicked")))
}
