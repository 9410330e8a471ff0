"""A user's own Redis server: somebody's keys, and servers that refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.errors import CostofError, Problem
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.redis.marked_strings import RUNS
from costof.programs.redis.own import OwnStrings
from costof.programs.redis.server import PORT, TLS_PORT, USER
from costof.services.open import open_service
from costof.services.own import OwnService
from costof.study.plan import Plan
from tests.support.command import costof
from tests.support.engines import Engines
from tests.support.redis import Standing, a_redis
from tests.support.small_plans import plan_of

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
        made = server.all_keys() - {"theirs", RUNS}
        assert len(made) == RECORDS
        assert all(key.startswith(f"costof:{service.server.database}:key:") for key in made)
        for workload in ("query", "connect"):
            assert all(engines.slice(arm, workload, 10).operations == 10 for arm in plan.arms)
    assert server.all_keys() == {"theirs"}


def refusal(server: Standing, **how: str) -> CostofError:
    with pytest.raises(CostofError) as refused, target(server, **how):
        pass
    assert server.password.get_secret_value() not in str(refused.value)
    return refused.value


def test_keys_that_are_there_are_left_alone(server: Standing) -> None:
    server.ask("SET", "costof:mine:key:000000001199", "theirs")
    try:
        assert refusal(server, database="mine").problem is Problem.TARGET_OCCUPIED
        assert server.all_keys() == {"theirs", "costof:mine:key:000000001199"}
    finally:
        server.ask("DEL", "costof:mine:key:000000001199")


def test_what_another_run_has_claimed_is_refused(server: Standing) -> None:
    with target(server, database="mine"):
        assert refusal(server, database="mine").problem is Problem.TARGET_OCCUPIED
        assert server.ask("HEXISTS", RUNS, "mine")
    assert server.all_keys() == {"theirs"}


def test_what_is_no_longer_the_runs_stays(server: Standing) -> None:
    with target(server, database="mine"):
        server.ask("HSET", RUNS, "mine", "of another")
    assert server.ask("HGET", RUNS, "mine") == "of another"
    server.ask("DEL", RUNS)
    assert server.all_keys() == {"theirs"}


@pytest.mark.parametrize("command", ["get", "set", "unlink", "hdel", "hsetnx", "time"])
def test_a_right_that_is_missing_is_told_before_anything_is_written(server: Standing, command: str) -> None:
    server.ask("ACL", "SETUSER", USER, f"-{command}")
    try:
        told = refusal(server)
        assert "nothing was written" in str(told) or told.problem is Problem.TARGET_FAILED
        assert server.all_keys() <= {"theirs", RUNS}
    finally:
        server.ask("ACL", "SETUSER", USER, "+@all")
        server.ask("DEL", RUNS)


def test_the_rights_that_are_said_to_be_needed_are_enough(server: Standing) -> None:
    (grant,) = OwnStrings(Access(server.url()), "redis-tls", "a-run", 1).needs()
    acl, setuser, user, *rules = grant.split()
    server.ask(f"{acl} {setuser}", user, "resetkeys", "-@all", *rules)
    try:
        plan = small()
        with target(server) as service, Engines(plan, service) as engines:
            service.prepare(plan.arms[0], engines.load)
            assert service.counters("").connections is not None
    finally:
        server.ask("ACL", "SETUSER", USER, "~*", "+@all")
    assert server.all_keys() == {"theirs"}


@pytest.mark.parametrize(
    ("scheme", "port", "hint"), [("redis", TLS_PORT, "rediss://"), ("rediss", PORT, "takes plain connections")]
)
def test_the_other_port_is_told_soon(server: Standing, scheme: str, port: int, hint: str) -> None:
    url = f"{scheme}://{USER}:{server.password.get_secret_value()}@{server.address}:{port}"
    access = Access(url, server.ca_file if scheme == "rediss" else None, allow_plain=True)
    with pytest.raises(CostofError, match=hint) as refused, open_service(small(), access, "a-run"):
        pass
    assert refused.value.problem is Problem.TARGET_UNREACHABLE


def test_a_server_that_drops_keys_of_others_is_refused(server: Standing) -> None:
    with server.configured("maxmemory", "100mb"), server.configured("maxmemory-policy", "allkeys-lru"):
        assert "drops keys of others" in str(refusal(server))
    assert server.all_keys() == {"theirs"}


def test_a_server_without_room_for_a_run_is_refused(server: Standing) -> None:
    used = int(server.ask("INFO", "memory")["used_memory"])
    with server.configured("maxmemory", str(used + 500_000)):
        assert "less is left below maxmemory" in str(refusal(server))
    assert server.all_keys() == {"theirs"}


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
        assert len(server.all_keys()) == 52
        assert "[READ], Return=OK, " in costof("ycsb", "run", "redis", *files, cwd=tmp_path).out
        again = costof("ycsb", "load", "redis", *files, cwd=tmp_path)
        assert again.status != 0
        assert "secret" not in again.err
    finally:
        server.ask("ACL", "SETUSER", "default", "reset")
        server.ask("UNLINK", *(server.all_keys() - {"theirs"}))
