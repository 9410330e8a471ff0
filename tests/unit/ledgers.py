"""Ledgers of runs that were never measured, whose truth is therefore known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from costof.ipc.process import ClassifiedError, Phase, Ready, ReadyArm, SliceAnswer
from costof.ledger.ledger import EndRecord, EnvironmentRecord, Ledger, ReadyRecord, SliceRecord
from costof.statistics.histogram import new_histogram
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

NS_PER_MS = 1e6
OPERATIONS = 20


@dataclass(frozen=True)
class Spent:
    """What a phase takes, ms, and the round trips it needs."""

    milliseconds: float
    round_trips: int = 1


Truth = Callable[[str, PlannedArm], dict[str, Spent]]
"""From a workload and an arm to its phases."""


def phase_of(milliseconds: float, round_trips: int, operations: int = OPERATIONS) -> Phase:
    nanoseconds = round(milliseconds * NS_PER_MS)
    histogram = new_histogram()
    histogram.record_value(max(1, nanoseconds), operations)
    return Phase(
        count=operations,
        sum_ns=nanoseconds * operations,
        sum_squares_ns2=float(nanoseconds) ** 2 * operations,
        min_ns=nanoseconds,
        max_ns=nanoseconds,
        round_trips=round_trips * operations,
        bytes_sent=100 * operations,
        bytes_received=300 * operations,
        histogram=histogram.encode().decode(),
    )


def ready_record(plan: Plan, refused: dict[str, str]) -> ReadyRecord:
    arms = [
        ReadyArm(
            name=arm.name,
            server=None if arm.name in refused else "10.0.0.1:3306",
            error=ClassifiedError.model_validate({"class": "tls_refused", "detail": refused[arm.name]})
            if arm.name in refused
            else None,
        )
        for arm in plan.arms
    ]
    return ReadyRecord(view="wire", ready=Ready(instrument="costof-engine", versions={}, arms=arms))


def made_up(
    folder: Path,
    plan: Plan,
    truth: Truth,
    rounds: int = 12,
    noise: float = 0.01,
    refused: dict[str, str] | None = None,
    seed: int = 1,
) -> Ledger:
    """A ledger of so many rounds in which every phase took what `truth` says, times noise that is the slice's own."""
    refused = refused or {}
    chance = np.random.default_rng(seed)
    ledger = Ledger.create(plan, folder)
    ledger.append(EnvironmentRecord(started="2026-01-01T00:00:00+00:00", facts={}))
    ledger.append(ready_record(plan, refused))
    number = 0
    for round_number in range(rounds):
        for workload, spec in plan.study.workloads.items():
            for arm in plan.arms:
                if arm.name in refused:
                    continue
                number += 1
                hiccup = float(np.exp(chance.normal(0, noise)))
                phases = {
                    name: phase_of(spent.milliseconds * hiccup, spent.round_trips)
                    for name, spent in truth(workload, arm).items()
                }
                answer = SliceAnswer(
                    id=number,
                    arm=arm.name,
                    workload=workload,
                    started_unix_ns=0,
                    elapsed_ns=10**8,
                    operations=OPERATIONS,
                    errors=[],
                    phases=phases,
                    cpu_ns={"client": 10**6},
                    peak_memory_bytes=10**7,
                    evidence={"connections": OPERATIONS},
                )
                ledger.append(
                    SliceRecord(
                        round=round_number,
                        warm_up=False,
                        view=spec.view,
                        workload=workload,
                        answer=answer,
                        server_connections=OPERATIONS,
                        server_tls={},
                        server_cpu_seconds={"server": 0.002 if arm.levels["transport"] == "plain" else 0.004},
                    )
                )
    ledger.append(EndRecord(partial=None, steal_share=0.0))
    return ledger
