"""Simulated runs of `mariadb-encryption-at-rest` and `postgres-encryption-at-rest`.

Encryption lengthens writes, and reads from the disk.
"""

from __future__ import annotations

from costof.study.arms import PlannedArm
from tests.fake_run import Truth

MARIADB_READS = {("read", "everything@data-on-disk"): 1.08, ("read_8", "everything@data-on-disk"): 1.07}
UPDATES = {"everything": 1.12, "tablespaces": 1.01, "redo-log": 1.06, "binary-log": 1.04, "temporary-files": 1.0}
TRANSACTIONS = {"gocryptfs-aes-gcm": 1.6, "gocryptfs-xchacha20": 1.7, "pass-through": 1.4}
READS = {"gocryptfs-aes-gcm": 1.3, "gocryptfs-xchacha20": 1.35, "pass-through": 1.25}


class AtRestTruth(Truth):
    """A simulated run whose evidence is a canary (a known value), readable in the files only without encryption."""

    def evidence_facts(self, arm: PlannedArm) -> dict[str, str]:
        encrypts = not arm.control and not arm.replicate
        return {"canary": "in none of the 120 stored files" if encrypts else "readable in 3 of 120 stored files"}


TRUTHS = {
    "mariadb-encryption-at-rest": AtRestTruth(
        MARIADB_READS
        | {(workload, level): cost for workload in ("update", "update_8") for level, cost in UPDATES.items()}
    ),
    "postgres-encryption-at-rest": AtRestTruth(
        {
            (workload, level): cost
            for workload in ("transaction", "transaction_8")
            for level, cost in TRANSACTIONS.items()
        }
        | {(workload, level): cost for workload in ("read", "read_8") for level, cost in READS.items()}
    ),
}
SMALL = {"mariadb-encryption-at-rest": ("data=in-memory",)}
