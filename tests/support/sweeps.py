"""Simulated sweeps (runs over a range of loads) with known capacities, written as real ledgers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from costof.results.ledger import EndRecord, Ledger, SliceRecord
from costof.study.load import WORKLOAD, RequestedLoad
from tests.fake_run import Slice, Truth, answer_of, exact_phase, fake_start
from tests.support.small_plans import plan_of

LEAST, MOST, LIMIT_MS, SECONDS, QUERIES = 100, 1000, 10, 2.0, 20
#: The share of queries that exceed the latency limit grows with this power of the rate: as steeply as in a nearly full
#: queue.
POWER = 20
ROUNDS = 8


def fake_sweep(folder: Path, capacities: Mapping[str, float]) -> Ledger:
    """Write a sweep of the study postgres-tls.

    `capacities` has connections a second by protection, such as `{"plain": 800, "tls": 400}`. The control's identical
    copy has the same capacity as the control.
    """
    load, limit = RequestedLoad(f"{LEAST}/s..{MOST}/s", str(QUERIES)), ("p99 of a query", f"{LIMIT_MS}ms")
    plan = plan_of("postgres-tls", "quick", load=load, limits=[limit])
    assert plan.sweep is not None
    ledger, chance = Ledger.create(plan, folder), np.random.default_rng(1)
    fake_start(ledger, plan, Truth(), 0, rounds=0, source=chance)
    for number in range(ROUNDS):
        for arm in plan.arms:
            capacity = capacities[plan.original(arm).protection]
            for step in (-1, 0, 1):
                rate = min(max(capacity * math.exp(0.07 * step), LEAST), MOST)
                ledger.append(_slice(chance, number, arm.name, rate, capacity))
    ledger.append(EndRecord(partial=None, steal_share=0.0))
    return ledger


def _slice(chance: np.random.Generator, number: int, arm: str, rate: float, capacity: float) -> SliceRecord:
    arrivals = round(rate * SECONDS)
    queries = arrivals * (QUERIES - 1)
    late = int(chance.binomial(queries, min(0.9, 0.01 * (rate / capacity) ** POWER)))
    times = exact_phase([1_000_000, 2 * LIMIT_MS * 1_000_000], times=[queries - late, late])
    measured = Slice(
        operations=arrivals,
        seconds=SECONDS,
        phases={"operation": times},
        cpu_seconds={"client": 0.2, "server": 0.4},
        evidence={"connections": arrivals, "server": "10.0.0.1:5432"},
        counts={"pace.scheduled": arrivals},
    )
    return SliceRecord(
        round=number,
        warm_up=False,
        view="wire",
        workload=WORKLOAD,
        answer=answer_of(measured, WORKLOAD, arm),
        per_second=rate,
        server_connections=arrivals,
        server_tls={},
        server_cpu_seconds={"server": 0.4},
        observed_seconds=SECONDS,
    )
