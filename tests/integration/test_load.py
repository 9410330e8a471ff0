"""Runs with --load, a fixed rate of operations, on real servers: their counts and their reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.errors import EXIT_ANSWERED, EXIT_PARTIAL
from costof.lab.lab import Lab
from costof.messages.answers import SCHEDULED
from costof.programs.mariadb.lab import MariadbServer
from costof.report.result import Result
from costof.results.ledger import Ledger, SliceRecord
from costof.study.load import CONNECTION
from tests.support.command import costof
from tests.support.programs import databases, url_of, users_mariadb

pytestmark = pytest.mark.servers


def ran(study: str, folder: Path, *arguments: str) -> tuple[str, Result, list[SliceRecord]]:
    options = ["--profile", "quick", "--rounds", "2", "--seed", "1", "--out", "run", "--full", *arguments]
    ended = costof("run", study, *options, cwd=folder)
    # A slow machine may not reach the load. The run is then partial.
    assert ended.status in (EXIT_ANSWERED, EXIT_PARTIAL), ended.err
    run = folder / "run"
    slices = [each for each in Ledger.open(run).records() if isinstance(each, SliceRecord)]
    return " ".join(ended.out.split()), Result.model_validate_json((run / "result.json").read_bytes()), slices


def with_operations(slices: list[SliceRecord]) -> list[SliceRecord]:
    """Return the slices with operations. A slice is empty if the machine was paused for all of it."""
    measured = [each for each in slices if each.answer.operations]
    assert measured
    return measured


@pytest.mark.parametrize(
    ("study", "arms"),
    [
        ("redis-tls", "transport=plain,tls"),
        # Only in `make test-all`: these servers use more CPU time than Redis, and the engine treats all servers alike.
        pytest.param("postgres-tls", "transport=plain,tls", marks=pytest.mark.slow),
        pytest.param("mongodb-tls", "transport=plain,tls", marks=pytest.mark.slow),
        pytest.param("http-tls-termination", "termination=none,balancer", marks=pytest.mark.slow),
    ],
)
def test_load_sends_the_requested_number_of_queries_on_each_connection(study: str, arms: str, tmp_path: Path) -> None:
    output, result, slices = ran(study, tmp_path, "--set", arms, "--load", "100/s", "--queries-per-connection", "5")
    operations = "requests" if study == "http-tls-termination" else "queries"
    assert f"100 new connections a second, 5 {operations} each" in output
    # On a machine that is too slow for the load, the output says "cannot carry" instead.
    assert " cores busy (control: " in output or "cannot carry " in output
    for record in with_operations(slices):
        phases = record.answer.phases
        assert record.answer.operations == phases["scheduled_connect"].count == phases["first_operation"].count
        assert phases["operation"].count == 4 * record.answer.operations
        assert phases["scheduled_connect"].sum_ns == phases["delay"].sum_ns + phases["connect"].sum_ns
        assert record.mismatch is None
        assert record.server_connections is None or record.server_connections >= record.answer.operations
    roles = {each.who: each.roles for each in result.sections.load.cores}
    assert roles.keys() == {"servers", "client"}
    assert not {"client", "link"} & set(roles["servers"])


@pytest.mark.slow
def test_load_beyond_the_capacity_of_the_server_is_reported(tmp_path: Path) -> None:
    arguments = ["--set", "transport=plain,tls", "--load", "200000/s", "--queries-per-connection", "0"]
    output, result, slices = ran("redis-tls", tmp_path, *arguments)
    assert not any(each.complete for each in result.sections.load.carried)
    assert "cannot carry " in output
    assert "were served and the others waited." in output
    assert not [each for each in result.effects if each.metric == CONNECTION], "its times are no costs"
    checks = {each.label: each for each in result.sections.checks}
    assert not checks["load not carried"].passed
    # Connections that wait are no failures. On a busy machine, a few may time out.
    waited = sum((each.answer.count(SCHEDULED) or 0) - each.answer.operations for each in slices)
    assert sum(each.count for each in result.errors) < 0.01 * waited, result.errors


@pytest.mark.parametrize(
    ("study", "arms", "options", "words"),
    [
        pytest.param(
            "redis-tls",
            "transport=plain,tls",
            ["--load", "400/s"],
            "400 queries a second over 8 open connections",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "http-tls-termination",
            "termination=none,balancer",
            ["--think-time", "20ms"],
            "8 open connections whose users think for 20 ms before each request",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_operations_use_connections_opened_before_the_measurement(
    study: str, arms: str, options: list[str], words: str, tmp_path: Path
) -> None:
    output, result, slices = ran(study, tmp_path, "--set", arms, "--pool", "8", *options)
    assert words in output
    assert " cores busy (control: " in output or "cannot carry " in output
    paced = "--load" in options
    for record in with_operations(slices):
        phases = record.answer.phases
        assert record.mismatch is None
        assert "connect" not in phases, "all stand before a slice begins"
        assert ("delay" in phases) == paced
        assert (
            next(phases[name] for name in ("request", "operation") if name in phases).count == record.answer.operations
        )
    assert all((each.offered is not None) == paced for each in result.sections.load.carried)


@pytest.fixture(scope="module")
def server(lab: Lab) -> Iterator[MariadbServer]:
    with users_mariadb(lab) as server:
        yield server


def test_server_cpu_command_that_prints_nanoseconds_ends_the_run_before_the_first_round(
    lab: Lab, server: MariadbServer, tmp_path: Path
) -> None:
    """Other output and failures of the command are tested in tests/unit/services/test_server_cpu.py."""
    before = databases(server)
    (pid,) = (process.pid for process in lab.processes.values() if process.role == "server")
    reading = f"awk '{{printf \"%.0f\", ($14+$15)*1e7}}' /proc/{pid}/stat"
    reached = ["--target", url_of(server), "--allow-plain", "--server-cpu", reading]
    options = ["--profile", "quick", "--set", "transport=plain,tls", "--set", "records=500"]
    ended = costof("run", "mysql-transport", *options, *reached, "--tls-ca", str(server.ca_file), cwd=tmp_path)
    assert databases(server) == before
    assert (ended.status, len(ended.error_lines)) == (1, 1)
    assert "if it prints nanoseconds" in ended.error_lines[0]
    assert not any((tmp_path / "runs").glob("*"))
