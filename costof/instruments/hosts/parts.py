"""What one host had of a slice, and whether all of them had it together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from pydantic import Field

from costof.errors import Caution
from costof.messages.answers import SliceAnswer
from costof.model import Finite, Model

#: A host that begins later than this, or than this share of the slice, was no part of one population.
LATEST_NS, LATEST_SHARE = 5_000_000, 0.02
#: Of the time from the first opening to the last end, in which all hosts measured.
LEAST_TOGETHER = 0.95


class PhaseSum(Model):
    count: int
    sum_ns: int


class HostPart(Model):
    """One host's part of a slice. Instants are nanoseconds from the one at which all windows were to open; `first_ns`
    is its first operation's beginning, None of a host without one.

    `clock_offset_ns`: its clock less ours, known to within `clock_error_ns`. `machine_busy` and `steal` are shares of
    its CPU time.
    """

    host: str
    operations: int
    errors: int
    phases: dict[str, PhaseSum]
    figures: dict[str, float] = Field(default={}, description="What its programs have told of their work.")
    clock_offset_ns: int
    clock_error_ns: int
    late_ns: int
    first_ns: int | None
    ended_ns: int
    engine_cpu_ns: int
    machine_busy: Finite
    steal: Finite

    @property
    def took_part(self) -> bool:
        return bool(self.operations or self.errors)


class PopulationAnswer(SliceAnswer):
    """A slice of all hosts as one, and the parts of it. What is in no ledger are seconds of the hosts' CPU time: that
    other programs had, and the hypervisor took. `unlike`: in what hosts that must agree did not, in words."""

    hosts: list[HostPart]
    foreign_cpu_seconds: float
    steal_seconds: float
    unlike: str | None = None


def late(parts: Sequence[HostPart]) -> str | None:
    """Which host began too late, in words; None where all began together."""
    at_work = [part for part in parts if part.took_part]
    last = max(at_work, key=lambda part: part.late_ns, default=None)
    if last is None or last.late_ns <= max(LATEST_NS, LATEST_SHARE * max(part.ended_ns for part in at_work)):
        return None
    return Caution.HOST_LATE.text(host=last.host, milliseconds=round(last.late_ns / 1e6))


def apart(parts: Sequence[HostPart], operations: int, seconds: float) -> str | None:
    """Why a slice that was to end after so many was not of one population, in words; None where it was.

    A window closes by time, or when its host has done its share of the operations. What is under way then ends when it
    does, as it does on one machine: that one host's last operation was slow is no reason to leave it out. A program
    that was told how long to run closes its host's window itself: `operations` is 0 then, and `seconds` infinite.
    """
    at_work = [part for part in parts if part.took_part]
    if not at_work:
        return None
    ends = [min(seconds * 1e9, part.ended_ns if _did(part, operations // len(at_work)) else inf) for part in at_work]
    begins = [part.late_ns for part in at_work]
    share = max(0.0, min(ends) - max(begins)) / max(1.0, max(ends) - min(begins))
    return late(parts) or (None if share >= LEAST_TOGETHER else Caution.HOSTS_APART.text(share=f"{share:.0%}"))


def _did(part: HostPart, operations: int) -> bool:
    return part.operations + part.errors >= operations


def part_of(
    host: str, answer: SliceAnswer, clock: tuple[int, int], opens_ns: int, shares: Mapping[str, float]
) -> HostPart:
    """`clock`: offset and error. `opens_ns`: on the host's own clock."""
    window = answer.window
    opened = window.opened_ns - opens_ns if window else 0
    first = window.first_began_ns if window else None
    return HostPart(
        host=host,
        operations=answer.operations,
        errors=sum(error.count for error in answer.errors),
        phases={name: PhaseSum(count=each.count, sum_ns=each.sum_ns) for name, each in answer.phases.items()},
        figures=answer.figures,
        clock_offset_ns=clock[0],
        clock_error_ns=clock[1],
        late_ns=opened,
        first_ns=None if first is None else first - opens_ns,
        ended_ns=opened + answer.elapsed_ns,
        engine_cpu_ns=sum(answer.cpu_ns.values()),
        machine_busy=shares["busy"],
        steal=shares["steal"],
    )
