"""Runs on servers that are only compatible with MySQL, Redis or MongoDB, and lack some of their features.

The runs work nevertheless, and report each missing feature once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pymongo
import pymysql
import pytest
import redis

from costof.report.result import Result
from costof.results.ledger import Ledger, SliceRecord
from tests.integration.conftest import Standalone
from tests.slow.compatible import FERRETDB, GO_MYSQL_SERVER, MINIREDIS, RunningServer, running_server
from tests.support.command import costof

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def go_mysql_server() -> Iterator[RunningServer]:
    with running_server(GO_MYSQL_SERVER) as server:
        yield server


@pytest.fixture(scope="module")
def miniredis() -> Iterator[RunningServer]:
    with running_server(MINIREDIS) as server:
        yield server


@pytest.fixture(scope="module")
def ferretdb() -> Iterator[RunningServer]:
    with running_server(FERRETDB) as server:
        yield server


def run(study: str, server: RunningServer, folder: Path, records: int) -> tuple[Result, list[SliceRecord]]:
    options = ["--profile", "quick", "--rounds", "2", "--seed", "1", "--set", "transport=plain,tls"]
    reached = ["--target", server.url, "--tls-ca", str(server.ca_file), "--allow-plain"]
    ended = costof("run", study, *options, "--set", f"records={records}", *reached, "--out", "run", cwd=folder)
    assert ended.status in (0, 3), ended.err
    slices = [each for each in Ledger.open(folder / "run").records() if isinstance(each, SliceRecord)]
    return Result.model_validate_json((folder / "run" / "result.json").read_bytes()), slices


def check(result: Result, slices: list[SliceRecord]) -> None:
    assert result.partial is None
    assert "wire.tls" in {value.metric for value in result.values}
    assert slices
    assert not [each.mismatch for each in slices if each.mismatch and not each.warm_up]


def login(server: RunningServer) -> tuple[str, str, str]:
    url = urlsplit(server.url)
    return url.hostname or "", url.username or "", url.password or ""


def mysql_databases(server: RunningServer) -> set[str]:
    host, user, password = login(server)
    with (
        pymysql.connect(host=host, user=user, password=password, ssl_disabled=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SHOW DATABASES")
        return {str(row[0]) for row in cursor.fetchall()}


def test_mysql_server_that_has_neither_analyze_nor_a_tls_counter_is_measured(
    go_mysql_server: RunningServer, tmp_path: Path
) -> None:
    before = mysql_databases(go_mysql_server)
    # Only 50 records: go-mysql-server loses rows that are inserted over several connections at once.
    result, slices = run("mysql-transport", go_mysql_server, tmp_path, records=50)
    check(result, slices)
    refused = [text for text in result.warnings if text.startswith("the server refuses ANALYZE TABLE `costof_run_")]
    assert len(refused) == 1
    assert "(no database selected); no figure needs it" in refused[0]
    assert len([text for text in result.warnings if "the server counted none of the first " in text]) == 1
    # The server counts connections but not those with TLS, so the evidence has only the number of connections.
    assert all(each.server_connections is not None for each in slices)
    assert all(each.server_tls is None for each in slices if not each.warm_up)
    assert mysql_databases(go_mysql_server) == before


def test_redis_server_that_supports_only_part_of_command_info_is_measured(
    miniredis: RunningServer, tmp_path: Path
) -> None:
    result, slices = run("redis-tls", miniredis, tmp_path, records=300)
    check(result, slices)
    (refused,) = (text for text in result.warnings if text.startswith("the server refuses INFO cluster, INFO memory"))
    assert "is not supported); no figure needs it" in refused
    host, user, password = login(miniredis)
    with redis.Redis(host=host, port=6379, username=user, password=password) as client:
        assert client.dbsize() == 0


@contextlib.contextmanager
def mongodb(server: RunningServer) -> Iterator[pymongo.MongoClient[dict[str, object]]]:
    host, user, password = login(server)
    client: pymongo.MongoClient[dict[str, object]]
    with pymongo.MongoClient(host, username=user, password=password) as client:
        yield client


def test_mongodb_server_that_has_neither_roles_nor_counters_is_measured(
    ferretdb: RunningServer, tmp_path: Path
) -> None:
    with mongodb(ferretdb) as client:
        before = client.list_database_names()
        result, slices = run("mongodb-tls", ferretdb, tmp_path, records=300)
        assert client.list_database_names() == before
    check(result, slices)
    assert len([text for text in result.warnings if "serverStatus has no connections.totalCreated" in text]) == 1


def test_mongodb_user_without_roles_is_rejected_before_any_write(
    standalone: Callable[..., Standalone], tmp_path: Path
) -> None:
    """The server lists no privileges of this user. (A server that does not check privileges lists none either.)"""
    server = standalone(61)
    with server.client() as client:
        client.admin.command("createUser", "nobody", pwd="word", roles=[])
        before = set(client.list_database_names())
        url = f"mongodb://nobody:word@{server.address}/"
        reached = ["--target", url, "--tls-ca", str(server.ca_file), "--allow-plain"]
        ended = costof("run", "mongodb-tls", *reached, cwd=tmp_path)
        assert (ended.status, len(ended.error_lines)) == (1, 1)
        assert "nobody may not find, insert, update, remove, createCollection" in ended.error_lines[0]
        assert set(client.list_database_names()) == before


def test_costof_clean_removes_an_empty_database_that_ferretdb_still_lists(
    ferretdb: RunningServer, tmp_path: Path
) -> None:
    name = "costof_20261123_101112_study_0a1b2c"
    with mongodb(ferretdb) as client:
        client[name]["gone"].insert_one({"_id": 1})
        client[name].drop_collection("gone")
        assert name in client.list_database_names()
        done = costof("clean", "--target", ferretdb.url, "--yes", cwd=tmp_path)
        assert f"{name}  empty, left by an unknown run\n" in done.out
        assert f"removed {name}" in done.out
        assert name not in client.list_database_names()
