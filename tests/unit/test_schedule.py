"""The order of a round's slices, and when a run has enough of them."""

from __future__ import annotations

import functools
import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from costof.run.schedule import LOOKS, Looks, Schedule, enough
from costof.statistics.estimate import Verdict
from costof.statistics.intervals import mean_of
from costof.statistics.verdicts import Contrast, verdicts
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
    schedule, other = Schedule(plan), Schedule(plan)
    first, second = schedule.round(0, workloads), schedule.round(1, workloads)
    assert [other.round(number, workloads) for number in range(2)] == [first, second]
    assert first != second
    assert sorted(turn[:2] for turn in first) == sorted((workload, arm) for workload in workloads for arm in arms)
    # The arms of a workload follow each other: a pair is as close in time as it can be.
    assert [turn.workload for turn in first] == [w for w in dict.fromkeys(t.workload for t in first) for _ in arms]


def test_the_controls_copies_take_turns_in_standing_for_the_control(study: Study) -> None:
    plan = resolve(study, Options(seed=5))
    schedule, control = Schedule(plan), plan.controls[0]
    twin = plan.twin_of(control).name
    first = []
    for number in range(-1, 40):
        turns = schedule.round(number, {"app_query": [arm.name for arm in plan.arms]})
        copies = [place for place, turn in enumerate(turns) if turn.arm in (control.name, twin)]
        assert copies[1] == copies[0] + 1, "the second copy finds what the first one has left"
        assert [turns[place].role for place in copies] == [control.name, twin]
        assert all(turn.role == turn.arm for turn in turns if turn.arm not in (control.name, twin))
        first.append(turns[copies[0]].arm)
    assert all({one, other} == {control.name, twin} for one, other in zip(first[1::2], first[2::2], strict=True))
    assert len(set(first[1::2])) == 2, "by lot"


@pytest.mark.parametrize("workloads", [1, 3])
def test_no_arm_follows_other_protections_more_often_than_another(study: Study, workloads: int) -> None:
    plan = resolve(study, Options(seed=5))
    schedule, arms = Schedule(plan), [arm.name for arm in plan.arms]
    measured = [
        (turn, plan.arm(turn.role).protection)
        for number in range(60)
        for turn in schedule.round(number, dict.fromkeys(list(study.workloads)[:workloads], arms))
    ]
    twin = plan.twin_of(plan.controls[0]).name
    # The replicate is the control again, and what follows it finds what the control has left.
    kinds = [(turn, plan.controls[0].name if protection == twin else protection) for turn, protection in measured]
    own = Counter(kind for (_, before), (turn, kind) in pairwise(kinds) if before == kind and turn.role != twin)
    assert max(own.values()) - min(own.values()) <= workloads
    assert own.keys() == {arm.protection for arm in plan.arms if not arm.twin}


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
    turns = Schedule(plan).round(0, {"connect": [arm.name for arm in plan.arms]})
    contexts = [plan.arm(turn.arm).context for turn in turns]
    assert contexts in (["lan"] * 4 + ["us-us"] * 4, ["us-us"] * 4 + ["lan"] * 4)


def test_a_slow_factor_changes_once_in_a_round() -> None:
    plan = resolve(load_study("mongodb-chained-replication"), Options(profile="quick", seed=5))
    schedule = Schedule(plan)
    for number in range(4):
        turns = schedule.round(number, {"write": [arm.name for arm in plan.arms]})
        shapes = [plan.arm(turn.arm).levels["sync"] for turn in turns]
        assert len(turns) == len(plan.arms)
        assert sum(a != b for a, b in pairwise(shapes)) == 1
        contexts = [plan.arm(turn.arm).context for turn in turns if plan.arm(turn.arm).levels["sync"] == "star"]
        assert sum(a != b for a, b in pairwise(contexts)) == len(plan.controls) - 1


