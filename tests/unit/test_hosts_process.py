"""The process that uses Ray to reach load hosts, replaced by a stand-in that crashes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from costof.errors import CostofError, ErrorText
from costof.messages.plan import HostsSettings, Plan
from costof.messages.process import HostLostError, HostsProcess

#: A program that replaces the process. Like Ray's process, it may die of a signal: at the request that `DIES` names or,
#: if `DIES` is "end", after the last request.
STAND_IN = """
import json, os, signal, sys
def die(): os.kill(os.getpid(), signal.SIGSEGV)
answers = ANSWERS
for line in sys.stdin:
    (step, *_), dies = json.loads(line), DIES
    if step == dies: die()
    print(json.dumps(answers[step]), flush=True)
if DIES == "end": die()
"""
ANSWERS = {
    "cluster": {"cluster": {"nodes": [{"name": "load-1", "cpus": 1}, {"name": "load-2", "cpus": 1}]}},
    "plan": {"ready": {"instrument": "costof-engine", "versions": {}, "arms": []}},
    "without": {"goes_on": True},
}
PLAN = Plan(arms=[], workloads=[])


def hosts(monkeypatch: pytest.MonkeyPatch, folder: Path, dies: str = "", **answers: object) -> HostsProcess:
    text = STAND_IN.replace("DIES", repr(dies)).replace("ANSWERS", repr({**ANSWERS, **answers}))
    (folder / "stand_in.py").write_text(text)
    process = HostsProcess(HostsSettings(address="auto"), "engine")
    monkeypatch.setattr(process, "_argv", [sys.executable, str(folder / "stand_in.py")])
    return process


def test_crash_of_the_process_that_controls_the_hosts_at_its_exit_is_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with hosts(monkeypatch, tmp_path, dies="end") as process:
        assert process.plan(PLAN).instrument == "costof-engine"
        assert process.names == ["load-1", "load-2"]


@pytest.mark.parametrize("dies", ["cluster", "plan"])
def test_crash_of_the_process_that_controls_the_hosts_is_reported_in_one_line(
    dies: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(CostofError) as caught, hosts(monkeypatch, tmp_path, dies) as process:
        process.plan(PLAN)
    assert caught.value.message is ErrorText.INSTRUMENT_FAILED
    assert str(caught.value) == "the process that controls the hosts stopped: it ended with status -11"


def test_run_may_continue_without_a_host_that_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lost = {"lost": {"host": "load-2", "detail": "it is silent"}}
    with hosts(monkeypatch, tmp_path, plan=lost) as process:
        with pytest.raises(HostLostError, match="load-2 failed: it is silent") as caught:
            process.plan(PLAN)
        assert process.without(caught.value.host)
        assert process.names == ["load-1"]


def test_unusable_ray_cluster_is_reported_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refused = {"refused": "--hosts needs Ray; run pip install 'costof[ray]'"}
    with pytest.raises(CostofError, match=r"^--hosts needs Ray; run pip install 'costof\[ray\]'$"):
        hosts(monkeypatch, tmp_path, cluster=refused).__enter__()
