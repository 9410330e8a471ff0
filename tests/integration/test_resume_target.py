"""Interrupted runs on a user's own servers (a target): costof resumes them only on the same servers."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.lab.lab import Lab
from costof.programs.reach import CERTIFICATE, SERVER_ID, VERSION
from costof.report import analyse
from costof.results.ledger import PLAN, SLICES, EnvironmentRecord, Ledger, SliceRecord
from tests.support.command import costof
from tests.support.postgres import RunningServer, users_postgres

from .conftest import SHORT, SHORT_ROUND, costof_running, slices_measured, wait_for_slices

pytestmark = [pytest.mark.slow, pytest.mark.servers]
#: Options of a run with workloads of the engine and a driver on three arms: plain, its identical copy and TLS.
QUICK = ["--profile", "quick", "--rounds", "5", "--seed", "1"]
AT_LOAD = ["--pool", "4", "--load", "100/s"]
#: The number of slices in a round with --load: one workload on three arms (plain, its identical copy and TLS).
LOAD_ROUND = 3


@pytest.fixture(scope="module")
def postgres(lab: Lab) -> Iterator[RunningServer]:
    with users_postgres(lab) as server:
        yield server


def interrupt(run: Path, temporary: Path, slices: int, *arguments: str) -> None:
    with costof_running(run, temporary, *arguments) as process:
        wait_for_slices(process, run, slices)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode in (1, 3), err


@pytest.fixture
def interrupted(postgres: RunningServer, lab: Lab, tmp_path: Path, temporary: Path) -> Path:
    """Interrupt a run with --load and --server-cpu after one complete round, and return its folder."""
    run, server = tmp_path / "run", lab.processes["postgres"]
    # Fields 14 to 17 are the CPU time of the process and of its ended children, the backends (proc_pid_stat(5)).
    reading = f"awk '{{print ($14+$15+$16+$17)/100}}' /proc/{server.pid}/stat"
    options = ["--target", postgres.url("maker"), "--tls-ca", str(postgres.ca_file), "--allow-plain"]
    arguments = ["postgres-tls", *QUICK, "--set", "transport=plain,tls", *AT_LOAD, *options, "--server-cpu", reading]
    interrupt(run, temporary, 2 * LOAD_ROUND + 1, *arguments)
    return run


def content(run: Path) -> list[bytes]:
    return [(run / name).read_bytes() for name in (PLAN, SLICES)]


def refused(run: Path, *arguments: str, **env: str) -> str:
    """Return the one-line error of an attempt to resume a run, and check that its files are unchanged."""
    before = content(run)
    ended = costof("run", "--resume", str(run), *arguments, cwd=run.parent, **env)
    assert ended.status == 2, ended.err
    assert len(ended.error_lines) == 1, ended.err
    assert content(run) == before
    return ended.error_lines[0]


def identities(run: Path) -> list[dict[str, str]]:
    return [record.identity for record in Ledger.open(run).records() if isinstance(record, EnvironmentRecord)]


def password_of(server: RunningServer) -> dict[str, str]:
    return {"COSTOF_PASSWORD": server.password.get_secret_value()}


def test_run_on_a_target_is_resumed_only_on_the_same_server_and_with_the_stored_options(
    postgres: RunningServer, interrupted: Path
) -> None:
    places, path = postgres.places(), interrupted / SLICES
    ledger = path.read_text()
    (identity,) = identities(interrupted)
    path.write_text(ledger.replace(identity[SERVER_ID], "another"))
    assert "its server id was another and is now" in refused(interrupted, **password_of(postgres))
    path.write_text(ledger)
    measured = slices_measured(interrupted)
    done = costof("run", "--resume", str(interrupted), cwd=interrupted.parent, **password_of(postgres))
    # The status is 3 if a busy machine leaves too few rounds for an answer.
    assert done.status in (0, 3), done.err
    assert postgres.places() == places
    first, second = identities(interrupted)
    assert first == second
    assert {*first} == {VERSION, SERVER_ID, CERTIFICATE}
    records = [each for each in Ledger.open(interrupted).records() if isinstance(each, SliceRecord)]
    assert len(records) > measured
    assert all("server" in record.server_cpu_seconds for record in records)
    result = analyse(Ledger.open(interrupted))
    assert (result.partial, result.rounds) == (None, 5)
    reached = [each.facts["server"] for arm in result.arms for each in arm.evidence if "server" in each.facts]
    assert set(reached) == {f"{postgres.address}:5432"}
    assert len({each.used.rounds for each in result.sections.load.cores}) == 1, (
        "servers in as many rounds as the client"
    )
    secret = postgres.password.get_secret_value().encode()
    assert not [path for path in interrupted.rglob("*") if secret in path.read_bytes()]
    assert "is complete (5 rounds)" in refused(interrupted, **password_of(postgres))


def test_lab_run_is_not_resumed_on_a_target_or_with_another_version_of_its_server(
    postgres: RunningServer, tmp_path: Path, temporary: Path
) -> None:
    run = tmp_path / "run"
    interrupt(run, temporary, SHORT_ROUND + 1, *SHORT, "--rounds", "4")
    places = postgres.places()
    line = refused(run, "--target", postgres.url("maker"), "--tls-ca", str(postgres.ca_file))
    assert "was started without --target; remove --target and --tls-ca to resume it" in line
    assert postgres.places() == places
    (identity,) = identities(run)
    version = identity["redis"]
    path = run / SLICES
    path.write_text(path.read_text().replace(json.dumps({"redis": version}), json.dumps({"redis": "6.0.0"})))
    assert f"its redis was 6.0.0 and is now {version}" in refused(run)
