"""A ledger of `http-tls-termination` that was never measured: a balancer's CPU share decides, and the truth is known.

Requests a second are the balancer's cores over the CPU time of one request, at most what 200 in flight get done at
200 ms each. A burst lasts the origin's 200 ms and the balancer's CPU time on its cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from costof.ipc.process import HttpCounts, Phase, SliceAnswer
from costof.ledger.ledger import EndRecord, EnvironmentRecord, Ledger, SliceRecord
from costof.statistics.histogram import new_histogram
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve

from .ledgers import ready_record

WAIT_MS = 200.0
IN_FLIGHT = 200
REQUEST_MS = 0.25
CONNECT_MS = 0.15
#: CPU of the balancer for a TLS handshake, ms, by where TLS ends and what makes it cheaper.
HANDSHAKE_MS = {"none": 0.0, "direct": 0.0, "balancer": 1.4, "reencrypt": 1.9, "backend": 0.02}
CHEAPER = {"ecdsa-p256": 0.4, "on": 0.25}
LEAST_CONNECT_MS = 0.3
OPERATIONS = 1000
STEPS = 21


@dataclass(frozen=True)
class Truth:
    """What an arm really takes."""

    cores: float
    cpu_ms: float
    client_ms: float

    @classmethod
    def of(cls, arm: PlannedArm) -> Truth:
        """CPU of the balancer for one request, and for one client of a burst."""
        levels = arm.levels
        if levels["termination"] == "direct":
            return cls(64.0, 1e-6, 1e-6)
        handshake = HANDSHAKE_MS[levels["termination"]]
        for level in (levels.get("key", ""), levels.get("resumption", "")):
            handshake *= CHEAPER.get(level, 1.0)
        new = CONNECT_MS + handshake
        return cls(float(levels["balancer_cpu"]), REQUEST_MS + new / int(levels["keep_alive"]), REQUEST_MS + new)

    @property
    def per_second(self) -> float:
        return min(IN_FLIGHT / (WAIT_MS + 1.0) * 1e3, self.cores * 1e3 / self.cpu_ms)

    @property
    def burst_ms(self) -> float:
        return WAIT_MS + IN_FLIGHT * self.client_ms / self.cores


def http_plan(profile: str = "default", *settings: str) -> Plan:
    return resolve(load_study("http-tls-termination"), Options(profile=profile, settings=settings, seed=1))


def spread(mean_ms: float, count: int) -> Phase:
    """A phase of `count` operations evenly around a mean, in a few steps; sums are exact, as the engine's are."""
    steps = min(STEPS, count)
    shape = np.linspace(0.8, 1.2, steps) if steps > 1 else np.ones(1)
    values = [max(1, round(each)) for each in shape * mean_ms * 1e6]
    each, more = divmod(count, steps)
    counts = [each + (more if index == steps // 2 else 0) for index in range(steps)]
    histogram = new_histogram()
    for value, number in zip(values, counts, strict=True):
        histogram.record_value(value, number)
    return Phase(
        count=count,
        sum_ns=sum(value * number for value, number in zip(values, counts, strict=True)),
        sum_squares_ns2=float(sum(value**2 * number for value, number in zip(values, counts, strict=True))),
        min_ns=values[0],
        max_ns=values[-1],
        histogram=histogram.encode().decode(),
    )


def slice_answer(
    number: int, plan: Plan, workload: str, arm: PlannedArm, hiccup: float, failed: int = 0
) -> SliceAnswer:
    """What the engine would say of one slice."""
    truth, tls = Truth.of(arm), arm.levels["termination"] not in ("none", "direct")
    burst = workload == "burst"
    operations = IN_FLIGHT if burst else OPERATIONS
    elapsed_ms = truth.burst_ms * hiccup if burst else operations / truth.per_second * 1e3 * hiccup
    latency = elapsed_ms if burst else IN_FLIGHT / truth.per_second * 1e3 * hiccup
    opened = operations if burst else operations // int(arm.levels["keep_alive"])
    connect = max(LEAST_CONNECT_MS, (latency - WAIT_MS) * 0.5)
    phases = {"connect": spread(connect, opened)}
    if tls:
        phases["tls"] = spread(connect * 0.8, opened)
    processing = latency - connect * opened / operations
    if burst:
        phases["first_operation"] = spread(processing, operations)
    else:
        times = {"waiting": processing * 0.98, "processing": processing, "request": latency}
        phases |= {name: spread(each, operations) for name, each in times.items()}
    http = HttpCounts(
        statuses={"200": operations},
        reused=operations - opened,
        response_bytes=140 * operations,
        body_bytes=2 * operations,
        body_length=2,
        other_length=0,
        software="origin",
    )
    errors = [{"class": "timeout", "count": failed, "detail": "no answer within 10,000 ms"}] if failed else []
    return SliceAnswer.model_validate(
        {
            "id": number,
            "arm": arm.name,
            "workload": workload,
            "started_unix_ns": 0,
            "elapsed_ns": round(elapsed_ms * 1e6),
            "operations": operations,
            "errors": errors,
            "phases": {name: phase.model_dump() for name, phase in phases.items()},
            "cpu_ns": {"client": operations * (400_000 if tls else 60_000)},
            "peak_memory_bytes": 10**7,
            "evidence": {
                "connections": opened,
                "handshakes": opened if tls else 0,
                "protocol": "TLSv1.3" if tls else None,
                "server": "10.205.0.6:8443",
            },
            "http": http.model_dump(),
        }
    )


def http_ledger(folder: Path, plan: Plan, rounds: int = 10, noise: float = 0.01, seed: int = 1) -> Ledger:
    """A whole run; every slice took what is true, times noise that is its own."""
    chance = np.random.default_rng(seed)
    ledger = Ledger.create(plan, folder)
    ledger.append(EnvironmentRecord(started="2026-01-01T00:00:00+00:00", facts={"cores": 2}))
    ledger.append(ready_record(plan, {}))
    number = 0
    for round_number in range(rounds):
        for workload in plan.study.workloads:
            for arm in plan.arms:
                number += 1
                hiccup, counted = (float(np.exp(chance.normal(0, noise))) for _ in range(2))
                answer = slice_answer(number, plan, workload, arm, hiccup)
                truth = Truth.of(arm)
                used = (truth.client_ms if workload == "burst" else truth.cpu_ms) * answer.operations / 1e3 * counted
                ledger.append(
                    SliceRecord(
                        round=round_number,
                        warm_up=False,
                        view="wire",
                        workload=workload,
                        answer=answer,
                        server_connections=answer.evidence["connections"],
                        server_tls={},
                        server_cpu_seconds={"balancer": used, "origin": answer.operations * 2e-5},
                        server_held_back_seconds={"balancer": max(0.0, answer.elapsed_ns / 1e9 * 0.8 - used)},
                        steal_seconds=0.02,
                    )
                )
    ledger.append(EndRecord(partial=None, steal_share=0.01))
    return ledger
