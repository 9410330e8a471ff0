"""The engine counts the same round trips and bytes as a packet capture of the same connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from costof.lab.lab import is_root
from costof.messages.answers import Phase
from costof.programs.postgres.versions import find_postgres, postgres_version
from costof.services.server.lab import ServerLab
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.support.capture import SYN, Capture, Segment, round_trips
from tests.support.engines import Engines
from tests.support.programs import eventually
from tests.support.small_plans import plan_of

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not is_root(), reason="only root can capture packets"),
    pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="this kernel has no /dev/net/tun"),
]

# At this distance (round-trip time in ms) a client sends all that it can before a response arrives.
FAR = "distance=20"
# Expected number of round trips, by arm, from the first packet of a connection to the response to its first query (see
# docs/ipc.md, Phases).
MYSQL = {"plain": 5, "tls-modern": 6, "tls-dhe-rsa-aes256-sha": 7}
MONGODB = {"plain": 4, "tls-1.2": 6, "tls-1.3": 5}
# By default, PostgreSQL before 18 rejects the first key-exchange group that a client offers in TLS 1.3. The rejection
# takes a round trip.
POSTGRES = {"plain": 6, "tls-1.3-first-choice": 9, "tls-1.3-prime256v1": 8}
POSTGRES |= dict.fromkeys(("tls-1.2-first-choice", "tls-1.2-prime256v1"), 9)
# PostgreSQL from 17 on accepts a connection that starts with TLS, which saves the round trip of the request for it.
DIRECT_FROM, ANY_GROUP_FROM = 17, 18
REDIS = {"plain": 3, "tls-1.2": 5, "tls-1.3": 4, "stunnel-server-1.2": 5, "stunnel-server-1.3": 4}


@dataclass
class Far:
    plan: Plan
    service: ServerLab
    engines: Engines
    expected: dict[str, int]

    def capture(self, arm: PlannedArm) -> Capture:
        return Capture(
            self.service._star.client(self.plan.study.distance(arm.levels)),
            int(self.engines.server(arm).rpartition(":")[2]),
        )


def far_mysql() -> tuple[Plan, ServerLab, dict[str, int]]:
    settings = ["records=100", FAR, "transport=plain,tls", "suite=modern,dhe-rsa-aes256-sha"]
    plan = plan_of("mysql-transport", "quick", *settings)
    return plan, ServerLab(plan), MYSQL


def far_mongodb() -> tuple[Plan, ServerLab, dict[str, int]]:
    settings = ["records=100", FAR, "tls_version=1.2,1.3"]
    plan = plan_of("mongodb-tls", "quick", *settings)
    return plan, ServerLab(plan), MONGODB


def far_postgres() -> tuple[Plan, ServerLab, dict[str, int]]:
    settings = ["records=100", FAR, "tls_version=1.2,1.3", "group=first-choice,prime256v1"]
    expected, version = POSTGRES, int(postgres_version(find_postgres()).partition(".")[0])
    if version >= ANY_GROUP_FROM:
        expected = expected | {"tls-1.3-first-choice": 8}
    if version >= DIRECT_FROM:
        settings.append("negotiation=asked-for,at-once")
        ways = {"asked-for": 0, "at-once": 1}
        expected = {
            f"{version}-{way}-{group}": trips - less
            for arm, trips in expected.items()
            if arm != "plain"
            for version, group in [(arm[:7], arm[8:])]
            for way, less in ways.items()
        } | {"plain": expected["plain"]}
    plan = plan_of("postgres-tls", "quick", *settings)
    return plan, ServerLab(plan), expected


def far_redis() -> tuple[Plan, ServerLab, dict[str, int]]:
    plan = plan_of("redis-tls", "quick", "records=100", FAR, "tls_version=1.2,1.3")
    return plan, ServerLab(plan), REDIS


LABS = {"mysql": far_mysql, "mongodb": far_mongodb, "postgres": far_postgres, "redis": far_redis}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] * (name == "mongodb")) for name in LABS]
)
def far(request: pytest.FixtureRequest) -> Iterator[Far]:
    plan, service, expected = LABS[request.param]()
    with service, Engines(plan, service) as engines:
        service.prepare(plan.arms[:1], engines.load)
        yield Far(plan, service, engines, expected)


def agrees_on_each(far: Far, the_capture_agrees: Callable[[PlannedArm], bool]) -> None:
    """Measure every arm until `the_capture_agrees` returns True for it.

    On a busy machine a capture may differ: packets are retransmitted, or packets of earlier connections arrive late.
    """
    for arm in far.plan.arms:
        if not arm.replicate:
            eventually(f"a capture of {arm.name} that agrees", lambda arm=arm: the_capture_agrees(arm))


def test_round_trips_of_new_connections_agree_with_captured_packets(far: Far) -> None:
    def the_capture_agrees(arm: PlannedArm) -> bool:
        with far.capture(arm) as capture:
            answer = far.engines.slice(arm, "connect", 1)
            connection = only_connection(capture.segments())
        phases, total = answer.phases, answer.phases["connect_and_first_operation"]
        assert (answer.operations, answer.errors) == (1, [])
        assert total.round_trips == far.expected[arm.name]
        assert phases["tcp"].round_trips == 1
        # The capture may have more bytes, because closing the connection belongs to no phase.
        assert total.bytes_sent is not None
        assert total.bytes_sent <= sum(segment.payload for segment in connection if segment.outgoing)
        trips, came = 0, 0
        for name in ("tcp", "greeting", "tls_request", "tls", "hello", "auth", "first_operation"):
            if name not in phases:
                continue
            came += received(phases[name])
            trips += phases[name].round_trips or 0
            # Compare the numbers of round trips up to the phase's last received byte. Skip phases before the first
            # received byte.
            if came and round_trips(connection, came) != trips:
                print(f"{arm.name}: {name}: {round_trips(connection, came)} in the capture and not {trips}")
                return False
        return trips == total.round_trips

    agrees_on_each(far, the_capture_agrees)


def test_round_trips_of_operations_on_an_open_connection_agree_with_captured_packets(far: Far) -> None:
    def the_capture_agrees(arm: PlannedArm) -> bool:
        far.engines.slice(arm, "query", 2)
        with far.capture(arm) as capture:
            answer = far.engines.slice(arm, "query", 10)
            segments = capture.segments()
        operation = answer.phases["operation"]
        assert answer.evidence["connections"] == 0
        assert operation.round_trips == operation.count == 10
        by_connection = {port: [one for one in segments if one.ours == port] for port in {one.ours for one in segments}}
        return (
            sum(round_trips(connection, 1 << 40) for connection in by_connection.values()),
            sum(one.payload for one in segments if not one.outgoing),
            sum(one.payload for one in segments if one.outgoing),
        ) == (operation.round_trips, operation.bytes_received, operation.bytes_sent)

    agrees_on_each(far, the_capture_agrees)


def received(phase: Phase) -> int:
    assert phase.bytes_received is not None
    return phase.bytes_received


def only_connection(segments: list[Segment]) -> list[Segment]:
    """Return the packets of the only connection opened in the capture. Packets of older connections do not count."""
    (opened,) = {segment.ours for segment in segments if segment.outgoing and segment.flags & SYN}
    return [segment for segment in segments if segment.ours == opened]
