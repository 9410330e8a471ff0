"""Faults of the files and processes that a protection needs, such as a full disk or a killed proxy.

One line of the output names the fault, the earlier measurements are kept, and no process or file is left.
"""

from __future__ import annotations

import json
import os
import re
import signal
import tempfile
from pathlib import Path

import pytest

from costof.errors import CostofError, ErrorText
from costof.lab.certificates import write_private
from costof.lab.lab import is_root
from costof.programs.mariadb import encryption_at_rest
from costof.programs.mariadb.audit import Audit
from costof.report import analyse
from costof.results.ledger import Ledger
from costof.run.experiment import run
from costof.services.open import open_service
from costof.study.library import load_study
from costof.study.plan import Options, resolve
from costof.study.schema import SliceSize
from tests.integration.conftest import alive, costof_running, descendants, eventually, wait_for_slices
from tests.integration.test_audit_logging import small_disk
from tests.support.command import costof
from tests.support.programs import HANGS_SECONDS
from tests.support.small_plans import plan_of, small_study
from tests.support.unwatched import Silent

pytestmark = [pytest.mark.servers, pytest.mark.slow]


def test_missing_pgaudit_extension_ends_the_run_with_a_one_line_error(tmp_path: Path, temporary: Path) -> None:
    study = small_study("postgres-audit-logging", tmp_path)
    missing = {"COSTOF_PGAUDIT": str(tmp_path / "no.so"), "TMPDIR": str(temporary)}
    ended = costof("run", study, "--profile", "quick", "--set", "audit=off,all", cwd=tmp_path, **missing)
    assert ended.status == 1
    (line,) = ended.err.splitlines()[-1:]
    assert ended.error_lines == [line]
    assert "needs pgaudit" in line
    assert "-pgaudit" in line.rpartition("apt-get install")[2]
    eventually("the removal", lambda: not [*temporary.iterdir()])


def test_key_file_that_other_users_can_read_ends_the_lab_with_an_error(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_readable(path: Path, content: bytes) -> None:
        write_private(path, content)
        path.chmod(0o644)

    monkeypatch.setattr(encryption_at_rest, "write_private", write_readable)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    plan = plan_of("mariadb-encryption-at-rest", "quick", "encryption=everything", "data=in-memory", "records=20")
    reason = "mode is 0644, so other users can read the key; set TMPDIR"
    with pytest.raises(CostofError, match=reason) as caught, open_service(plan, None, "run"):
        pass
    assert caught.value.message is ErrorText.KEY_FILE_UNUSABLE
    eventually("the removal", lambda: not [*temporary.iterdir()])


@pytest.mark.skipif(not is_root(), reason="mounting a small disk needs root")
def test_full_disk_of_an_audit_log_is_reported_and_completed_rounds_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, workload = load_study("mariadb-audit-logging"), "select_8"
    profile = study.profiles["quick"]
    # A slice writes some 40 kB to the log, so that the disk is full after two rounds.
    slices = {workload: SliceSize(operations=400, seconds=HANGS_SECONDS)}
    changes = {
        "workloads": {workload: study.workloads[workload]},
        "metrics": {name: each for name, each in study.metrics.items() if each.workload == workload},
        "profiles": {"quick": profile.model_copy(update={"slices": slices})},
        "clients": {},
        "sections": {},
    }
    settings = ["audit=off,all", "records=100"]
    plan = resolve(study.model_copy(update=changes), Options("quick", settings, rounds="6", seed=1))
    with small_disk(tmp_path / "disk"):
        monkeypatch.setattr(Audit, "_file", tmp_path / "disk" / "audit.log")
        ledger = Ledger.create(plan, tmp_path / "run")
        run(plan, open_service(plan, None, "run"), ledger, Silent())
    result = analyse(ledger)
    (line,) = (text for text in result.warnings if "discarded" in text)
    assert "of an audit of all statements discarded: the audit log got " in line
    assert line.endswith("; the disk of the log is full")
    assert result.effects
    assert not result.errors


#: For each fault: a study and its settings, the number of slices in a round, a pattern for the command line of a
#: process, the signal that this process gets, and words of the warning in the report.
FAULTS = {
    "standby dies": (
        "postgres-durability",
        ["commit=off,on", "clients=1"],
        3,
        "-D .*/standby",
        signal.SIGKILL,
        "postgres-2-standby ended",
    ),
    "standby falls behind": (
        "postgres-durability",
        ["commit=off,on", "clients=1"],
        3,
        "-D .*/standby",
        signal.SIGSTOP,
        "bytes of the log behind, so that commits waited in vain",
    ),
    "replica dies": (
        "redis-durability",
        ["log=memory-only,memory-and-replica", "clients=1"],
        3,
        "redis-server.*/replica/",
        signal.SIGKILL,
        "redis-2-replica ended",
    ),
    "replica stalls": (
        "redis-durability",
        ["log=memory-only,memory-and-replica", "clients=1"],
        3,
        "redis-server.*/replica/",
        signal.SIGSTOP,
        "bytes behind, so that writes waited in vain",
    ),
    "proxy dies": (
        "service-mtls",
        ["path=direct,pair-mtls"],
        9,
        "envoy-client",
        signal.SIGKILL,
        "envoy-client-lan ended",
    ),
}


@pytest.mark.skipif(not is_root(), reason="hosts need root")
@pytest.mark.parametrize("fault", FAULTS)
def test_process_that_fails_is_named_and_unaffected_arms_are_still_measured(
    fault: str, tmp_path: Path, temporary: Path
) -> None:
    study, settings, slices, pattern, number, words = FAULTS[fault]
    folder = tmp_path / "run"
    options = ["--profile", "quick", "--rounds", "6", *(word for each in settings for word in ("--set", each))]
    with costof_running(folder, temporary, small_study(study, tmp_path, operations=2), *options) as process:
        wait_for_slices(process, folder, 3 * slices)
        started = descendants(process.pid)
        pid = min(pid for pid, command in started.items() if re.search(pattern, " ".join(command)))
        for each in (pid, *descendants(pid)):
            os.kill(each, number)
        _, err = process.communicate()
    assert "Traceback" not in err
    result = json.loads((folder / "result.json").read_text())
    assert any(words in text for text in result["warnings"]), result["warnings"]
    assert result["effects"], "what was measured before"
    eventually("the end of all processes", lambda: not alive(started))
    eventually("the removal", lambda: not [*temporary.iterdir()])
