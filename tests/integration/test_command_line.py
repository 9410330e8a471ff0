"""Tests of the command line: refused input, dry runs, lists of studies and requirements, and missing programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from costof.cli.main import cli
from tests.support.command import costof, refusal

pytestmark = pytest.mark.servers


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "mongodb-tls", "--budget", "soon"], "'soon' is not a valid duration"),
        (["run", "mongodb-tls", "--target", "mysql://h"], "not a valid target for mongodb-tls"),
        (["show", "nowhere"], "not the folder of a run"),
    ],
)
def test_invalid_input_is_refused_in_one_line_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = refusal(*arguments)
    assert refused.exit_status == 2
    assert message in str(refused)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["run", "mongodb-tls", "--no-such-option"], 2, "costof: No such option '--no-such-option'"),
        (["run"], 2, "costof: missing STUDY; `costof list` prints all studies"),
        (["run", "mongodb-tls", "--out", "/proc/costof/run"], 1, "costof: cannot write to /proc/costof/run"),
    ],
)
def test_failing_subcommand_of_costof_prints_one_line_on_standard_error(
    tmp_path: Path, arguments: list[str], status: int, line: str
) -> None:
    done = costof(*arguments, cwd=tmp_path)
    assert (done.status, done.out, len(done.error_lines)) == (status, "", 1)
    assert done.error_lines[0].startswith(line)


def test_missing_mongod_is_reported_with_a_remedy(tmp_path: Path) -> None:
    done = costof("run", "mongodb-tls", cwd=tmp_path, COSTOF_MONGOD=str(tmp_path / "nowhere"))
    assert done.status == 1
    assert "set COSTOF_MONGOD to its path" in done.error_lines[0]
    assert not list(tmp_path.iterdir())


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that prints the plan of a run of mongodb-tls with these options, and returns the text."""
    monkeypatch.chdir(tmp_path)

    def plan(*options: str) -> str:
        done = CliRunner().invoke(cli, ["run", "mongodb-tls", "--dry-run", *options], catch_exceptions=False)
        assert (done.exit_code, list(tmp_path.iterdir())) == (0, [])
        return done.stdout

    return plan


def test_dry_run_prints_the_plan_and_writes_nothing(planned: Callable[..., str]) -> None:
    text = planned()
    assert "write     the lab's own replica set" in text
    assert " s at most" in text
    assert "shorter if the warm-up" in text
    assert "\nrounds    7\n" in planned("--rounds", "7")


def test_dry_run_shows_the_distance_and_the_number_of_queries_on_each_connection(planned: Callable[..., str]) -> None:
    sweep = ("--load", "50/s..400/s", "--queries-per-connection", "20", "--limit", "p99 of a query", "10ms")
    text = planned("--distance", "2ms", *sweep)
    assert "\nload      50 to 400 new connections a second, 20 queries each; p99 of a query within 10 ms\n" in text
    assert "\ndistance  2\u00a0ms, emulated between clients and servers\n" in text


def test_dry_run_tells_whether_there_are_enough_restarts_for_verdicts(planned: Callable[..., str]) -> None:
    few, enough = (planned("--profile", "quick", "--budget", "60s", "--restarts", number) for number in ("4", "5"))
    after = "s at most, after each start of the servers\nstarts   "
    assert f"15 {after} 4: intervals without verdicts, which need 5\n" in few
    assert f"12 {after} 5\n" in enough


def test_dry_run_tells_the_version_of_each_arms_server() -> None:
    options = ["run", "postgres-tls", "--dry-run", "--set", "server_version=15,18"]
    lines = CliRunner().invoke(cli, options, catch_exceptions=False).stdout.splitlines()
    assert "arm       plain: plain with PostgreSQL 15 (control)" in lines
    assert "arm       plain@server_version-18: plain with PostgreSQL 18 (control)" in lines


def test_dry_run_shows_slices_of_far_clients_only_if_there_are_such_clients() -> None:
    options = ["run", "mysql-transport", "--dry-run"]
    near, all_of_them = (
        CliRunner().invoke(cli, [*options, *more], catch_exceptions=False).stdout
        for more in (["--set", "distance=lan"], [])
    )
    assert "slice     connect: " in near
    assert "@far" not in near
    assert "slice     connect@far: " in all_of_them


@pytest.mark.parametrize(("command", "shown"), [("list", "mongodb-tls"), ("doctor", "costof-engine")])
def test_costof_list_shows_studies_and_costof_doctor_shows_requirements(command: str, shown: str) -> None:
    assert shown in CliRunner().invoke(cli, [command]).stdout
