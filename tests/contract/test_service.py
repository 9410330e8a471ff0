"""What every service keeps, lab or target: an experiment is written against this and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from costof.ipc.plan import Workload
from costof.lab.lab import Lab
from costof.lab.program import Counters
from costof.programs.access import Access
from costof.programs.haproxy import Haproxy
from costof.programs.mariadb.own import OwnSysbench
from costof.run.evidence import mismatch
from costof.services import Service
from costof.services.encryption.own import OwnTpcc
from costof.services.encryption.rules import encrypted_columns
from costof.services.open import open_service
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from tests.support.engines import TPCC_WORKLOADS, WORKLOADS, Engines, sent
from tests.support.programs import running_balancer, running_mariadb, url_of, user_of_many_databases
from tests.support.small_plans import replication_plan

pytestmark = pytest.mark.servers
RECORDS = 300
# The lab's origin takes its time for every answer.
HTTP_WORKLOADS = tuple(Workload(name=kind, kind=kind, workers=20) for kind in ("connect", "request"))


@dataclass(frozen=True)
class Kind:
    """What the tests have to know of a service: a new one joins with a line in `SERVICES`.

    `counted_as` is the name under which its servers count a connection with TLS 1.3. `operation` is its workload of
    operations on a connection that stands. `apart` are the fields of endpoints in which arms may differ, `proves`
    whether a lab of it and a target prove what no client sees. `privileges` are granted to a target's account.
    """

    study: str
    lab: tuple[str, ...] = ("transport=plain,tls",)
    target: tuple[str, ...] = ("transport=plain,tls",)
    counted_as: str = "TLS"
    operation: str = "query"
    workloads: tuple[Workload, ...] = WORKLOADS
    records: bool = True
    loads: bool = True
    apart: tuple[str, ...] = ()
    proves: tuple[bool, bool] = (False, False)
    encrypts: bool = False
    privileges: tuple[str, ...] = ()


MONGODB = Kind("mongodb-tls", ("transport=plain,tls", "distance=lan"), counted_as="TLSv1.3")
REPLICATION = Kind("", (), counted_as="TLSv1.3", loads=False, apart=("write_concern",))
MYSQL_LAB = ("transport=plain,tls,ssh-aes256-gcm", "distance=lan")
MYSQL = Kind("mysql-transport", MYSQL_LAB, privileges=OwnSysbench.PRIVILEGES)
ENCRYPTION = Kind(
    "mysql-column-encryption",
    ("encrypted=direct,0,20", "terminals=8"),
    ("encrypted=direct,0,20",),
    operation="transaction",
    workloads=TPCC_WORKLOADS,
    records=False,
    apart=("addresses", "decryption"),
    proves=(True, True),
    encrypts=True,
    privileges=OwnTpcc.PRIVILEGES,
)
HTTP = Kind(
    "http-tls-termination",
    ("termination=none,balancer,reencrypt,backend,direct", "balancer=haproxy,nginx"),
    ("termination=none,balancer",),
    operation="request",
    workloads=HTTP_WORKLOADS,
    records=False,
    apart=("addresses", "host"),
    # Only a lab knows where a balancer goes on to.
    proves=(True, False),
)


@dataclass
class Standing:
    """A service; `counts`: its servers tell what they count, `proves`: something that no client sees."""

    kind: Kind
    plan: Plan
    service: Service
    counts: bool = True

    @property
    def proves(self) -> bool:
        return self.kind.proves[self.plan.target is not None]

    @property
    def control(self) -> PlannedArm:
        return self.plan.controls[0]


def plan_for(kind: Kind, target: str | None = None) -> Plan:
    settings = [*(kind.target if target else kind.lab), *([f"records={RECORDS}"] if kind.records else [])]
    return resolve(load_study(kind.study), Options(profile="quick", settings=settings, target=target))


@contextlib.contextmanager
def opened(kind: Kind, plan: Plan, access: Access | None = None, **told: bool) -> Iterator[Standing]:
    with open_service(plan, access, "run") as service:
        yield Standing(kind, plan, service, **told)


def in_lab(kind: Kind) -> contextlib.AbstractContextManager[Standing]:
    return opened(kind, plan_for(kind))


@contextlib.contextmanager
def user_of_a_set() -> Iterator[tuple[str, Path]]:
    """A lab plays the user's replica set: its URL and its CA."""
    with in_lab(MONGODB) as playing:
        end = sent(playing.service.endpoint(playing.plan.arms[2]))
        service = end["service"]
        addresses = ",".join(service["addresses"])
        url = f"mongodb://lab:{service['password']}@{addresses}/?replicaSet=costof"
        yield url, Path(end["transport"]["ca_file"])


@contextlib.contextmanager
def mongodb_target() -> Iterator[Standing]:
    plan = plan_for(MONGODB, "mongodb://a-user")
    with user_of_a_set() as (url, ca_file), opened(MONGODB, plan, Access(url, ca_file, allow_plain=True)) as standing:
        yield standing


