//! The latency of the path itself: system calls, wake-ups, the receiving host's network stack. These tens of
//! microseconds are measured at the start and subtracted from the delay, so that a link of 0.1 ms is not longer than
//! configured.

use super::forwarder::Forwarder;
use super::link_failure;
use super::plan::LinkPlan;
use super::tun::inside;
use base::error::Result;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// The delay of the probes in each direction, long enough that the process sleeps and is woken by its timer, as later.
const HELD_EACH_WAY: Duration = Duration::from_micros(500);
/// The number of probes, which take about 0.1 s together.
const PROBES: usize = 61;
/// The maximum plausible path cost; a higher median shows a busy machine.
const MAX_PLAUSIBLE: Duration = Duration::from_micros(300);
const TIMEOUT: Duration = Duration::from_secs(20);

/// Return the median time of a round trip over `link`, the first of `forwarder`, beyond the configured delay.
///
/// The probes are TCP handshakes, which the kernel times from sending to receipt (TCP_INFO). So the wake-up of the
/// receiving program is not included; a real link has it too.
pub fn path_cost(forwarder: &mut Forwarder, link: &LinkPlan) -> Result<Duration> {
    forwarder.begin_calibration(HELD_EACH_WAY);
    let done = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| link_failure("eventfd", error))?;
    let mut round_trips = std::thread::scope(|scope| {
        let prober = scope.spawn(|| {
            let round_trips = probe(link);
            let woken = rustix::io::write(&done, &1u64.to_ne_bytes()).map_err(|error| link_failure("eventfd", error));
            woken.and(round_trips)
        });
        forwarder.forward_until_readable(done.as_fd())?;
        prober.join().unwrap_or_else(|_| Err(link_failure("calibration", "the probing thread panicked")))
    })?;
    round_trips.sort_unstable();
    Ok(round_trips[PROBES / 2].saturating_sub(2 * HELD_EACH_WAY).min(MAX_PLAUSIBLE))
}

fn probe(link: &LinkPlan) -> Result<Vec<Duration>> {
    let failed = |error| link_failure(format_args!("calibration of link {}", link.name), error);
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

/// Return tcpi_rtt, which right after the handshake is the handshake's round-trip time.
fn round_trip(stream: &TcpStream) -> std::io::Result<Duration> {
    // SAFETY: tcp_info is plain data for which zero is valid, and the call gets its size.
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
