"""A ledger of `mongodb-chained-replication` that was never measured, whose truth is known.

Each follower beyond two takes something of the primary; each hop to the majority delays a write that waits for it.
`natural` chooses the star but at 15 nodes, where it chooses a tree of its own.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from costof.ipc.process import SliceAnswer
from costof.ledger.ledger import EndRecord, EnvironmentRecord, Ledger, SliceRecord
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve

from .ledgers import phase_of, ready_record

NAME = "mongodb-chained-replication"
CHANGED = "the tree changed"


def replication_plan(profile: str = "quick", *settings: str, target: str | None = None) -> Plan:
    return resolve(load_study(NAME), Options(profile=profile, settings=settings, seed=1, target=target))


def members(nodes: int) -> list[str]:
    voters = min(nodes, 7)
    secondaries = [f"secondary-{number}" for number in range(1, voters - 1)]
    return ["primary", *secondaries, "hidden", *(f"read-only-{number}" for number in range(1, nodes - voters + 1))]


def tree_of(arm: PlannedArm) -> str:
    nodes = 3 if arm.levels["nodes"] == "as served" else int(arm.levels["nodes"])
    names = members(nodes)
    if arm.levels.get("sync") == "chain":
        return "; ".join(f"{one}: {other}" for one, other in pairwise(names))
    if arm.levels.get("sync") == "natural" and nodes == 15:
        return f"primary: {', '.join(names[1:8])}; secondary-2: {', '.join(names[8:])}"
    return f"primary: {', '.join(names[1:])}"


def per_second(arm: PlannedArm) -> float:
    """What the arm gets done a second."""
    sources = dict(part.split(": ") for part in tree_of(arm).split("; "))
    direct = len(sources["primary"].split(", "))
    rate = 1500.0 - 60.0 * (max(2, direct) - 2)
    hops = len(sources) if arm.levels.get("sync") == "chain" else 1
    return rate / (1 + 0.35 * min(hops, 3)) if arm.levels["write_concern"] == "majority" and hops > 2 else rate


def replication_ledger(folder: Path, plan: Plan, rounds: int = 8, noise: float = 0.01) -> Ledger:
    """In round 1 the chain of 7 is thrown out once, under w:1."""
    chance = np.random.default_rng(1)
    ledger = Ledger.create(plan, folder)
    ledger.append(EnvironmentRecord(started="2026-01-01T00:00:00+00:00", facts={"cores": 2}))
    ledger.append(ready_record(plan, {}))
    number = 0
    for round_number in range(rounds):
        for arm in plan.arms:
            number += 1
            rate = per_second(arm) * float(np.exp(chance.normal(0, noise)))
            answer = SliceAnswer(
                id=number,
                arm=arm.name,
                workload="write",
                started_unix_ns=0,
                elapsed_ns=10**9,
                operations=round(rate),
                errors=[],
                phases={name: phase_of(8e3 / rate, 1) for name in ("insert", "operation")},
                cpu_ns={"client": 10**7},
                peak_memory_bytes=10**7,
                evidence={"connections": 0},
            )
            spoilt = round_number == 1 and is_spoilt(arm)
            ledger.append(
                SliceRecord(
                    round=round_number,
                    warm_up=False,
                    view="wire",
                    workload="write",
                    answer=answer,
                    server_connections=None,
                    server_tls=None,
                    server_cpu_seconds={"primary": 0.09, "secondaries": 0.1},
                    server_held_back_seconds={"primary": 0.5},
                    server_figures=figures(arm, chance),
                    server_facts={"tree": tree_of(arm)},
                    mismatch=CHANGED if spoilt else None,
                )
            )
    ledger.append(EndRecord(partial=None, steal_share=0.0))
    return ledger


def is_spoilt(arm: PlannedArm) -> bool:
    return [arm.levels[name] for name in ("sync", "nodes", "write_concern")] == ["chain", "7", "1"]


def figures(arm: PlannedArm, chance: np.random.Generator) -> dict[str, float]:
    hops = tree_of(arm).count(";") + 1
    return {
        "primary_cpu": 90.0 + float(chance.normal(0, 1)),
        "secondary_cpu": 60.0 + float(chance.normal(0, 1)),
        "replication_lag_ms": 5.0 * hops * float(np.exp(chance.normal(0, 0.3))),
        "hops_to_majority": float(min(hops, 3)),
        "oplog_bytes_sent": 1300.0 * len(tree_of(arm).split(";")[0].split(",")),
    }
