//! TUN devices: made, addressed and brought up in a namespace, by ioctl(2) and rtnetlink(7). They vanish with their
//! descriptor.

use super::plan::{Address, End};
use super::refused;
use base::error::Result;
use libc::{IFF_NO_PI, IFF_TUN, IFF_UP, c_short, ifreq};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::c_int;
use std::io::{self, Error};
use std::net::Ipv4Addr;

/// Of an Ethernet, so that a transfer has as many packets as on a real link.
pub const MTU: usize = 1500;
/// Packets that the kernel holds for us while this process waits for its turn; past them it drops, and only the
/// device's own statistics know. 5000 are 120 ms at 500 Mbit/s.
const DEVICE_QUEUE_PACKETS: u32 = 5000;

/// The device of `end`, up, with its address and the route to its network. Reads and writes do not block.
pub fn create(end: &End) -> Result<OwnedFd> {
    inside(&end.namespace, || {
        let device = open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| refused("/dev/net/tun", error))?;
        let failed = |error| refused(format_args!("device {} in {}", end.device, end.namespace), error);
        configure(&device, end).map_err(failed)?;
        Ok(device)
    })
}

fn configure(device: &OwnedFd, end: &End) -> io::Result<()> {
    let mut request = named(&end.device);
    request.ifr_ifru.ifru_flags = (IFF_TUN | IFF_NO_PI) as c_short;
    control(device, libc::TUNSETIFF, &mut request)?;
    // Router solicitations would be packets that nobody sent. Without IPv6 there is no such file, and no need.
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", end.device), "1");

    set_queue(&end.device)?;
    let asker = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut request = named(&end.device);
    request.ifr_ifru.ifru_metric = MTU as c_int;
    control(&asker, libc::SIOCSIFMTU, &mut request)?;
    set_address(&asker, &end.device, end.address)?;
    request.ifr_ifru.ifru_flags = IFF_UP as c_short;
    control(&asker, libc::SIOCSIFFLAGS, &mut request)
}

/// By rtnetlink: ioctl(2) lets nobody do this but root of the whole machine, not even in a user namespace of his own.
fn set_queue(device: &str) -> io::Result<()> {
    let netlink = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    rustix::io::write(&netlink, &queue_message(device))?;
    let mut answer = [0; 512];
    let length = rustix::io::read(&netlink, &mut answer)?;
    // struct nlmsgerr after struct nlmsghdr: zero, or an error's number made negative.
    match answer[..length].get(16..20).and_then(|error| error.try_into().ok()).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(error) => Err(Error::from_raw_os_error(-error)),
        None => Err(Error::other("the kernel's answer is too short")),
    }
}

/// struct nlmsghdr and struct ifinfomsg for the device of this name, with its new queue as an attribute.
fn queue_message(device: &str) -> Vec<u8> {
    let mut body = vec![0; 16];
    for (kind, value) in [
        (libc::IFLA_TXQLEN, &DEVICE_QUEUE_PACKETS.to_ne_bytes()[..]),
        (libc::IFLA_IFNAME, &[device.as_bytes(), &[0]].concat()),
    ] {
        body.extend((4 + value.len() as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
    let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
    message.extend(libc::RTM_NEWLINK.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Neither a number nor a sender: there is one message, from us to the kernel.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// The mask comes after the address, which on a point-to-point device sets a mask of its own.
fn set_address(asker: &OwnedFd, device: &str, address: Address) -> io::Result<()> {
    let mut request = named(device);
    request.ifr_ifru.ifru_addr = socket_address(address.ip);
    control(asker, libc::SIOCSIFADDR, &mut request)?;
    request.ifr_ifru.ifru_netmask = socket_address(address.mask());
    control(asker, libc::SIOCSIFNETMASK, &mut request)
}

fn named(device: &str) -> ifreq {
    // SAFETY: ifreq is plain old data, for which zero is a value.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// An IPv4 address as the kernel reads it from an ifreq: struct sockaddr_in, here written through struct sockaddr.
fn socket_address(ip: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (to, from) in data[2..6].iter_mut().zip(ip.octets()) {
        *to = from as libc::c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

fn control(descriptor: &OwnedFd, operation: libc::Ioctl, request: &mut ifreq) -> io::Result<()> {
    // SAFETY: every operation used here takes a pointer to an ifreq, which lives through the call.
    match unsafe { libc::ioctl(descriptor.as_raw_fd(), operation, request) } {
        -1 => Err(Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Read one packet into `buffer`; none when no packet waits.
pub fn read(device: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Option<usize>> {
    use rustix::io::Errno;
    match rustix::io::read(device, buffer) {
        Ok(length) => Ok(Some(length)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(refused("a device is gone", error)),
    }
}

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
