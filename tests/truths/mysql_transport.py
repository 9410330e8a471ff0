"""Simulated runs of `mysql-transport`, with processing times and round trips of each phase.

A tunnel accepts TCP connections on the client's own host, which saves a round trip.
"""

from __future__ import annotations

from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, phase_of
from tests.noise import Chance

#: Processing time in ms and round trips over the link, by phase.
PHASES: dict[str, dict[str, tuple[float, int]]] = {
    "plain": {"tcp": (0.031, 1), "greeting": (0.088, 1), "auth": (0.112, 1)},
    "tls": {"tcp": (0.031, 1), "greeting": (0.089, 1), "tls": (1.12, 1), "auth": (0.131, 1)},
    "ssh": {"tcp": (0.034, 0), "greeting": (0.415, 1), "auth": (0.243, 1)},
}
OPERATION_MS = {"plain": 0.058, "tls": 0.066, "ssh": 0.171}
#: The slowdown of an operation with 1, 8 or 32 connections, which share two cores.
CONTENTION = {"query_1": 1.0, "query_8": 3.4, "query_32": 12.6}
#: A round trip takes LATE times as long as requested, plus LATE_MS. JITTER is the noise of this time.
LATE, LATE_MS, JITTER = 1.004, 0.05, 0.0006
OPERATIONS = 50
CONNECTION_BYTES = {"plain": 412.0, "tls": 3120.0, "ssh": 780.0}
OPERATION_BYTES = {"plain": 180.0, "tls": 246.0, "ssh": 292.0}
CONNECTION_CPU_MS = {
    "plain": {"client": 0.05, "mariadbd": 0.11},
    "tls": {"client": 0.31, "mariadbd": 0.88},
    "ssh": {"client": 0.05, "mariadbd": 0.11, "ssh": 0.12, "sshd": 0.21},
}
OPERATION_CPU_MS = {
    "plain": {"client": 0.012, "mariadbd": 0.031},
    "tls": {"client": 0.014, "mariadbd": 0.035},
    "ssh": {"client": 0.012, "mariadbd": 0.031, "ssh": 0.033, "sshd": 0.187},
}
EVIDENCE = {
    "plain": {"protocol": None, "server": "10.205.0.2:3306"},
    "tls": {"protocol": "TLSv1.3", "cipher": "TLS_AES_256_GCM_SHA384", "key": "rsa-2048", "server": "10.205.0.2:3306"},
    "ssh": {"protocol": None, "server": "127.0.0.1:13306"},
}


def kind(arm: PlannedArm) -> str:
    return arm.levels["transport"].partition("-")[0]


class TransportTruth(Truth):
    def evidence_facts(self, arm: PlannedArm) -> dict[str, str]:
        tunnel = {"tunnel": "OpenSSH 9.2", "cipher": arm.levels["transport"].removeprefix("ssh-"), "channels": "1,200"}
        return tunnel if kind(arm) == "ssh" else {}

    def link_ms(self, nominal_ms: float) -> float:
        return nominal_ms * LATE + LATE_MS if nominal_ms else 0.0

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        transport, nominal_ms = kind(arm), plan.study.round_trip_ms(arm.levels)
        link = self.link_ms(nominal_ms) * chance.more(JITTER) if nominal_ms else 0.0
        connect = workload == "connect"
        if connect:
            parts = PHASES[transport]
            parts = {**parts, "connect": (sum(ms for ms, _ in parts.values()), sum(far for _, far in parts.values()))}
            size, cpu = CONNECTION_BYTES[transport], CONNECTION_CPU_MS[transport]
        else:
            parts = {"operation": (OPERATION_MS[transport] * CONTENTION[workload], 1)}
            size, cpu = OPERATION_BYTES[transport], OPERATION_CPU_MS[transport]
        phases = {}
        for name, (ms, far) in parts.items():
            # The engine also counts the handshake with the near end of the tunnel.
            trips = far + (transport == "ssh" and name in ("tcp", "connect"))
            phases[name] = phase_of(ms * chance.times, OPERATIONS, trips, size * 0.4, size * 0.6, link_ms=far * link)
        whole = phases["connect" if connect else "operation"]
        opened = OPERATIONS if connect else 0
        return Slice(
            operations=OPERATIONS,
            seconds=whole.sum_ns / 1e9 / plan.workers(workload, arm),
            phases=phases,
            cpu_seconds={role: used * OPERATIONS / 1e3 * chance.more(0.02) for role, used in cpu.items()},
            evidence={"connections": opened, "handshakes": opened * (transport == "tls"), **EVIDENCE[transport]},
            tls={"TLSv1.3": opened * (transport == "tls")},
        )


TRUTHS = {"mysql-transport": TransportTruth()}
