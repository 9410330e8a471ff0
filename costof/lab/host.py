"""Machines of the lab, and what joins two of them."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from costof.lab.cpu_share import CpuShare
from costof.lab.namespace import entered, socket_in

# Packets on their way in one direction: 240 ms one way at 500 Mbit/s, as netem's `limit`.
QUEUE_PACKETS = 10_000
# What the CPU time of processes that carry links is counted under: the lab's, and no cost of a service.
LINK_ROLE = "link"


@dataclass(frozen=True)
class Host:
    """A machine of the lab. `namespace` is None where none can be made; then `loopback` is its address."""

    name: str
    namespace: Path | None
    loopback: str | None = None
    cpu_share: CpuShare | None = None

    @property
    def prefix(self) -> list[str]:
        """Before a program's arguments: it runs on this host, with the same pid and end as without it."""
        share = self.cpu_share.prefix if self.cpu_share else []
        return share if self.namespace is None else [*share, *entered(self.namespace)]

    def socket(self, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
        """An IPv4 socket on this host, for the process that calls: administration, probes."""
        return socket_in(self.namespace, socket.AF_INET, kind, protocol)

    def resize(self, cores: float) -> None:
        """Give it so many cores, where it has a share. Raises `LAB_FAILED`."""
        if self.cpu_share:
            self.cpu_share.resize(cores)

    def cpu_seconds(self) -> float | None:
        """CPU time of all that ran on this host; None when it has no share of its own."""
        return self.cpu_share.cpu_seconds() if self.cpu_share else None


def throttled_seconds(hosts: Iterable[tuple[str, Host]]) -> dict[str, float]:
    """Time in which hosts wanted to run and had used their shares up, by role; nothing of those without a share."""
    found: dict[str, float] = {}
    for role, host in hosts:
        if host.cpu_share:
            found[role] = found.get(role, 0.0) + host.cpu_share.throttled_seconds()
    return found


@dataclass(frozen=True)
class Link:
    """Two hosts, an address at each. `kind`: `loopback`, `veth` (plain), `netem` or `engine`."""

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
        """Where the other end reaches `host` over this link."""
        return {self.a.name: self.a_address, self.b.name: self.b_address}[host.name]
