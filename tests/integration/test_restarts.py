"""Runs that restart the servers: new processes at each start, Ctrl-C between starts, and cleanup."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from costof.programs.redis.lab import find_redis
from costof.report import analyse
from costof.report.result import Result
from costof.results.ledger import EnvironmentRecord, Ledger, SizesRecord
from tests.support.command import costof

from .conftest import SHORT, SHORT_ROUND, alive, costof_running, descendants, wait_for_slices

pytestmark = [pytest.mark.slow, pytest.mark.servers]

#: The number of slices in a start: one warm-up round and two measured rounds.
A_START = 3 * SHORT_ROUND
OPTIONS = [*SHORT, "--rounds", "2", "--restarts"]


def servers_of(run: int) -> set[int]:
    return {pid for pid, words in descendants(run).items() if "redis-server" in words[0]}


def starts_of(run: Path) -> list[int]:
    return [record.start for record in Ledger.open(run).records() if isinstance(record, EnvironmentRecord)]


def test_failed_server_restart_ends_the_run_and_rounds_before_it_are_reported(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, server = tmp_path / "run", tmp_path / "redis-server"
    server.symlink_to(find_redis())
    monkeypatch.setenv("COSTOF_REDIS_SERVER", str(server))
    with costof_running(run, temporary, *OPTIONS, "3") as process:
        wait_for_slices(process, run, A_START + 1)
        server.unlink()
        _, err = process.communicate()
    assert process.returncode == 3, err
    assert "Traceback" not in err
    result = Result.model_validate_json((run / "result.json").read_bytes())
    assert result.starts == [2, 2]
    assert result.partial is not None
    assert "COSTOF_REDIS_SERVER" in result.partial
    assert not list(temporary.iterdir())


def test_run_with_server_restarts_can_be_resumed_after_ctrl_c(tmp_path: Path, temporary: Path) -> None:
    run = tmp_path / "run"
    with costof_running(run, temporary, *OPTIONS, "2") as process:
        wait_for_slices(process, run, 1)
        first = servers_of(process.pid)
        wait_for_slices(process, run, A_START + SHORT_ROUND + 2)
        started = descendants(process.pid)
        second = servers_of(process.pid)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 3, err
    assert len(first) == len(second) == 1
    assert not first & second
    assert not alive({*first, *started})
    partial = Result.model_validate_json((run / "result.json").read_bytes())
    assert partial.partial == "interrupted"
    assert len(partial.starts) == 2
    done = costof("run", "--resume", str(run), cwd=tmp_path, TMPDIR=str(temporary))
    assert done.status == 0, done.err
    assert "start 2 of 2: measuring" in done.err
    whole = analyse(Ledger.open(run))
    assert whole.partial is None
    assert {effect.rounds for effect in whole.effects} <= {2, 3}
    assert not list(temporary.iterdir())
    assert (starts_of(run), whole.starts) == ([0, 1, 2], [2, partial.starts[1], 2])
    sizes = [record for record in Ledger.open(run).records() if isinstance(record, SizesRecord)]
    assert len(sizes) == 1
