//! `costof-engine origin`: the server behind a balancer, which answers `OK` after as long as it is asked to.
//!
//! A connection is a [`request`] reader over its bytes, and the response to each. Threads share nothing but the TLS
//! settings, so that a session ticket of one is good at the others.

pub mod request;

use base::error::Result;
use base::lines::{self, Lines, Question, wrong};
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
    process::follow(|| {
        let mut lines = Lines::of_standard_input();
        let Some(line) = lines.next() else { return Ok(()) };
        let plan = Plan::parse(&line)?;
        process::allow_many_connections();
        let sites: Result<_> =
            plan.listeners.iter().map(|asked| Ok((asked.address, site(asked.tls.as_ref())?))).collect();
        let listeners = Listeners::open(sites?, plan.threads, "origin")?;
        lines::say(&Answer::Ready(Ready { listeners: listeners.addresses().to_vec() }));
        for line in lines {
            match lines::parse(&line)? {
                Question::Counters {} => lines::say(&Answer::Counters(listeners.counters())),
            }
        }
        Ok(())
    })
}

fn site(tls: Option<&TlsFiles>) -> Result<Site> {
    Ok(Site(tls.map(TlsFiles::open).transpose()?.map(Arc::new)))
}

/// The first line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub threads: usize,
    pub listeners: Vec<ListenerPlan>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerPlan {
    /// Port 0 is any that is free.
    pub address: SocketAddr,
    #[serde(default)]
    pub tls: Option<TlsFiles>,
}

/// What goes out.
pub type Answer = lines::Answer<Ready, AllCounters<ListenerCounters>>;

/// Connections are being taken on all of these, in the plan's order, with the ports that were free.
#[derive(Debug, Serialize)]
pub struct Ready {
    pub listeners: Vec<SocketAddr>,
}

impl Plan {
    pub fn parse(line: &[u8]) -> Result<Plan> {
        let plan: Plan = lines::parse(line)?;
        if plan.threads == 0 {
            return Err(wrong("threads is at least 1"));
        }
        if plan.listeners.is_empty() {
            return Err(wrong("there is no listener in it"));
        }
        Ok(plan)
    }
}

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

const NANOS_PER_MILLISECOND: u64 = 1_000_000;
/// How long a client that was refused may go on sending, in nanoseconds.
const LINGER: u64 = 1_000_000_000;
/// And how much.
const LINGER_BYTES: usize = 1 << 20;

/// A listener's; plain without TLS settings.
#[derive(Clone)]
pub struct Site(pub Option<Arc<TlsServer>>);

impl Server for Site {
    type Counters = Counters;

    /// Of its errors nobody has to know: the client sees them itself.
    async fn serve(self, stream: Stream, reactor: Rc<Reactor>, counters: Arc<Counters>) {
        let stream = match self.0 {
            None => stream,
            Some(server) => {
                let Ok((stream, made)) = stream.secure_as_server(&server).await else { return };
                counters.handshake(&made);
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
                stream.send(request::to(&request)).await?;
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

/// Say why, and wait until the client has gone or used up its time: closing with its bytes unread would reset the
/// connection, and the answer might be lost on its way (RFC 9112, 9.6).
async fn refuse(mut stream: Stream, refusal: Refusal, reactor: &Reactor, mut reader: Reader) -> Result<()> {
    reactor.set_deadline(clock::now() + LINGER);
    stream.send(request::refusing(refusal)).await?;
    stream.finish_sending()?;
    let mut ignored = 0;
    while ignored < LINGER_BYTES {
        match stream.receive(reader.room_for_anything()).await? {
            0 => break,
            received => ignored += received,
        }
    }
    Ok(())
}
