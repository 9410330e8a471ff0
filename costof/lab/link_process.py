"""The engine's `link`: distance between hosts where the kernel has no netem."""

from __future__ import annotations

from costof.messages.process import EngineProcess
from costof.model import Model


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
    """All links of a process; `seed` chooses the packets that are lost."""

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
    """Since the links were ready."""

    cpu_ns: int
    links: dict[str, LinkCounters]


class LinkProcess(EngineProcess):
    """`costof-engine link` for any number of links. Its devices vanish when it ends, and it ends with us."""

    def __init__(self) -> None:
        super().__init__("link")

    def begin(self, plan: LinksPlan) -> LinkReady:
        """Make the links of the plan. Raises `INSTRUMENT_FAILED`."""
        return self._begin(LinkReady, plan)

    def counters(self) -> AllCounters:
        """Raises `INSTRUMENT_FAILED` when the process has died."""
        return self._counted(AllCounters)
