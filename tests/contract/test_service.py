"""What every service keeps, lab or target: an experiment is written against this and nothing else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from costof.lab.lab import Lab
from costof.lab.program import Counters
from costof.ledger.redact import REDACTED, redact
from costof.programs.access import Access
from costof.programs.haproxy import Haproxy
from costof.run.evidence import mismatch
from costof.services import Service
from costof.services.gateway.own import GatewayTarget
from costof.services.gateway.rules import encrypted_columns
from costof.services.mysql.own import MysqlTarget
from costof.services.open import open_service
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from tests.engines import TPCC_WORKLOADS, WORKLOADS, Engines
from tests.lab_programs import ADMIN, running_balancer, running_mariadb, user_of_many_databases
from tests.replication_plan import plan_for as small_replication_plan

pytestmark = pytest.mark.servers
RECORDS = 300
NEAR = {
    "mongodb-tls": ["transport=plain,tls", "distance=lan"],
    "mysql-transport": ["transport=plain,tls,ssh-aes256-gcm", "distance=lan"],
    "http-tls-termination": ["termination=none,balancer,reencrypt,backend,direct", "balancer=haproxy,nginx"],
    "mysql-column-encryption": ["encrypted=direct,0,20", "terminals=8"],
}
TARGETED = {"http-tls-termination": "termination=none,balancer", "mysql-column-encryption": "encrypted=direct,0,20"}
#: What a target's account is granted, and no more.
EXACTLY = {"mysql-transport": MysqlTarget.PRIVILEGES, "mysql-column-encryption": GatewayTarget.PRIVILEGES}
#: Studies whose data is not counted in records.
WITHOUT_RECORDS = ("http-tls-termination", "mysql-column-encryption")
# The lab's origin takes its time for every answer.
HTTP_WORKLOADS = tuple({"name": kind, "kind": kind, "workers": 20} for kind in ("connect", "request"))


@dataclass
class Standing:
    """A service, under which name its servers count a connection with TLS 1.3 (None where they do not), and whether it
    wants data beforehand."""

    plan: Plan
    service: Service
    counted_as: str | None
    loads: bool = True

    @property
    def operation(self) -> str:
        """The workload of operations on a connection that stands, where the service lets it."""
        return "request" if self.is_http else "transaction" if self.is_gateway else "query"

    @property
    def is_http(self) -> bool:
        return self.plan.study.service == "http"

    @property
    def is_gateway(self) -> bool:
        return self.plan.study.service == "gateway"

    @property
    def workloads(self) -> tuple[dict[str, Any], ...]:
        return HTTP_WORKLOADS if self.is_http else TPCC_WORKLOADS if self.is_gateway else WORKLOADS

    @property
    def control(self) -> PlannedArm:
        return self.plan.controls[0]


def plan_for(study: str, target: str | None = None) -> Plan:
    settings = [TARGETED.get(study, "transport=plain,tls")] if target else NEAR[study]
    if study not in WITHOUT_RECORDS:
        settings = [f"records={RECORDS}", *settings]
    return resolve(load_study(study), Options(profile="quick", settings=settings, target=target))


@contextlib.contextmanager
def lab(study: str, counted_as: str) -> Iterator[Standing]:
    plan = plan_for(study)
    with open_service(plan, None, "run") as service:
        yield Standing(plan, service, counted_as)


@contextlib.contextmanager
def mongodb_target() -> Iterator[Standing]:
    """A lab plays the user's servers."""
    with lab("mongodb-tls", "TLSv1.3") as playing:
        end = playing.service.endpoint(playing.plan.arms[2])
        service, ca_file = end["service"], Path(end["transport"]["ca_file"])
        admin = f"mongodb://lab:{service['password']}@{','.join(service['addresses'])}/?replicaSet=costof"
        plan = plan_for("mongodb-tls", target="mongodb://a-user")
        with open_service(plan, Access(admin, ca_file, allow_plain=True), "run") as target:
            yield Standing(plan, target, "TLSv1.3")


