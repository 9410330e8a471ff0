"""Simulated runs of `mysql-column-encryption`.

The number of transactions a second is the number of cores divided by the CPU time of a transaction, added up over
client, gateway and server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, phase_of
from tests.noise import Chance

DIRECT = "direct"
CORES = 2.0
SECONDS = 3
STATEMENTS = 28
#: By type of transaction: how many of 100 transactions have it, and their time relative to the average.
MIX = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}
PARTS = {"new_order": 1.3, "payment": 0.5, "order_status": 0.4, "delivery": 3.0, "stock_level": 0.8}
#: CPU time in ms, by role: of a transaction without a gateway, the addition by a gateway that encrypts nothing, and the
#: further addition if it encrypts all columns.
WITHOUT = {"client": 1.0, "gateway": 0.0, "server": 5.0}
PRESENCE = {"client": 0.05, "gateway": 0.5, "server": 0.1}
ENCRYPTED = {"client": 0.6, "gateway": 0.8, "server": 0.0}
VALUES = 120
BYTES, ADDED_BYTES = 9_000.0, 4_000.0


@dataclass(frozen=True)
class TrueCost:
    """A transaction's true CPU time in ms by role, its bytes, and the share of the columns that are encrypted."""

    cpu_ms: dict[str, float]
    bytes: float
    share: float

    @property
    def per_second(self) -> float:
        return CORES * 1e3 / sum(self.cpu_ms.values())

    def values(self, operations: int) -> int:
        """Return the number of values that the gateway encrypts, and the client decrypts, in so many transactions."""
        return round(VALUES * self.share) * operations


class EncryptionTruth(Truth):
    def __init__(self, encrypted: Mapping[str, float] = ENCRYPTED) -> None:
        super().__init__()
        self._encrypted = encrypted

    def true_cost(self, arm: PlannedArm) -> TrueCost:
        level = arm.levels["encrypted"]
        if level == DIRECT:
            return TrueCost(WITHOUT, BYTES, 0.0)
        share = int(level) / 100
        cpu = {role: used + PRESENCE[role] + self._encrypted[role] * share for role, used in WITHOUT.items()}
        return TrueCost(cpu, BYTES + ADDED_BYTES * share, share)

    def evidence_facts(self, arm: PlannedArm) -> dict[str, str]:
        return {"columns encrypted": f"{self.true_cost(arm).share:.0%}"}

    def facts_at_end(self, arm: PlannedArm) -> dict[str, str]:
        return {"consistency": "conditions 1 to 12 held"}

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        cost, terminals = self.true_cost(arm), plan.workers(workload, arm)
        done = round(cost.per_second * SECONDS / chance.times)
        counts = {name: done * share // 100 for name, share in MIX.items()}
        rolled_back = done // 200
        counts["new_order"] -= rolled_back
        latency = terminals * SECONDS * 1e3 / done
        phases = {name: phase_of(latency * part, counts[name], STATEMENTS) for name, part in PARTS.items()}
        phases["operation"] = phase_of(latency, done, STATEMENTS, cost.bytes / 2, cost.bytes / 2)
        direct, values, counted = arm.levels["encrypted"] == DIRECT, cost.values(done), chance.more(0.01)
        server_counts = {"values encrypted by the gateway": values, "values decrypted by the driver": values}
        return Slice(
            operations=done,
            seconds=SECONDS,
            phases=phases,
            cpu_seconds={
                role: used * done / 1e3 * (chance.times if role == "client" else counted)
                for role, used in cost.cpu_ms.items()
            },
            evidence={"connections": 0, "protocol": None, "server": "10.205.0.6:3307"},
            figures={"bytes": BYTES},
            server_counts={} if direct else server_counts,
            counts={
                **{f"tpcc.committed.{name}": count for name, count in counts.items()},
                "tpcc.rolled_back": rolled_back,
                "tpcc.statements": STATEMENTS * done,
                "tpcc.deadlocks": 3,
                "tpcc.lock_timeouts": 0,
                **({} if direct else {"decrypted.values": values, "decrypted.bytes": values * 8}),
            },
        )


TRUTHS = {"mysql-column-encryption": EncryptionTruth()}
SMALL = {"mysql-column-encryption": ("encrypted=direct,0,100",)}
