"""The parts of a link between two hosts: addresses, queue length, and the commands that create it.

On a kernel without netem, the process `costof-engine link` simulates the link. This module starts the process, and
defines the messages that are sent to the process (`LinksPlan`) and received from it (`LinkReady`, `AllCounters`).
"""

from __future__ import annotations

import math
from ipaddress import IPv4Address
from pathlib import Path

from costof.errors import CostofError, ErrorText
from costof.lab.host import QUEUE_PACKETS, Link, entered
from costof.messages.process import EngineProcess
from costof.model import Model

# The longest time that a packet waits in the queue of a slow link, as in a typical router. In a longer queue, packets
# could wait for seconds.
BUFFER_MS = 100.0
PACKET_BITS = 1500 * 8
PREFIX = 30
# The number of /30 networks for links in a run's /16 network. 64 networks are left out: their 256 addresses are for
# hosts (`served_address`).
NETWORKS = (1 << (PREFIX - 16)) - 64
SERVED = 254


def link_addresses(run: str, number: int) -> tuple[str, str]:
    """Return the addresses of the two ends of link `number`. Each link has a /30 network in the run's /16.

    `run` is six hexadecimal digits. They choose a /16 network in 10.0.0.0/8, so that runs are easy to tell apart in
    packet captures. Two simultaneous runs may have the same /16, because their hosts are in separate namespaces.
    """
    if not 0 <= number < NETWORKS:
        raise CostofError(ErrorText.LAB_FAILED, detail=f"a network has room for {NETWORKS} links")
    network = IPv4Address("10.0.0.0") + (int(run, 16) % 256 << 16) + (number << (32 - PREFIX))
    return str(network + 1), str(network + 2)


def served_address(run: str, number: int) -> str:
    """Return address 10.x.255.(`number` + 1), which belongs to a host and not to a link. `run` determines x."""
    if not 0 <= number < SERVED:
        detail = f"a network has room for {SERVED} addresses in addition to those of its links"
        raise CostofError(ErrorText.LAB_FAILED, detail=detail)
    return str(IPv4Address("10.0.255.1") + (int(run, 16) % 256 << 16) + number)


def queue_for(round_trip_ms: float, bandwidth_mbit: float | None) -> int:
    """Return the maximum number of packets in one direction of a link, on the way and in the router's buffer."""
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
    """Return the commands that set netem's delay (half the round trip), bandwidth and loss at both ends of a link.

    Segmentation offload is switched off, since netem would lose a packet of 64 KB as a whole.
    """
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
    """One end of a link: a device in a namespace. `address` has the prefix length, such as '10.1.0.1/30'."""

    namespace: str
    device: str
    address: str


class LinkPlan(Model):
    """A link to simulate. Delay (half of `round_trip_ms`), bandwidth and loss apply in each direction."""

    name: str
    a: LinkEnd
    b: LinkEnd
    round_trip_ms: float
    bandwidth_mbit: float | None
    loss: float
    queue_packets: int


class LinksPlan(Model):
    """The links that `costof-engine link` must simulate. `seed` seeds the random choice of lost packets."""

    seed: int
    links: list[LinkPlan]


class LinkReady(Model):
    """The answer of `costof-engine link` when its links work.

    `path_cost_us` is the round-trip time of a link without simulated delay, as measured. `held_us` maps each link to
    the delay that is added to a packet in one direction: half of the difference between the required round-trip time
    and `path_cost_us`. If `preferred` is false, the process could not raise its scheduling priority. On a busy machine,
    packets may then be late by milliseconds.
    """

    path_cost_us: float
    held_us: dict[str, float]
    preferred: bool


class DirectionCounters(Model):
    """Counters of packets in one direction of a link.

    `sent` packets entered the link. Of these, `lost` were removed by the simulated loss, `dropped` found a full queue,
    and `refused` were not accepted because the receiving device was down. `late_sum_ns` is the total delay of packets
    beyond the planned time, `late_max_ns` the longest one.
    """

    sent: int
    lost: int
    dropped: int
    delivered: int
    delivered_bytes: int
    refused: int
    late_sum_ns: int
    late_max_ns: int


class LinkCounters(Model):
    a_to_b: DirectionCounters
    b_to_a: DirectionCounters


class AllCounters(Model):
    """Counters of each link since the links were ready, and the CPU time of `costof-engine link`."""

    cpu_ns: int
    links: dict[str, LinkCounters]


class LinkProcess(EngineProcess):
    """The process `costof-engine link`, which simulates links. It ends, with all devices, when this process ends."""

    def __init__(self) -> None:
        super().__init__("link")

    def begin(self, plan: LinksPlan) -> LinkReady:
        return self._begin(LinkReady, plan)

    def counters(self) -> AllCounters:
        return self._counted(AllCounters)
