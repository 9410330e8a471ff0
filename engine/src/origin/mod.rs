//! `costof-engine origin`: an HTTP server to run behind a load balancer. It answers `OK`, after a delay if the request
//! asks for one with `?wait=MILLISECONDS`.
//!
//! Module [`request`] parses requests and holds the responses. Threads share only the TLS settings, so that a session
//! ticket from one thread is valid on all threads.

pub mod request;

use base::error::Result;
use base::lines::{self, CountersCommand, Lines, invalid_command};
use base::{clock, process};
use net::runtime::Reactor;
use net::serve::{self, AllCounters, Listeners, Server, TlsFiles};
use net::transport::{Handshake, Stream, TlsServer};
use request::{Reader, Refusal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::iter::Sum;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

pub fn run() -> ExitCode {
    process::run(|| {
        let mut lines = Lines::from_standard_input();
        let Some(line) = lines.next() else { return Ok(()) };
        let plan = Plan::parse(&line)?;
        process::raise_open_files_limit();
        let sites: Result<_> =
            plan.listeners.iter().map(|listener| Ok((listener.address, site(listener.tls.as_ref())?))).collect();
        let listeners = Listeners::open(sites?, plan.threads, "origin")?;
        lines::write(&Answer::Ready(Ready { listeners: listeners.addresses().to_vec() }));
        for line in lines {
            match lines::parse(&line)? {
                CountersCommand::Counters {} => lines::write(&Answer::Counters(listeners.counters())),
            }
        }
        Ok(())
    })
}

fn site(tls: Option<&TlsFiles>) -> Result<Site> {
    Ok(Site(tls.map(TlsFiles::open).transpose()?.map(Arc::new)))
}

/// The first line of input: all listeners of this process.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub threads: usize,
    pub listeners: Vec<ListenerPlan>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerPlan {
    /// The address to listen on. Port 0 selects a free port.
    pub address: SocketAddr,
    #[serde(default)]
    pub tls: Option<TlsFiles>,
}

pub type Answer = lines::Answer<Ready, AllCounters<ListenerCounters>>;

/// The answer to the plan (the first line of input): the addresses of all listeners in the plan's order, with the ports
/// that were selected. The listeners already accept connections.
#[derive(Debug, Serialize)]
pub struct Ready {
    pub listeners: Vec<SocketAddr>,
}

impl Plan {
    pub fn parse(line: &[u8]) -> Result<Plan> {
        let plan: Plan = lines::parse(line)?;
        if plan.threads == 0 {
            return Err(invalid_command("threads must be at least 1"));
        }
        if plan.listeners.is_empty() {
            return Err(invalid_command("listeners must contain at least one listener"));
        }
        Ok(plan)
    }
}

/// The counters of one listener on one thread. Only this thread writes the counters. Other threads may read them.
#[derive(Default)]
pub struct Counters {
    connections: AtomicU64,
    requests: AtomicU64,
    resumed: AtomicU64,
    /// The number of handshakes by TLS version. The lock costs little compared with a handshake.
    tls: Mutex<BTreeMap<&'static str, u64>>,
}

/// The counters of a listener in an answer, summed over all threads.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct ListenerCounters {
    pub connections: u64,
    pub requests: u64,
    pub resumed: u64,
    pub tls: BTreeMap<&'static str, u64>,
}

impl Counters {
    pub fn request(&self) {
        increment(&self.requests);
    }

    pub fn handshake(&self, handshake: &Handshake) {
        if handshake.resumed {
            increment(&self.resumed);
        }
        *self.tls.lock().expect("no holder of the lock panics").entry(handshake.version).or_default() += 1;
    }
}

impl serve::Counters for Counters {
    type Totals = ListenerCounters;

    fn connection(&self) {
        increment(&self.connections);
    }

    fn read(&self) -> ListenerCounters {
        ListenerCounters {
            connections: self.connections.load(Relaxed),
            requests: self.requests.load(Relaxed),
            resumed: self.resumed.load(Relaxed),
            tls: self.tls.lock().expect("no holder of the lock panics").clone(),
        }
    }
}

/// Increment a counter that only this thread writes, by load and store, which are faster than an atomic increment.
fn increment(counter: &AtomicU64) {
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

const NANOS_PER_MILLISECOND: u64 = 1_000_000;
/// The maximum time in nanoseconds for which a client whose request was refused may continue to send.
const LINGER: u64 = 1_000_000_000;
/// The maximum number of bytes that a client whose request was refused may continue to send.
const LINGER_BYTES: usize = 1 << 20;

/// The handler of a listener's connections. `None` stands for plain connections without TLS.
#[derive(Clone)]
pub struct Site(pub Option<Arc<TlsServer>>);

impl Server for Site {
    type Counters = Counters;

    /// Serve a connection until it ends. Do not report errors, because the client observes them.
    async fn serve(self, stream: Stream, reactor: Rc<Reactor>, counters: Arc<Counters>) {
        let stream = match self.0 {
            None => stream,
            Some(server) => {
                let Ok((stream, handshake)) = stream.secure_as_server(&server).await else { return };
                counters.handshake(&handshake);
                stream
            }
        };
        let _ = answer_all(stream, &reactor, &counters).await;
    }
}

async fn answer_all(mut stream: Stream, reactor: &Reactor, counters: &Counters) -> Result<()> {
    let mut reader = Reader::new();
    loop {
        match reader.next_request() {
            Ok(Some(request)) => {
                counters.request();
                if request.wait_ms > 0 {
                    reactor.sleep_until(clock::now() + u64::from(request.wait_ms) * NANOS_PER_MILLISECOND).await;
                }
                stream.send(request::response(&request)).await?;
                if !request.keeps_alive() {
                    stream.close();
                    return Ok(());
                }
            }
            Ok(None) => {
                let received = stream.receive(reader.room()).await?;
                if received == 0 {
                    stream.close();
                    return Ok(());
                }
                reader.received(received);
            }
            Err(refusal) => return refuse(stream, refusal, reactor, reader).await,
        }
    }
}

/// Send an error response, then read until the client has closed the connection or a limit is reached. If the
/// connection were closed with unread bytes, it would be reset, and the response could be lost (RFC 9112, 9.6).
async fn refuse(mut stream: Stream, refusal: Refusal, reactor: &Reactor, mut reader: Reader) -> Result<()> {
    reactor.set_deadline(clock::now() + LINGER);
    stream.send(request::error_response(refusal)).await?;
    stream.finish_sending()?;
    let mut ignored = 0;
    while ignored < LINGER_BYTES {
        match stream.receive(reader.discard_buffer()).await? {
            0 => break,
            received => ignored += received,
        }
    }
    Ok(())
}
