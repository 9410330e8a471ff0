"""The order of a round's slices, and when a run has enough of them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from costof.run.schedule import enough, turns_of_round
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import Study


@pytest.fixture
def study() -> Study:
    return load_study("mongodb-tls")


def test_a_round_has_one_slice_of_every_arm_and_its_order_is_the_seeds(study: Study) -> None:
    plan = resolve(study, Options(seed=5))
    arms = [arm.name for arm in plan.arms]
    workloads = dict.fromkeys(study.workloads, arms)
    first, again, second = (turns_of_round(plan, number, workloads) for number in (0, 0, 1))
    assert first == again
    assert first != second
    assert sorted(first) == sorted((workload, arm) for workload in workloads for arm in arms)
    # The arms of a workload follow each other: a pair is as close in time as it can be.
    assert [turn.workload for turn in first] == [w for w in dict.fromkeys(t.workload for t in first) for _ in arms]
    orders = {tuple(t.arm for t in turns_of_round(plan, n, workloads) if t.workload == "app_query") for n in range(60)}
    assert len(orders) == 6


def test_the_stop_rule(study: Study) -> None:
    plan = resolve(study, Options(profile="quick", budget="50s", precision="5%"))
    good, bad = [0.05] * 3, [0.01, 0.06, 0.01]
    assert not enough(plan, 9, 10.0, good, 1.0), "the fewest rounds are not there yet"
    assert enough(plan, 10, 10.0, good, 1.0), "precise enough"
    assert not enough(plan, 10, 10.0, bad, 1.0), "one lucky round is not enough"
    assert not enough(plan, 10, 10.0, [None] * 3, 1.0)
    assert not enough(plan, 10, 10.0, good[:2], 1.0)
    assert enough(plan, 10, 49.5, bad, 1.0), "the next round would end after the budget"
    assert enough(plan, plan.most_rounds, 10.0, bad, 1.0)
    assert not enough(plan, 1, 49.5, bad, 49.5), "one round alone would be a run that tells nothing"
    assert enough(plan, 2, 49.5, bad, 1.0)


def test_rounds_alone_end_a_run_that_has_a_number_of_them(study: Study) -> None:
    plan = resolve(study, Options(profile="quick", rounds="4"))
    assert (plan.budget_seconds, plan.precision) == (None, None)
    assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan
    certain, hours = [0.0] * 4, 1e6
    assert [enough(plan, done, hours, certain[:done], hours) for done in range(1, 5)] == [False, False, False, True]


def test_the_arms_of_a_distance_follow_each_other() -> None:
    plan = resolve(load_study("mysql-transport"), Options(settings=["distance=lan,us-us"], seed=3))
    turns = turns_of_round(plan, 0, {"connect": [arm.name for arm in plan.arms]})
    contexts = [plan.arm(turn.arm).context for turn in turns]
    assert contexts in (["lan"] * 4 + ["us-us"] * 4, ["us-us"] * 4 + ["lan"] * 4)


def test_a_slow_factor_changes_once_in_a_round() -> None:
    plan = resolve(load_study("mongodb-chained-replication"), Options(profile="quick", seed=5))
    for number in range(4):
        turns = turns_of_round(plan, number, {"write": [arm.name for arm in plan.arms]})
        shapes = [plan.arm(turn.arm).levels["sync"] for turn in turns]
        assert len(turns) == len(plan.arms)
        assert sum(a != b for a, b in pairwise(shapes)) == 1
        contexts = [plan.arm(turn.arm).context for turn in turns if plan.arm(turn.arm).levels["sync"] == "star"]
        assert sum(a != b for a, b in pairwise(contexts)) == len(plan.controls) - 1
