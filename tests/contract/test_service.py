"""Tests that every service (a lab or a user's own servers) must pass, because every run relies on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from costof.lab.program import Counters
from costof.messages.answers import Phase
from costof.programs.reach import CERTIFICATE, VERSION
from costof.run.evidence import mismatch
from costof.services.encryption.rules import encrypted_columns
from tests.support.engines import Engines, sent
from tests.support.services import HTTP, SERVICES, RunningService

pytestmark = pytest.mark.servers


#: Services that these tests measure only in `make test-all`. Other test files measure targets and the poolers' lab. The
#: firewall, with all its rules, takes long to start, and the tables of TPC-C take long to load.
SLOW = {
    *("mongodb-target", "postgres-target", "redis-target", "replication-target", "encryption-target"),
    *("encryption-lab", "firewall-lab", "pooling-lab"),
}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SERVICES]
)
def running(request: pytest.FixtureRequest) -> Iterator[RunningService]:
    with SERVICES[request.param]() as running:
        yield running


@pytest.fixture(scope="module")
def engines(running: RunningService) -> Iterator[Engines]:
    with Engines(running.plan, running.service, running.kind.workloads) as engines:
        running.service.prepare([running.control], engines.load)
        if not running.kind.loads:
            engines.load(running.control)
        yield engines


def test_client_settings_of_two_arms_differ_only_where_their_factor_levels_require_it(running: RunningService) -> None:
    arms = [arm for arm in running.plan.arms if arm.context == running.control.context]
    ends = [sent(running.service.endpoint(arm)) for arm in arms]
    may_differ = running.kind.may_differ
    assert ends[0] == ends[1]
    assert ends[0]["transport"] == {"kind": "plain"}
    assert ends[2]["transport"]["kind"] == ("tls" if arms[2].settings.speaks_tls else "plain")
    assert common(ends[0], may_differ) == common(ends[2], may_differ)
    # Other arms may have other addresses, because their clients connect to a tunnel in front of the server.
    for arm, end in zip(arms[3:], ends[3:], strict=True):
        assert (end["transport"] == {"kind": "plain"}) != arm.settings.speaks_tls
        assert common(end, (*may_differ, "addresses")) == common(ends[0], (*may_differ, "addresses"))


@pytest.mark.slow
@pytest.mark.parametrize("running", ["encryption-lab", "encryption-target"], indirect=True)
def test_client_rejects_plaintext_in_columns_that_the_arm_encrypts(running: RunningService) -> None:
    for arm in running.plan.arms:
        service = sent(running.service.endpoint(arm))["service"]
        must_be_encrypted = service.get("decryption", {}).get("must_be_encrypted", [])
        columns = encrypted_columns(arm.settings.lab.get("columns"))
        assert must_be_encrypted == [f"{service['database']}.{table}.{column}" for table, column in columns]


def common(end: dict[str, Any], may_differ: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in end["service"].items() if name not in may_differ}


def test_secrets_of_client_settings_are_shown_only_in_messages_to_measuring_processes(
    running: RunningService,
) -> None:
    for arm in running.plan.arms:
        end = running.service.endpoint(arm)
        service = sent(end)["service"]
        secrets = [service[name] for name in ("password",) if name in service]
        # A protocol without a log-in, such as HTTP, has no password.
        assert bool(secrets) == hasattr(end.service, "password")
        for secret in (*secrets, *service.get("decryption", {}).get("master_keys", {}).values()):
            assert secret not in end.model_dump_json() + repr(end) + str(end.model_dump())


def test_service_describes_its_servers_and_lists_the_data_that_it_writes(running: RunningService) -> None:
    described = running.service.describe()
    # The version of a user's own balancer is known only if its responses name the version.
    assert described.versions or described.facts
    assert described.topology
    assert running.service.writes()
    assert running.service.failure_reason() is None
    assert not any(running.service.failure_reason(arm) for arm in running.plan.arms)


def test_version_and_certificate_of_a_running_service_are_the_same_at_each_reading(running: RunningService) -> None:
    identity = running.service.identity()
    assert identity == running.service.identity()
    if running.plan.target is None:
        assert identity == running.service.describe().versions
    elif running.kind is HTTP:
        assert {*identity} == {CERTIFICATE}
    else:
        assert VERSION in identity
        assert (CERTIFICATE in identity) == running.service.endpoint(running.plan.arms[-1]).transport.is_tls


@pytest.mark.parametrize("workload", ["connect", "operation"])
def test_every_arm_performs_operations_that_the_servers_count(
    running: RunningService, engines: Engines, workload: str
) -> None:
    service = running.service
    for arm in running.plan.arms:
        service.arrange(arm)
        assert not service.wants_ticket(arm)
        before = service.counters(engines.server(arm))
        answer = engines.slice(arm, running.kind.operation if workload == "operation" else workload, 20)
        change = service.counters(engines.server(arm)).since(before)
        assert not answer.errors
        assert answer.operations == 20
        assert mismatch(arm.settings, "wire", answer, change, workers=20) is None
        if workload == "connect":
            assert_phases_add_up(answer.phases, arm.settings.speaks_tls)
        opened = int(answer.evidence["connections"])
        if not running.counts:
            assert change == Counters()
            continue
        assert change.connections is not None
        assert change.connections >= opened
        if change.tls_connections is None:
            # The server does not count TLS connections. It has separate addresses for TLS and for plaintext, and the
            # evidence names the address that the client used.
            address = answer.evidence.get("server_side")
            assert address == engines.server(arm) if address else arm.levels.get("balancer", "nginx") == "nginx"
        elif arm.settings.speaks_tls:
            assert answer.evidence["protocol"] == "TLSv1.3"
            # The origin counts the TLS connections if TLS ends there.
            counted_as = "TLSv1.3" if arm.levels.get("termination") == "backend" else running.kind.counted_as
            assert change.tls_connections[counted_as] >= opened


def assert_phases_add_up(phases: dict[str, Phase], tls: bool) -> None:
    parts = [phase for name, phase in phases.items() if not name.startswith("connect")]
    total = phases.get("connect_and_first_operation") or phases["connect"]
    assert sum(phase.sum_ns for phase in parts) == total.sum_ns
    assert sum(phase.round_trips or 0 for phase in parts) == total.round_trips
    assert ("tls" in phases) == tls


def test_measurement_with_option_reconnect_replaces_open_connections_by_new_connections(
    running: RunningService, engines: Engines
) -> None:
    if running.kind.operation == "request":
        pytest.skip("a request opens its connection itself, in measured time")
    service = running.service
    for arm in running.plan.arms:
        service.arrange(arm)
        engines.slice(arm, running.kind.operation, 20)
        for reconnect in (False, True, True):
            before = service.counters(engines.server(arm))
            answer = engines.slice(arm, running.kind.operation, 20, reconnect=reconnect)
            change = service.counters(engines.server(arm)).since(before)
            assert (answer.operations, answer.errors) == (20, [])
            opened = answer.evidence["connections"]
            assert bool(opened) == reconnect
            assert mismatch(arm.settings, "wire", answer, change, workers=20) is None
            if running.counts:
                assert change.connections is not None
                assert change.connections >= opened


def test_evidence_from_the_servers_describes_protections_that_clients_cannot_see(running: RunningService) -> None:
    for arm in running.plan.arms:
        evidence = running.service.collect_evidence(arm, "start")
        if arm.settings.lab.get("tunnel"):
            assert evidence == {"tunnel cipher": "aes256-gcm@openssh.com", "tunnel compression": "none"}
        elif pool := arm.settings.lab.get("pool"):
            tls = "TLSv1.3" if pool.get("server_tls") else "no TLS"
            open_connections = f"{pool['mode']} mode, 20 open connections"
            assert evidence == {
                "pool": open_connections,
                "pool to server, as the server sees it": tls,
                "pooler's users": "SCRAM secrets",
            }
        else:
            assert bool(evidence) == running.proves
        assert running.service.failure_reason(arm) is None


def test_cpu_time_is_measured_for_each_process_role_if_the_service_can_read_it(
    running: RunningService, engines: Engines
) -> None:
    service = running.service
    service.arrange(running.control)
    before = service.cpu_seconds()
    engines.slice(running.control, running.kind.operation, 200 if running.kind.operation == "request" else 2000)
    used = service.cpu_seconds()
    assert bool(used) == service.measures_cpu
    if service.measures_cpu:
        assert max(used[role] - before[role] for role in used) > 0
