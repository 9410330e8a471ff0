"""The answers of hosts as the one of their population: what is counted is added, and percentiles never are.

Histograms are added bucket by bucket, integers exactly, and sums of squares without a loss (Shewchuk 1997).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import fsum
from statistics import fmean
from typing import Any

from costof.errors import Caution
from costof.messages.answers import (
    LEFT_BEHIND,
    LEFT_RUNNING,
    MISMATCH,
    PEAK_MEMORY,
    ClassifiedError,
    Phase,
    Ready,
    ReadyArm,
    SliceAnswer,
)
from costof.statistics.histogram import merged

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


def merged_figures(told: Sequence[Mapping[str, float]], rates: Collection[str]) -> dict[str, float]:
    """What hosts' programs have told of their work: rates added, and of all else the mean, since they do not tell what
    a percentile is one of. What one of them has not told is no figure of all; of peak memory it may be too little to
    tell."""
    names = dict.fromkeys(name for figures in told for name in figures)
    found = {name: [figures[name] for figures in told if name in figures] for name in names}
    return {
        name: max(values) if name == PEAK_MEMORY else fsum(values) if name in rates else fmean(values)
        for name, values in found.items()
        if len(values) == len(told) or name == PEAK_MEMORY
    }


def unproved(told: Mapping[str, SliceAnswer]) -> str | None:
    """What hosts, by name, have found not to be of the arm; None where each has proved it."""
    found: dict[str, list[str]] = {}
    for host, answer in told.items():
        if wrong := answer.evidence.get(MISMATCH):
            found.setdefault(wrong, []).append(host)
    texts = [Caution.HOST_CANNOT.text(hosts=" and ".join(hosts), detail=wrong) for wrong, hosts in found.items()]
    return "; ".join(texts) or None


def unlike(parts: Sequence[SliceAnswer]) -> str | None:
    """In what the connections of hosts differ that must be alike; None where they do not. A host that has opened none
    has seen nothing."""
    saw = [part.evidence for part in parts if part.operations]
    for name in ALIKE:
        found = dict.fromkeys(str(facts.get(name)) for facts in saw)
        if len(found) > 1:
            return Caution.HOSTS_DIFFER.text(what=name, found=" and ".join(found))
    return None


def merged_ready(told: Mapping[str, Ready]) -> Ready:
    """Of hosts by name. An arm that some host cannot reach is refused, and that host named."""
    parts = [*told.values()]
    costs = dict.fromkeys(name for part in parts for name in part.self_cost_ns)
    return Ready(
        instrument=parts[0].instrument,
        versions=parts[0].versions,
        runtime=_runtime(told),
        self_cost_ns={name: max(part.self_cost_ns.get(name, 0.0) for part in parts) for name in costs},
        arms=[
            _arm({host: next(arm for arm in ready.arms if arm.name == each.name) for host, ready in told.items()})
            for each in parts[0].arms
        ],
    )


def _runtime(told: Mapping[str, Ready]) -> str | None:
    """How the engines wait; whose, where they differ."""
    hosts: dict[str, list[str]] = {}
    for host, ready in told.items():
        if ready.runtime:
            hosts.setdefault(ready.runtime, []).append(host)
    if len(hosts) < 2:
        return next(iter(hosts), None)
    return ", ".join(f"{runtime} on {' and '.join(names)}" for runtime, names in hosts.items())


def _arm(told: Mapping[str, ReadyArm]) -> ReadyArm:
    """As all hosts told of it."""
    arms = [*told.values()]
    refused = {host: arm.error for host, arm in told.items() if arm.error is not None}
    if not refused:
        servers = dict.fromkeys(arm.server for arm in arms if arm.server)
        return ReadyArm(name=arms[0].name, server=",".join(servers), error=None)
    error = next(iter(refused.values()))
    if len(refused) < len(arms):
        detail = Caution.HOST_CANNOT.text(hosts=" and ".join(refused), detail=error.detail)
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