@contextlib.contextmanager
def mysql_target(study: str) -> Iterator[Standing]:
    with Lab() as playing, running_mariadb(playing) as server:
        user_of_many_databases(server, may=EXACTLY[study])
        url = f"mysql://{ADMIN}:{server.password}@{server.address}:{server.port}/"
        plan = plan_for(study, target="mysql://a-user")
        # With a CA at hand an account of the other study speaks TLS on both sides of the gateway.
        ca_file = server.ca_file if study == "mysql-transport" else None
        with open_service(plan, Access(url, ca_file, allow_plain=True), "run") as target:
            yield Standing(plan, target, "TLS")


@contextlib.contextmanager
def http_target() -> Iterator[Standing]:
    with Lab() as playing, running_balancer(playing, Haproxy) as balancer:
        plan = plan_for("http-tls-termination", target="https://a-user")
        ca_file, urls = balancer.authority.ca_file, [balancer.url(name) for name in ("tls", "plain")]
        with open_service(plan, Access(urls[0], ca_file, urls[1]), "run") as target:
            yield Standing(plan, target, None)


@contextlib.contextmanager
def replication_lab() -> Iterator[Standing]:
    plan = small_replication_plan("nodes=3", "sync=chain", "write_concern=1", "node_cpu=1", records=RECORDS)
    with open_service(plan, None, "run") as service:
        yield Standing(plan, service, "TLSv1.3", loads=False)


@contextlib.contextmanager
def replication_target() -> Iterator[Standing]:
    with lab("mongodb-tls", "TLSv1.3") as playing:
        end = playing.service.endpoint(playing.plan.controls[0])["service"]
        admin = f"mongodb://lab:{end['password']}@{','.join(end['addresses'])}/?replicaSet=costof"
        plan = small_replication_plan(records=RECORDS, target="mongodb://a-user")
        with open_service(plan, Access(admin), "run") as target:
            yield Standing(plan, target, "TLSv1.3", loads=False)


# MariaDB and HAProxy do not count by version.
SERVICES = {
    "mongodb-lab": lambda: lab("mongodb-tls", "TLSv1.3"),
    "mongodb-target": mongodb_target,
    "replication-lab": replication_lab,
    "replication-target": replication_target,
    "mysql-lab": lambda: lab("mysql-transport", "TLS"),
    "mysql-target": lambda: mysql_target("mysql-transport"),
    "gateway-lab": lambda: lab("mysql-column-encryption", "TLS"),
    "gateway-target": lambda: mysql_target("mysql-column-encryption"),
    "http-lab": lambda: lab("http-tls-termination", "TLS"),
    "http-target": http_target,
}


@pytest.fixture(scope="module", params=SERVICES)
def standing(request: pytest.FixtureRequest) -> Iterator[Standing]:
    with SERVICES[request.param]() as standing:
        yield standing


@pytest.fixture(scope="module")
def engines(standing: Standing) -> Iterator[Engines]:
    with Engines(standing.plan, standing.service, standing.workloads) as engines:
        standing.service.prepare(standing.control, engines.load)
        if not standing.loads:
            engines.load(standing.control)
        yield engines


def test_endpoints_differ_in_what_the_arms_ask_for_alone(standing: Standing) -> None:
    arms = [arm for arm in standing.plan.arms if arm.context == standing.control.context]
    ends = [standing.service.endpoint(arm) for arm in arms]
    # Plain and TLS are two ports of a balancer. What an arm asks its servers for is its own: a write concern.
    apart = ("addresses", "host") if standing.is_http else ("write_concern",)
    apart = ("addresses", "decryption") if standing.is_gateway else apart
    assert ends[0] == ends[1]
    assert ends[0]["transport"] == {"kind": "plain"}
    assert ends[2]["transport"]["kind"] == ("tls" if arms[2].asked.speaks_tls else "plain")
    assert common(ends[0], apart) == common(ends[2], apart)
    # A tunnel is entered elsewhere, and nothing else is different.
    for arm, end in zip(arms[3:], ends[3:], strict=True):
        assert (end["transport"] == {"kind": "plain"}) != arm.asked.speaks_tls
        assert common(end, (*apart, "addresses")) == common(ends[0], (*apart, "addresses"))


