"""Simulated runs of `http-tls-termination`, in which the CPU limit of the balancer determines all figures.

The number of requests a second is the balancer's cores divided by the CPU time of a request. There are at most 200
requests at once, each of which takes 200 ms at the origin. In the workload `burst`, 200 new clients come at once. The
burst lasts 200 ms plus the CPU time for all clients divided by the balancer's cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, phase_of
from tests.noise import Chance

WAIT_MS = 200.0
IN_FLIGHT = 200
REQUEST_MS = 0.25
CONNECT_MS = 0.15
#: CPU time in ms of the balancer for a TLS handshake with an RSA key, by level of `termination`. It is multiplied by
#: CHEAPER with an ECDSA key, or with resumption (level "on").
HANDSHAKE_MS = {"none": 0.0, "direct": 0.0, "balancer": 1.4, "reencrypt": 1.9, "backend": 0.02}
CHEAPER = {"ecdsa-p256": 0.4, "on": 0.25}
LEAST_CONNECT_MS = 0.3
#: Workloads with so few requests that no request waits for another.
UNQUEUED = ("connection", "kept_request")
#: Duration in ms of a TCP handshake, and of a TLS handshake with an idle balancer.
TCP_MS, TLS_MS = 0.1, 1.1
OPERATIONS = 1000


@dataclass(frozen=True)
class TrueCost:
    """The balancer's true CPU time in ms: `cpu_ms` for a request, `client_ms` for a client of the workload `burst`."""

    cores: float
    cpu_ms: float
    client_ms: float

    @property
    def per_second(self) -> float:
        return min(IN_FLIGHT / (WAIT_MS + 1.0) * 1e3, self.cores * 1e3 / self.cpu_ms)

    @property
    def burst_ms(self) -> float:
        return WAIT_MS + IN_FLIGHT * self.client_ms / self.cores


class HttpTruth(Truth):
    def __init__(self, handshake_ms: Mapping[str, float] = HANDSHAKE_MS) -> None:
        super().__init__()
        self._handshake_ms = handshake_ms

    def true_cost(self, arm: PlannedArm) -> TrueCost:
        levels = arm.levels
        if levels["termination"] == "direct":
            return TrueCost(64.0, 1e-6, 1e-6)
        handshake = self._handshake_ms[levels["termination"]]
        for level in (levels.get("key", ""), levels.get("resumption", "")):
            handshake *= CHEAPER.get(level, 1.0)
        new = CONNECT_MS + handshake
        return TrueCost(float(levels["balancer_cpu"]), REQUEST_MS + new / int(levels["keep_alive"]), REQUEST_MS + new)

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        cost, tls = self.true_cost(arm), arm.levels["termination"] not in ("none", "direct")
        if workload in UNQUEUED:
            return _unqueued(workload, cost, tls, chance)
        burst = workload == "burst"
        operations = IN_FLIGHT if burst else OPERATIONS
        elapsed_ms = (cost.burst_ms if burst else operations / cost.per_second * 1e3) * chance.times
        latency = elapsed_ms if burst else IN_FLIGHT / cost.per_second * 1e3 * chance.times
        opened = operations if burst else operations // int(arm.levels["keep_alive"])
        connect = max(LEAST_CONNECT_MS, (latency - WAIT_MS) * 0.5)
        phases = {"connect": phase_of(connect, opened)}
        if tls:
            phases["tls"] = phase_of(connect * 0.8, opened)
        processing = latency - connect * opened / operations
        times = {"waiting": processing * 0.98, "processing": processing, "request": latency}
        times = {"first_operation": processing} if burst else times
        phases |= {name: phase_of(each, operations) for name, each in times.items()}
        used = (cost.client_ms if burst else cost.cpu_ms) * operations / 1e3 * chance.more(0.01)
        return Slice(
            operations=operations,
            seconds=elapsed_ms / 1e3,
            phases=phases,
            cpu_seconds={
                "client": operations * (4e-4 if tls else 6e-5),
                "balancer": used,
                "origin": operations * 2e-5,
            },
            evidence={
                "connections": opened,
                "handshakes": opened if tls else 0,
                "protocol": "TLSv1.3" if tls else None,
                "server": "10.205.0.6:8443",
                "body_length": 2,
            },
            throttled_seconds={"balancer": max(0.0, elapsed_ms / 1e3 * 0.8 - used)},
            steal_seconds=0.02,
            counts=counts_of(operations, operations - opened),
        )


def _unqueued(workload: str, cost: TrueCost, tls: bool, chance: Chance) -> Slice:
    operations = 100
    if workload == "connection":
        connect = (TCP_MS + (TLS_MS if tls else 0.0)) * chance.times
        phases = {
            "tcp": phase_of(TCP_MS * chance.times, operations, 1),
            "connect": phase_of(connect, operations, 1 + tls),
            "first_operation": phase_of(WAIT_MS, operations, 1),
        }
        cpu_ms, counts = cost.client_ms, counts_of(operations, 0)
    else:
        request = (WAIT_MS + 0.3 + (0.02 if tls else 0.0)) * chance.times
        phases = {name: phase_of(request, operations, 1) for name in ("waiting", "processing", "request")}
        cpu_ms, counts = REQUEST_MS, counts_of(operations, operations)
    opened = operations if workload == "connection" else 0
    # The slice lasts as long as the sum of all times divided by the number of workers: 4 workers for the workload
    # `connection`, 20 for `kept_request`.
    whole = phases["first_operation"].sum_ns / 4e9 if opened else phases["request"].sum_ns / 20e9
    return Slice(
        operations=operations,
        seconds=whole,
        phases=phases,
        cpu_seconds={
            "client": operations * (4e-4 if tls else 6e-5),
            "balancer": max(0.0, cpu_ms) * operations / 1e3 * chance.more(0.01),
        },
        evidence={
            "connections": opened,
            "handshakes": opened if tls else 0,
            "protocol": "TLSv1.3" if tls else None,
            "server": "10.205.0.6:8443",
        },
        counts=counts,
    )


def counts_of(operations: int, reused: int) -> dict[str, int]:
    """Return the counts of an HTTP client that has received `operations` responses."""
    return {
        "http.status.200": operations,
        "http.reused": reused,
        "http.response_bytes": 140 * operations,
        "http.body_bytes": 2 * operations,
        "http.other_length": 0,
    }


TRUTHS = {"http-tls-termination": HttpTruth()}
SMALL = {"http-tls-termination": ("keep_alive=1", "key=rsa-2048,ecdsa-p256")}
