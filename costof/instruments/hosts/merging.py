"""Functions that merge the results of several hosts, which measured at the same time, into one result.

Latencies are merged as histograms, bucket by bucket, never as percentiles. Integers are added exactly. Sums of squares
are added as floats without accumulated rounding errors (`math.fsum`, Shewchuk 1997).
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
    sums_by_name,
)
from costof.statistics.histogram import merged

#: Limits for a host that begins a slice (measured window) later than planned. The slice is invalid if the delay exceeds
#: both `LATEST_NS` and the share `LATEST_SHARE` of the slice's duration.
LATEST_NS, LATEST_SHARE = 5_000_000, 0.02
#: All hosts must measure a slice (measured window) together for at least this share of the time from the first host's
#: beginning to the last host's end. Otherwise the slice is invalid.
LEAST_TOGETHER = 0.95
#: The rules for merging facts about the hosts' connections. Facts in `ALIKE` must be equal on all hosts. Facts in
#: `COUNTED` are added up. Facts in `CHOSEN` may differ, and the merged fact is a list of all values.
ALIKE, COUNTED, CHOSEN = (
    ("protocol", "cipher", "key"),
    {"connections", "handshakes", "resumed"},
    {"server", "server_side"},
)


def merged_answer(parts: Sequence[SliceAnswer]) -> dict[str, Any]:
    """Merge the hosts' answers to a slice (measured window) into the fields of one `SliceAnswer`."""
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
        "cpu_ns": sums_by_name(part.cpu_ns for part in parts),
        "peak_memory_bytes": max(part.peak_memory_bytes for part in parts),
        "counts": sums_by_name(part.counts for part in parts),
        "figures": merged_figures([part.figures for part in parts], first.rates),
        "rates": first.rates,
        # A host without operations has no connections, so leave out its evidence.
        "evidence": _evidence([part.evidence for part in parts if part.operations or part.errors] or [first.evidence]),
    }


def merged_mismatch(answers: Mapping[str, SliceAnswer]) -> str | None:
    """Return which hosts found that the settings of an arm (variant) were not in effect, and why; None if no host did.

    `answers` maps the names of hosts to their answers.
    """
    hosts_by_detail: dict[str, list[str]] = {}
    for host, answer in answers.items():
        if detail := answer.evidence.get(MISMATCH):
            hosts_by_detail.setdefault(detail, []).append(host)
    texts = [
        WarningText.HOST_CANNOT.text(hosts=" and ".join(hosts), detail=detail)
        for detail, hosts in hosts_by_detail.items()
    ]
    return "; ".join(texts) or None


def evidence_mismatch(parts: Sequence[SliceAnswer]) -> str | None:
    """Return how the hosts' connections differ, for example in their cipher; None if they do not differ.

    The facts in `ALIKE` are compared. Hosts without an operation are ignored.
    """
    evidence = [part.evidence for part in parts if part.operations]
    for name in ALIKE:
        values = dict.fromkeys(str(facts.get(name)) for facts in evidence)
        if len(values) > 1:
            return WarningText.HOSTS_DIFFER.text(what=name, found=" and ".join(values))
    return None


def merged_ready(answers: Mapping[str, Ready]) -> Ready:
    """Merge the hosts' answers about which arms (measured variants) they can measure.

    If any host reports an error for an arm, the merged answer has this error. If only some hosts do, the error names
    these hosts.
    """
    parts = [*answers.values()]
    costs = dict.fromkeys(name for part in parts for name in part.self_cost_ns)
    return Ready(
        instrument=parts[0].instrument,
        versions=parts[0].versions,
        self_cost_ns={name: max(part.self_cost_ns.get(name, 0.0) for part in parts) for name in costs},
        arms=[
            _arm({host: next(arm for arm in ready.arms if arm.name == each.name) for host, ready in answers.items()})
            for each in parts[0].arms
        ],
    )


