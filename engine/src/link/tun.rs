//! TUN devices, which are created and configured in a network namespace by ioctl(2) and rtnetlink(7). A device is
//! removed when its descriptor is closed.

use super::link_failure;
use super::plan::{Address, End};
use base::error::Result;
use libc::{IFF_NO_PI, IFF_TUN, IFF_UP, c_short, ifreq};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::c_int;
use std::io::{self, Error};
use std::net::Ipv4Addr;

/// The MTU of Ethernet. With another MTU, a transfer would consist of more or fewer packets than on a real link.
pub const MTU: usize = 1500;
/// The number of packets that the kernel queues while this process does not run: 120 ms at 500 Mbit/s. Further packets
/// are dropped, and only the device's own statistics count them.
const DEVICE_QUEUE_PACKETS: u32 = 5000;

/// Create the device of `end`, bring it up, and set its address and thus its route. The descriptor does not block.
pub fn create(end: &End) -> Result<OwnedFd> {
    inside(&end.namespace, || {
        let device = open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| link_failure("/dev/net/tun", error))?;
        let failed = |error| link_failure(format_args!("device {} in {}", end.device, end.namespace), error);
        configure(&device, end).map_err(failed)?;
        Ok(device)
    })
}

fn configure(device: &OwnedFd, end: &End) -> io::Result<()> {
    let mut request = request_for(&end.device);
    request.ifr_ifru.ifru_flags = (IFF_TUN | IFF_NO_PI) as c_short;
    control(device, libc::TUNSETIFF, &mut request)?;
    // Disable IPv6, whose router solicitations would be additional packets. Kernels without IPv6 lack this file.
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", end.device), "1");

    set_queue(&end.device)?;
    let control_socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut request = request_for(&end.device);
    request.ifr_ifru.ifru_metric = MTU as c_int;
    control(&control_socket, libc::SIOCSIFMTU, &mut request)?;
    set_address(&control_socket, &end.device, end.address)?;
    request.ifr_ifru.ifru_flags = IFF_UP as c_short;
    control(&control_socket, libc::SIOCSIFFLAGS, &mut request)
}

/// Set the device's queue length by rtnetlink: with ioctl(2), root in a user namespace would lack the permission.
fn set_queue(device: &str) -> io::Result<()> {
    let netlink = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    rustix::io::write(&netlink, &queue_message(device))?;
    let mut answer = [0; 512];
    let length = rustix::io::read(&netlink, &mut answer)?;
    // The answer is a struct nlmsghdr and a struct nlmsgerr, which begins with zero or a negative error number.
    match answer[..length].get(16..20).and_then(|error| error.try_into().ok()).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(error) => Err(Error::from_raw_os_error(-error)),
        None => Err(Error::other("the kernel's answer is too short")),
    }
}

/// Build an RTM_NEWLINK message (struct nlmsghdr, struct ifinfomsg) with the device's name and queue length.
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
    // Sequence number and port ID are 0, since there is only one message.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Set the address first and the mask second, because setting the address of a point-to-point device changes its mask.
fn set_address(control_socket: &OwnedFd, device: &str, address: Address) -> io::Result<()> {
    let mut request = request_for(device);
    request.ifr_ifru.ifru_addr = socket_address(address.ip);
    control(control_socket, libc::SIOCSIFADDR, &mut request)?;
    request.ifr_ifru.ifru_netmask = socket_address(address.mask());
    control(control_socket, libc::SIOCSIFNETMASK, &mut request)
}

fn request_for(device: &str) -> ifreq {
    // SAFETY: ifreq is plain data for which zero is valid.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// Return an IPv4 address in the form that an ioctl with struct ifreq needs: a struct sockaddr_in as a struct sockaddr.
fn socket_address(ip: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (to, from) in data[2..6].iter_mut().zip(ip.octets()) {
        *to = from as libc::c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

fn control(descriptor: &OwnedFd, operation: libc::Ioctl, request: &mut ifreq) -> io::Result<()> {
    // SAFETY: each operation used here takes a pointer to an ifreq, which lives through the call.
    match unsafe { libc::ioctl(descriptor.as_raw_fd(), operation, request) } {
        -1 => Err(Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Read one packet into `buffer`. Return its length, or None if no packet is waiting.
pub fn read(device: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Option<usize>> {
    use rustix::io::Errno;
    match rustix::io::read(device, buffer) {
        Ok(length) => Ok(Some(length)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(link_failure("cannot read from a device", error)),
    }
}

/// Run `work` in the network namespace of the file at `path`, on a separate thread, because entering a namespace
/// changes the whole thread. Descriptors that `work` opens stay in this namespace, also on other threads.
pub fn inside<T: Send>(path: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let namespace =
        open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(|error| link_failure(path, error))?;
    let enter_and_work = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| link_failure(path, error))?;
        work()
    };
    std::thread::scope(|scope| scope.spawn(enter_and_work).join())
        .unwrap_or_else(|_| Err(link_failure(path, "the thread in this namespace panicked")))
}
