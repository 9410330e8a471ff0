"""Simulated runs of any study with known true costs, written as a ledger (the raw records of a run).

A `Truth` gives the expected times and counts of each slice of an arm, and `Noise` varies them. The result depends on
neither machine nor clock: the same seed gives the same ledger, byte by byte.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from costof.lab.flushes import FlushEvidence
from costof.lab.round_trips import BY_ICMP, BY_TCP, LinkEvidence
from costof.messages.answers import ClassifiedError, Phase, Ready, ReadyArm, SliceAnswer
from costof.report import analyse
from costof.report.result import Result
from costof.results.ledger import (
    EndRecord,
    EnvironmentRecord,
    EvidenceRecord,
    FlushRecord,
    Ledger,
    LinksRecord,
    ReadyRecord,
    SliceRecord,
)
from costof.statistics.histogram import Counts
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from costof.study.schema import WHOLE_SLICE
from tests.noise import Chance, Chances, Noise

NS_PER_MS = 1e6
USUAL = Noise()
STARTED = "2026-01-01T00:00:00+00:00"
#: Slices of the warm-up take this many times as long, so that tests fail if an analysis includes the warm-up.
COLD = 3.0
#: The measuring client does not count metrics whose names begin with these words, such as `cpu.server`.
FIGURES = ("bytes", "cpu", "server")
#: The times of the operations in a slice are log-normal. SPREAD is the standard deviation of their logarithms. To save
#: time, only STEPS different times occur.
SPREAD = 0.15
STEPS = 21


@cache
def _factors(spread: float, steps: int) -> np.ndarray:
    """Return `steps` quantiles of a log-normal distribution with median 1.

    The quantiles are the middles of `steps` equally likely parts of the distribution.
    """
    return np.exp(spread * np.array([NormalDist().inv_cdf((step + 0.5) / steps) for step in range(steps)]))


@dataclass(frozen=True)
class Slice:
    """The figures of client and servers for one slice (a measured window of one workload on one arm).

    `cpu_seconds` is by role, such as `{"client": 0.2, "server": 0.4}`. The client is the process that measures.
    """

    operations: int
    seconds: float
    phases: dict[str, Phase]
    cpu_seconds: dict[str, float]
    evidence: dict[str, Any]
    tls: dict[str, int] | None = field(default_factory=dict)
    throttled_seconds: dict[str, float] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    server_counts: dict[str, int] = field(default_factory=dict)
    steal_seconds: float = 0.0
    errors: list[ClassifiedError] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def phase_of(
    milliseconds: float,
    count: int = 1,
    round_trips: int | None = None,
    sent: float | None = None,
    received: float | None = None,
    *,
    link_ms: float = 0.0,
    spread: float = SPREAD,
) -> Phase:
    """Return a phase of `count` operations whose mean is exactly `milliseconds` plus `link_ms`; times are log-normal.

    `round_trips`, `sent` and `received` are counts for one operation.
    """
    steps = min(STEPS, count)
    factors = _factors(spread, steps)
    each, left = divmod(count, steps)
    counts = np.full(steps, each)
    counts[steps // 2] += left
    values = milliseconds * factors * count / float((factors * counts).sum()) + link_ms
    nanoseconds = [max(1, round(value * NS_PER_MS)) for value in values]
    return exact_phase(nanoseconds, round_trips, sent, received, times=counts.tolist())


def exact_phase(
    nanoseconds: Sequence[int],
    round_trips: int | None = None,
    sent: float | None = None,
    received: float | None = None,
    *,
    times: Sequence[int] | None = None,
) -> Phase:
    """Return a phase of operations with exactly these durations. `times` says how many operations had each duration."""
    times = times or [1] * len(nanoseconds)
    count, pairs = sum(times), list(zip(nanoseconds, times, strict=True))
    return Phase(
        count=count,
        sum_ns=sum(value * number for value, number in pairs),
        sum_squares_ns2=float(sum(value**2 * number for value, number in pairs)),
        min_ns=min(nanoseconds),
        max_ns=max(nanoseconds),
        round_trips=None if round_trips is None else round_trips * count,
        bytes_sent=None if sent is None else round(sent * count),
        bytes_received=None if received is None else round(received * count),
        histogram=Counts.from_values(nanoseconds, times).encoded(),
    )


class Truth:
    """The true times and counts of a simulated run. Without a protection an operation takes a millisecond.

    `effects` has factors by workload and protection, such as `{("wire_query", "tls"): 1.2}`. A factor multiplies the
    times, the CPU time and the servers' figures. Studies whose reports need more details have subclasses in
    `tests/truths`.
    """

    def __init__(self, effects: Mapping[tuple[str, str], float] | None = None) -> None:
        self.effects = effects or {}

    def environment(self) -> dict[str, Any]:
        return {"costof": "0.1.0", "cores": 2}

    def versions(self) -> dict[str, str]:
        return {}

    def evidence_facts(self, arm: PlannedArm) -> dict[str, str]:
        """Return the evidence about an arm that the service collects before the first round, such as a TLS version."""
        return {}

    def facts_at_end(self, arm: PlannedArm) -> dict[str, str]:
        """Return the evidence about an arm that the service collects after the last round, such as a TLS version."""
        return {}

    def mismatch(self, arm: PlannedArm, workload: str, number: int) -> str | None:
        """Return why the slice of this arm and workload in round `number` must be discarded; None if it is valid."""
        return None

    def links(self, plan: Plan) -> list[LinkEvidence]:
        """Return the links' measured round-trip times, which are exact by TCP and slightly too long by ICMP."""
        late = {BY_ICMP: 0.031, BY_TCP: 0.0}
        distance = plan.study.distance_factor
        if distance is None or plan.target:
            return []
        nominal = {control.levels[distance]: plan.study.round_trip_ms(control.levels) for control in plan.controls}
        return [
            LinkEvidence(
                name=name,
                nominal_ms=ms,
                method=method,
                median_ms=self.link_ms(ms) + more,
                p99_ms=self.link_ms(ms) + more + 0.173,
                probes=20,
                mean_ms=self.link_ms(ms) + more,
                error_ms=0.004,
            )
            for name, ms in nominal.items()
            for method, more in late.items()
        ]

    def flushes(self) -> list[FlushEvidence]:
        return []

    def link_ms(self, nominal_ms: float) -> float:
        return nominal_ms

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        times = self.effects.get((workload, arm.protection), 1.0) * chance.times
        operations, link = 100, plan.study.round_trip_ms(arm.levels)
        metrics = [metric for metric in plan.study.metrics.values() if metric.workload == workload]
        named = [metric.phase.partition(".")[::2] for metric in metrics]
        return Slice(
            operations=operations,
            seconds=operations * (times + link) / plan.workers(workload, arm) / 1e3,
            phases={
                name or kind: phase_of(times, operations, 1, 100, 300, link_ms=link)
                for kind, name in named
                if kind == "bytes" or (not name and kind != WHOLE_SLICE)
            },
            cpu_seconds=dict.fromkeys(("client", "server", *_named(named, "cpu")), operations * times / 4000.0),
            evidence={"connections": operations, "server": "10.205.0.2:4000"},
            figures=dict.fromkeys(_named(named, "server"), times),
            counts={f"{kind}.{name}": operations for kind, name in named if name and kind not in FIGURES},
        )


