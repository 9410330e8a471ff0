"""Simulated runs of `mongodb-chained-replication`.

Each member after the second that replicates directly from the primary slows the primary. Each hop delays a write that
waits for the majority. With the level `natural` of `sync`, MongoDB chooses the shape: a star, or a tree if there are 15
nodes.
"""

from __future__ import annotations

from itertools import pairwise

from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, phase_of
from tests.noise import Chance

CHANGED = "the sync tree changed"


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
    sources = dict(part.split(": ") for part in tree_of(arm).split("; "))
    direct = len(sources["primary"].split(", "))
    rate = 1500.0 - 60.0 * (max(2, direct) - 2)
    hops = len(sources) if arm.levels.get("sync") == "chain" else 1
    return rate / (1 + 0.35 * min(hops, 3)) if arm.levels["write_concern"] == "majority" and hops > 2 else rate


class ReplicationTruth(Truth):
    def mismatch(self, arm: PlannedArm, workload: str, number: int) -> str | None:
        """Return a reason to discard the slice of the chain of 7 nodes with w:1 in round 1; None for other slices."""
        affected = [arm.levels.get(name) for name in ("sync", "nodes", "write_concern")] == ["chain", "7", "1"]
        return CHANGED if affected and number == 1 else None

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        rate, tree = per_second(arm) / chance.times, tree_of(arm)
        hops = tree.count(";") + 1
        return Slice(
            operations=round(rate),
            seconds=1.0,
            phases={name: phase_of(8e3 / rate, round(rate), 1) for name in ("insert", "operation")},
            cpu_seconds={"client": 0.01, "primary": 0.09, "secondaries": 0.1},
            evidence={"connections": 0},
            tls=None,
            throttled_seconds={"primary": 0.5},
            figures={
                "primary_cpu": 90.0 + chance.source.normal(0, 1),
                "secondary_cpu": 60.0 + chance.source.normal(0, 1),
                "replication_lag_ms": 5.0 * hops * chance.more(0.3),
                "hops_to_majority": float(min(hops, 3)),
                "oplog_bytes_sent": 1300.0 * len(tree.split(";")[0].split(",")),
            },
            facts={"tree": tree},
        )


TRUTHS = {"mongodb-chained-replication": ReplicationTruth()}
