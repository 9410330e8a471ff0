"""YCSB's command lines on real servers: written data, output, and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from costof.datasets.ycsb import key_name
from costof.lab.lab import Lab
from costof.programs.mariadb.lab import DATABASE, MariadbServer
from tests.support.command import Outcome, costof
from tests.support.postgres import a_server
from tests.support.programs import log_in, running_mariadb

from .conftest import PASSWORD, Standalone

pytestmark = pytest.mark.servers
RECORDS = 400
LINE = re.compile(r"\[(?P<of>[A-Z-]+)\], (?P<what>[^,]+), (?P<value>[\d.]+)")


def figures(done: Outcome) -> dict[tuple[str, str], float]:
    """Return the figures in standard output, which must have only lines in YCSB's format."""
    matches = [LINE.fullmatch(line) for line in done.out.splitlines()]
    assert all(matches), done.out
    return {(line["of"], line["what"]): float(line["value"]) for line in matches if line}


@pytest.fixture(scope="module")
def mongod(standalone: Callable[..., Standalone]) -> Standalone:
    return standalone(30)


def ycsb(server: Standalone, folder: Path, phase: str, *arguments: str) -> Outcome:
    """Run `costof ycsb` with the URL in a property file, since other users can read command lines."""
    login = folder / "login"
    login.write_text(f"mongodb.url={server.url.replace('/?', '/ycsb?')}&w=1\n")
    return costof("ycsb", phase, "mongodb", "-P", str(login), *arguments, cwd=folder)


@pytest.fixture(scope="module")
def loaded(mongod: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("load")
    return ycsb(
        mongod, folder, "load", "-s", "-P", "workloads/workloada", "-p", f"recordcount={RECORDS}", "-threads", "4"
    )


def test_published_ycsb_load_command_prints_a_report_in_the_format_of_ycsb(loaded: Outcome, mongod: Standalone) -> None:
    assert loaded.status == 0, loaded.err
    assert PASSWORD not in loaded.out + loaded.err
    reported = figures(loaded)
    assert reported["INSERT", "Operations"] == reported["INSERT", "Return=OK"] == RECORDS
    order = ["MinLatency(us)", "95thPercentileLatency(us)", "99thPercentileLatency(us)", "MaxLatency(us)"]
    latencies = [reported["INSERT", name] for name in order]
    assert latencies == sorted(latencies)
    assert reported["OVERALL", "Throughput(ops/sec)"] > 0
    assert re.search(rf" sec: {RECORDS} operations; .* \[INSERT: Count=", loaded.err)
    with mongod.client() as client:
        keys = {row["_id"] for row in client["ycsb"]["usertable"].find({}, {"_id": 1})}
        row = client["ycsb"]["usertable"].find_one() or {}
    assert keys == {key_name(number) for number in range(RECORDS)}
    assert sorted(row) == ["_id", *(f"field{number}" for number in range(10))]


@pytest.mark.usefixtures("loaded")
def test_loading_more_records_into_a_table_requires_property_insertstart(mongod: Standalone, tmp_path: Path) -> None:
    refused = ycsb(mongod, tmp_path, "load", "-P", "workloada", "-p", "recordcount=10")
    assert (refused.status, refused.out) == (1, "")
    assert "already contains records, and nothing was written" in refused.err
    size = ["-p", f"recordcount={RECORDS + 50}", "-p", f"insertstart={RECORDS}", "-p", "insertcount=50"]
    more = ycsb(mongod, tmp_path, "load", "-P", "workloada", *size)
    assert more.status == 0, more.err
    with mongod.client() as client:
        keys = {row["_id"] for row in client["ycsb"]["usertable"].find({}, {"_id": 1})}
    assert {key_name(number) for number in range(RECORDS + 50)} <= keys


@pytest.mark.usefixtures("loaded")
def test_report_of_a_ycsb_core_workload_counts_each_kind_of_operation(mongod: Standalone, tmp_path: Path) -> None:
    """Only workload F runs here; `test_ycsb.py` tests all six."""
    size = ["-p", f"recordcount={RECORDS}", "-p", "operationcount=300", "-threads", "3"]
    done = ycsb(mongod, tmp_path, "run", "-P", "workloads/workloadf", *size)
    assert done.status == 0, done.err
    reported, kinds = figures(done), {"READ", "UPDATE", "READ-MODIFY-WRITE"}
    assert {kind for kind, _ in reported} - {"OVERALL"} == kinds
    # Each read-modify-write is also counted as a READ and an UPDATE.
    changed = int(reported["READ-MODIFY-WRITE", "Operations"])
    assert sum(reported[kind, "Operations"] for kind in kinds) == 300 + 2 * changed


def test_ycsb_run_on_an_empty_table_is_refused_with_a_suggestion_to_load_records(
    mongod: Standalone, tmp_path: Path
) -> None:
    done = ycsb(mongod, tmp_path, "run", "-P", "workloada", "-p", "table=nothing")
    assert (done.status, done.out) == (1, "")
    assert "costof ycsb load" in done.err


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariadbServer]:
    with Lab() as lab, running_mariadb(lab) as server:
        yield server


