"""Runs that are interrupted, killed, or lose a server: their reports, their continuation and their cleanup."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from costof.lab.lab import is_root
from costof.report import analyse
from costof.report.result import Result
from costof.results.ledger import Ledger, SizesRecord, SliceRecord
from costof.study.schema import SliceSize
from tests.support.command import costof
from tests.support.small_plans import small_study

from .conftest import (
    SHORT,
    SHORT_ROUND,
    SMALL,
    alive,
    costof_running,
    descendants,
    eventually,
    slices_measured,
    wait_for_slices,
)

pytestmark = pytest.mark.servers
needs_root = pytest.mark.skipif(not is_root(), reason="hosts and links need root")


# A round has 16 slices: four workloads on four arms (plain, its identical copy, TLS and a tunnel). The first round is a
# warm-up.
MYSQL_ROUND = 16
# A round has 3 slices: one workload on three arms (asynchronous commits, an identical copy, and commits that wait for a
# standby).
DURABILITY_ROUND = 3
#: The number of rounds of a run that must not end by itself.
UNENDING = "100000"


def test_interrupted_run_has_a_report_and_continues_with_unchanged_sizes_of_measurements(
    tmp_path: Path, temporary: Path
) -> None:
    run = tmp_path / "run"
    # A run of six rounds is not complete before the signal arrives, even if this process is paused.
    with costof_running(run, temporary, *SHORT, "--rounds", "6") as process:
        wait_for_slices(process, run, 3 * SHORT_ROUND + 2)
        started = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 3, err
    assert "Traceback" not in err
    partial = Result.model_validate_json((run / "result.json").read_bytes())
    assert partial.partial == "interrupted"
    assert partial.rounds >= 3, "two complete rounds, and the interrupted one"
    assert partial.widening > 1, "intervals are wider, because the run could have ended at any round"
    assert not alive(started)
    measured, ledger = slices_measured(run), Ledger.open(run)
    (chosen,) = (record.slices for record in ledger.records() if isinstance(record, SizesRecord))
    other = SizesRecord(slices={**chosen, "query": SliceSize(operations=7, seconds=5.0)})
    ledger.append(other)
    done = costof("run", "--resume", str(run), cwd=tmp_path)
    assert done.status == 0, done.err
    whole = analyse(ledger)
    assert whole.partial is None
    assert whole.rounds == whole.requested_rounds == 6
    assert whole.widening == 1
    again = 6 - (partial.rounds - 1)
    assert slices_measured(run) == measured + (1 + again) * SHORT_ROUND, "a warm-up, and the interrupted round again"
    assert whole.seed == partial.seed
    records = list(ledger.records())
    resumed = records[records.index(other) + 1 :]
    assert not any(isinstance(record, SizesRecord) for record in resumed)
    slices = [each for each in resumed if isinstance(each, SliceRecord) and each.workload == "query"]
    assert {each.answer.operations for each in slices if not each.warm_up} == {7}


def test_run_ended_by_kill_9_leaves_no_process_and_no_temporary_file(tmp_path: Path, temporary: Path) -> None:
    run = tmp_path / "run"
    with costof_running(run, temporary, *SHORT) as process:
        wait_for_slices(process, run, 2)
        started = descendants(process.pid)
        assert any("redis-server" in words[0] for words in started.values())
        process.send_signal(signal.SIGKILL)
        process.wait()
        eventually("the teardown", lambda: not alive(started))
        eventually("the removal", lambda: not list((temporary).iterdir()))
    assert costof("show", str(run), cwd=tmp_path).status in (0, 1)


def test_killed_server_ends_the_run_with_a_partial_report(tmp_path: Path, temporary: Path) -> None:
    run = tmp_path / "run"
    with costof_running(run, temporary, *SHORT, "--rounds", UNENDING) as process:
        # Three rounds are needed for a report with figures: a warm-up and two measured rounds.
        wait_for_slices(process, run, 3 * SHORT_ROUND)
        (server,) = (pid for pid, words in descendants(process.pid).items() if "redis-server" in words[0])
        os.kill(server, signal.SIGKILL)
        _, err = process.communicate()
    assert process.returncode == 3, err
    assert "Traceback" not in err
    result = Result.model_validate_json((run / "result.json").read_bytes())
    assert result.partial is not None
    assert "redis" in result.partial


@pytest.mark.slow
@needs_root
def test_failure_of_a_tunnel_affects_only_the_arm_that_uses_it(tmp_path: Path, temporary: Path) -> None:
    run = tmp_path / "run"
    study = small_study("mysql-transport", tmp_path)
    with costof_running(run, temporary, study, *SMALL, "--set", "distance=lan", "--rounds", "4") as process:
        wait_for_slices(process, run, MYSQL_ROUND + 2)
        tunnels = [
            pid for pid, words in descendants(process.pid).items() if words[0].endswith("/ssh") and "-N" in words
        ]
        assert len(tunnels) == 1
        os.kill(tunnels[0], signal.SIGKILL)
        _, err = process.communicate()
    assert process.returncode == 3, err
    result = Result.model_validate_json((run / "result.json").read_bytes())
    errors = {arm.name: arm.error for arm in result.arms}
    assert errors["ssh-aes256-ctr"]
    assert errors["tls"] is None
    # A run of only four rounds discards none as an outlier, even on a busy machine.
    assert result.rounds == 4
    rounds = {value.arm: value.mean.rounds for value in result.values if value.metric == "wire.connect"}
    assert rounds["plain"] == rounds["tls"] == 4, "the other arms were still measured"
    assert rounds.get("ssh-aes256-ctr", 0) < 4


@pytest.mark.slow
@needs_root
def test_standby_that_falls_behind_is_named_and_earlier_measurements_are_kept(tmp_path: Path, temporary: Path) -> None:
    run = tmp_path / "run"
    study = small_study("postgres-durability", tmp_path, operations=2)
    settings = ["--set", "commit=off,on", "--set", "clients=1"]
    with costof_running(run, temporary, study, "--profile", "quick", "--rounds", "6", *settings) as process:
        wait_for_slices(process, run, 3 * DURABILITY_ROUND)
        started = descendants(process.pid)
        standby = min(pid for pid, words in started.items() if any(word.endswith("/standby") for word in words))
        for pid in (standby, *descendants(standby)):
            os.kill(pid, signal.SIGSTOP)
        _, err = process.communicate()
    assert "Traceback" not in err
    result = Result.model_validate_json((run / "result.json").read_bytes())
    reason = "bytes of the log behind, so that commits waited in vain"
    assert any(reason in text for text in result.warnings), result.warnings
    assert result.effects
    eventually("the end of all processes", lambda: not alive(started))
    eventually("the removal", lambda: not [*temporary.iterdir()])