def test_a_client_takes_what_its_arm_encrypts_in_no_other_form(standing: Standing) -> None:
    if not standing.is_gateway:
        pytest.skip("nothing is encrypted on the way but by TLS")
    for arm in standing.plan.arms:
        service = standing.service.endpoint(arm)["service"]
        demands = service.get("decryption", {}).get("must_be_encrypted", [])
        columns = encrypted_columns(arm.asked.lab.get("columns"))
        assert demands == [f"{service['database']}.{table}.{column}" for table, column in columns]


def common(end: dict[str, Any], apart: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in end["service"].items() if name not in apart}


def test_an_endpoint_hides_its_password_once_redacted(standing: Standing) -> None:
    if standing.is_http:
        pytest.skip("a request says who asks in no password")
    end = standing.service.endpoint(standing.control)
    assert end["service"]["password"] not in json.dumps(redact(end))
    for key in end["service"].get("decryption", {}).get("master_keys", {}).values():
        assert key not in json.dumps(redact(end))
    assert redact(end)["service"]["password"] == REDACTED


def test_it_says_what_it_is_and_what_it_writes(standing: Standing) -> None:
    described = standing.service.describe()
    # A balancer of somebody's says in its responses what it is, or nowhere.
    assert described.versions or described.facts
    assert described.topology
    assert standing.service.writes()
    assert standing.service.lost() is None
    assert not any(standing.service.lost_arm(arm) for arm in standing.plan.arms)


@pytest.mark.parametrize("workload", ["connect", "operation"])
def test_every_arm_works_and_the_servers_count_it(standing: Standing, engines: Engines, workload: str) -> None:
    service = standing.service
    for arm in standing.plan.arms:
        service.arrange(arm)
        assert not service.wants_ticket(arm)
        before = service.counters(engines.server(arm))
        answer = engines.slice(arm, standing.operation if workload == "operation" else workload, 20)
        moved = service.counters(engines.server(arm)).since(before)
        assert answer.operations == 20
        assert not answer.errors
        assert mismatch(arm.asked, "wire", answer, moved, workers=20) is None
        opened = int(answer.evidence["connections"])
        if standing.counted_as is None:
            assert moved == Counters()
            continue
        assert moved.connections is not None
        assert moved.connections >= opened
        if moved.tls_connections is None:
            assert arm.levels["balancer"] == "nginx"
        elif arm.asked.speaks_tls:
            assert answer.evidence["protocol"] == "TLSv1.3"
            # Where bytes are passed through, it is the origin that counts.
            counted_as = "TLSv1.3" if arm.levels.get("termination") == "backend" else standing.counted_as
            assert moved.tls_connections[counted_as] >= opened


def test_an_arm_proves_what_the_client_cannot_see(standing: Standing) -> None:
    for arm in standing.plan.arms:
        proofs = standing.service.proofs(arm)
        if arm.asked.lab.get("tunnel"):
            assert proofs == {"tunnel cipher": "aes256-gcm@openssh.com", "tunnel compression": "none"}
        else:
            # Only a lab knows where a balancer goes on to. What a gateway sends is read wherever it stands.
            assert bool(proofs) == (standing.is_gateway or (standing.is_http and standing.counted_as is not None))
        assert standing.service.lost_arm(arm) is None


def test_phases_of_a_connection_add_up(standing: Standing, engines: Engines) -> None:
    for arm in standing.plan.arms:
        phases = engines.slice(arm, "connect", 10).phases
        parts = [phase for name, phase in phases.items() if not name.startswith("connect")]
        total = phases.get("connect_and_first_operation") or phases["connect"]
        assert sum(phase.sum_ns for phase in parts) == total.sum_ns
        assert sum(phase.round_trips or 0 for phase in parts) == total.round_trips
        assert ("tls" in phases) == arm.asked.speaks_tls


def test_cpu_is_counted_by_role_where_it_can_be(standing: Standing, engines: Engines) -> None:
    service = standing.service
    before = service.cpu_seconds()
    engines.slice(standing.control, standing.operation, 200 if standing.is_http else 2000)
    used = service.cpu_seconds()
    assert bool(used) == service.measures_cpu
    if service.measures_cpu:
        assert max(used[role] - before[role] for role in used) > 0
