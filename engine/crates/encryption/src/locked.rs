//! Memory that contains keys, and that the system does not swap to disk.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, RangeInclusive};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

static IS_ENABLED: AtomicBool = AtomicBool::new(false);
/// The number of keys on each locked page. The system does not count locks: one unlock undoes all locks of a page.
static PAGES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Keep all keys that this process creates from now on out of swap, as far as `RLIMIT_MEMLOCK` allows. The gateway
/// calls this function. A client that measures latency does not call it, so that it does not measure the system calls
/// that lock memory.
pub fn lock_keys() {
    IS_ENABLED.store(true, Ordering::Relaxed);
}

/// A key at a fixed address. If [`lock_keys`] was called before, the key is locked in memory: the system does not swap
/// it to disk. `T` must erase itself when dropped.
#[derive(Debug)]
pub(super) struct Locked<T: ?Sized> {
    // The first field is dropped first: the key is erased before its pages are unlocked.
    value: Box<T>,
    _pages: Option<Pages>,
}

impl<T: ?Sized> Locked<T> {
    pub fn new(value: Box<T>) -> Self {
        let pages = IS_ENABLED.load(Ordering::Relaxed).then(|| Pages::lock(&*value));
        Locked { value, _pages: pages }
    }
}

impl<T: Clone> Clone for Locked<T> {
    fn clone(&self) -> Self {
        Locked::new(self.value.clone())
    }
}

impl<T: ?Sized> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: ?Sized> DerefMut for Locked<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// A range of page numbers. Each page stays locked at least until this value is dropped.
#[derive(Debug)]
struct Pages(RangeInclusive<usize>);

impl Pages {
    fn lock<T: ?Sized>(value: &T) -> Self {
        let size = rustix::param::page_size();
        let start = std::ptr::from_ref(value).addr();
        let pages = Pages(start / size..=(start + size_of_val(value).max(1) - 1) / size);
        let mut key_counts = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
        for page in pages.0.clone() {
            let keys = key_counts.entry(page).or_default();
            *keys += 1;
            if *keys == 1 {
                // SAFETY: locking does not change the content of memory. Ignore a failure: when `RLIMIT_MEMLOCK` is
                // reached, the key may be swapped to disk.
                let _ = unsafe { rustix::mm::mlock(std::ptr::without_provenance_mut(page * size), size) };
            }
        }
        pages
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let size = rustix::param::page_size();
        let mut key_counts = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
        for page in self.0.clone() {
            let Some(keys) = key_counts.get_mut(&page) else { continue };
            *keys -= 1;
            if *keys == 0 {
                key_counts.remove(&page);
                // SAFETY: unlocking does not change memory, and only fails for a page that no longer exists.
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

    /// The test runs in a child process, because the system counts the locked memory of a process as a whole. The keys
    /// of other tests in the same process would be counted too.
    #[test]
    fn memory_pages_stay_locked_while_they_hold_a_key() {
        if std::env::var_os("COSTOF_LOCKS_KEYS").is_none() {
            let this = "locked::tests::memory_pages_stay_locked_while_they_hold_a_key";
            let program = std::env::current_exe().unwrap();
            let run =
                std::process::Command::new(program).args(["--exact", this]).env("COSTOF_LOCKS_KEYS", "1").output();
            let run = run.unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
            return;
        }
        drop(Locked::new(Box::new([0_u8; 16])));
        assert_eq!(locked_kb(), 0, "locking is off");
        lock_keys();
        let first = Locked::new(Box::new([1_u8; 4096]));
        let locked_before = locked_kb();
        assert!(locked_before > 0, "RLIMIT_MEMLOCK allows none at all");
        let keys: Vec<_> = (0..64_u8).map(|key| Locked::new(Box::new([key; 16]))).collect();
        assert!(locked_kb() <= locked_before + 64, "keys share pages");
        drop(keys);
        assert_eq!(locked_kb(), locked_before);
        assert_eq!(*first, [1; 4096]);
        drop(first);
        assert_eq!(locked_kb(), 0);
        assert!(PAGES.lock().unwrap().is_empty());
    }
}
