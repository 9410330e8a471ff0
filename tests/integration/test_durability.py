"""Servers that flush each commit to disk, and servers that do not. The servers' own counters show the difference."""

from __future__ import annotations

import os
import signal

import pytest

from costof.messages.plan import Workload
from costof.programs.flushes import FLUSHES
from costof.services.server.lab import ServerLab
from costof.study.arms import PlannedArm
from tests.report.results import plan_of
from tests.support.engines import WORKLOADS, Engines
from tests.support.programs import eventually

pytestmark = pytest.mark.servers

YCSB = Workload(name="commit", kind="ycsb", workers=1, ycsb={"phase": "load", "field_length": 10})
#: For each study: the levels of the control and of the protected arm, the workload, and the flushes for one commit of
#: the protected arm with one client.
STUDIES = {
    "postgres-durability": ("commit=off,on", YCSB, 1.0),
    "mariadb-durability": ("commit=0-0,1-1", YCSB, 2.0),
    "mongodb-durability": ("write_concern=w1,majority", YCSB, 1.0),
    "redis-durability": ("log=memory-only,each-answer", Workload(name="commit", kind="write", workers=1), 1.0),
}
COMMITS = 200


def flushes_of_commits(lab: ServerLab, engines: Engines, arm: PlannedArm) -> float:
    """Measure one slice of one client's commits, and return the server's flushes per commit."""
    lab.arrange(arm)
    engines.slice(arm, "commit", 1, reconnect=True)
    before = lab.observe(arm)
    answer = engines.slice(arm, "commit", COMMITS)
    assert not answer.errors
    lab.finish_counting(arm)
    judgement = lab.judge(arm, before, lab.observe(arm), answer)
    assert judgement.mismatch is None
    return judgement.figures[FLUSHES]


#: The study that `make test` leaves out, because its lab also starts a standby.
SLOW = "postgres-durability"


@pytest.mark.parametrize(
    "study", [pytest.param(study, marks=[pytest.mark.slow] * (study == SLOW)) for study in STUDIES]
)
def test_server_flushes_the_disk_at_each_commit_only_if_the_arm_requires_it(study: str) -> None:
    levels, workload, flushes = STUDIES[study]
    plan = plan_of(study, "quick", levels, "clients=1")
    control, durable = plan.controls[0], plan.protected[0]
    with ServerLab(plan) as lab, Engines(plan, lab, (*WORKLOADS[-1:], workload)) as engines:
        lab.prepare(plan.arms, engines.load)
        for _ in range(2):
            assert flushes_of_commits(lab, engines, control) < 0.1
            assert flushes_of_commits(lab, engines, durable) == pytest.approx(flushes, abs=0.15)
        measured = lab.measure_flush(0.05)
        assert measured is not None
        assert measured.file_system in lab.describe().facts["servers' data"]
        if "synchronous_commit" in (facts := lab.collect_evidence(durable, "start")):
            assert facts["synchronous_commit"] == "on"
        if study == "mongodb-durability":
            assert facts == {"writeConcernMajorityJournalDefault": "true"}
            # Inserts that did not wait as the arm requires are a mismatch.
            before = lab.observe(control)
            answer = engines.slice(control, "commit", COMMITS)
            mismatch = lab.judge(durable, before, lab.observe(control), answer).mismatch
            assert mismatch == f"the server counted only 0 of {COMMITS} inserts with w:majority"
        if standby := next((name for name in lab.process_ids if name.endswith("standby")), None):
            assert facts["standby"] == "streaming, sync"
            os.kill(lab.process_ids[standby], signal.SIGKILL)
            eventually("notice of the standby", lambda: lab.failure_reason(durable) is not None)
            assert f"{standby} ended" in (lab.failure_reason(durable) or "")
            assert lab.failure_reason() is None


def test_mongodb_makes_checkpoints_only_between_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("mongodb-durability", "quick", "write_concern=w1,majority", "clients=1")
    with ServerLab(plan) as lab:
        primary = lab.server.set.admin("primary").admin
        checkpoints = lambda: primary.command("serverStatus")["wiredTiger"]["transaction"]["transaction checkpoints"]  # noqa: E731
        assert primary.command("getParameter", 1, syncdelay=1)["syncdelay"] == 3600
        lab.finish_counting(plan.controls[0])
        before = checkpoints()
        lab.finish_counting(plan.controls[0])
        assert checkpoints() == before
        monkeypatch.setattr("costof.programs.mongod.lab.CHECKPOINT_SECONDS", 0.0)
        lab.finish_counting(plan.controls[0])
        assert checkpoints() == before + 1
