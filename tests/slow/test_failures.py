"""Faults of what a protection needs: a clear line names each one, what was measured is kept, and nothing is left."""

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
from costof.services.open import open_service
from tests.integration.conftest import alive, costof_running, descendants, eventually, wait_for_slices
from tests.support.command import costof
from tests.support.small_plans import plan_of, small_study

pytestmark = [pytest.mark.servers, pytest.mark.slow]


def test_server_without_the_extension_ends_the_run_with_one_line(tmp_path: Path, temporary: Path) -> None:
    study = small_study("postgres-audit-logging", tmp_path)
    missing = {"COSTOF_PGAUDIT": str(tmp_path / "no.so"), "TMPDIR": str(temporary)}
    ended = costof("run", study, "--profile", "quick", "--set", "audit=off,all", cwd=tmp_path, **missing)
    assert ended.status == 1
    (line,) = ended.err.splitlines()[-1:]
    assert ended.error_lines == [line]
    assert "needs pgaudit" in line
    assert "-pgaudit" in line.rpartition("apt-get install")[2]
    eventually("the removal", lambda: not [*temporary.iterdir()])


def test_key_file_that_others_can_read_ends_the_lab_with_one_line(
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
    assert caught.value.problem is ErrorText.KEY_FILE_UNUSABLE
    eventually("the removal", lambda: not [*temporary.iterdir()])


#: For each fault: the study with its settings, the number of slices in a round, the process with this word in its
#: command line, the signal that it gets, and what the report says about it.
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
def test_fault_of_a_process_is_named_and_the_other_arms_stay_measured(
    fault: str, tmp_path: Path, temporary: Path
) -> None:
    study, settings, slices, pattern, number, words = FAULTS[fault]
    run = tmp_path / "run"
    options = ["--profile", "quick", "--rounds", "6", *(word for each in settings for word in ("--set", each))]
    with costof_running(run, temporary, small_study(study, tmp_path, operations=2), *options) as process:
        wait_for_slices(process, run, 3 * slices)
        started = descendants(process.pid)
        pid = min(pid for pid, command in started.items() if re.search(pattern, " ".join(command)))
        for each in (pid, *descendants(pid)):
            os.kill(each, number)
        _, err = process.communicate()
    assert "Traceback" not in err
    result = json.loads((run / "result.json").read_text())
    assert any(words in text for text in result["warnings"]), result["warnings"]
    assert result["effects"], "what was measured before"
    eventually("the end of all processes", lambda: not alive(started))
    eventually("the removal", lambda: not [*temporary.iterdir()])
