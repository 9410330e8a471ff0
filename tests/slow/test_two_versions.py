"""Two releases of PostgreSQL at one address, as before and after an upgrade: runs on them are never taken for one."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from costof.lab.lab import Lab
from tests.clients.programs import Absent, postgres
from tests.integration.conftest import costof_running, wait_for_slices
from tests.support.command import costof
from tests.support.postgres import Standing, another_postgres, somebodys_postgres

pytestmark = pytest.mark.servers
OLD, NEW = "17.5.0", "18.1.0"
QUICK = ["postgres-tls", "--profile", "quick", "--seed", "1", "--set", "transport=plain,tls", "--set", "records=200"]
AT_LOAD = ["--load", "50/s", "--queries-per-connection", "3"]


def release(lab: Lab, version: str) -> str:
    try:
        return str(postgres(version, lab.new_folder()))
    except Absent as absent:
        pytest.skip(str(absent))


def arguments(server: Standing, rounds: int) -> list[str]:
    reached = ["--target", server.url("maker"), "--tls-ca", str(server.ca_file), "--allow-plain"]
    return [*QUICK, *AT_LOAD, "--rounds", str(rounds), *reached]


def measure(server: Standing, run: Path) -> None:
    done = costof("run", *arguments(server, 5), "--out", str(run), cwd=run.parent)
    assert done.status in (0, 3), done.err


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two whole runs, `old` and `new`, and of `begun`, which was interrupted on the old release and could
    not be resumed on the new one: `refusal` holds the line."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "t").mkdir()
    (folder / "runs").mkdir()
    with Lab() as lab, Lab() as another, pytest.MonkeyPatch.context() as environment:
        environment.setenv("COSTOF_POSTGRES", release(lab, OLD))
        with somebodys_postgres(lab) as server:
            measure(server, folder / "runs" / "old")
            with costof_running(folder / "begun", folder / "t", *arguments(server, 50)) as process:
                wait_for_slices(process, folder / "begun", 4)
                process.send_signal(signal.SIGINT)
                process.communicate()
            lab.stop("postgres")
            environment.setenv("COSTOF_POSTGRES", release(another, NEW))
            with another_postgres(another, server) as upgraded:
                password = {"COSTOF_PASSWORD": upgraded.password.get_secret_value()}
                resumed = costof("run", "--resume", str(folder / "begun"), cwd=folder, **password)
                (folder / "refusal").write_text(f"{resumed.status} {resumed.err}")
                measure(upgraded, folder / "runs" / "new")
    return folder


def test_a_run_is_not_resumed_on_another_release(runs: Path) -> None:
    refusal = (runs / "refusal").read_text()
    assert refusal.startswith("2 ")
    assert "its version was 17.5 and is now 18.1" in refusal


def test_compare_names_the_releases_first(runs: Path) -> None:
    done = costof("compare", str(runs / "runs" / "old"), str(runs / "runs" / "new"), cwd=runs)
    told = " ".join(done.out.split())
    assert "17.5" in told
    assert "18.1" in told
    assert told.index("17.5") < told.index("new connection")


def test_history_has_a_series_for_each_release(runs: Path) -> None:
    done = costof("history", str(runs / "runs"), cwd=runs)
    assert done.status == 0, done.err
    assert "The server 17 (1 run)" in done.out
    assert "The server 18 (1 run)" in done.out