def _named(phases: list[tuple[str, str]], kind: str) -> list[str]:
    return [name for of, name in phases if of == kind]


def fake_run(
    folder: Path,
    plan: Plan,
    truth: Truth,
    *,
    rounds: int = 8,
    noise: Noise = USUAL,
    seed: int = 1,
    refused: Mapping[str, str] = {},  # a shared default is safe, as it is never changed
    partial: str | None = None,
) -> Ledger:
    """Write the ledger of a complete run, with one warm-up round and `rounds` rounds after each start of the servers.

    `refused` has the arms that cannot be measured, with the reason, such as `{"tls": "the server has no TLS"}`. Callers
    that need records of other kinds append them to the ledger.
    """
    source = np.random.default_rng(seed)
    ledger = Ledger.create(plan, folder)
    for start in range(plan.starts):
        fake_start(ledger, plan, truth, start, rounds=rounds, noise=noise, source=source, refused=refused)
        ledger.append(EndRecord(partial=partial, steal_share=0.01))
    return ledger


def fake_result(plan: Plan, truth: Truth, name: str = "run", **run: Any) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        return analyse(fake_run(Path(folder) / name, plan, truth, **run))


def fake_start(
    ledger: Ledger,
    plan: Plan,
    truth: Truth,
    start: int,
    *,
    rounds: int,
    source: np.random.Generator,
    noise: Noise = USUAL,
    refused: Mapping[str, str] = {},  # a shared default is safe, as it is never changed
) -> None:
    """Simulate one start of the servers, and append its records, but not the run's `EndRecord`, to the ledger."""
    started = EnvironmentRecord(started=STARTED, start=start, facts=truth.environment(), versions=truth.versions())
    ledger.append(started)
    for view in dict.fromkeys(workload.view for workload in plan.study.workloads.values()):
        ledger.append(_ready(plan, view, refused))
    for arm in plan.arms:
        if facts := truth.evidence_facts(arm):
            ledger.append(EvidenceRecord(arm=arm.name, facts=facts))
    if links := truth.links(plan):
        ledger.append(LinksRecord(links=links))
    for flush in truth.flushes():
        ledger.append(FlushRecord(flush=flush))
    arms = [arm for arm in plan.arms if arm.name not in refused]
    chances = Chances(noise, source, arms)
    for number in range(-1, rounds) if rounds else ():
        chances.next_round()
        for workload, each in plan.study.workloads.items():
            for arm in (arm for arm in arms if each.is_done_on(arm.levels)):
                chance = chances.of(workload, arm, COLD if number < 0 else 1.0)
                of_run = number if number < 0 else start * rounds + number
                ledger.append(_record(plan, truth, of_run, workload, arm, chance))
    for arm in plan.arms:
        if facts := truth.facts_at_end(arm):
            ledger.append(EvidenceRecord(arm=arm.name, facts=facts))


