"""Warnings of runs of commands: of what a command has left running, and of a password in its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costof.report.result import Result
from tests.support.command import Outcome, costof
from tests.support.programs import eventually

from .test_commands import ran, started_with, study

pytestmark = pytest.mark.servers


def versus(folder: Path, *commands: str, **env: str) -> tuple[Outcome, Result]:
    """Two commands with the names 'waits' and 'leaves'."""
    arguments = ["--rounds", "2", "--seconds", "0.01", "-n", "waits", "-n", "leaves", "--json"]
    ended = costof("versus", *arguments, *commands, cwd=folder, **env)
    assert ended.status in (0, 3), ended.err
    return ended, Result.model_validate(json.loads(ended.out))


def warnings_of_what_was_left(result: Result) -> list[str]:
    return [warning for warning in result.warnings if " left " in warning]


def script(folder: Path, text: str) -> str:
    path = folder / "start.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return "./start.sh"


#: Until the child that was started last runs its own program, in a session of its own where it wants one.
STARTED = 'until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done'


def test_a_child_left_in_the_background_is_ended_and_named(tmp_path: Path) -> None:
    # It fails where the last one's child still runs.
    last = "! kill -0 $(cat child) 2>/dev/null || exit 7; sleep 3600 & echo $! > child"
    (tmp_path / "child").write_text("none")
    _, result = versus(tmp_path, "true", script(tmp_path, f"{last}; {STARTED}"))
    (warning,) = warnings_of_what_was_left(result)
    assert warning.startswith("leaves left 'sleep' running in the background (in 3 slices): costof ended it")
    assert "let the command wait for it" in warning
    assert not result.errors


def test_a_daemon_that_a_command_leaves_is_named_and_ended_with_the_run(tmp_path: Path, temporary: Path) -> None:
    command = script(tmp_path, f"setsid sleep 3600 & {STARTED}")
    _, result = versus(tmp_path, "true", command, TMPDIR=str(temporary))
    (warning,) = warnings_of_what_was_left(result)
    assert warning.startswith("leaves left 'sleep' running as a daemon (in 3 slices)")
    eventually("the end of the daemons", lambda: not started_with(temporary))


def test_a_daemon_that_brings_a_level_into_force_is_left_running(tmp_path: Path) -> None:
    start = script(tmp_path, f"setsid sleep 3600 & echo $! > daemon; {STARTED}")
    on = f"""set.check = "sh -c 'kill -0 $(cat daemon)'", before = "{start}", after = "sh -c 'kill $(cat daemon)'" """
    _, result = ran(study('set.check = "true"', on, 'run = "{check}"\nseconds = 0.01\n'), tmp_path)
    assert not result.errors
    assert not warnings_of_what_was_left(result)


def test_a_password_in_a_command_line_is_warned_of_before_the_run_and_in_its_report(tmp_path: Path) -> None:
    ended, result = versus(tmp_path, "true", "true --password=S3cret")
    told = [line.removeprefix("costof: ") for line in ended.told]
    (warning,) = (each for each in result.warnings if "looks like a password" in each)
    assert warning in told
    assert "what follows --password looks" in warning
    assert "[secrets]" in warning
