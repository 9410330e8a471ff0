"""Closed loops: which are saturated, with what capacity and by what, and which time is no second finding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from costof.report import analyse
from costof.report.result import Result
from costof.report.sections.saturation import Loop
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, fake_run
from tests.noise import Chance
from tests.support.small_plans import plan_of
from tests.truths.http_tls_termination import IN_FLIGHT, HttpTruth

STUDY, RATE, TIME = "http-tls-termination", "requests a second", "a request"
ARMS = ("none", "balancer")


class Waiting(HttpTruth):
    """No role's CPU share is used up: requests wait for the origin."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        return replace(super().slice(plan, workload, arm, chance), throttled_seconds={})


class Idle(Waiting):
    """Workers rest between two requests, as long as these take."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        found = super().slice(plan, workload, arm, chance)
        return replace(found, seconds=2 * found.seconds)


def result_of(folder: Path, truth: HttpTruth) -> Result:
    return analyse(fake_run(folder / "run", plan_of(STUDY, "quick", "keep_alive=1"), truth))


def loops(result: Result) -> dict[str, Loop]:
    found = result.sections.saturation or []
    assert "burst" not in {each.workload for each in found}, "a burst is no loop"
    return {each.arm: each for each in found if each.workload == "request"}


def answer(result: Result) -> str:
    return " ".join(each.text for each in result.answer if each.kind in ("answer", "detail"))


def test_a_saturated_loop_has_its_capacity_and_its_limit(tmp_path: Path) -> None:
    result, truth = result_of(tmp_path, HttpTruth()), HttpTruth()
    plan = plan_of(STUDY, "quick", "keep_alive=1")
    for name in ARMS:
        loop = loops(result)[name]
        assert loop.in_flight == pytest.approx(IN_FLIGHT, rel=0.001)
        assert loop.per_second.low <= truth.taken(plan.arm(name)).per_second <= loop.per_second.high
        assert loop.limit == "the CPU share of balancer is used up"
    assert f"The loop of '{RATE}' is saturated: its 200 workers are never idle" in answer(result)


def test_its_time_is_no_second_finding(tmp_path: Path) -> None:
    told = answer(result_of(tmp_path, HttpTruth()))
    assert f"of '{RATE}'" in told
    assert f"to '{TIME}'" not in told
    assert told.count("Little's law") == 1


def test_a_loop_that_waits_is_not_saturated_and_still_one_finding(tmp_path: Path) -> None:
    result = result_of(tmp_path, Waiting())
    assert {loops(result)[name].limit for name in ARMS} == {None}
    assert "saturated" not in answer(result)
    assert f"to '{TIME}'" not in answer(result)


def test_where_workers_rest_rate_and_time_are_two_findings(tmp_path: Path) -> None:
    result = result_of(tmp_path, Idle())
    assert loops(result) == {}
    assert f"of '{RATE}'" in answer(result)
    assert f"to '{TIME}'" in answer(result)