def _record(plan: Plan, truth: Truth, number: int, workload: str, arm: PlannedArm, chance: Chance) -> SliceRecord:
    measured = truth.slice(plan, workload, arm, chance)
    answer = answer_of(measured, workload, arm.name)
    return SliceRecord(
        round=number,
        warm_up=number < 0,
        view=plan.study.workloads[workload].view,
        workload=workload,
        answer=answer,
        server_connections=None if measured.tls is None else int(measured.evidence.get("connections", 0)),
        server_tls=measured.tls,
        server_cpu_seconds={role: used for role, used in measured.cpu_seconds.items() if role != "client"},
        server_throttled_seconds=measured.throttled_seconds,
        server_figures=measured.figures,
        server_facts=measured.facts,
        server_counts=measured.server_counts,
        observed_seconds=answer.elapsed_ns / 1e9,
        steal_seconds=measured.steal_seconds,
        mismatch=truth.mismatch(arm, workload, number),
    )


def answer_of(measured: Slice, workload: str, arm: str) -> SliceAnswer:
    return SliceAnswer(
        id=1,
        arm=arm,
        workload=workload,
        started_unix_ns=0,
        elapsed_ns=round(measured.seconds * 1e9),
        operations=measured.operations,
        errors=measured.errors,
        phases=measured.phases,
        cpu_ns={"client": round(measured.cpu_seconds.get("client", 0.0) * 1e9)},
        peak_memory_bytes=10**7,
        counts=measured.counts,
        evidence=measured.evidence,
    )


def error_of(error_class: str, detail: str, count: int = 1) -> ClassifiedError:
    return ClassifiedError.model_validate({"class": error_class, "detail": detail, "count": count})


def _ready(plan: Plan, view: str, refused: Mapping[str, str]) -> ReadyRecord:
    errors = {name: error_of("tls_refused", detail) for name, detail in refused.items()}
    arms = [
        ReadyArm(name=arm.name, server=None if arm.name in errors else "10.0.0.1:3306", error=errors.get(arm.name))
        for arm in plan.arms
    ]
    instrument = "costof-engine" if view == "wire" else "driver"
    versions = {"OpenSSL": "3.0.19"} if view == "wire" else {}
    ready = Ready(instrument=instrument, versions=versions, self_cost_ns={"timer": 21.4}, arms=arms)
    return ReadyRecord(view=view, ready=ready)
