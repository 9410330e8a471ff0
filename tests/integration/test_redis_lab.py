"""The lab of the Redis study: evidence for every transport, including stunnel, and failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from costof.programs.redis.lab import PORT
from costof.run.evidence import mismatch
from costof.services.server.lab import Readings, ServerLab
from costof.services.server.stunnels import StunnelObservation, stunnel_ends
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.support.engines import Engines
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers
EVERY_WAY = "transport=plain,tls,stunnel-server,stunnel-both"


@dataclass
class Lab:
    plan: Plan
    service: ServerLab
    engines: Engines

    def arm(self, transport: str, key: str | None = None) -> PlannedArm:
        levels = {"transport": transport, **({"key": key} if key else {})}
        return next(arm for arm in self.plan.arms if not arm.replicate and levels.items() <= arm.levels.items())


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    plan = plan_of("redis-tls", "quick", "records=1000", EVERY_WAY, "key=rsa-2048,ecdsa-p256")
    with ServerLab(plan) as service, Engines(plan, service) as engines:
        service.prepare(plan.arms[:1], engines.load)
        yield Lab(plan, service, engines)


@pytest.mark.parametrize("workload", ["connect", "query"])
def test_servers_and_client_count_the_same_connections_on_every_arm(lab: Lab, workload: str) -> None:
    for arm in lab.plan.arms:
        lab.service.arrange(arm)
        server = lab.engines.server(arm)
        observed, counted = lab.service.observe(arm), lab.service.counters(server)
        answer = lab.engines.slice(arm, workload, 20, reconnect=workload == "query")
        increase = lab.service.counters(server).since(counted)
        judgement = lab.service.judge(arm, observed, lab.service.observe(arm), answer)
        assert (answer.operations, answer.errors) == (20, [])
        assert (mismatch(arm.settings, "wire", answer, increase), judgement.mismatch) == (None, None)
        opened = answer.evidence["connections"]
        assert (increase.connections, opened > 0) == (opened, True)
        assert judgement.counts == ({"connections carried by stunnel": opened} if stunnel_ends(arm) else {})
        # Clients without TLS, and stunnel, which itself decrypts TLS, connect to Redis's plaintext port.
        assert answer.evidence["server_side"].endswith(f":{PORT}") == (arm.levels["transport"] != "tls")
        if arm.settings.speaks_tls:
            assert (answer.evidence["protocol"], answer.evidence["key"]) == ("TLSv1.3", arm.levels["key"])


def readings(connections: int) -> tuple[Readings, Readings]:
    return Readings(StunnelObservation(0)), Readings(StunnelObservation(connections))


def test_connection_that_stunnel_did_not_carry_is_reported_as_a_mismatch(lab: Lab) -> None:
    arm = lab.arm("stunnel-both")
    lab.service.arrange(arm)
    answer = lab.engines.slice(arm, "connect", 20)
    assert lab.service.judge(arm, *readings(20), answer).mismatch is None
    assert lab.service.judge(arm, *readings(19), answer).mismatch == "stunnel carried 19 connections of 20"


def test_cpu_time_of_stunnel_is_counted_separately(lab: Lab) -> None:
    arm, before = lab.arm("stunnel-both"), lab.service.cpu_seconds()
    lab.service.arrange(arm)
    assert lab.engines.slice(arm, "connect", 100).operations == 100
    now = lab.service.cpu_seconds()
    assert set(now) == {"server", "stunnel", "stunnel of the client"}
    assert all(now[role] > before[role] for role in now)


def test_plain_port_is_closed_while_tls_is_measured(lab: Lab) -> None:
    """Otherwise the server might also count connections without TLS in the slices of the arm with TLS."""
    lab.service.arrange(lab.arm("tls"))
    assert {error.error_class for error in lab.engines.slice(lab.arm("plain"), "connect", 2).errors} == {"refused"}
    lab.service.arrange(lab.arm("plain"))
    assert lab.engines.slice(lab.arm("plain"), "connect", 2).operations == 2


def test_tls_sessions_are_resumed_after_any_change_of_the_certificate_key() -> None:
    levels = ("transport=plain,tls", "key=rsa-2048,ecdsa-p256", "resumption=on,off")
    plan = plan_of("redis-tls", "quick", "records=100", *levels)
    with ServerLab(plan) as service, Engines(plan, service) as engines:
        service.prepare(plan.arms[:1], engines.load)
        for arm in [*plan.protected, *reversed(plan.protected)]:
            service.arrange(arm)
            if service.wants_ticket(arm):
                assert arm.levels["resumption"] == "on"
                assert engines.slice(arm, "connect", 1).operations == 1
            evidence = engines.slice(arm, "connect", 5).evidence
            assert evidence["resumed"] == (5 if arm.levels["resumption"] == "on" else 0), arm.name
