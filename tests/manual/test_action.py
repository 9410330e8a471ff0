"""The script of the GitHub action, with a real run: the files that it writes, and its exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from manual.reports import ROOT

STUDY = """title = "Nothing against nothing"
service = "command"
control = { what = "one" }
factors.what.levels = ["one", "other"]
workloads.w.command = { run = "true", seconds = 0.1 }
"""
#: A stand-in for `uvx` of uv, which would install the given package before running the command.
UVX = f'#!/bin/sh\n[ "$1 $2 $3" = "--from a.whl costof" ] || exit 99\nshift 3\nexec {sys.executable} -m costof "$@"\n'


def step(folder: Path, *arguments: str) -> tuple[int, str]:
    (folder / "bin").mkdir()
    (folder / "bin" / "uvx").write_text(UVX)
    (folder / "bin" / "uvx").chmod(0o755)
    (folder / "study.toml").write_text(STUDY)
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "COSTOF_PACKAGE": "a.whl",
        "COSTOF_STUDY": "./study.toml",
        "COSTOF_ARGUMENTS": "\n".join(arguments) + "\n",
        "COSTOF_RUN": str(folder / "run"),
    }
    done = subprocess.run(
        [ROOT / "scripts" / "action"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("limit", "status", "ends", "warns"),
    [("+1s", 3, 0, True), ("no limit", 2, 2, False)],
    ids=["too few rounds for a limit", "wrong usage"],
)
def test_github_action_fails_on_wrong_usage_but_only_warns_of_an_undecided_limit(
    limit: str, status: int, ends: int, warns: bool, tmp_path: Path
) -> None:
    ended, output = step(tmp_path, "--rounds", "2", "--limit", "time", limit)
    assert (tmp_path / "output").read_text() == f"status={status}\n"
    assert ended == ends
    assert ("::warning title=costof::" in output) == warns
    assert (tmp_path / "summary").exists() == warns