@contextlib.contextmanager
def replication_target() -> Iterator[Standing]:
    plan = replication_plan(records=RECORDS, target="mongodb://a-user")
    with user_of_a_set() as (url, _), opened(REPLICATION, plan, Access(url)) as standing:
        yield standing


@contextlib.contextmanager
def mysql_target(kind: Kind) -> Iterator[Standing]:
    with Lab() as playing, running_mariadb(playing) as server:
        user_of_many_databases(server, may=kind.privileges)
        # With a CA at hand an account of the other study speaks TLS on both sides of the gateway.
        access = Access(url_of(server), None if kind.encrypts else server.ca_file, allow_plain=True)
        with opened(kind, plan_for(kind, "mysql://a-user"), access) as standing:
            yield standing


@contextlib.contextmanager
def http_target() -> Iterator[Standing]:
    with Lab() as playing, running_balancer(playing, Haproxy) as balancer:
        access = Access(balancer.url("tls"), balancer.authority.ca_file, balancer.url("plain"))
        with opened(HTTP, plan_for(HTTP, "https://a-user"), access, counts=False) as standing:
            yield standing


def replication_lab() -> contextlib.AbstractContextManager[Standing]:
    settings = ("nodes=3", "sync=chain", "write_concern=1", "node_cpu=1")
    return opened(REPLICATION, replication_plan(*settings, records=RECORDS))


SERVICES = {
    "mongodb-lab": lambda: in_lab(MONGODB),
    "mongodb-target": mongodb_target,
    "replication-lab": replication_lab,
    "replication-target": replication_target,
    "mysql-lab": lambda: in_lab(MYSQL),
    "mysql-target": lambda: mysql_target(MYSQL),
    "encryption-lab": lambda: in_lab(ENCRYPTION),
    "encryption-target": lambda: mysql_target(ENCRYPTION),
    "http-lab": lambda: in_lab(HTTP),
    "http-target": http_target,
}


@pytest.fixture(scope="module", params=SERVICES)
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
    assert ends[2]["transport"]["kind"] == ("tls" if arms[2].asked.speaks_tls else "plain")
    assert common(ends[0], apart) == common(ends[2], apart)
    # A tunnel is entered elsewhere, and nothing else is different.
    for arm, end in zip(arms[3:], ends[3:], strict=True):
        assert (end["transport"] == {"kind": "plain"}) != arm.asked.speaks_tls
        assert common(end, (*apart, "addresses")) == common(ends[0], (*apart, "addresses"))


def test_a_client_takes_what_its_arm_encrypts_in_no_other_form(standing: Standing) -> None:
    for arm in standing.plan.arms:
        service = sent(standing.service.endpoint(arm))["service"]
        demands = service.get("decryption", {}).get("must_be_encrypted", [])
        columns = encrypted_columns(arm.asked.lab.get("columns"))
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
    assert standing.service.lost() is None
    assert not any(standing.service.lost(arm) for arm in standing.plan.arms)


@pytest.mark.parametrize("workload", ["connect", "operation"])
def test_every_arm_works_and_the_servers_count_it(standing: Standing, engines: Engines, workload: str) -> None:
    service = standing.service
    for arm in standing.plan.arms:
        service.arrange(arm)
        assert not service.wants_ticket(arm)
        before = service.counters(engines.server(arm))
        answer = engines.slice(arm, standing.kind.operation if workload == "operation" else workload, 20)
        moved = service.counters(engines.server(arm)).since(before)
        assert answer.operations == 20
        assert not answer.errors
        assert mismatch(arm.asked, "wire", answer, moved, workers=20) is None
        opened = int(answer.evidence["connections"])
        if not standing.counts:
            assert moved == Counters()
            continue
        assert moved.connections is not None
        assert moved.connections >= opened
        if moved.tls_connections is None:
            assert arm.levels["balancer"] == "nginx"
        elif arm.asked.speaks_tls:
            assert answer.evidence["protocol"] == "TLSv1.3"
            # Where bytes are passed through, it is the origin that counts.
            counted_as = "TLSv1.3" if arm.levels.get("termination") == "backend" else standing.kind.counted_as
            assert moved.tls_connections[counted_as] >= opened


def test_an_arm_proves_what_the_client_cannot_see(standing: Standing) -> None:
    for arm in standing.plan.arms:
        proofs = standing.service.prove(arm, "start")
        if arm.asked.lab.get("tunnel"):
            assert proofs == {"tunnel cipher": "aes256-gcm@openssh.com", "tunnel compression": "none"}
        else:
            assert bool(proofs) == standing.proves
        assert standing.service.lost(arm) is None


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
    engines.slice(standing.control, standing.kind.operation, 200 if standing.kind is HTTP else 2000)
    used = service.cpu_seconds()
    assert bool(used) == service.measures_cpu
    if service.measures_cpu:
        assert max(used[role] - before[role] for role in used) > 0
