"""Runs on a user's own Redis. `tests/contract/test_targets.py` tests what all such runs have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.errors import CostofError, ErrorText
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.redis.connection import RUNS
from costof.programs.redis.lab import PORT, TLS_PORT, USER, redis_version
from costof.services.open import open_service
from costof.study.plan import Plan
from tests.support.command import costof
from tests.support.redis import RunningServer, users_redis
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers
RECORDS = 1200


@pytest.fixture(scope="module")
def server(lab: Lab) -> Iterator[RunningServer]:
    with users_redis(lab) as server:
        server.ask("SET", "theirs", "1")
        yield server


def small() -> Plan:
    return plan_of("redis-tls", "quick", f"records={RECORDS}", "transport=plain,tls", target="rediss://shown")


def refusal(server: RunningServer) -> CostofError:
    access = Access(server.url(), server.ca_file, allow_plain=True)
    with pytest.raises(CostofError) as refused, open_service(small(), access, "a-run"):
        pass
    assert server.password.get_secret_value() not in str(refused.value)
    return refused.value


def test_report_names_the_program_and_its_own_version(server: RunningServer) -> None:
    """With COSTOF_REDIS_SERVER=/usr/bin/valkey-server the program is Valkey, whose `redis_version` is not its own."""
    access = Access(server.url(), server.ca_file, allow_plain=True)
    with open_service(small(), access, "a-run") as service:
        assert service.describe().versions == {"server": redis_version(server.binary)}


@pytest.mark.parametrize("command", ["hsetnx", "time"])
def test_missing_permission_is_reported_before_any_write(server: RunningServer, command: str) -> None:
    server.ask("ACL", "SETUSER", USER, f"-{command}")
    try:
        error = refusal(server)
        assert "nothing was written" in str(error) or error.message is ErrorText.TARGET_FAILED
        assert server.all_keys() <= {"theirs", RUNS}
    finally:
        server.ask("ACL", "SETUSER", USER, "+@all")
        server.ask("DEL", RUNS)


@pytest.mark.parametrize(
    ("scheme", "port", "hint"), [("redis", TLS_PORT, "rediss://"), ("rediss", PORT, "may be the plain port")]
)
def test_error_gives_a_hint_if_the_url_scheme_does_not_fit_the_port(
    server: RunningServer, scheme: str, port: int, hint: str
) -> None:
    url = f"{scheme}://{USER}:{server.password.get_secret_value()}@{server.address}:{port}"
    access = Access(url, server.ca_file if scheme == "rediss" else None, allow_plain=True)
    with pytest.raises(CostofError, match=hint) as refused, open_service(small(), access, "a-run"):
        pass
    assert refused.value.message is ErrorText.TARGET_UNREACHABLE


def test_redis_that_evicts_keys_is_rejected(server: RunningServer) -> None:
    with server.configured("maxmemory", "100mb"), server.configured("maxmemory-policy", "allkeys-lru"):
        assert "drops other keys" in str(refusal(server))
    assert server.all_keys() == {"theirs"}


def test_redis_without_free_memory_is_rejected(server: RunningServer) -> None:
    used = int(server.ask("INFO", "memory")["used_memory"])
    with server.configured("maxmemory", str(used + 500_000)):
        assert "less is left below maxmemory" in str(refusal(server))
    assert server.all_keys() == {"theirs"}


def test_costof_ycsb_stores_and_reads_redis_records_like_the_original_ycsb(
    server: RunningServer, tmp_path: Path
) -> None:
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
