"""How a link is made: addresses, queue, and commands for the kernel, or the engine's `link` where that has no netem."""

from __future__ import annotations

import math
from ipaddress import IPv4Address
from pathlib import Path

from costof.errors import CostofError, ErrorText
from costof.lab.host import QUEUE_PACKETS, Link, entered
from costof.messages.process import EngineProcess
from costof.model import Model

# What a router would buffer before a narrow link; without a bound a full one would hold packets for seconds.
BUFFER_MS = 100.0
PACKET_BITS = 1500 * 8
PREFIX = 30
# The highest 256 addresses of the /16 are for what a host serves on no link of its own.
NETWORKS = (1 << (PREFIX - 16)) - 64
SERVED = 254


def link_addresses(run: str, number: int) -> tuple[str, str]:
    """The two ends of link `number`: a /30 of a /16 of 10.0.0.0/8 that the run's six hexadecimal digits choose.

    Two runs never meet, since their hosts are in namespaces of their own; other networks only make captures of both
    easier to tell apart.
    """
    if not 0 <= number < NETWORKS:
        raise CostofError(ErrorText.LAB_FAILED, detail=f"a network has room for {NETWORKS} links")
    network = IPv4Address("10.0.0.0") + (int(run, 16) % 256 << 16) + (number << (32 - PREFIX))
    return str(network + 1), str(network + 2)


def served_address(run: str, number: int) -> str:
    """Return address `number` (from 0) of the run's /16 that belongs to a host rather than to a link."""
    if not 0 <= number < SERVED:
        raise CostofError(ErrorText.LAB_FAILED, detail=f"a network has room for {SERVED} addresses beside its links'")
    return str(IPv4Address("10.0.255.1") + (int(run, 16) % 256 << 16) + number)


def queue_for(round_trip_ms: float, bandwidth_mbit: float | None) -> int:
    """Return how many packets a direction holds: what travels, and what a router would buffer."""
    if bandwidth_mbit is None:
        return QUEUE_PACKETS
    packets = (round_trip_ms / 2 + BUFFER_MS) * bandwidth_mbit * 1000 / PACKET_BITS
    return min(max(math.ceil(packets), 100), 10 * QUEUE_PACKETS)


def engine_plan(link: Link) -> LinkPlan:
    a, b = (
        LinkEnd(namespace=str(namespace), device=link.device, address=f"{address}/{PREFIX}")
        for namespace, address in _ends(link)
    )
    return LinkPlan(
        name=link.name,
        a=a,
        b=b,
        round_trip_ms=link.round_trip_ms,
        bandwidth_mbit=link.bandwidth_mbit,
        loss=link.loss,
        queue_packets=link.queue_packets,
    )


def veth_commands(ip: str, link: Link) -> list[list[str]]:
    (a, a_address), (b, b_address) = _ends(link)
    both = ["type", "veth", "peer", "name", link.device, "netns", str(b)]
    commands = [[*entered(a), ip, "link", "add", link.device, *both]]
    for namespace, address in ((a, a_address), (b, b_address)):
        commands.append([*entered(namespace), ip, "address", "add", f"{address}/{PREFIX}", "dev", link.device])
        commands.append([*entered(namespace), ip, "link", "set", link.device, "up"])
    return commands


def netem_commands(ip: str, tc: str, link: Link) -> list[list[str]]:
    """Delay half the round trip in each direction. Packets have the MTU: one of 64 KB would be lost as a whole."""
    commands = []
    for namespace, _ in _ends(link):
        commands.append([*entered(namespace), ip, "link", "set", "dev", link.device, "gso_max_segs", "1"])
        shape = ["delay", f"{round(link.round_trip_ms * 500)}us", "limit", str(link.queue_packets)]
        if link.bandwidth_mbit is not None:
            shape += ["rate", f"{round(link.bandwidth_mbit * 1e6)}bit"]
        if link.loss:
            shape += ["loss", "random", f"{link.loss * 100:.6f}%"]
        commands.append([*entered(namespace), tc, "qdisc", "add", "dev", link.device, "root", "netem", *shape])
    return commands


def _ends(link: Link) -> tuple[tuple[Path, str], tuple[Path, str]]:
    assert link.a.namespace is not None
    assert link.b.namespace is not None
    return (link.a.namespace, link.a_address), (link.b.namespace, link.b_address)


class LinkEnd(Model):
    """A device in a namespace; `address` with the length of its network's prefix."""

    namespace: str
    device: str
    address: str


class LinkPlan(Model):
    """A link between two ends: what holds, narrows and loses its packets, in each direction."""

    name: str
    a: LinkEnd
    b: LinkEnd
    round_trip_ms: float
    bandwidth_mbit: float | None
    loss: float
    queue_packets: int


class LinksPlan(Model):
    """All links of a process. `seed` chooses the packets that are lost."""

    seed: int
    links: list[LinkPlan]


class LinkReady(Model):
    """What a round trip over the path costs by itself, and how long each link holds a packet in one direction.

    Not `preferred`: the links wait their turn among ordinary programs, and a busy machine adds milliseconds.
    """

    path_cost_us: float
    held_us: dict[str, float]
    preferred: bool


class DirectionCounters(Model):
    """Packets of one direction, and how late they were delivered."""

    taken: int
    lost: int
    dropped: int
    delivered: int
    delivered_bytes: int
    refused: int
    late_sum_ns: int
    late_max_ns: int


class LinkCounters(Model):
    """`a` and `b` are the link's ends, in the order it was made with."""

    a_to_b: DirectionCounters
    b_to_a: DirectionCounters


class AllCounters(Model):
    """Counters since the links were ready."""

    cpu_ns: int
    links: dict[str, LinkCounters]


class LinkProcess(EngineProcess):
    """`costof-engine link` for any number of links. Its devices vanish when it ends, and it ends with us."""

    def __init__(self) -> None:
        super().__init__("link")

    def begin(self, plan: LinksPlan) -> LinkReady:
        return self._begin(LinkReady, plan)

    def counters(self) -> AllCounters:
        return self._counted(AllCounters)
