//! What the path itself costs: system calls, wake-ups, the receiving host's network stack. A link that is asked for
//! 0.1 ms must not add its own tens of microseconds to it, so they are measured at the start and taken off the delay.

use super::forwarder::Forwarder;
use super::plan::LinkPlan;
use super::refused;
use super::tun::inside;
use base::error::Result;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Known delay of the probes, long enough for the process to sleep and be woken by its timer as it will be later.
const HELD_EACH_WAY: Duration = Duration::from_micros(500);
/// Enough for a median; about 0.1 s in all.
const PROBES: usize = 61;
/// More than this is a busy machine, not a path.
const HIGHEST_BELIEVED: Duration = Duration::from_micros(300);
const TIMEOUT: Duration = Duration::from_secs(20);

/// The median of what a round trip over `link`, the first of `forwarder`, takes beyond the delay it was given.
///
/// The probes are TCP handshakes, timed by the kernel at both the sending and the receipt (TCP_INFO), so that no
/// program's own wake-up is counted: programs wait for that on a real link too.
pub fn path_cost(forwarder: &mut Forwarder, link: &LinkPlan) -> Result<Duration> {
    forwarder.begin_calibration(HELD_EACH_WAY);
    let done = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| refused("eventfd", error))?;
    let mut round_trips = std::thread::scope(|scope| {
        let prober = scope.spawn(|| {
            let round_trips = probe(link);
            let woken = rustix::io::write(&done, &1u64.to_ne_bytes()).map_err(|error| refused("eventfd", error));
            woken.and(round_trips)
        });
        forwarder.forward_until_readable(done.as_fd())?;
        prober.join().unwrap_or_else(|_| Err(refused("calibration", "its thread panicked")))
    })?;
    round_trips.sort_unstable();
    Ok(round_trips[PROBES / 2].saturating_sub(2 * HELD_EACH_WAY).min(HIGHEST_BELIEVED))
}

fn probe(link: &LinkPlan) -> Result<Vec<Duration>> {
    let failed = |error| refused(format_args!("calibration of link {}", link.name), error);
    let listener =
        inside(&link.b.namespace, || TcpListener::bind(SocketAddr::from((link.b.address.ip, 0))).map_err(failed))?;
    let address = listener.local_addr().map_err(failed)?;
    inside(&link.a.namespace, || {
        let handshake = || {
            let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
            listener.accept()?;
            round_trip(&stream)
        };
        (0..PROBES).map(|_| handshake().map_err(failed)).collect()
    })
}

/// tcpi_rtt: right after the handshake it is the handshake's.
fn round_trip(stream: &TcpStream) -> std::io::Result<Duration> {
    // SAFETY: tcp_info is plain old data, for which zero is a value, and its size goes with it.
    let (outcome, info) = unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
        let into = (&raw mut info).cast();
        (libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into, &mut size), info)
    };
    if outcome == -1 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(Duration::from_micros(info.tcpi_rtt.into()))
}
