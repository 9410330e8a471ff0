"""Runs the command `costof` to its end.

The command is forked from a process that has already imported its modules, because imports take half a second of CPU
time. Tests that examine the process of the command start a new process instead.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from costof.__main__ import main
from costof.cli.main import COMMANDS, cli
from costof.errors import CostofError
from tests.support.initdb import copy_from_now_on

_IMPORTED = multiprocessing.get_context("forkserver")
#: Modules that commands import only when they need them.
_LATE = ("scipy.special", "costof.report.sections", "costof.services.server.lab", "costof.services.server.target")
_IMPORTED.set_forkserver_preload([__name__, *_LATE, *(target.partition(":")[0] for target, _ in COMMANDS.values())])


@dataclass
class Outcome:
    status: int
    out: str
    err: str

    @property
    def error_lines(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("costof:")]


def costof(*arguments: str, cwd: Path, **env: str) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        process = _IMPORTED.Process(target=_run, args=(arguments, cwd, {**os.environ, **env}, out, err))
        process.start()
        process.join()
        assert process.exitcode is not None
        outcome = Outcome(process.exitcode, out.read_text(), err.read_text())
        process.close()
    assert "Traceback" not in outcome.err
    return outcome


def refusal(*arguments: str) -> CostofError:
    """Run a command in this process, and return the error with which it must fail. Its message must be one line."""
    with pytest.raises(CostofError) as refused:
        cli.main([*arguments], standalone_mode=False)
    assert "\n" not in str(refused.value)
    return refused.value


def _run(arguments: tuple[str, ...], cwd: Path, env: dict[str, str], out: Path, err: Path) -> None:
    for path, descriptor in (out, sys.stdout.fileno()), (err, sys.stderr.fileno()):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None
    copy_from_now_on()
    sys.argv = ["costof", *arguments]
    main()
