"""The answers of hosts as the one of their population: what is counted is added, and percentiles never are.

Histograms are added bucket by bucket, integers exactly, and sums of squares without a loss (Shewchuk 1997).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, inf
from typing import Any

from costof.errors import WarningText
from costof.messages.answers import (
    LEFT_BEHIND,
    LEFT_RUNNING,
    MISMATCH,
    ClassifiedError,
    HostPart,
    Phase,
    PhaseSum,
    Ready,
    ReadyArm,
    SliceAnswer,
    merged_figures,
)
from costof.statistics.histogram import merged

#: A host that begins later than this, or than this share of the slice, was no part of one population.
LATEST_NS, LATEST_SHARE = 5_000_000, 0.02
#: Of the time from the first opening to the last end, in which all hosts measured.
LEAST_TOGETHER = 0.95
#: Facts of the evidence that must be alike, those that are counts, and members that hosts have chosen.
ALIKE, COUNTED, CHOSEN = (
    ("protocol", "cipher", "key"),
    {"connections", "handshakes", "resumed"},
    {"server", "server_side"},
)


def merged_answer(parts: Sequence[SliceAnswer]) -> dict[str, Any]:
    """The fields of the population's answer, its elapsed time that of the host that took longest."""
    first = parts[0]
    return {
        "id": first.id,
        "arm": first.arm,
        "workload": first.workload,
        "started_unix_ns": min(part.started_unix_ns for part in parts),
        "elapsed_ns": max(part.elapsed_ns for part in parts),
        "operations": sum(part.operations for part in parts),
        "errors": _errors([error for part in parts for error in part.errors]),
        "phases": {
            name: _phase([part.phases[name] for part in parts if name in part.phases])
            for name in dict.fromkeys(name for part in parts for name in part.phases)
        },
        "cpu_ns": _added([part.cpu_ns for part in parts]),
        "peak_memory_bytes": max(part.peak_memory_bytes for part in parts),
        "counts": _added([part.counts for part in parts]),
        "figures": merged_figures([part.figures for part in parts], first.rates),
        "rates": first.rates,
        # A host without a worker has seen nothing.
        "evidence": _evidence([part.evidence for part in parts if part.operations or part.errors] or [first.evidence]),
    }


def unproved(told: Mapping[str, SliceAnswer]) -> str | None:
    """What hosts, by name, have found not to be of the arm; None where each has proved it."""
    found: dict[str, list[str]] = {}
    for host, answer in told.items():
        if wrong := answer.evidence.get(MISMATCH):
            found.setdefault(wrong, []).append(host)
    texts = [WarningText.HOST_CANNOT.text(hosts=" and ".join(hosts), detail=wrong) for wrong, hosts in found.items()]
    return "; ".join(texts) or None


def evidence_mismatch(parts: Sequence[SliceAnswer]) -> str | None:
    """In what the connections of hosts differ that must be alike; None where they do not. A host that has opened none
    has seen nothing."""
    saw = [part.evidence for part in parts if part.operations]
    for name in ALIKE:
        found = dict.fromkeys(str(facts.get(name)) for facts in saw)
        if len(found) > 1:
            return WarningText.HOSTS_DIFFER.text(what=name, found=" and ".join(found))
    return None


def merged_ready(told: Mapping[str, Ready]) -> Ready:
    """Of hosts by name. An arm that some host cannot reach is refused, and that host named."""
    parts = [*told.values()]
    costs = dict.fromkeys(name for part in parts for name in part.self_cost_ns)
    return Ready(
        instrument=parts[0].instrument,
        versions=parts[0].versions,
        self_cost_ns={name: max(part.self_cost_ns.get(name, 0.0) for part in parts) for name in costs},
        arms=[
            _arm({host: next(arm for arm in ready.arms if arm.name == each.name) for host, ready in told.items()})
            for each in parts[0].arms
        ],
    )


