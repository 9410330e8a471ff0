//! Memory of keys that is not swapped to a disk.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, RangeInclusive};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

static WANTED: AtomicBool = AtomicBool::new(false);
/// How many keys lie on each locked page: locks of the system do not nest.
static PAGES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// From now on this process keeps keys out of swap, as far as it may (`RLIMIT_MEMLOCK`). A client that measures goes
/// without: the system calls would be in what it measures.
pub fn lock_keys() {
    WANTED.store(true, Ordering::Relaxed);
}

/// A key, at an address of its own for as long as it lives. It must erase itself when dropped.
#[derive(Debug)]
pub(super) struct Locked<T: ?Sized> {
    // Dropped, and so erased, before its pages are unlocked.
    kept: Box<T>,
    _pages: Option<Pages>,
}

impl<T: ?Sized> Locked<T> {
    pub fn new(kept: Box<T>) -> Self {
        let pages = WANTED.load(Ordering::Relaxed).then(|| Pages::lock(&*kept));
        Locked { kept, _pages: pages }
    }
}

impl<T: Clone> Clone for Locked<T> {
    fn clone(&self) -> Self {
        Locked::new(self.kept.clone())
    }
}

impl<T: ?Sized> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.kept
    }
}

impl<T: ?Sized> DerefMut for Locked<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.kept
    }
}

/// Pages that are locked once more than they were, by their numbers.
#[derive(Debug)]
struct Pages(RangeInclusive<usize>);

impl Pages {
    fn lock<T: ?Sized>(kept: &T) -> Self {
        let size = rustix::param::page_size();
        let start = std::ptr::from_ref(kept).addr();
        let pages = Pages(start / size..=(start + size_of_val(kept).max(1) - 1) / size);
        let mut held = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
        for page in pages.0.clone() {
            let keys = held.entry(page).or_default();
            *keys += 1;
            if *keys == 1 {
                // SAFETY: locking changes nothing of what is in memory. Where the limit is reached the key lies there all
                // the same, as documented.
                let _ = unsafe { rustix::mm::mlock(std::ptr::without_provenance_mut(page * size), size) };
            }
        }
        pages
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let size = rustix::param::page_size();
        let mut held = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
        for page in self.0.clone() {
            let Some(keys) = held.get_mut(&page) else { continue };
            *keys -= 1;
            if *keys == 0 {
                held.remove(&page);
                // SAFETY: as above; a page that is there no more is refused.
                let _ = unsafe { rustix::mm::munlock(std::ptr::without_provenance_mut(page * size), size) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked_kb() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    }

    /// In a process of its own: what is wanted here is wanted of all its threads.
    #[test]
    fn pages_are_locked_as_long_as_a_key_lies_there() {
        if std::env::var_os("COSTOF_LOCKS_KEYS").is_none() {
            let this = "locked::tests::pages_are_locked_as_long_as_a_key_lies_there";
            let program = std::env::current_exe().unwrap();
            let run =
                std::process::Command::new(program).args(["--exact", this]).env("COSTOF_LOCKS_KEYS", "1").output();
            let run = run.unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
            return;
        }
        drop(Locked::new(Box::new([0_u8; 16])));
        assert_eq!(locked_kb(), 0, "not wanted");
        lock_keys();
        // As large as a page, so it lies on two or on one.
        let first = Locked::new(Box::new([1_u8; 4096]));
        let held = locked_kb();
        assert!(held > 0, "RLIMIT_MEMLOCK allows none at all");
        let keys: Vec<_> = (0..64_u8).map(|key| Locked::new(Box::new([key; 16]))).collect();
        assert!(locked_kb() <= held + 64, "keys share pages");
        drop(keys);
        assert_eq!(locked_kb(), held);
        assert_eq!(*first, [1; 4096]);
        drop(first);
        assert_eq!(locked_kb(), 0);
        assert!(PAGES.lock().unwrap().is_empty());
    }
}
