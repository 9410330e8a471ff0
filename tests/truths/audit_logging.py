"""Simulated runs of the studies of audit logging. Each log entry takes the same time and the same number of bytes.

The relative cost is therefore largest for short statements, and an extension that logs nothing costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, phase_of
from tests.noise import Chance

OPERATIONS = 100
ENTRY_MS, ENTRY_BYTES = 0.016, 172.0
#: For each workload: the time in ms of an operation without audit logging, and its number of statements (reads, writes,
#: others).
WORKLOADS = {
    "connect": (0.07, (1, 0, 0)),
    "select_1": (0.062, (1, 0, 0)),
    "select_8": (0.19, (1, 0, 0)),
    "ycsb_a": (1.4, (0.5, 0.5, 0)),
    "transactions": (6.1, (1, 4, 2)),
}
CONNECT_MS = 4.7
#: Whether statements are logged (1) or not (0) at each level: reads, writes, others.
AUDITED = {"off": (0, 0, 0), "silent": (0, 0, 0), "ddl": (0, 0, 0), "writes": (0, 1, 0), "reads-and-writes": (1, 1, 0)}
#: Time of a log entry by destination, relative to an entry that the server writes to a file itself.
DESTINATIONS = {"collector": 1.2, "syslog": 1.9}
#: TPC-C's transactions: their share, and time relative to the mean.
TPCC = {"new_order": (0.45, 1.2), "payment": (0.43, 0.8)}


@dataclass
class AuditTruth(Truth):
    tpcc: bool = False

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        own, statements = WORKLOADS[workload]
        audited = AUDITED.get(arm.levels["audit"], (1, 1, 1))
        entries = sum(number * each for number, each in zip(statements, audited, strict=True))
        added = entries * ENTRY_MS * DESTINATIONS.get(arm.levels.get("log", ""), 1.0)
        took = (own + added) * chance.times
        phases = {"operation": phase_of(took, OPERATIONS, sum(statements), 90.0, 80.0)}
        counts: dict[str, int] = {}
        evidence: dict[str, Any] = {"connections": 0, "protocol": None, "server": "10.205.0.2:5432"}
        if workload == "connect":
            connect = CONNECT_MS * chance.times
            phases = {
                "connect": phase_of(connect, OPERATIONS, 4, 300.0, 500.0),
                "first_operation": phase_of(took, OPERATIONS, 1, 90.0, 80.0),
                "connect_and_first_operation": phase_of(connect + took, OPERATIONS, 5, 390.0, 580.0),
            }
            evidence["connections"] = OPERATIONS
        elif workload == "ycsb_a":
            phases["update"] = phase_of(2 * took, OPERATIONS // 2, 1, 180.0, 60.0)
        elif workload == "transactions" and self.tpcc:
            phases |= {name: phase_of(took * times, round(OPERATIONS * share)) for name, (share, times) in TPCC.items()}
            counts = {"tpcc.committed.new_order": OPERATIONS - 43, "tpcc.committed.payment": 43}
        seconds = phases["connect_and_first_operation" if workload == "connect" else "operation"].sum_ns / 1e9
        return Slice(
            operations=OPERATIONS,
            seconds=seconds / plan.workers(workload, arm),
            phases=phases,
            cpu_seconds={
                "client": 0.01 * OPERATIONS / 1e3 * chance.more(0.02),
                "server": (own / 3 + added) * OPERATIONS / 1e3 * chance.more(0.02),
            },
            evidence=evidence,
            figures={"audit_bytes": entries * ENTRY_BYTES, "audit_entries": float(entries)},
            counts=counts,
        )


TRUTHS = {"mariadb-audit-logging": AuditTruth(tpcc=True), "postgres-audit-logging": AuditTruth()}
SMALL = {"postgres-audit-logging": ("audit=off,all,silent", "log=stderr,syslog")}
