"""Opens each service, in a lab or on a user's own servers, and states the facts about it that tests need.

`python -m tests.support.services <lab or study>` opens a lab in its own process, prints its processes and hosts, and
runs until its input ends.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from costof.lab.lab import Lab
from costof.messages.plan import Workload
from costof.programs.access import Access
from costof.programs.haproxy import Haproxy
from costof.programs.mariadb.target import SysbenchTarget
from costof.services import Service
from costof.services.encryption.target import TpccTarget
from costof.services.open import open_service
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from tests.support.engines import TPCC_WORKLOADS, WORKLOADS, sent
from tests.support.postgres import users_postgres
from tests.support.programs import running_balancer, running_mariadb, url_of, user_of_many_databases
from tests.support.redis import users_redis
from tests.support.small_plans import plan_of, replication_plan

RECORDS = 300
# Twenty workers keep slices short, although the lab's origin server waits before every answer.
HTTP_WORKLOADS = tuple(Workload(name=kind, kind=kind, workers=20) for kind in ("connect", "request"))


@dataclass(frozen=True)
class Kind:
    """The facts about a service that tests need. To test a new service, add an entry to `SERVICES`.

    - `counted_as`: the name under which its servers count a connection with TLS 1.3;
    - `operation`: the workload that uses open connections, such as "query";
    - `may_differ`: fields of client settings that may differ between arms, such as "addresses";
    - `proves`: whether the service itself gives evidence that its clients cannot give. The first value is for a lab,
      the second for a target (a user's own servers);
    - `privileges`: the privileges of the account on a target.
    """

    study: str
    lab: tuple[str, ...] = ("transport=plain,tls",)
    target: tuple[str, ...] = ("transport=plain,tls",)
    counted_as: str = "TLS"
    operation: str = "query"
    workloads: tuple[Workload, ...] = WORKLOADS
    records: bool = True
    loads: bool = True
    may_differ: tuple[str, ...] = ()
    proves: tuple[bool, bool] = (False, False)
    encrypts: bool = False
    privileges: tuple[str, ...] = ()


MONGODB = Kind("mongodb-tls", ("transport=plain,tls", "distance=lan"), counted_as="TLSv1.3")
REPLICATION = Kind("", (), counted_as="TLSv1.3", loads=False, may_differ=("write_concern",))
MYSQL_LAB = ("transport=plain,tls,ssh-aes256-gcm", "distance=lan")
MYSQL = Kind("mysql-transport", MYSQL_LAB, privileges=SysbenchTarget.PRIVILEGES)
POSTGRES = Kind("postgres-tls", ("transport=plain,tls", "distance=lan"), counted_as="TLSv1.3")
REDIS = Kind("redis-tls", ("transport=plain,tls", "distance=lan"))
POOLING = Kind(
    "postgres-pooling",
    ("path=plain,tls,transaction-plain,session-both",),
    ("path=plain,tls",),
    counted_as="TLSv1.3",
    may_differ=("addresses", "database"),
)
ENCRYPTION = Kind(
    "mysql-column-encryption",
    ("encrypted=direct,0,20", "terminals=8"),
    ("encrypted=direct,0,20",),
    operation="transaction",
    workloads=TPCC_WORKLOADS,
    records=False,
    may_differ=("addresses", "decryption"),
    proves=(True, True),
    encrypts=True,
    privileges=TpccTarget.PRIVILEGES,
)
HTTP = Kind(
    "http-tls-termination",
    ("termination=none,balancer,reencrypt,backend,direct", "balancer=haproxy,nginx"),
    ("termination=none,balancer",),
    operation="request",
    workloads=HTTP_WORKLOADS,
    records=False,
    may_differ=("addresses", "host"),
    # Only a lab has evidence of the server to which the balancer forwards requests.
    proves=(True, False),
)

FIREWALL = Kind(
    "http-firewall",
    ("firewall=off,detection,on", "request=json-1kb"),
    operation="request",
    workloads=HTTP_WORKLOADS,
    records=False,
    may_differ=("addresses",),
    proves=(True, False),
)


@dataclass
class RunningService:
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
def opened(kind: Kind, plan: Plan, access: Access | None = None, **facts: bool) -> Iterator[RunningService]:
    with open_service(plan, access, "run") as service:
        yield RunningService(kind, plan, service, **facts)


def in_lab(kind: Kind) -> contextlib.AbstractContextManager[RunningService]:
    return opened(kind, plan_for(kind))


@contextlib.contextmanager
def user_of_a_set() -> Iterator[tuple[str, Path]]:
    """Start a replica set like a user's own, and yield its URL and the path of its CA file."""
    with in_lab(MONGODB) as running:
        end = sent(running.service.endpoint(running.plan.arms[2]))
        service = end["service"]
        addresses = ",".join(service["addresses"])
        url = f"mongodb://lab:{service['password']}@{addresses}/?replicaSet=costof"
        yield url, Path(end["transport"]["ca_file"])


@contextlib.contextmanager
def mongodb_target() -> Iterator[RunningService]:
    plan = plan_for(MONGODB, "mongodb://a-user")
    with user_of_a_set() as (url, ca_file), opened(MONGODB, plan, Access(url, ca_file, allow_plain=True)) as running:
        yield running


@contextlib.contextmanager
def replication_target() -> Iterator[RunningService]:
    plan = replication_plan(records=RECORDS, target="mongodb://a-user")
    with user_of_a_set() as (url, _), opened(REPLICATION, plan, Access(url)) as running:
        yield running


@contextlib.contextmanager
def mysql_target(kind: Kind) -> Iterator[RunningService]:
    with Lab() as lab, running_mariadb(lab) as server:
        user_of_many_databases(server, may=kind.privileges)
        # With a CA file, the column-encryption study would use TLS on both sides of the gateway.
        access = Access(url_of(server), None if kind.encrypts else server.ca_file, allow_plain=True)
        with opened(kind, plan_for(kind, "mysql://a-user"), access) as running:
            yield running


@contextlib.contextmanager
def postgres_target() -> Iterator[RunningService]:
    with Lab() as lab, users_postgres(lab) as server:
        access = Access(server.url("maker"), server.ca_file, allow_plain=True)
        with opened(POSTGRES, plan_for(POSTGRES, "postgresql://a-user"), access, counts=False) as running:
            yield running


@contextlib.contextmanager
def redis_target() -> Iterator[RunningService]:
    with Lab() as lab, users_redis(lab) as server:
        access = Access(server.url(), server.ca_file, allow_plain=True)
        with opened(REDIS, plan_for(REDIS, "rediss://a-user"), access) as running:
            yield running


@contextlib.contextmanager
def http_target() -> Iterator[RunningService]:
    with Lab() as lab, running_balancer(lab, Haproxy) as balancer:
        access = Access(balancer.url("tls"), balancer.authority.ca_file, balancer.url("plain"))
        with opened(HTTP, plan_for(HTTP, "https://a-user"), access, counts=False) as running:
            yield running


def replication_lab() -> contextlib.AbstractContextManager[RunningService]:
    settings = ("nodes=3", "sync=chain", "write_concern=1", "node_cpu=1")
    return opened(REPLICATION, replication_plan(*settings, records=RECORDS))


SERVICES = {
    "mongodb-lab": lambda: in_lab(MONGODB),
    "mongodb-target": mongodb_target,
    "replication-lab": replication_lab,
    "replication-target": replication_target,
    "mysql-lab": lambda: in_lab(MYSQL),
    "mysql-target": lambda: mysql_target(MYSQL),
    "postgres-lab": lambda: in_lab(POSTGRES),
    "postgres-target": postgres_target,
    "redis-lab": lambda: in_lab(REDIS),
    "redis-target": redis_target,
    "pooling-lab": lambda: in_lab(POOLING),
    "encryption-lab": lambda: in_lab(ENCRYPTION),
    "encryption-target": lambda: mysql_target(ENCRYPTION),
    "firewall-lab": lambda: in_lab(FIREWALL),
    "http-lab": lambda: in_lab(HTTP),
    "http-target": http_target,
}


#: Plans of labs in which clients and servers are on separate hosts.
LABS: dict[str, Callable[[], Plan]] = {
    "mysql": lambda: plan_of("mysql-transport", "quick", "transport=plain,ssh-aes256-gcm", "distance=lan,5"),
    "redis": lambda: plan_of("redis-tls", "quick", "transport=plain,stunnel-both", "distance=lan,5"),
    "http": lambda: plan_of("http-tls-termination", "quick", "termination=none,balancer", "balancer=haproxy,nginx"),
}


def main() -> None:
    plan = LABS[sys.argv[1]]() if sys.argv[1] in LABS else plan_of(sys.argv[1])
    with open_service(plan, None, "run") as lab:
        hosts = {word.removeprefix("--net=") for arm in plan.arms for word in lab.prefix(arm) if "--net=" in word}
        assert hosts
        message = {"started": list(lab.process_ids.values()), "paths": list(hosts)}
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
