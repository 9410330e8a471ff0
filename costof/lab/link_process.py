"""The engine's `link`: distance between hosts where the kernel has no netem."""

from __future__ import annotations

from typing import Any

from costof.instrument import Instrument, Model, engine_path
from costof.lab.lab import process_cpu_seconds

READY_SECONDS = 20.0
ANSWER_SECONDS = 5.0


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


class LinkProcess(Instrument):
    """`costof-engine link` for any number of links. Its devices vanish when it ends, and it ends with us."""

    def __init__(self) -> None:
        super().__init__("costof-engine link", [str(engine_path()), "link"])

    def begin(self, plan: dict[str, Any]) -> LinkReady:
        """Make the links of the plan. Raises `INSTRUMENT_FAILED`."""
        self._send(plan)
        return self._validated(LinkReady, self._answer(READY_SECONDS).get("ready"))

    def counters(self) -> AllCounters:
        """Raises `INSTRUMENT_FAILED` when the process has died."""
        self._send({"counters": {}})
        return self._validated(AllCounters, self._answer(ANSWER_SECONDS).get("counters"))

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        return process_cpu_seconds(self.pid)

    def ended(self) -> int | None:
        """The exit status, when it has ended."""
        return self._process.poll()
