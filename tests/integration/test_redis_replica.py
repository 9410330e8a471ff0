"""Redis with a replica: writes that wait for it, the evidence of both servers, and a replica that stalls or dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from costof.messages.answers import SliceAnswer
from costof.messages.plan import Workload
from costof.programs.flushes import FLUSHES
from costof.programs.redis.replica import ACKNOWLEDGEMENTS, Replica
from costof.services import Judgement
from costof.services.server.lab import ServerLab
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.report.results import plan_of
from tests.support.engines import WORKLOADS, Engines
from tests.support.programs import eventually

pytestmark = pytest.mark.servers
LEVELS = "log=memory-only,memory-and-replica,each-answer-and-replica"
WRITES = 200


@dataclass
class Lab:
    plan: Plan
    service: ServerLab
    engines: Engines

    def arm(self, log: str) -> PlannedArm:
        return next(arm for arm in self.plan.arms if arm.levels["log"] == log and not arm.replicate)

    def replica(self, arm: PlannedArm) -> Replica:
        parts = self.service._configured(arm).server.parts
        return next(part for part in parts if isinstance(part, Replica))

    def pid(self, arm: PlannedArm) -> int:
        return self.service.process_ids[self.replica(arm)._process.name]

    def write(self, arm: PlannedArm, writes: int = WRITES) -> tuple[SliceAnswer, Judgement]:
        self.service.arrange(arm)
        before = self.service.observe(arm)
        answer = self.engines.slice(arm, "commit", writes)
        return answer, self.service.judge(arm, before, self.service.observe(arm), answer)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    plan = plan_of("redis-durability", "quick", LEVELS, "clients=1", "records=100")
    workload = Workload(name="commit", kind="write", workers=1)
    with ServerLab(plan) as service, Engines(plan, service, (*WORKLOADS[-1:], workload)) as engines:
        service.prepare(plan.arms, engines.load)
        yield Lab(plan, service, engines)


def test_each_write_with_a_replica_waits_for_one_acknowledgement_and_takes_one_round_trip(lab: Lab) -> None:
    for log, flushes in (("memory-and-replica", 0.0), ("each-answer-and-replica", 1.0)):
        answer, judgement = lab.write(lab.arm(log))
        assert (answer.operations, answer.errors, judgement.mismatch) == (WRITES, [], None)
        assert answer.phases["operation"].round_trips == WRITES
        assert judgement.figures[ACKNOWLEDGEMENTS] == pytest.approx(1.0, abs=0.15)
        assert judgement.figures[FLUSHES] == pytest.approx(flushes, abs=0.15)


def test_replica_has_all_writes_of_an_arm_that_waits_for_it(lab: Lab) -> None:
    arm = lab.arm("memory-and-replica")
    lab.write(arm)
    facts = lab.service.collect_evidence(arm, "start")
    assert (facts["replica"], facts["connected replicas"]) == ("online, has all writes", "1")
    server, replica = lab.service._configured(arm).server, lab.replica(arm)._replica
    assert replica.dbsize() == server.ask("DBSIZE") == 100  # type: ignore[attr-defined]


def test_arm_that_waits_for_no_replica_has_no_replica_connected(lab: Lab) -> None:
    arm = lab.arm("memory-only")
    answer, judgement = lab.write(arm)
    assert (answer.operations, answer.errors, judgement.mismatch) == (WRITES, [], None)
    assert ACKNOWLEDGEMENTS not in judgement.figures
    facts = lab.service.collect_evidence(arm, "start")
    assert ("replica" in facts, facts["connected replicas"]) == (False, "0")


def test_measurement_whose_writes_did_not_wait_for_the_replica_is_reported_as_a_mismatch(lab: Lab) -> None:
    arm = lab.arm("memory-and-replica")
    answer, _ = lab.write(arm)
    observed = lab.service.observe(arm)
    text = f"the replica acknowledged writes only 0 times for {WRITES} writes"
    assert lab.service.judge(arm, observed, observed, answer).mismatch == text


def test_write_that_a_stalled_replica_does_not_acknowledge_fails(lab: Lab) -> None:
    arm = lab.arm("memory-and-replica")
    os.kill(lab.pid(arm), signal.SIGSTOP)
    try:
        answer, judgement = lab.write(arm, 2)
        assert lab.service.collect_evidence(arm, "end")["replica"] == "online, does not answer"
    finally:
        os.kill(lab.pid(arm), signal.SIGCONT)
    assert answer.operations == 0
    details = {(error.error_class, error.detail) for error in answer.errors}
    assert details == {("server", "the write was on 0 of 1 replicas after 500 ms")}
    assert "bytes behind, so that writes waited in vain" in (judgement.mismatch or "")
    eventually("the replica's return", lambda: lab.write(arm)[1].mismatch is None)


def test_replica_that_dies_fails_only_its_arm(lab: Lab) -> None:
    """This test must be the last one, since it ends a replica."""
    arm = lab.arm("memory-and-replica")
    name = lab.replica(arm)._process.name
    os.kill(lab.pid(arm), signal.SIGKILL)
    eventually("notice of the replica", lambda: lab.service.failure_reason(arm) is not None)
    assert f"{name} ended" in (lab.service.failure_reason(arm) or "")
    assert lab.service.failure_reason() is None
    eventually("its disconnection", lambda: lab.write(arm, 1)[1].mismatch == "the replica was not connected")
    assert lab.service.collect_evidence(arm, "end")["replica"] == "not connected"
    assert lab.write(lab.arm("each-answer-and-replica"))[1].mismatch is None
