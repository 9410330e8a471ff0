//! Measurement of the path cost: the latency of a link without any configured delay. It is tens of microseconds, for
//! system calls, wake-ups and the receiving host's network stack. The path cost is measured at the start and subtracted
//! from each link's delay. Otherwise a short link, for example of 0.1 ms, would be noticeably longer than configured.

use super::forwarder::Forwarder;
use super::link_failure;
use super::plan::LinkPlan;
use super::tun::inside;
use base::error::Result;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// The delay in each direction during the measurement, long enough that a timer wakes the process, as in normal use.
const HELD_EACH_WAY: Duration = Duration::from_micros(500);
/// The number of probes (TCP handshakes) that measure the path cost (the latency without configured delay). Together
/// they take about 0.1 s.
const PROBES: usize = 61;
/// The maximum path cost (latency without configured delay) to subtract. A higher median only shows that the machine is
/// busy.
const MAX_PLAUSIBLE: Duration = Duration::from_micros(300);
const TIMEOUT: Duration = Duration::from_secs(20);

/// Measure the path cost: return the median round-trip time over `link` minus the configured delay, at most
/// [`MAX_PLAUSIBLE`]. `link` is the first link of `forwarder`.
///
/// The probes are TCP handshakes, whose round-trip time the kernel measures (TCP_INFO). This time rightly excludes the
/// wake-up of the receiving program: a real link has that latency too, so it must not be subtracted.
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
