"""What every service keeps, lab or target: an experiment is written against this and nothing else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from costof.lab.lab import Lab
from costof.plan import Options, Plan, PlannedArm, resolve
from costof.redact import REDACTED, redact
from costof.service import Service
from costof.services import open_service
from costof.study import load_study
from costof.transport import speaks_tls, tunnel_of
from tests.engines import Engines
from tests.lab_programs import ADMIN, running_mariadb, user_of_many_databases
from tests.replication_plan import plan_for as small_replication_plan

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]
RECORDS = 300
NEAR = {"mongodb-tls": ["transport=plain,tls"], "mysql-transport": ["transport=plain,tls,ssh-aes256-gcm"]}


@dataclass
class Standing:
    """A service, under which name its servers count a connection with TLS 1.3, and whether it wants data beforehand."""

    plan: Plan
    service: Service
    counted_as: str
    loads: bool = True

    @property
    def control(self) -> PlannedArm:
        (control,) = self.plan.controls
        return control


def plan_for(study: str, target: str | None = None) -> Plan:
    settings = ["transport=plain,tls"] if target else [*NEAR[study], "distance=lan"]
    return resolve(
        load_study(study), Options(profile="quick", settings=[f"records={RECORDS}", *settings], target=target)
    )


@contextlib.contextmanager
def lab(study: str, counted_as: str) -> Iterator[Standing]:
    plan = plan_for(study)
    with open_service(plan, None, None, "run") as service:
        yield Standing(plan, service, counted_as)


@contextlib.contextmanager
def mongodb_target() -> Iterator[Standing]:
    """A lab plays the user's servers."""
    with lab("mongodb-tls", "TLSv1.3") as playing:
        end = playing.service.endpoint(playing.plan.arms[2])
        service, ca_file = end["service"], Path(end["transport"]["ca_file"])
        admin = f"mongodb://lab:{service['password']}@{','.join(service['addresses'])}/?replicaSet=costof"
        plan = plan_for("mongodb-tls", target="mongodb://a-user")
        with open_service(plan, admin, ca_file, "run") as target:
            yield Standing(plan, target, "TLSv1.3")


@contextlib.contextmanager
def mysql_target() -> Iterator[Standing]:
    with Lab() as playing, running_mariadb(playing) as server:
        user_of_many_databases(server)
        url = f"mysql://{ADMIN}:{server.password}@{server.address}:{server.port}/"
        plan = plan_for("mysql-transport", target="mysql://a-user")
        with open_service(plan, url, server.ca_file, "run") as target:
            yield Standing(plan, target, "TLS")


@contextlib.contextmanager
def replication_lab() -> Iterator[Standing]:
    plan = small_replication_plan("nodes=3", "sync=chain", "write_concern=1", "node_cpu=1", f"records={RECORDS}")
    with open_service(plan, None, None, "run") as service:
        yield Standing(plan, service, "TLSv1.3", loads=False)


@contextlib.contextmanager
def replication_target() -> Iterator[Standing]:
    with lab("mongodb-tls", "TLSv1.3") as playing:
        end = playing.service.endpoint(playing.plan.controls[0])["service"]
        admin = f"mongodb://lab:{end['password']}@{','.join(end['addresses'])}/?replicaSet=costof"
        plan = small_replication_plan(f"records={RECORDS}", target="mongodb://a-user")
        with open_service(plan, admin, None, "run") as target:
            yield Standing(plan, target, "TLSv1.3", loads=False)


# MariaDB does not count by version.
SERVICES = {
    "mongodb-lab": lambda: lab("mongodb-tls", "TLSv1.3"),
    "mongodb-target": mongodb_target,
    "replication-lab": replication_lab,
    "replication-target": replication_target,
    "mysql-lab": lambda: lab("mysql-transport", "TLS"),
    "mysql-target": mysql_target,
}