def _arm(arm_by_host: Mapping[str, ReadyArm]) -> ReadyArm:
    arms = [*arm_by_host.values()]
    errors = {host: arm.error for host, arm in arm_by_host.items() if arm.error is not None}
    if not errors:
        servers = dict.fromkeys(arm.server for arm in arms if arm.server)
        return ReadyArm(name=arms[0].name, server=",".join(servers), error=None)
    error = next(iter(errors.values()))
    if len(errors) < len(arms):
        detail = WarningText.HOST_CANNOT.text(hosts=" and ".join(errors), detail=error.detail)
        error = error.model_copy(update={"detail": detail})
    return ReadyArm(name=arms[0].name, server=None, error=error)


def _errors(errors: Sequence[ClassifiedError]) -> list[ClassifiedError]:
    """Merge errors of the same class and phase: their counts are added up, and the first error's detail is kept."""
    merged_errors: dict[tuple[str, str | None], ClassifiedError] = {}
    for error in errors:
        kind = error.error_class, error.phase
        before = merged_errors[kind].count if kind in merged_errors else 0
        merged_errors[kind] = merged_errors.get(kind, error).model_copy(update={"count": before + error.count})
    return [*merged_errors.values()]


def _phase(parts: Sequence[Phase]) -> Phase:
    return Phase(
        count=sum(part.count for part in parts),
        sum_ns=sum(part.sum_ns for part in parts),
        sum_squares_ns2=fsum(part.sum_squares_ns2 for part in parts),
        min_ns=min(part.min_ns for part in parts),
        max_ns=max(part.max_ns for part in parts),
        round_trips=_complete_sum([part.round_trips for part in parts]),
        bytes_sent=_complete_sum([part.bytes_sent for part in parts]),
        bytes_received=_complete_sum([part.bytes_received for part in parts]),
        histogram=merged(part.histogram for part in parts).encoded(),
    )


def _complete_sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _evidence(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the hosts' evidence. Facts that must be equal (`evidence_mismatch`) are taken from the first host."""
    names = dict.fromkeys(name for facts in parts for name in facts)
    return {name: _fact(name, [facts[name] for facts in parts if name in facts]) for name in names}


def _fact(name: str, values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    if name in COUNTED:
        return sum(known)
    if name == "verified":
        return all(known)
    if name in (LEFT_RUNNING, LEFT_BEHIND):
        return [*dict.fromkeys(process for names in known for process in names)]
    if name in CHOSEN and known:
        return ",".join(dict.fromkeys(map(str, known)))
    return known[0] if known else None


def late(parts: Sequence[HostPart]) -> str | None:
    """Return a sentence about the last host to begin if it began too late; None if all hosts began in time."""
    at_work = [part for part in parts if part.participated]
    last = max(at_work, key=lambda part: part.late_ns, default=None)
    if last is None or last.late_ns <= max(LATEST_NS, LATEST_SHARE * max(part.ended_ns for part in at_work)):
        return None
    return WarningText.HOST_LATE.text(host=last.host, milliseconds=round(last.late_ns / 1e6))


def not_simultaneous_reason(parts: Sequence[HostPart], operations: int, seconds: float) -> str | None:
    """Return why the hosts did not measure a slice (measured window) at the same time; None if they did.

    The slice ends after `operations` or `seconds`. A host has ended when it has done its part of the operations, or
    when the time is over. If an operation is still running when the time is over, its rest is ignored.

    For a program that itself measures for a fixed time, pass 0 operations and infinite seconds: a host then ends with
    its program.
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


def host_part(
    host: str, answer: SliceAnswer, clock: tuple[int, int], opens_ns: int, shares: Mapping[str, float]
) -> HostPart:
    """Return a summary of what one host did in a slice (measured window).

    `clock` is the offset and the maximum error of the host's clock, in ns. `opens_ns` is the planned beginning of the
    slice on that clock. `shares` has two shares of the host's CPU time, from 0 to 1: `busy` was used, and `steal` was
    taken away by a hypervisor.
    """
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
