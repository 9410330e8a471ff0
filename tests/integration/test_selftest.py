"""`costof selftest`, which measures delays that it adds itself, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from costof.cli.selftest import STUDY, measure
from costof.results.ledger import Ledger
from costof.study.library import load_study
from costof.study.plan import Options, resolve
from tests.support.ordinary_user import folder_of_ordinary_user, ordinary_user
from tests.support.small_plans import ended_by_operations

from .conftest import COSTOF, alive, descendants, eventually

pytestmark = pytest.mark.servers

NO_DELAY, DELAY_MS = 0.3, 0.03


def test_known_costs_of_the_selftest_are_the_delays_that_the_relay_adds(tmp_path: Path) -> None:
    plan = ended_by_operations(resolve(load_study(str(STUDY)), Options(rounds="5", seed=1)), request=20)
    answer = measure(plan, Ledger.create(plan, tmp_path / "run"), Console(quiet=True))
    same, every, some, spells = answer.known_costs
    assert [each.identical for each in answer.known_costs] == [True, False, False, False]
    assert answer.held_ms >= NO_DELAY
    assert answer.request_ms > answer.held_ms
    assert answer.rounds == same.estimate.rounds == 5
    # The relay never delays a request by less than planned.
    assert answer.held_ms + every.known >= NO_DELAY + DELAY_MS
    assert answer.held_ms + min(some.known, spells.known) >= NO_DELAY
    assert answer.conclusion


@pytest.mark.slow
def test_user_without_root_rights_can_run_costof_selftest() -> None:
    with folder_of_ordinary_user() as folder:
        argv = [*ordinary_user(forbidden=True), *COSTOF, "selftest", "--budget", "10s", "--json"]
        done = subprocess.run(
            argv, cwd=folder, env=os.environ | {"TMPDIR": str(folder)}, capture_output=True, text=True, check=False
        )
        assert not list(folder.iterdir())
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    assert done.returncode == (0 if answer["passed"] else 1), done.stderr
    assert len(answer["known_costs"]) == 4


def test_terminated_selftest_leaves_nothing_behind(temporary: Path) -> None:
    argv, environment = [*COSTOF, "selftest", "--budget", "1h"], os.environ | {"TMPDIR": str(temporary)}
    with subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        eventually("measuring", lambda: process.stderr.readline() in ("measuring\n", ""))
        started = descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert (process.returncode, errors.splitlines()[-1]) == (3, "costof: interrupted")
    assert any("relay" in words for words in started.values())
    assert not alive(started)
    assert not list(temporary.iterdir())