@pytest.fixture(scope="module", params=SERVICES)
def standing(request: pytest.FixtureRequest) -> Iterator[Standing]:
    with SERVICES[request.param]() as standing:
        yield standing


@pytest.fixture(scope="module")
def engines(standing: Standing) -> Iterator[Engines]:
    with Engines(standing.plan, standing.service) as engines:
        standing.service.prepare(standing.control, engines.load)
        if not standing.loads:
            engines.load(standing.control)
        yield engines


def test_endpoints_differ_in_what_the_arms_ask_for_alone(standing: Standing) -> None:
    ends = [standing.service.endpoint(arm) for arm in standing.plan.arms]
    # What an arm asks its servers for is its own: a write concern.
    services = [{**end["service"], "write_concern": None} for end in ends]
    assert all(service == services[0] for service in services[:3])
    assert ends[0]["transport"] == ends[1]["transport"] == {"kind": "plain"}
    assert ends[2]["transport"]["kind"] == ("tls" if speaks_tls(standing.plan.arms[2].levels) else "plain")
    # A tunnel is entered elsewhere, and nothing else is different.
    for end in ends[3:]:
        assert end["transport"] == {"kind": "plain"}
        assert end["service"] | {"addresses": ends[0]["service"]["addresses"]} == ends[0]["service"]


def test_an_endpoint_hides_its_password_once_redacted(standing: Standing) -> None:
    end = standing.service.endpoint(standing.control)
    assert end["service"]["password"] not in json.dumps(redact(end))
    assert redact(end)["service"]["password"] == REDACTED


def test_it_says_what_it_is_and_what_it_writes(standing: Standing) -> None:
    described = standing.service.describe()
    assert described.versions
    assert described.topology
    assert standing.service.writes()
    assert standing.service.lost() is None
    assert not any(standing.service.lost_arm(arm) for arm in standing.plan.arms)


@pytest.mark.parametrize("workload", ["connect", "query"])
def test_every_arm_works_and_the_servers_count_it(standing: Standing, engines: Engines, workload: str) -> None:
    service = standing.service
    for arm in standing.plan.arms:
        service.arrange(arm)
        assert not service.wants_ticket(arm)
        before = service.counters(engines.server(arm))
        answer = engines.slice(arm, workload, 20)
        moved = service.counters(engines.server(arm)).since(before)
        assert answer.operations == 20
        assert not answer.errors
        assert moved.connections is not None
        assert moved.tls_connections is not None
        opened = int(answer.evidence["connections"])
        assert moved.connections >= opened
        if speaks_tls(arm.levels):
            assert answer.evidence["protocol"] == "TLSv1.3"
            assert moved.tls_connections[standing.counted_as] >= opened


def test_a_tunnel_proves_its_cipher(standing: Standing) -> None:
    for arm in standing.plan.arms:
        proofs = standing.service.proofs(arm)
        if tunnel_of(arm.levels):
            assert proofs == {"tunnel cipher": "aes256-gcm@openssh.com", "tunnel compression": "none"}
        else:
            assert proofs == {}


def test_phases_of_a_connection_add_up(standing: Standing, engines: Engines) -> None:
    for arm in standing.plan.arms:
        phases = engines.slice(arm, "connect", 10).phases
        parts = [phase for name, phase in phases.items() if not name.startswith("connect")]
        total = phases["connect_and_first_operation"]
        assert sum(phase.sum_ns for phase in parts) == total.sum_ns
        assert sum(phase.round_trips or 0 for phase in parts) == total.round_trips
        assert ("tls" in phases) == (speaks_tls(arm.levels))


def test_cpu_is_counted_by_role_where_it_can_be(standing: Standing, engines: Engines) -> None:
    service = standing.service
    before = service.cpu_seconds()
    engines.slice(standing.control, "query", 2000)
    used = service.cpu_seconds()
    assert bool(used) == service.measures_cpu
    if service.measures_cpu:
        assert max(used[role] - before[role] for role in used) > 0
