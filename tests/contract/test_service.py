"""What every service keeps, lab or target: an experiment is written against this and nothing else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.experiment import LOAD
from costof.instrument import OPERATION_TIMEOUT_MS, Instrument, engine
from costof.plan import Options, Plan, PlannedArm, resolve
from costof.redact import REDACTED, redact
from costof.service import Service
from costof.services import open_service
from costof.study import load_study

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]
RECORDS = 300


def plan_for(study: str, target: str | None = None) -> Plan:
    return resolve(load_study(study), Options(profile="quick", settings=[f"records={RECORDS}"], target=target))


@contextlib.contextmanager
def mongodb_lab() -> Iterator[tuple[Plan, Service]]:
    plan = plan_for("mongodb-tls")
    with open_service(plan, None, None, "run") as service:
        yield plan, service


@contextlib.contextmanager
def mongodb_target() -> Iterator[tuple[Plan, Service]]:
    """A lab plays the user's servers."""
    with mongodb_lab() as (_, lab):
        end = lab.endpoint(plan_for("mongodb-tls").arms[2])
        service, ca_file = end["service"], Path(end["transport"]["ca_file"])
        admin = f"mongodb://lab:{service['password']}@{','.join(service['addresses'])}/?replicaSet=costof"
        plan = plan_for("mongodb-tls", target="mongodb://a-user")
        with open_service(plan, admin, ca_file, "run") as target:
            yield plan, target


SERVICES = {"mongodb-lab": mongodb_lab, "mongodb-target": mongodb_target}


@pytest.fixture(scope="module", params=SERVICES)
def standing(request: pytest.FixtureRequest) -> Iterator[tuple[Plan, Service]]:
    with SERVICES[request.param]() as (plan, service):
        yield plan, service


@pytest.fixture(scope="module")
def measuring(standing: tuple[Plan, Service]) -> Iterator[tuple[Plan, Service, Instrument, dict[str, str]]]:
    plan, service = standing
    border = {
        "seed": 1,
        "threads": 1,
        "operation_timeout_ms": OPERATION_TIMEOUT_MS,
        "data": {"records": RECORDS, "fields": 10, "field_length": 100},
        "arms": [{"name": arm.name, **service.endpoint(arm)} for arm in plan.arms],
        "workloads": [
            {"name": "connect", "kind": "connect", "workers": 1},
            {"name": "query", "kind": "query", "workers": 2},
            {"name": LOAD, "kind": "load", "workers": 2},
        ],
    }
    with engine() as wire:
        ready = wire.plan(border)
        servers = {arm.name: arm.server or str(arm.error) for arm in ready.arms}

        def load(arm: PlannedArm) -> None:
            answer = wire.slice(0, arm.name, LOAD, RECORDS, 60)
            assert answer.operations == RECORDS
            assert not answer.errors

        service.prepare(plan.control, load)
        yield plan, service, wire, servers


Measuring = tuple[Plan, Service, Instrument, dict[str, str]]


def test_endpoints_differ_in_the_transport_alone(standing: tuple[Plan, Service]) -> None:
    plan, service = standing
    ends = [service.endpoint(arm) for arm in plan.arms]
    assert all(end["service"] == ends[0]["service"] for end in ends)
    assert ends[0]["transport"] == ends[1]["transport"] == {"kind": "plain"}
    assert ends[2]["transport"]["kind"] == "tls"


def test_an_endpoint_hides_its_password_once_redacted(standing: tuple[Plan, Service]) -> None:
    plan, service = standing
    end = service.endpoint(plan.control)
    assert end["service"]["password"] not in json.dumps(redact(end))
    assert redact(end)["service"]["password"] == REDACTED


def test_it_says_what_it_is_and_what_it_writes(standing: tuple[Plan, Service]) -> None:
    _, service = standing
    described = service.describe()
    assert described.versions
    assert described.topology
    assert service.writes()
    assert service.lost() is None


@pytest.mark.parametrize("workload", ["connect", "query"])
def test_every_arm_works_and_the_servers_count_it(measuring: Measuring, workload: str) -> None:
    plan, service, wire, servers = measuring
    for arm in plan.arms:
        service.arrange(arm)
        before = service.counters(servers[arm.name])
        answer = wire.slice(1, arm.name, workload, 20, 10)
        moved = service.counters(servers[arm.name]).since(before)
        assert answer.operations == 20
        assert not answer.errors
        assert moved.connections is not None
        assert moved.tls_connections is not None
        opened = int(answer.evidence["connections"])
        assert moved.connections >= opened
        if arm.levels["transport"] == "tls":
            assert answer.evidence["protocol"] == "TLSv1.3"
            assert moved.tls_connections["TLSv1.3"] >= opened


def test_phases_of_a_connection_add_up(measuring: Measuring) -> None:
    plan, _, wire, _ = measuring
    for arm in plan.arms:
        phases = wire.slice(2, arm.name, "connect", 10, 10).phases
        parts = [phase for name, phase in phases.items() if not name.startswith("connect")]
        total = phases["connect_and_first_operation"]
        assert sum(phase.sum_ns for phase in parts) == total.sum_ns
        assert sum(phase.round_trips or 0 for phase in parts) == total.round_trips
        assert ("tls" in phases) == (arm.levels["transport"] == "tls")


def test_cpu_is_counted_by_role_where_it_can_be(measuring: Measuring) -> None:
    plan, service, wire, _ = measuring
    before = service.cpu_seconds()
    wire.slice(3, plan.control.name, "query", 2000, 10)
    used = service.cpu_seconds()
    assert bool(used) == service.measures_cpu
    if service.measures_cpu:
        assert max(used[role] - before[role] for role in used) > 0