@pytest.mark.parametrize(("lasts", "low", "high"), [(1, 0.94, 0.96), (30, 0.45, 0.6)])
def test_luck_of_connections_that_are_opened_anew_is_noise(lasts: int, low: float, high: float) -> None:
    """Half as large as the noise of a round; a connection that lasts the run is there to see what it would do."""
    chance, runs, rounds = np.random.default_rng(53), 2000, 30
    luck = np.repeat(chance.normal(0, 0.005, (runs, rounds // lasts)), lasts, axis=1)
    logs = luck + chance.normal(0, 0.01, (runs, rounds))
    intervals = [mean_of(list(row)).estimate(rounds) for row in logs]
    held = sum(interval.low <= 0 <= interval.high for interval in intervals) / runs
    assert low <= held <= high


BUDGET_ROUNDS, BUDGET_SECONDS = 60, 60.0
RUNS = 400


@functools.cache
def budgeted() -> Plan:
    return resolve(load_study("mongodb-tls"), Options(profile="quick", budget=f"{BUDGET_SECONDS:.0f}s"))


def looked_at(
    chance: np.random.Generator, cost: float, spread: float, arms: int = 4
) -> tuple[int, list[Contrast], float]:
    """A run of rounds of a second each, ended as a run is: its rounds, what was judged last, and the error rate."""
    looks = Looks(budgeted())
    logs = chance.normal(math.log(cost), spread, (arms, BUDGET_ROUNDS))
    for rounds in range(2, BUDGET_ROUNDS + 1):
        rate = looks.due(rounds, float(rounds))
        if rate is None and rounds < BUDGET_ROUNDS:
            continue
        contrasts = [Contrast(mean_of(list(row[:rounds])), rounds, 0.05) for row in logs]
        if rounds == BUDGET_ROUNDS:
            break
        assert rate is not None
        if Verdict.UNRESOLVED not in verdicts(contrasts, rate):
            looks.end(rate)
            break
    return rounds, contrasts, looks.error_rate


def test_a_run_that_may_end_at_looks_finds_a_cost_that_is_none_no_more_often() -> None:
    chance = np.random.default_rng(41)
    wrong = 0
    for _ in range(RUNS):
        _, contrasts, rate = looked_at(chance, 1.0, 0.05)
        wrong += any(verdict in (Verdict.COSTS, Verdict.SAVES) for verdict in verdicts(contrasts, rate))
    assert wrong / RUNS <= 0.06


@pytest.mark.parametrize(("cost", "spread"), [(1.0, 0.1), (1.02, 0.1), (1.02, 0.03), (1.1, 0.1), (1.2, 0.1)])
def test_the_interval_of_a_run_that_ended_at_a_look_holds_the_truth(cost: float, spread: float) -> None:
    chance = np.random.default_rng(43)
    held = 0
    for _ in range(RUNS):
        rounds, contrasts, _ = looked_at(chance, cost, spread, arms=1)
        interval = contrasts[0].change.estimate(rounds)
        held += interval.low <= math.log(cost) <= interval.high
    assert 0.92 <= held / RUNS <= 0.97


def test_a_large_cost_ends_a_run_at_its_first_look() -> None:
    chance = np.random.default_rng(47)
    rounds = [looked_at(chance, 1.5, 0.05)[0] for _ in range(50)]
    assert set(rounds) == {math.ceil(LOOKS[0] * BUDGET_ROUNDS)}


def test_looks_are_had_once_and_spend_what_there_is(study: Study) -> None:
    looks = Looks(resolve(study, Options(profile="quick", budget="100s")))
    assert looks.due(5, 99.0) is None, "the fewest rounds are not there yet"
    rates = [looks.due(20, seconds) for seconds in (29.0, 30.0, 31.0, 50.0, 99.0)]
    assert [rate is not None for rate in rates] == [False, True, False, True, False]
    spent = sum(rate for rate in rates if rate is not None)
    assert spent + looks.error_rate == pytest.approx(0.05)
    resumed = Looks(resolve(study, Options(profile="quick", budget="200s")), spent)
    assert resumed.due(20, 60.0) is None, "what is spent is not to be had again"
    assert resumed.error_rate == pytest.approx(0.05 - spent)


@pytest.mark.parametrize("options", [Options(profile="quick", rounds="4"), Options(profile="quick", precision="2%")])
def test_who_asks_for_rounds_or_precision_gets_them(study: Study, options: Options) -> None:
    assert Looks(resolve(study, options)).due(1000, 1e6) is None
