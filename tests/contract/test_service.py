"""The contract of every service (a lab or a target): what every run relies on."""

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
from tests.support.services import HTTP, SERVICES, Standing

pytestmark = pytest.mark.servers


#: Targets that other tests measure too; without --slow only one database and one balancer are tested here.
SLOW = {"mongodb-target", "postgres-target", "redis-target", "replication-target", "encryption-target"}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SERVICES]
)
def standing(request: pytest.FixtureRequest) -> Iterator[Standing]:
    with SERVICES[request.param]() as standing:
        yield standing


@pytest.fixture(scope="module")
def engines(standing: Standing) -> Iterator[Engines]:
    with Engines(standing.plan, standing.service, standing.kind.workloads) as engines:
        standing.service.prepare(standing.control, engines.load)
        if not standing.kind.loads:
            engines.load(standing.control)
        yield engines


def test_endpoints_of_arms_differ_only_in_the_arms_settings(standing: Standing) -> None:
    arms = [arm for arm in standing.plan.arms if arm.context == standing.control.context]
    ends = [sent(standing.service.endpoint(arm)) for arm in arms]
    apart = standing.kind.apart
    assert ends[0] == ends[1]
    assert ends[0]["transport"] == {"kind": "plain"}
    assert ends[2]["transport"]["kind"] == ("tls" if arms[2].settings.speaks_tls else "plain")
    assert common(ends[0], apart) == common(ends[2], apart)
    # Other arms may also have other addresses: a tunnel's entrance.
    for arm, end in zip(arms[3:], ends[3:], strict=True):
        assert (end["transport"] == {"kind": "plain"}) != arm.settings.speaks_tls
        assert common(end, (*apart, "addresses")) == common(ends[0], (*apart, "addresses"))


def test_client_rejects_plaintext_for_the_arms_encrypted_columns(standing: Standing) -> None:
    for arm in standing.plan.arms:
        service = sent(standing.service.endpoint(arm))["service"]
        must_be_encrypted = service.get("decryption", {}).get("must_be_encrypted", [])
        columns = encrypted_columns(arm.settings.lab.get("columns"))
        assert must_be_encrypted == [f"{service['database']}.{table}.{column}" for table, column in columns]


def common(end: dict[str, Any], apart: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in end["service"].items() if name not in apart}


def test_endpoint_hides_its_secrets_except_from_instruments(standing: Standing) -> None:
    for arm in standing.plan.arms:
        end = standing.service.endpoint(arm)
        service = sent(end)["service"]
        secrets = [service[name] for name in ("password",) if name in service]
        # A protocol without a log-in, such as HTTP, has no password.
        assert bool(secrets) == hasattr(end.service, "password")
        for secret in (*secrets, *service.get("decryption", {}).get("master_keys", {}).values()):
            assert secret not in end.model_dump_json() + repr(end) + str(end.model_dump())


def test_service_describes_itself_and_its_writes(standing: Standing) -> None:
    described = standing.service.describe()
    # The version of a target balancer is known only if its responses name it.
    assert described.versions or described.facts
    assert described.topology
    assert standing.service.writes()
    assert standing.service.failure_reason() is None
    assert not any(standing.service.failure_reason(arm) for arm in standing.plan.arms)


def test_identity_of_a_service_does_not_change(standing: Standing) -> None:
    identity = standing.service.identity()
    assert identity == standing.service.identity()
    if standing.plan.target is None:
        assert identity == standing.service.describe().versions
    elif standing.kind is HTTP:
        assert {*identity} == {CERTIFICATE}
    else:
        assert VERSION in identity
        assert (CERTIFICATE in identity) == standing.service.endpoint(standing.plan.arms[-1]).transport.is_tls


@pytest.mark.parametrize("workload", ["connect", "operation"])
def test_every_arm_works_and_the_servers_count_it(standing: Standing, engines: Engines, workload: str) -> None:
    service = standing.service
    for arm in standing.plan.arms:
        service.arrange(arm)
        assert not service.wants_ticket(arm)
        before = service.counters(engines.server(arm))
        answer = engines.slice(arm, standing.kind.operation if workload == "operation" else workload, 20)
        change = service.counters(engines.server(arm)).since(before)
        assert not answer.errors
        assert answer.operations == 20
        assert mismatch(arm.settings, "wire", answer, change, workers=20) is None
        if workload == "connect":
            assert_phases_add_up(answer.phases, arm.settings.speaks_tls)
        opened = int(answer.evidence["connections"])
        if not standing.counts:
            assert change == Counters()
            continue
        assert change.connections is not None
        assert change.connections >= opened
        if change.tls_connections is None:
            # The server does not count TLS connections. The evidence has the address (plain or TLS) that was used.
            address = answer.evidence.get("server_side")
            assert address == engines.server(arm) if address else arm.levels["balancer"] == "nginx"
        elif arm.settings.speaks_tls:
            assert answer.evidence["protocol"] == "TLSv1.3"
            # If TLS ends at the origin and not at the balancer, the origin counts the TLS connections.
            counted_as = "TLSv1.3" if arm.levels.get("termination") == "backend" else standing.kind.counted_as
            assert change.tls_connections[counted_as] >= opened


def assert_phases_add_up(phases: dict[str, Phase], tls: bool) -> None:
    parts = [phase for name, phase in phases.items() if not name.startswith("connect")]
    total = phases.get("connect_and_first_operation") or phases["connect"]
    assert sum(phase.sum_ns for phase in parts) == total.sum_ns
    assert sum(phase.round_trips or 0 for phase in parts) == total.round_trips
    assert ("tls" in phases) == tls


def test_open_connections_are_replaced_by_new_ones_on_request(standing: Standing, engines: Engines) -> None:
    if standing.kind is HTTP:
        pytest.skip("a request opens its connection itself, in measured time")
    service = standing.service
    for arm in standing.plan.arms:
        service.arrange(arm)
        engines.slice(arm, standing.kind.operation, 20)
        for reconnect in (False, True, True):
            before = service.counters(engines.server(arm))
            answer = engines.slice(arm, standing.kind.operation, 20, reconnect=reconnect)
            change = service.counters(engines.server(arm)).since(before)
            assert (answer.operations, answer.errors) == (20, [])
            opened = answer.evidence["connections"]
            assert bool(opened) == reconnect
            assert mismatch(arm.settings, "wire", answer, change, workers=20) is None
            if standing.counts:
                assert change.connections is not None
                assert change.connections >= opened


def test_service_has_evidence_that_the_client_cannot_see(standing: Standing) -> None:
    for arm in standing.plan.arms:
        evidence = standing.service.collect_evidence(arm, "start")
        if arm.settings.lab.get("tunnel"):
            assert evidence == {"tunnel cipher": "aes256-gcm@openssh.com", "tunnel compression": "none"}
        elif pool := arm.settings.lab.get("pool"):
            tls = "TLSv1.3" if pool.get("server_tls") else "no TLS"
            open_connections = f"{pool['mode']} mode, 20 open connections"
            assert evidence == {"pool": open_connections, "pool to server, as the server sees it": tls}
        else:
            assert bool(evidence) == standing.proves
        assert standing.service.failure_reason(arm) is None


def test_cpu_time_is_measured_by_role_if_the_service_can(standing: Standing, engines: Engines) -> None:
    service = standing.service
    service.arrange(standing.control)
    before = service.cpu_seconds()
    engines.slice(standing.control, standing.kind.operation, 200 if standing.kind is HTTP else 2000)
    used = service.cpu_seconds()
    assert bool(used) == service.measures_cpu
    if service.measures_cpu:
        assert max(used[role] - before[role] for role in used) > 0