def _arm(told: Mapping[str, ReadyArm]) -> ReadyArm:
    """As all hosts told of it."""
    arms = [*told.values()]
    refused = {host: arm.error for host, arm in told.items() if arm.error is not None}
    if not refused:
        servers = dict.fromkeys(arm.server for arm in arms if arm.server)
        return ReadyArm(name=arms[0].name, server=",".join(servers), error=None)
    error = next(iter(refused.values()))
    if len(refused) < len(arms):
        detail = WarningText.HOST_CANNOT.text(hosts=" and ".join(refused), detail=error.detail)
        error = error.model_copy(update={"detail": detail})
    return ReadyArm(name=arms[0].name, server=None, error=error)


def _errors(errors: Sequence[ClassifiedError]) -> list[ClassifiedError]:
    found: dict[tuple[str, str | None], ClassifiedError] = {}
    for error in errors:
        kind = error.error_class, error.phase
        before = found[kind].count if kind in found else 0
        found[kind] = found.get(kind, error).model_copy(update={"count": before + error.count})
    return [*found.values()]


def _phase(parts: Sequence[Phase]) -> Phase:
    return Phase(
        count=sum(part.count for part in parts),
        sum_ns=sum(part.sum_ns for part in parts),
        sum_squares_ns2=fsum(part.sum_squares_ns2 for part in parts),
        min_ns=min(part.min_ns for part in parts),
        max_ns=max(part.max_ns for part in parts),
        round_trips=_all_told([part.round_trips for part in parts]),
        bytes_sent=_all_told([part.bytes_sent for part in parts]),
        bytes_received=_all_told([part.bytes_received for part in parts]),
        histogram=merged(part.histogram for part in parts).encoded(),
    )


def _all_told(counts: Sequence[int | None]) -> int | None:
    told = [count for count in counts if count is not None]
    return sum(told) if len(told) == len(counts) else None


def _added(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for each in counts for name in each)
    return {name: sum(each.get(name, 0) for each in counts) for name in names}


def _evidence(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is no count is the first host's that has seen it: whether all saw it `unlike` says."""
    names = dict.fromkeys(name for facts in parts for name in facts)
    return {name: _fact(name, [facts[name] for facts in parts if name in facts]) for name in names}


def _fact(name: str, values: Sequence[Any]) -> Any:
    seen = [value for value in values if value is not None]
    if name in COUNTED:
        return sum(seen)
    if name == "verified":
        return all(seen)
    if name in (LEFT_RUNNING, LEFT_BEHIND):
        return [*dict.fromkeys(process for names in seen for process in names)]
    if name in CHOSEN and seen:
        return ",".join(dict.fromkeys(map(str, seen)))
    return seen[0] if seen else None


def late(parts: Sequence[HostPart]) -> str | None:
    """Which host began too late, in words; None where all began together."""
    at_work = [part for part in parts if part.participated]
    last = max(at_work, key=lambda part: part.late_ns, default=None)
    if last is None or last.late_ns <= max(LATEST_NS, LATEST_SHARE * max(part.ended_ns for part in at_work)):
        return None
    return WarningText.HOST_LATE.text(host=last.host, milliseconds=round(last.late_ns / 1e6))


def not_simultaneous_reason(parts: Sequence[HostPart], operations: int, seconds: float) -> str | None:
    """Why a slice that was to end after so many was not of one population, in words; None where it was.

    A window closes by time, or when its host has done its share of the operations. What is under way then ends when it
    does, as it does on one machine: that one host's last operation was slow is no reason to leave it out. A program
    that was told how long to run closes its host's window itself: `operations` is 0 then, and `seconds` infinite.
    """
    at_work = [part for part in parts if part.participated]
    if not at_work:
        return None
    ends = [
        min(seconds * 1e9, part.ended_ns if part.operations + part.errors >= operations // len(at_work) else inf)
        for part in at_work
    ]
    begins = [part.late_ns for part in at_work]
    share = max(0.0, min(ends) - max(begins)) / max(1.0, max(ends) - min(begins))
    return late(parts) or (
        None if share >= LEAST_TOGETHER else WarningText.HOSTS_NOT_SIMULTANEOUS.text(share=f"{share:.0%}")
    )


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
