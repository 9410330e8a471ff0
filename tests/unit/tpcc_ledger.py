"""A ledger of `mysql-column-encryption` that was never measured, whose truth is known.

Both cores are busy, so transactions a second are the cores over the CPU time of one transaction, whoever uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from costof.ipc.process import Decrypted, SliceAnswer, TpccCounts
from costof.ledger.ledger import EndRecord, EnvironmentRecord, Ledger, ProofRecord, SliceRecord
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve

from .ledgers import Spent, phase_of, ready_record

NAME = "mysql-column-encryption"
CORES = 2.0
SECONDS = 3
STATEMENTS = 28
MIX = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}
#: CPU, ms a transaction: without a gateway; what its presence adds; what all columns encrypted add.
SERVER, CLIENT = 5.0, 1.0
PRESENCE = {"gateway": 0.5, "client": 0.05, "server": 0.1}
ENCRYPTED = {"gateway": 0.8, "client": 0.6, "server": 0.0}
DIRECT, CONTROL = "direct", "0"
VALUES = 120
BYTES, ADDED_BYTES = 9_000.0, 4_000.0


@dataclass(frozen=True)
class Truth:
    """What an arm really takes of each role, ms a transaction, and moves, bytes a transaction."""

    cpu: dict[str, float]
    bytes: float
    share: float

    @classmethod
    def of(cls, arm: PlannedArm) -> Truth:
        level = arm.levels["encrypted"]
        share = 0.0 if level == DIRECT else int(level) / 100
        cpu = {"client": CLIENT, "gateway": 0.0, "server": SERVER}
        if level != DIRECT:
            cpu = {role: used + PRESENCE[role] + ENCRYPTED[role] * share for role, used in cpu.items()}
        return cls(cpu, BYTES + ADDED_BYTES * share, share)

    @property
    def per_second(self) -> float:
        return CORES * 1e3 / sum(self.cpu.values())


def tpcc_plan(profile: str = "quick", *settings: str, target: str | None = None) -> Plan:
    return resolve(load_study(NAME), Options(profile=profile, settings=settings, seed=1, target=target))


def slice_answer(number: int, plan: Plan, arm: PlannedArm, hiccup: float, values: int | None = None) -> SliceAnswer:
    """What the engine would say of one slice; `values` decrypted where it is not what was encrypted."""
    truth, terminals = Truth.of(arm), plan.workers("transactions", arm)
    done = round(truth.per_second * SECONDS / hiccup)
    counts = {name: done * share // 100 for name, share in MIX.items()}
    rolled_back = done // 200
    counts["new_order"] -= rolled_back
    latency = terminals * SECONDS * 1e3 / done
    parts = {"new_order": 1.3, "payment": 0.5, "order_status": 0.4, "delivery": 3.0, "stock_level": 0.8}
    phases = {name: phase_of(latency * part, STATEMENTS, counts[name]) for name, part in parts.items()}
    operation = phase_of(latency, STATEMENTS, done)
    half = round(truth.bytes * done / 2)
    phases["operation"] = operation.model_copy(update={"bytes_sent": half, "bytes_received": half})
    decrypts = arm.levels["encrypted"] != DIRECT
    found = encrypted_values(arm, done) if values is None else values
    return SliceAnswer(
        id=number,
        arm=arm.name,
        workload=f"transactions x {terminals}",
        started_unix_ns=0,
        elapsed_ns=SECONDS * 10**9,
        operations=done,
        errors=[],
        phases=phases,
        cpu_ns={"client": round(truth.cpu["client"] * 1e6 * done * hiccup)},
        peak_memory_bytes=10**7,
        evidence={"connections": 0, "protocol": None, "server": "10.205.0.6:3307"},
        tpcc=TpccCounts(
            committed=counts, rolled_back=rolled_back, statements=STATEMENTS * done, deadlocks=3, lock_timeouts=0
        ),
        decrypted=Decrypted(values=found, bytes=found * 8) if decrypts else None,
    )


def encrypted_values(arm: PlannedArm, operations: int) -> int:
    return round(VALUES * Truth.of(arm).share) * operations


def tpcc_ledger(folder: Path, plan: Plan, rounds: int = 8, noise: float = 0.01) -> Ledger:
    """A whole run; every slice took what is true, times noise that is its own."""
    chance = np.random.default_rng(1)
    ledger = Ledger.create(plan, folder)
    ledger.append(EnvironmentRecord(started="2026-01-01T00:00:00+00:00", facts={"cores": 2}))
    ledger.append(ready_record(plan, {}))
    for arm in plan.arms:
        ledger.append(ProofRecord(arm=arm.name, facts={"columns encrypted": f"{Truth.of(arm).share:.0%}"}))
    number = 0
    for round_number in range(rounds):
        for arm in plan.arms:
            number += 1
            hiccup, counted = (float(np.exp(chance.normal(0, noise))) for _ in range(2))
            answer = slice_answer(number, plan, arm, hiccup)
            truth, done = Truth.of(arm), answer.operations
            values = encrypted_values(arm, done)
            ledger.append(
                SliceRecord(
                    round=round_number,
                    warm_up=False,
                    view="wire",
                    workload="transactions",
                    answer=answer,
                    server_connections=0,
                    server_tls={},
                    server_cpu_seconds={role: truth.cpu[role] * done / 1e3 * counted for role in ("gateway", "server")},
                    server_figures={"bytes": BYTES},
                    server_counts={
                        "values encrypted by the gateway": values,
                        "values decrypted by the driver": values,
                    }
                    if arm.levels["encrypted"] not in (DIRECT,)
                    else {},
                )
            )
    for arm in plan.arms:
        ledger.append(ProofRecord(arm=arm.name, facts={"consistency": "conditions 1 to 12 held"}))
    ledger.append(EndRecord(partial=None, steal_share=0.0))
    return ledger


__all__ = ["CONTROL", "NAME", "Spent", "Truth", "encrypted_values", "slice_answer", "tpcc_ledger", "tpcc_plan"]