def test_published_ycsb_command_for_jdbc_works_on_mysql(mariadb: MariadbServer, tmp_path: Path) -> None:
    service = mariadb.client_settings()
    password = service.password.get_secret_value()
    (tmp_path / "db.properties").write_text(
        "db.driver=com.mysql.jdbc.Driver\n"
        f"db.url=jdbc:mysql://{service.addresses[0]}/{DATABASE}?useSSL=false\n"
        f"db.user={service.username}\ndb.passwd={password}\n"
    )
    load = ["ycsb", "load", "jdbc", "-P", "workloads/workloada", "-P", "db.properties", "-p", "recordcount=200"]
    missing = costof(*load, cwd=tmp_path)
    assert missing.status == 1
    statement = missing.err.rpartition("create it as YCSB expects it: ")[2].strip()
    with log_in(mariadb) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        done = costof(*load, "-threads", "4", cwd=tmp_path)
        assert done.status == 0, done.err
        assert "db.driver" in done.err
        cursor.execute("SELECT YCSB_KEY FROM usertable")
        assert {row[0] for row in cursor} == {key_name(number) for number in range(200)}
    again = costof(*load, cwd=tmp_path)
    assert "already contains records" in again.err
    run = ["ycsb", "run", "mysql", *load[3:], "-p", "operationcount=200"]
    ran = costof(*run, cwd=tmp_path)
    assert ran.status == 0, ran.err
    reported = figures(ran)
    assert reported["READ", "Return=OK"] + reported["UPDATE", "Return=OK"] == 200
    assert password not in done.out + done.err + ran.out + ran.err


@pytest.mark.slow
def test_ycsb_command_for_jdbc_works_on_postgresql(tmp_path: Path) -> None:
    with Lab() as lab, a_server(lab) as server:
        service = server.client_settings()
        (tmp_path / "db.properties").write_text(
            f"db.url=jdbc:postgresql://{service.addresses[0]}/{service.database}"
            f"?sslmode=verify-full&sslrootcert={server.ca_file}\n"
            f"db.user={service.username}\ndb.passwd={server.password.get_secret_value()}\n"
        )
        options = ["-P", "db.properties", "-p", "recordcount=200", "-threads", "4"]
        # The lab has created this table in another form. The advice in costof's error message must create YCSB's table.
        server.ask("DROP TABLE usertable")
        missing = costof("ycsb", "load", "jdbc", "-P", "workloads/workloada", *options, cwd=tmp_path)
        assert missing.status == 1
        server.ask(missing.err.rpartition("create it as YCSB expects it: ")[2].strip())
        server.ask(f"GRANT ALL ON usertable TO {service.username}")
        done = costof("ycsb", "load", "jdbc", "-P", "workloads/workloada", *options, cwd=tmp_path)
        assert done.status == 0, done.err
        keys = {key for (key,) in server.ask("SELECT ycsb_key FROM usertable")}
        assert keys == {key_name(number) for number in range(200)}
        again = costof("ycsb", "load", "postgresql", "-P", "workloads/workloada", *options, cwd=tmp_path)
        assert "already contains records" in again.err
        run = ["ycsb", "run", "postgresql", "-P", "workloads/workloade", *options, "-p", "operationcount=200"]
        ran = costof(*run, cwd=tmp_path)
        assert ran.status == 0, ran.err
        reported = figures(ran)
        assert all(reported[operation, "Return=OK"] > 0 for operation in ("SCAN", "INSERT"))
        assert server.password.get_secret_value() not in ran.out + ran.err
