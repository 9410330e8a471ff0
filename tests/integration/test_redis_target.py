"""A user's own Redis server: somebody's keys, and servers that refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.errors import CostofError, Problem
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.redis.own import OwnStrings
from costof.programs.redis.server import PORT
from costof.services.open import open_service
from costof.services.own import OwnService
from costof.study.plan import Plan
from tests.support.engines import Engines
from tests.support.redis import Standing, a_redis
from tests.support.small_plans import plan_of

from .conftest import costof

pytestmark = pytest.mark.servers
RECORDS = 1200


@pytest.fixture(scope="module")
def server(lab: Lab) -> Iterator[Standing]:
    with a_redis(lab) as server:
        server.ask("SET", "theirs", "1")
        yield server


def small() -> Plan:
    return plan_of("redis-tls", "quick", f"records={RECORDS}", "transport=plain,tls", target="rediss://shown")


def target(server: Standing, database: str | None = None, password: str | None = None) -> OwnService[OwnStrings]:
    access = Access(server.url(password), server.ca_file, allow_plain=True, database=database)
    service = open_service(small(), access, "a-run")
    assert isinstance(service, OwnService)
    return service


def test_a_target_is_measured_and_left_as_it_was(server: Standing) -> None:
    plan = small()
    with target(server) as service, Engines(plan, service) as engines:
        service.prepare(plan.arms[0], engines.load)
        made = server.keys() - {"theirs"}
        assert len(made) == RECORDS + 1
        assert all(key.startswith(service.server.prefix) and server.ask("TTL", key) > 0 for key in made)
        for workload in ("query", "connect"):
            assert all(engines.slice(arm, workload, 10).operations == 10 for arm in plan.arms)
    assert server.keys() == {"theirs"}


def refusal(server: Standing, **how: str) -> CostofError:
    with pytest.raises(CostofError) as refused, target(server, **how):
        pass
    assert server.password.get_secret_value() not in str(refused.value)
    return refused.value


def test_keys_that_are_there_are_left_alone(server: Standing) -> None:
    server.ask("SET", "costof:mine:key:000000001199", "theirs")
    try:
        assert "are there already" in str(refusal(server, database="mine"))
        assert server.keys() == {"theirs", "costof:mine:key:000000001199"}
    finally:
        server.ask("DEL", "costof:mine:key:000000001199")


def test_what_is_no_longer_the_runs_stays(server: Standing) -> None:
    with target(server, database="mine"):
        server.ask("SET", "costof:mine:marker", "of another")
    assert server.keys() == {"theirs", "costof:mine:marker"}
    server.ask("DEL", "costof:mine:marker")


def test_a_server_that_drops_keys_of_others_is_refused(server: Standing) -> None:
    with server.configured("maxmemory", "100mb"), server.configured("maxmemory-policy", "allkeys-lru"):
        assert "drops keys of others" in str(refusal(server))
    assert server.keys() == {"theirs"}


def test_a_wrong_password_is_a_refused_log_in(server: Standing) -> None:
    assert refusal(server, password="wrong").problem is Problem.TARGET_REFUSES_LOGIN


def test_ycsb_loads_and_runs_as_its_binding_does(server: Standing, tmp_path: Path) -> None:
    server.ask("ACL", "SETUSER", "default", "on", ">secret", "~*", "+@all")
    properties = tmp_path / "redis.properties"
    properties.write_text(f"redis.host={server.address}\nredis.port={PORT}\nredis.password=secret\nrecordcount=50\n")
    files = ("-P", "workloada", "-P", str(properties), "-p", "operationcount=100")
    try:
        assert "[INSERT], Return=OK, 50" in costof("ycsb", "load", "redis", *files, cwd=tmp_path).out
        assert server.ask("ZCARD", "_indices") == 50
        assert len(server.keys()) == 52
        assert "[READ], Return=OK, " in costof("ycsb", "run", "redis", *files, cwd=tmp_path).out
        again = costof("ycsb", "load", "redis", *files, cwd=tmp_path)
        assert again.status != 0
        assert "secret" not in again.err
    finally:
        server.ask("ACL", "SETUSER", "default", "reset")
        server.ask("UNLINK", *(server.keys() - {"theirs"}))
