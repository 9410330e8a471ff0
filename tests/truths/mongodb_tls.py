"""Simulated runs of `mongodb-tls`: TLS adds a handshake to a new connection, and very little to a query."""

from __future__ import annotations

from typing import NamedTuple

from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, error_of, phase_of
from tests.noise import Chance


class PhaseTime(NamedTuple):
    """A phase: ms without TLS, ms that TLS adds, the standard deviation of the noise, round trips."""

    plain_ms: float
    tls_ms: float
    noise: float
    round_trips: int


PHASES = {
    "app_connect": {
        "connect": PhaseTime(0.912, 2.31, 0.02, 0),
        "first_operation": PhaseTime(9.74, 3.02, 0.03, 0),
        "connect_and_first_operation": PhaseTime(10.652, 5.33, 0.025, 0),
    },
    "app_query": {"operation": PhaseTime(0.3504, 0.0041, 0.012, 0)},
    "wire_connect": {
        "tcp": PhaseTime(0.061, 0.0006, 0.06, 1),
        "tls": PhaseTime(0.0, 1.842, 0.03, 1),
        "hello": PhaseTime(0.164, 0.018, 0.04, 1),
        "auth": PhaseTime(4.62, 0.05, 0.012, 2),
        "first_operation": PhaseTime(0.212, 0.012, 0.04, 1),
        "connect_and_first_operation": PhaseTime(5.057, 1.9226, 0.02, 5),
    },
    "wire_query": {"operation": PhaseTime(0.0941, 0.0009, 0.01, 1)},
}
#: By key of the server: the time of a handshake relative to one with an RSA key of 2048 bits.
KEYS = {"rsa-4096": 2.4, "ecdsa-p256": 0.7}
OPERATIONS = {"app_connect": 12, "app_query": 500, "wire_connect": 50, "wire_query": 2000}
#: CPU time of an operation in ms: plain, and added by TLS.
CPU_MS = {
    "app_connect": {"client": (4.9, 2.6), "mongod secondary": (8.1, 1.9), "mongod primary": (0.6, 0.0)},
    "app_query": {"client": (0.2, 0.01), "mongod secondary": (0.07, 0.003)},
    "wire_connect": {"client": (0.31, 0.52), "mongod secondary": (4.21, 0.88), "mongod primary": (0.02, 0.0)},
    "wire_query": {"client": (0.021, 0.002), "mongod secondary": (0.071, 0.003)},
}


class MongodbTruth(Truth):
    """A simulated run of mongodb-tls in which some queries of the control fail, and some TLS connections time out."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        tls, wire = arm.levels["transport"] == "tls", workload.startswith("wire")
        more = KEYS.get(arm.levels.get("key", ""), 1.0) if tls else 0.0
        count, link = OPERATIONS[workload], plan.study.round_trip_ms(arm.levels)
        phases = {}
        for name, phase_time in PHASES[workload].items():
            if base_ms := phase_time.plain_ms + more * phase_time.tls_ms:
                trips = phase_time.round_trips - (name == "connect_and_first_operation" and wire and not tls)
                transferred = (642.0, 1310.0) if name == "tls" else (180.0 * trips, 320.0 * trips)
                time = base_ms * chance.times * chance.more(phase_time.noise)
                phases[name] = phase_of(time, count, *((trips, *transferred) if wire else ()), link_ms=trips * link)
        opened = count if workload.endswith("connect") else 0
        tls_evidence = (
            {"cipher": "TLS_AES_256_GCM_SHA384", "key": arm.levels.get("key"), "verified": True} if tls else {}
        )
        errors = []
        if arm.control and workload == "app_query":
            errors = [error_of("reset", "connection reset by 10.205.0.2:27017")]
        elif tls and workload == "wire_connect":
            errors = [error_of("timeout", "no answer within 10,000 ms in auth", 3)]
        cpu = {role: (plain + added * tls) * count / 1e3 for role, (plain, added) in CPU_MS[workload].items()}
        return Slice(
            operations=count,
            seconds=sum(phase.sum_ns for name, phase in phases.items() if name.endswith("operation")) / 1e9,
            phases=phases,
            cpu_seconds={role: used * chance.more(0.02) for role, used in cpu.items()},
            evidence={
                "connections": opened,
                "handshakes": opened * tls,
                "protocol": "TLSv1.3" if tls else None,
                **tls_evidence,
            },
            tls={"TLSv1.3": opened * tls},
            errors=errors,
        )


TRUTHS = {"mongodb-tls": MongodbTruth()}
