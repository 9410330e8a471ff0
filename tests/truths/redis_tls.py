"""Simulated runs of `redis-tls`.

A new connection with TLS takes most of its time for TLS. TLS also lowers the throughput of the server, which has one
thread. stunnel relieves this thread of TLS, but delays each answer.
"""

from __future__ import annotations

from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, phase_of
from tests.noise import Chance

#: Processing time in ms and round trips by phase, without and with TLS.
CONNECT = {
    "tcp": ((0.038, 1), (0.038, 1)),
    "tls": ((0.0, 0), (1.12, 1)),
    "auth": ((0.046, 1), (0.052, 1)),
    "first_operation": ((0.031, 1), (0.036, 1)),
}
#: Time in ms that redis-py adds without TLS, and with it. With TLS it loads the CA certificates for each connection.
PYTHON_MS = {"app_connect": (0.31, 2.91), "app_query": (0.061, 0.069)}
OPERATION_MS = {
    "app_query": (0.028, 0.033),
    "wire_query": (0.028, 0.033),
    "wire_write": (0.029, 0.034),
    "query_50": (0.62, 0.91),
    "pipeline": (0.059, 0.066),
    # This workload sends batches of sixteen on 50 connections.
    "pipeline_50": (1.9, 2.2),
}
#: Time of an operation through stunnel relative to TLS: stunnel adds a hop, but relieves the server's thread.
THROUGH_STUNNEL = {"query_50": 0.86, "pipeline_50": 1.02}
ALONE_THROUGH_STUNNEL = 1.9
OPERATIONS = 100
#: CPU time of an operation in ms: (client, server) without TLS, and with TLS.
CPU_MS = {"connect": ((0.051, 0.082), (0.43, 0.91)), "operation": ((0.007, 0.009), (0.009, 0.014))}
#: By key of the server: the time of a handshake relative to one with an RSA key of 2048 bits.
KEYS = {"rsa-4096": 3.3, "ecdsa-p256": 0.41}
#: Time of a resumed handshake, which needs no signature, relative to a full one with an RSA key of 2048 bits.
RESUMED = 0.34


class RedisTruth(Truth):
    """A simulated run in which an ECDSA key or session resumption saves most of a handshake."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        tls, link = arm.levels["transport"] != "plain", plan.study.round_trip_ms(arm.levels)
        stunnel = arm.levels["transport"].startswith("stunnel")
        connects, wire = "connect" in workload, not workload.startswith("app")
        spent = self._connection(workload, arm) if connects else self._operation(workload, arm)
        phases = {
            name: phase_of(
                own * chance.times,
                OPERATIONS,
                *((trips, 120.0 * trips, 240.0 * trips) if wire else ()),
                link_ms=trips * link,
            )
            for name, (own, trips) in spent.items()
        }
        client, server = CPU_MS["connect" if connects else "operation"][tls]
        # With stunnel, TLS uses CPU time of stunnel instead of the server.
        plain = CPU_MS["connect" if connects else "operation"][False][1]
        roles = {"server": plain, "stunnel": 1.5 * server} if stunnel else {"server": server}
        opened = OPERATIONS if connects else 0
        handshakes = opened * tls
        resumed = handshakes if arm.levels.get("resumption") == "on" else 0
        tls_evidence = {"cipher": "TLS_AES_256_GCM_SHA384", "key": arm.levels.get("key"), "group": "x25519"}
        port = 6380 if tls and not stunnel else 6379
        wire_evidence = {"resp": arm.levels.get("resp", "2"), "server_side": f"10.205.0.2:{port}"} if wire else {}
        return Slice(
            operations=OPERATIONS,
            seconds=phases["connect_and_first_operation" if connects else "operation"].sum_ns
            / plan.workers(workload, arm)
            / 1e9,
            phases=phases,
            cpu_seconds={
                "client": client * OPERATIONS / 1e3 * chance.more(0.02),
                **{role: each * OPERATIONS / 1e3 * chance.more(0.02) for role, each in roles.items()},
            },
            evidence={
                "connections": opened,
                "handshakes": handshakes,
                "resumed": resumed,
                "protocol": "TLSv1.3" if tls else None,
                "verified": tls,
                "server": f"10.205.0.2:{port}",
                **(tls_evidence if tls else {}),
                **wire_evidence,
            },
            tls=None if stunnel else {"TLS": handshakes},
            server_counts={"connections carried by stunnel": handshakes} if stunnel else {},
        )

    def _connection(self, workload: str, arm: PlannedArm) -> dict[str, tuple[float, int]]:
        tls = arm.levels["transport"] != "plain"
        phases = {name: each[tls] for name, each in CONNECT.items() if each[tls][0]}
        if tls:
            own, trips = phases["tls"]
            share = RESUMED if arm.levels.get("resumption") == "on" else KEYS.get(arm.levels.get("key", ""), 1.0)
            phases["tls"] = own * share, trips
        first = phases.pop("first_operation")
        connect = sum(own for own, _ in phases.values()), sum(trips for _, trips in phases.values())
        if workload in PYTHON_MS:
            connect, phases = (connect[0] + PYTHON_MS[workload][tls], connect[1]), {}
        whole = connect[0] + first[0], connect[1] + first[1]
        return phases | {"connect": connect, "first_operation": first, "connect_and_first_operation": whole}

    def _operation(self, workload: str, arm: PlannedArm) -> dict[str, tuple[float, int]]:
        tls = arm.levels["transport"] != "plain"
        stunnel = arm.levels["transport"].startswith("stunnel")
        times = THROUGH_STUNNEL.get(workload, ALONE_THROUGH_STUNNEL) if stunnel else 1.0
        return {"operation": (OPERATION_MS[workload][tls] * times + PYTHON_MS.get(workload, (0.0, 0.0))[tls], 1)}


TRUTHS = {"redis-tls": RedisTruth()}
SMALL = {"redis-tls": ("key=rsa-2048,ecdsa-p256",)}
