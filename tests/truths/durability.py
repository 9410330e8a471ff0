"""Simulated runs of the studies of durable commits. A commit waits for the disk; simultaneous commits share flushes."""

from __future__ import annotations

from costof.lab.flushes import FlushEvidence
from costof.programs.flushes import FLUSHES, LOG_BYTES
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, phase_of
from tests.noise import Chance

FLUSH_MS = 0.62
#: For each measurement of the disk: by how many ms a flush takes longer than `FLUSH_MS`.
DRIFTS_MS = (-0.01, 0.005, -0.004, 0.003, 0.006)
#: Processing time in ms of a commit with one client, and the addition for each further client.
ALONE_MS, SHARED_MS = 0.084, 0.031
#: The number of flushes for which a commit waits with several clients: the current flush, and most often the next one.
WAITS_OF_SEVERAL = 1.9
OPERATIONS = 400


class DurabilityTruth(Truth):
    """A simulated run that measures commits.

    `costs` has the number of flushes of a commit and its additional time in ms, by level of the main factor. Each of
    the servers' `roles` uses the same CPU time.
    """

    def __init__(self, costs: dict[str, tuple[float, float]], roles: tuple[str, ...] = ("server",)) -> None:
        super().__init__()
        self.costs = costs
        self.roles = roles

    def flushes(self) -> list[FlushEvidence]:
        return [
            FlushEvidence(
                folder="/var/tmp",
                file_system="ext4 on /dev/vda",
                appends=False,
                mean_ms=FLUSH_MS + more,
                error_ms=0.006,
                median_ms=FLUSH_MS,
                p99_ms=2 * FLUSH_MS,
                flushes=1500,
            )
            for more in DRIFTS_MS
        ]

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        flushes, own = self.costs[arm.levels[plan.study.main_factor]]
        workers = plan.workers(workload, arm)
        waits = flushes * (1.0 if workers == 1 else WAITS_OF_SEVERAL)
        time_ms = (ALONE_MS + own + (workers - 1) * SHARED_MS + waits * FLUSH_MS) * chance.times
        phase = phase_of(time_ms, OPERATIONS, 1, 260.0, 40.0)
        return Slice(
            operations=OPERATIONS,
            seconds=phase.sum_ns / workers / 1e9,
            phases={"operation": phase},
            cpu_seconds={
                "client": 0.006 * OPERATIONS / 1e3 * chance.more(0.02),
                **{role: 0.05 * OPERATIONS / 1e3 * chance.more(0.02) for role in self.roles},
            },
            evidence={"connections": 0, "handshakes": 0, "protocol": None, "server": "10.205.0.2:4000"},
            figures={FLUSHES: waits / workers + 0.0002, LOG_BYTES: 311.0},
        )


TRUTHS = {
    "mariadb-durability": DurabilityTruth(
        {"0-0": (0, 0.0), "2-0": (0, 0.004), "1-0": (1, 0.02), "0-1": (1, 0.03), "2-1": (1, 0.03), "1-1": (2, 0.05)}
    ),
    "mongodb-durability": DurabilityTruth(
        {"w1": (0, 0.0), "w1-journal": (1, 0.03), "majority": (1, 0.55), "w2": (0, 0.4), "majority-no-j": (0, 0.9)},
        roles=("primary", "secondary", "hidden"),
    ),
    "postgres-durability": DurabilityTruth(
        {
            "off": (0, 0.0),
            "local": (1, 0.02),
            "remote_write": (1, 0.12),
            "on": (1, 0.71),
            "remote_apply": (1, 0.78),
            "unsafe": (0, 0.01),
        }
    ),
    "redis-durability": DurabilityTruth(
        {
            "memory-only": (0, 0.0),
            "by-system": (0, 0.002),
            "each-second": (0, 0.003),
            "each-answer": (1, 0.012),
            "memory-and-replica": (0, 0.09),
            "each-answer-and-replica": (1, 0.1),
        }
    ),
}
