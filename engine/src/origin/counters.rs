//! What was served.

use net::serve;
use net::transport::Handshake;
use serde::Serialize;
use std::collections::BTreeMap;
use std::iter::Sum;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One listener on one thread, which alone writes it; another may read.
#[derive(Default)]
pub struct Counters {
    connections: AtomicU64,
    requests: AtomicU64,
    resumed: AtomicU64,
    /// By version. A lock beside a handshake costs nothing that could be seen.
    tls: Mutex<BTreeMap<&'static str, u64>>,
}

/// As it is told.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct ListenerCounters {
    /// Taken, whatever became of them.
    pub connections: u64,
    pub requests: u64,
    pub resumed: u64,
    pub tls: BTreeMap<&'static str, u64>,
}

impl Counters {
    pub fn request(&self) {
        one_more(&self.requests);
    }

    pub fn handshake(&self, made: &Handshake) {
        if made.resumed {
            one_more(&self.resumed);
        }
        *self.tls.lock().expect("nothing panics with it").entry(made.version).or_default() += 1;
    }
}

impl serve::Counters for Counters {
    type Told = ListenerCounters;

    fn connection(&self) {
        one_more(&self.connections);
    }

    fn read(&self) -> ListenerCounters {
        ListenerCounters {
            connections: self.connections.load(Relaxed),
            requests: self.requests.load(Relaxed),
            resumed: self.resumed.load(Relaxed),
            tls: self.tls.lock().expect("nothing panics with it").clone(),
        }
    }
}

/// With one writer a load and a store are enough, and cost no bus lock.
fn one_more(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

impl Sum for ListenerCounters {
    fn sum<I: Iterator<Item = Self>>(threads: I) -> Self {
        threads.fold(Self::default(), |mut total, thread| {
            total.connections += thread.connections;
            total.requests += thread.requests;
            total.resumed += thread.resumed;
            for (version, count) in thread.tls {
                *total.tls.entry(version).or_default() += count;
            }
            total
        })
    }
}
