"""Simulated runs of `postgres-pooling`: a pool saves the server a fork and a log-in for each new connection.

The pooler, on its single core, does TLS handshakes instead of the server. The slowest of client, server and pooler
limits the rate of new connections. A query takes longer through a pool.
"""

from __future__ import annotations

from dataclasses import dataclass

from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, phase_of
from tests.noise import Chance

#: Processing time in ms and round trips by phase, without and with a pool. TLS phases apply only to clients with TLS.
CONNECT = {
    "tcp": ((0.041, 1), (0.041, 1)),
    "tls_request": ((1.31, 1), (0.06, 1)),
    "tls": ((1.84, 2), (1.92, 2)),
    "hello": ((0.21, 1), (0.07, 1)),
    "auth": ((2.35, 2), (1.21, 2)),
    "first_operation": ((0.71, 1), (0.16, 1)),
}
#: Time of the server's fork. Without TLS it is part of the phase `hello`; with TLS, of the phase `tls_request`.
FORK_MS = 1.2
PYTHON_MS = {"app_connect": 0.61, "asyncpg_connect": 1.12}
OPERATION_MS = (0.055, 0.104)
#: Time that TLS adds to a query, for each of the two sides of the pooler that use TLS.
RECORD_MS = 0.006
#: CPU time in ms of a new connection: on a server without a pool (without TLS, with TLS); in the pooler without TLS;
#: and the addition of a TLS handshake in the pooler.
SERVER_CPU = (3.1, 4.6)
POOLER_CPU, HANDSHAKE_CPU = 0.21, 1.42
QUERY_CPU = 0.021
KEYS = {"rsa-4096": 3.1, "ecdsa-p256": 0.4}
SERVER_CORES = 2.0
OPERATIONS, CLIENTS = 40, 200


@dataclass(frozen=True)
class Path:
    pooled: bool
    client_tls: bool
    server_tls: bool
    cores: float
    handshake: float

    @classmethod
    def of(cls, arm: PlannedArm) -> Path:
        side = arm.levels["path"].rpartition("-")[2]
        handshake = KEYS.get(arm.levels.get("key", ""), 1.0) * (0.2 if arm.levels.get("resumption") == "on" else 1.0)
        tls = side in ("tls", "client", "both"), side in ("server", "both")
        return cls(side not in ("plain", "tls") or "-" in arm.levels["path"], *tls, cores_of(arm), handshake)

    @property
    def server_ms(self) -> float:
        """CPU time in ms of the server for a new connection and its query."""
        return 0.06 if self.pooled else SERVER_CPU[self.client_tls]

    @property
    def pooler_ms(self) -> float:
        if not self.pooled:
            return 0.0
        return POOLER_CPU + self.client_tls * HANDSHAKE_CPU * self.handshake

    def phases(self) -> dict[str, tuple[float, int]]:
        own = {name: each[self.pooled] for name, each in CONNECT.items()}
        if self.client_tls:
            time, trips = own["tls"]
            return {**own, "tls": (time * self.handshake, trips)}
        hello, trips = own["hello"]
        plain = {name: each for name, each in own.items() if not name.startswith("tls")}
        return {**plain, "hello": (hello + FORK_MS * (not self.pooled), trips)}


def cores_of(arm: PlannedArm) -> float:
    return float(arm.levels["pooler_cpu"])


class PoolingTruth(Truth):
    """A simulated run of the pooling study: in session mode, simultaneous clients (`storm`) wait for the pool."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        path, connecting = Path.of(arm), workload not in ("wire_query", "query_8")
        operations = CLIENTS if workload == "storm" else OPERATIONS
        workers = plan.workers(workload, arm)
        spent = self._connection(workload, path) if connecting else self._query(path)
        whole, _ = spent["connect_and_first_operation" if connecting else "operation"]
        cpu = path.server_ms if connecting else QUERY_CPU, path.pooler_ms if connecting else QUERY_CPU * path.pooled
        least = max(whole / workers, cpu[0] / SERVER_CORES, cpu[1] / min(path.cores, 1.0))
        # With too few cores, all phases take longer by the same factor.
        slower = chance.times * max(1.0, least * workers / whole)
        seconds = operations * least * chance.times / 1e3
        opened = operations if connecting else 0
        tls_evidence = {"cipher": "TLS_AES_256_GCM_SHA384", "key": arm.levels.get("key"), "group": "prime256v1"}
        waits = "session" in arm.levels["path"] and workload == "storm"
        return Slice(
            operations=operations,
            seconds=seconds,
            phases={
                name: phase_of(own * slower, operations, trips, 180.0 * trips, 320.0 * trips)
                for name, (own, trips) in spent.items()
            },
            cpu_seconds={
                "client": operations * (1.1 + 0.6 * path.client_tls if connecting else 0.012) / 1e3 * chance.more(0.02),
                "server": operations * cpu[0] / 1e3 * chance.more(0.02),
                "pooler": operations * cpu[1] / 1e3 * chance.more(0.02),
            },
            evidence={
                "connections": opened,
                "handshakes": opened * path.client_tls,
                "protocol": "TLSv1.3" if path.client_tls else None,
                "verified": path.client_tls,
                "server": "10.205.0.6:6432" if path.pooled else "10.205.0.2:5432",
                **(tls_evidence if path.client_tls else {}),
            },
            tls={"TLSv1.3": opened * path.client_tls},
            figures={"pool_wait": (40.0 if waits else 0.03) * chance.times} if path.pooled else {},
            facts={"pool to server": "TLSv1.3" if path.server_tls else "no TLS"} if path.pooled else {},
            server_counts={"transactions counted by the pooler": operations, "sessions opened at the server": 0}
            if path.pooled
            else {},
            throttled_seconds={"pooler": max(0.0, seconds * 0.5 - operations * cpu[1] / 1e3)} if path.pooled else {},
        )

    def _connection(self, workload: str, path: Path) -> dict[str, tuple[float, int]]:
        phases = path.phases()
        first = phases["first_operation"]
        before = [each for name, each in phases.items() if name != "first_operation"]
        connect = sum(own for own, _ in before), sum(trips for _, trips in before)
        if workload in PYTHON_MS:
            phases, connect = {"first_operation": first}, (connect[0] + PYTHON_MS[workload], connect[1])
        return phases | {
            "connect": connect,
            "connect_and_first_operation": (connect[0] + first[0], connect[1] + first[1]),
        }

    def _query(self, path: Path) -> dict[str, tuple[float, int]]:
        return {"operation": (OPERATION_MS[path.pooled] + RECORD_MS * (path.client_tls + path.server_tls), 1)}


TRUTHS = {"postgres-pooling": PoolingTruth()}
