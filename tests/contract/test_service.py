"""What every service keeps, lab or target: an experiment is written against this and nothing else."""

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


#: Of a user's own servers, which other tests load and measure too, one of a database and a balancer stand for all.
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


def test_endpoints_differ_in_what_the_arms_ask_for_alone(standing: Standing) -> None:
    arms = [arm for arm in standing.plan.arms if arm.context == standing.control.context]
    ends = [sent(standing.service.endpoint(arm)) for arm in arms]
    apart = standing.kind.apart
    assert ends[0] == ends[1]
    assert ends[0]["transport"] == {"kind": "plain"}
    assert ends[2]["transport"]["kind"] == ("tls" if arms[2].settings.speaks_tls else "plain")
    assert common(ends[0], apart) == common(ends[2], apart)
    # A tunnel is entered elsewhere, and nothing else is different.
    for arm, end in zip(arms[3:], ends[3:], strict=True):
        assert (end["transport"] == {"kind": "plain"}) != arm.settings.speaks_tls
        assert common(end, (*apart, "addresses")) == common(ends[0], (*apart, "addresses"))


def test_a_client_takes_what_its_arm_encrypts_in_no_other_form(standing: Standing) -> None:
    for arm in standing.plan.arms:
        service = sent(standing.service.endpoint(arm))["service"]
        demands = service.get("decryption", {}).get("must_be_encrypted", [])
        columns = encrypted_columns(arm.settings.lab.get("columns"))
        assert demands == [f"{service['database']}.{table}.{column}" for table, column in columns]


def common(end: dict[str, Any], apart: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in end["service"].items() if name not in apart}


def test_an_endpoint_shows_its_secrets_to_an_instrument_alone(standing: Standing) -> None:
    for arm in standing.plan.arms:
        end = standing.service.endpoint(arm)
        service = sent(end)["service"]
        secrets = [service[name] for name in ("password",) if name in service]
        # Not every protocol has a log-in.
        assert bool(secrets) == hasattr(end.service, "password")
        for secret in (*secrets, *service.get("decryption", {}).get("master_keys", {}).values()):
            assert secret not in end.model_dump_json() + repr(end) + str(end.model_dump())


def test_it_says_what_it_is_and_what_it_writes(standing: Standing) -> None:
    described = standing.service.describe()
    # A balancer of somebody's says in its responses what it is, or nowhere.
    assert described.versions or described.facts
    assert described.topology
    assert standing.service.writes()
    assert standing.service.failure_reason() is None
    assert not any(standing.service.failure_reason(arm) for arm in standing.plan.arms)


def test_what_identifies_it_stays_the_same(standing: Standing) -> None:
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
        moved = service.counters(engines.server(arm)).since(before)
        assert not answer.errors
        assert answer.operations == 20
        assert mismatch(arm.settings, "wire", answer, moved, workers=20) is None
        if workload == "connect":
            phases_add_up(answer.phases, arm.settings.speaks_tls)
        opened = int(answer.evidence["connections"])
        if not standing.counts:
            assert moved == Counters()
            continue
        assert moved.connections is not None
        assert moved.connections >= opened
        if moved.tls_connections is None:
            # One that cannot tell says at which of its addresses it was reached.
            reached_at = answer.evidence.get("server_side")
            assert reached_at == engines.server(arm) if reached_at else arm.levels["balancer"] == "nginx"
        elif arm.settings.speaks_tls:
            assert answer.evidence["protocol"] == "TLSv1.3"
            # Where bytes are passed through, it is the origin that counts.
            counted_as = "TLSv1.3" if arm.levels.get("termination") == "backend" else standing.kind.counted_as
            assert moved.tls_connections[counted_as] >= opened


def phases_add_up(phases: dict[str, Phase], tls: bool) -> None:
    parts = [phase for name, phase in phases.items() if not name.startswith("connect")]
    total = phases.get("connect_and_first_operation") or phases["connect"]
    assert sum(phase.sum_ns for phase in parts) == total.sum_ns
    assert sum(phase.round_trips or 0 for phase in parts) == total.round_trips
    assert ("tls" in phases) == tls


def test_open_connections_are_opened_anew_where_that_is_asked_for(standing: Standing, engines: Engines) -> None:
    if standing.kind is HTTP:
        pytest.skip("a request opens its connection itself, in measured time")
    service = standing.service
    for arm in standing.plan.arms:
        service.arrange(arm)
        engines.slice(arm, standing.kind.operation, 20)
        for reconnect in (False, True, True):
            before = service.counters(engines.server(arm))
            answer = engines.slice(arm, standing.kind.operation, 20, reconnect=reconnect)
            moved = service.counters(engines.server(arm)).since(before)
            assert (answer.operations, answer.errors) == (20, [])
            opened = answer.evidence["connections"]
            assert bool(opened) == reconnect
            assert mismatch(arm.settings, "wire", answer, moved, workers=20) is None
            if standing.counts:
                assert moved.connections is not None
                assert moved.connections >= opened


def test_an_arm_proves_what_the_client_cannot_see(standing: Standing) -> None:
    for arm in standing.plan.arms:
        proofs = standing.service.collect_evidence(arm, "start")
        if arm.settings.lab.get("tunnel"):
            assert proofs == {"tunnel cipher": "aes256-gcm@openssh.com", "tunnel compression": "none"}
        elif pool := arm.settings.lab.get("pool"):
            seen = "TLSv1.3" if pool.get("server_tls") else "no TLS"
            open_connections = f"{pool['mode']} mode, 20 open connections"
            assert proofs == {"pool": open_connections, "pool to server, as the server sees it": seen}
        else:
            assert bool(proofs) == standing.proves
        assert standing.service.failure_reason(arm) is None


def test_cpu_is_counted_by_role_where_it_can_be(standing: Standing, engines: Engines) -> None:
    service = standing.service
    service.arrange(standing.control)
    before = service.cpu_seconds()
    engines.slice(standing.control, standing.kind.operation, 200 if standing.kind is HTTP else 2000)
    used = service.cpu_seconds()
    assert bool(used) == service.measures_cpu
    if service.measures_cpu:
        assert max(used[role] - before[role] for role in used) > 0
