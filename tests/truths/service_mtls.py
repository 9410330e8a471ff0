"""Simulated runs of `service-mtls`: passing through two proxies takes far longer than encryption between them.

Proxies for HTTP keep the connections to each other open. Proxies for raw TCP open a new one for each connection of the
client. Most of the time to connect is then a TLS handshake.
"""

from __future__ import annotations

from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, phase_of
from tests.noise import Chance

#: Time in ms of a request and of a TCP handshake without a proxy.
REQUEST_MS, TCP_MS = 0.03, 0.03
#: Time in ms that a request spends in a proxy for HTTP, in a proxy for raw TCP, and for TLS between two proxies.
PROXY_MS, RAW_PROXY_MS, TLS_MS = 0.11, 0.04, 0.012
#: Time in ms to connect two proxies, and of a mutual TLS handshake with RSA keys of 2048 bits.
BETWEEN_MS, HANDSHAKE_MS = 0.06, 2.9
#: Time of a handshake relative to one with RSA keys of 2048 bits.
CHEAPER = {"rsa-4096": 4.1, "ecdsa-p256": 0.42, "on": 0.3}
#: Time that a request spends in a proxy, relative to Envoy.
PROGRAMS = {"haproxy": 0.4}
OPERATIONS = 400
#: CPU time in ms of client and server for a request, and of the client for a connection.
CLIENT_MS, ORIGIN_MS = 0.008, 0.006


class ServiceTruth(Truth):
    def versions(self) -> dict[str, str]:
        return {"envoy": "1.40.0", "origin": "costof-engine 0.1.0"}

    def evidence_facts(self, arm: PlannedArm) -> dict[str, str]:
        if "mtls" not in arm.levels["path"]:
            return {}
        return {
            "proxies": "2 × Envoy",
            "between the proxies": "TLSv1.3 TLS_AES_256_GCM_SHA384",
            "refused by the proxy of the server": "plain connections and connections without a certificate",
        }

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        path, workers = arm.levels["path"], plan.workers(workload, arm)
        proxies = 0 if path == "direct" else 1 if path == "one-proxy" else 2
        raw, mutual = "tcp" in path, "mtls" in path
        each = (RAW_PROXY_MS if raw else PROXY_MS) * PROGRAMS.get(arm.levels.get("program", ""), 1.0)
        own = proxies * each + mutual * TLS_MS
        link = plan.study.round_trip_ms(arm.levels)
        connects, opened = workload == "connection", OPERATIONS if workload == "connection" else 0
        request = (REQUEST_MS + own) * chance.times * workers
        handshake = HANDSHAKE_MS
        for level in (arm.levels.get("key", ""), arm.levels.get("resumption", "")):
            handshake *= CHEAPER.get(level, 1.0)
        more = (BETWEEN_MS + mutual * handshake) * raw
        if connects:
            first = (REQUEST_MS + own + more) * chance.times
            spent = {"tcp": (TCP_MS, 1), "connect": (TCP_MS, 1), "first_operation": (first, 1)}
            spent["connect_and_first_operation"] = (TCP_MS + first, 2)
            whole = TCP_MS + first
        else:
            spent = dict.fromkeys(("waiting", "processing", "request"), (request, 1))
            whole = request / workers
        near = arm.settings.near_round_trips if connects else 0.0
        phases = {
            name: phase_of(ms, OPERATIONS, trips, 120 * trips, 140 * trips, link_ms=max(0.0, trips - near) * link)
            for name, (ms, trips) in spent.items()
        }
        of_proxy = (each + mutual * TLS_MS / 2 + (mutual * handshake / 2 + BETWEEN_MS / 2) * (raw and connects)) / 1e3
        roles = ("proxy of the server", "proxy of the client")[:proxies]
        cpu = {
            "client": CLIENT_MS / 1e3,
            "origin": ORIGIN_MS / 1e3,
            "proxy of the server": 0.0,
            "proxy of the client": 0.0,
            **dict.fromkeys(roles, of_proxy),
        }
        return Slice(
            operations=OPERATIONS,
            seconds=OPERATIONS * (whole + link) / 1e3,
            phases=phases,
            cpu_seconds={role: seconds * OPERATIONS * chance.more(0.02) for role, seconds in cpu.items()},
            evidence={"connections": opened, "handshakes": 0, "server": "10.205.0.2:15001", "body_length": 2},
            tls=None if proxies else {},
            server_counts={"requests counted by the proxy of the server": OPERATIONS} if proxies and not raw else {},
        )


TRUTHS = {"service-mtls": ServiceTruth()}
