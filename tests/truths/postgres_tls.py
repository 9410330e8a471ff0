"""Simulated runs of `postgres-tls`: TLS lengthens a new connection, and adds little to a query.

The server's fork is part of the first phase that it answers: `tls_request` with TLS, `hello` without.
"""

from __future__ import annotations

from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, phase_of
from tests.noise import Chance

#: Processing time in ms and round trips by phase, without and with TLS.
CONNECT = {
    "tcp": ((0.041, 1), (0.041, 1)),
    "tls_request": ((0.0, 0), (1.31, 1)),
    "tls": ((0.0, 0), (1.84, 2)),
    "hello": ((1.42, 1), (0.21, 1)),
    "auth": ((2.35, 2), (2.41, 2)),
    "first_operation": ((0.71, 2), (0.74, 2)),
}
#: Time in ms that a Python driver adds to an operation.
PYTHON_MS = {"app_connect": 0.61, "asyncpg_connect": 1.12, "app_query": 0.14, "asyncpg_query": 0.09}
OPERATION_MS = {
    "app_query": (0.055, 0.061),
    "asyncpg_query": (0.055, 0.061),
    "wire_query": (0.055, 0.061),
    "query_8": (0.171, 0.184),
    "query_32": (0.684, 0.731),
    "pipeline": (0.214, 0.223),
    "transactions": (3.12, 3.21),
}
OPERATIONS = 40
#: CPU time of an operation in ms: (client, server) without TLS, and with TLS.
CPU_MS = {"connect": ((1.21, 4.1), (1.83, 5.6)), "operation": ((0.012, 0.031), (0.014, 0.034))}
#: By key of the server: the time of a handshake relative to one with an RSA key of 2048 bits.
KEYS = {"rsa-4096": 3.1, "ecdsa-p256": 0.55}


class PostgresTruth(Truth):
    """A simulated run: TLS takes one round trip less if the server supports the client's first key-exchange group."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        tls, link = arm.levels["transport"] == "tls", plan.study.round_trip_ms(arm.levels)
        spent = self._connection(workload, arm) if workload.endswith("connect") else self._operation(workload, tls)
        wire = not workload.startswith(("app", "asyncpg"))
        phases = {
            name: phase_of(
                own * chance.times,
                OPERATIONS,
                *((trips, 180.0 * trips, 320.0 * trips) if wire else ()),
                link_ms=trips * link,
            )
            for name, (own, trips) in spent.items()
        }
        kind = "connect" if workload.endswith("connect") else "operation"
        client, server = CPU_MS[kind][tls]
        opened = OPERATIONS if kind == "connect" else 0
        tls_evidence = {"cipher": "TLS_AES_256_GCM_SHA384", "key": arm.levels.get("key"), "group": "prime256v1"}
        wire_evidence = {"mechanism": "SCRAM-SHA-256", "server_side": "TLSv1.3" if tls else "none"} if wire else {}
        whole = "connect_and_first_operation" if kind == "connect" else "operation"
        return Slice(
            operations=OPERATIONS,
            seconds=phases[whole].sum_ns / plan.workers(workload, arm) / 1e9,
            phases=phases,
            cpu_seconds={
                "client": client * OPERATIONS / 1e3 * chance.more(0.02),
                "server": server * OPERATIONS / 1e3 * chance.more(0.02),
            },
            evidence={
                "connections": opened,
                "handshakes": opened * tls,
                "protocol": "TLSv1.3" if tls else None,
                "verified": tls,
                "server": "10.205.0.2:5432",
                **(tls_evidence if tls else {}),
                **wire_evidence,
            },
            tls={"TLSv1.3": opened * tls},
        )

    def _connection(self, workload: str, arm: PlannedArm) -> dict[str, tuple[float, int]]:
        tls = arm.levels["transport"] == "tls"
        phases = {name: each[tls] for name, each in CONNECT.items() if each[tls][0]}
        if tls:
            own, trips = phases["tls"]
            retried = arm.levels.get("group") != "prime256v1"
            phases["tls"] = own * KEYS.get(arm.levels.get("key", ""), 1.0), trips - (not retried)
        parts = list(phases.values())
        connect = sum(own for own, _ in parts[:-1]), sum(trips for _, trips in parts[:-1])
        first = phases["first_operation"]
        if workload in PYTHON_MS:
            phases = {"connect": (connect[0] + PYTHON_MS[workload], connect[1]), "first_operation": first}
            whole = sum(own for own, _ in phases.values()), connect[1] + first[1]
        else:
            whole = connect[0] + first[0], connect[1] + first[1]
            phases |= {"connect": connect}
        return phases | {"connect_and_first_operation": whole}

    def _operation(self, workload: str, tls: bool) -> dict[str, tuple[float, int]]:
        trips = 7 if workload == "transactions" else 1
        return {"operation": (OPERATION_MS[workload][tls] + PYTHON_MS.get(workload, 0.0), trips)}


TRUTHS = {"postgres-tls": PostgresTruth()}
SMALL = {"postgres-tls": ("key=rsa-2048,ecdsa-p256",)}
