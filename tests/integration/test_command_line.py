"""The command line: rejected input, lists, and missing programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costof.lab.lab import is_root
from tests.support.command import costof

from .conftest import SMALL

pytestmark = pytest.mark.servers


def environment_without_mongod(tmp_path: Path) -> dict[str, Any]:
    return {"COSTOF_MONGOD": str(tmp_path / "nowhere")}


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["run", "mongo-tls"], 2, "did you mean 'mongodb-tls'"),
        (["run", "mongodb-tls", "--set", "transprt=tls"], 2, "did you mean 'transport'"),
        (["run", "mongodb-tls", "--set", "key=rsa-1"], 2, "rsa-2048, rsa-4096, ecdsa-p256"),
        (["run", "mysql-transport", "--set", "distance=near"], 2, "milliseconds"),
        (["run", "mysql-transport", "--set", "distance=-5"], 2, "milliseconds"),
        (["run", "mysql-transport", "--set", "suite=rc4"], 2, "dhe-rsa-aes256-sha"),
        (["run", "mongodb-tls", "--budget", "soon"], 2, "'soon' is not a valid duration"),
        (["run", "mongodb-tls", "--rounds", "0"], 2, "--rounds must be a whole number from 2"),
        (["run", "mongodb-tls", "--rounds", "-1"], 2, "'-1'"),
        (["run", "mongodb-tls", "--rounds", "5", "--budget", "1m"], 2, "remove --budget"),
        (["run", "--resume", "nowhere", "--rounds", "5"], 2, "remove --rounds"),
        (["run", "mongodb-tls", "--restarts", "1"], 2, "--restarts must be a whole number from 2"),
        (["run", "mongodb-tls", "--restarts", "5", "--precision", "1%"], 2, "remove --precision"),
        (["run", "mongodb-tls", "--restarts", "5", "--target", "mongodb://h"], 2, "--restarts works only in a lab"),
        (["run", "--resume", "nowhere", "--restarts", "5"], 2, "remove --restarts"),
        (["run", "mongodb-tls", "--profile", "slow"], 2, "quick, default, published"),
        (["run", "mongodb-tls", "--no-such-option"], 2, "No such option"),
        (["run"], 2, "missing STUDY"),
        (["run", "mongodb-tls", "--out", "/proc/costof/run"], 1, "choose another folder"),
        (["run", "mongodb-tls", "--target", "mysql://h"], 2, "not a valid target for mongodb-tls"),
        (["show", "nowhere"], 2, "not the folder of a run"),
    ],
)
def test_invalid_input_is_reported_in_one_line(tmp_path: Path, arguments: list[str], status: int, message: str) -> None:
    done = costof(*arguments, cwd=tmp_path)
    assert done.status == status
    assert len(done.error_lines) == 1
    assert message in done.error_lines[0]
    assert not list(tmp_path.iterdir())


def test_missing_mongod_is_reported_with_a_remedy(tmp_path: Path) -> None:
    done = costof("run", "mongodb-tls", cwd=tmp_path, **environment_without_mongod(tmp_path))
    assert done.status == 1
    assert "COSTOF_MONGOD" in done.error_lines[0]
    assert not list(tmp_path.iterdir())


def test_dry_run_lists_actions_and_does_nothing(tmp_path: Path) -> None:
    done = costof("run", "mongodb-tls", "--dry-run", cwd=tmp_path)
    assert done.status == 0
    assert "write     the lab's own replica set" in done.out
    assert " s at most" in done.out
    assert "shorter if the warm-up" in done.out
    exact = costof("run", "mongodb-tls", "--rounds", "7", "--dry-run", cwd=tmp_path)
    assert (exact.status, "\nrounds    7\n" in exact.out) == (0, True)
    assert not list(tmp_path.iterdir())


def test_dry_run_reports_whether_there_are_enough_restarts_for_verdicts(tmp_path: Path) -> None:
    options = ("run", "mongodb-tls", "--profile", "quick", "--budget", "60s", "--dry-run", "--restarts")
    few, enough = (costof(*options, number, cwd=tmp_path).out for number in ("4", "5"))
    assert "15 s at most, in each start\nstarts    4: intervals without verdicts, which need 5\n" in few
    assert "12 s at most, in each start\nstarts    5\n" in enough


def test_list_shows_studies_and_doctor_shows_the_engine(tmp_path: Path) -> None:
    listed = costof("list", cwd=tmp_path)
    assert listed.status == 0
    assert "mongodb-tls" in listed.out
    assert "costof-engine" in costof("doctor", cwd=tmp_path).out


@pytest.mark.skipif(not is_root(), reason="hosts and links need root")
@pytest.mark.parametrize(
    ("variable", "package"), [("COSTOF_MARIADBD", "mariadb-server-core"), ("COSTOF_SSHD", "openssh-server")]
)
def test_missing_program_is_reported_with_its_package(tmp_path: Path, variable: str, package: str) -> None:
    done = costof("run", "mysql-transport", *SMALL, cwd=tmp_path, **{variable: "/nonexistent"})
    assert done.status == 1
    assert len(done.error_lines) == 1
    assert package in done.error_lines[0]
    assert not list(tmp_path.iterdir())
