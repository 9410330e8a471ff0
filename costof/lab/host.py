"""The lab's hosts, which are network namespaces, and the links between them.

A namespace is identified by the path of a file that keeps it alive.
"""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from costof.lab.cpu_share import CpuShare
from costof.lab.program import find_program

# Maximum number of packets that a link holds in one direction, netem's `limit`: enough for 240 ms at 500 Mbit/s.
QUEUE_PACKETS = 10_000
# The role (group for CPU accounting) of processes that simulate links. Servers have other roles.
LINK_ROLE = "link"

#: The folder of ip-netns(8) for named namespaces. Only root can write to it.
FOLDER = Path("/run/netns")
CLONE_NEWNET = 0x40000000
_setns = ctypes.CDLL(None, use_errno=True).setns


def entered(namespace: Path) -> list[str]:
    """Return a command prefix that runs the command after it in the namespace, with the same pid (`nsenter`)."""
    return [str(find_program("nsenter", "util-linux")), f"--net={namespace}", "--"]


def socket_in(namespace: Path | None, family: int, kind: int, protocol: int = 0) -> socket.socket:
    """Create a socket in the namespace; None means this process's own. Raises OSError.

    A socket belongs to the namespace in which it was created, and each thread can enter another namespace. A new thread
    therefore enters `namespace` and creates the socket there.
    """
    if namespace is None:
        return socket.socket(family, kind, protocol)
    made: list[socket.socket | OSError] = []

    def make() -> None:
        try:
            descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if _setns(descriptor, CLONE_NEWNET) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number), str(namespace))
            finally:
                os.close(descriptor)
            made.append(socket.socket(family, kind, protocol))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    (outcome,) = made
    if isinstance(outcome, OSError):
        raise outcome
    return outcome


@dataclass(frozen=True)
class Host:
    """A machine of the lab: a network namespace or, if no namespace can be created, only the address `loopback`."""

    name: str
    namespace: Path | None
    loopback: str | None = None
    cpu_share: CpuShare | None = None

    @property
    def prefix(self) -> list[str]:
        """Return a command prefix, perhaps empty, that runs the command after it on this host, with the same pid."""
        share = self.cpu_share.prefix if self.cpu_share else []
        return share if self.namespace is None else [*share, *entered(self.namespace)]

    def socket(self, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
        """Return an IPv4 socket that this process can use as if it ran on the host, for administration and probes."""
        return socket_in(self.namespace, socket.AF_INET, kind, protocol)

    def resize(self, cores: float) -> None:
        if self.cpu_share:
            self.cpu_share.resize(cores)

    def cpu_seconds(self) -> float | None:
        return self.cpu_share.cpu_seconds() if self.cpu_share else None


def throttled_seconds(hosts: Iterable[tuple[str, Host]]) -> dict[str, float]:
    """Return the total seconds in which programs were ready to run but had used up their host's CPU share.

    The keys are the programs' roles, such as 'server'.
    """
    seconds: dict[str, float] = {}
    for role, host in hosts:
        if host.cpu_share:
            seconds[role] = seconds.get(role, 0.0) + host.cpu_share.throttled_seconds()
    return seconds


@dataclass(frozen=True)
class Link:
    """A link between two hosts, with an address at each.

    `kind` says how the link is implemented: `loopback`, `veth` (without delay, limit or loss), `netem`, or `engine`
    (simulated by `costof-engine link`).
    """

    name: str
    a: Host
    b: Host
    a_address: str
    b_address: str
    kind: str
    device: str
    round_trip_ms: float = 0.0
    bandwidth_mbit: float | None = None
    loss: float = 0.0
    queue_packets: int = QUEUE_PACKETS

    def address_of(self, host: Host) -> str:
        """Return the address at which the host at the link's other end reaches `host`."""
        return {self.a.name: self.a_address, self.b.name: self.b_address}[host.name]
