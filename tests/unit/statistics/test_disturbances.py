"""Costs that come and go, slow operations, carry-over and change points: found, and nothing else taken for them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import pytest
import ruptures

from costof.run.schedule import BalancedOrders
from costof.statistics.carry_over import carry_over
from costof.statistics.change_points import change_points
from costof.statistics.intermittent import Intermittent, intermittent
from costof.statistics.intervals import mean_over_rounds
from costof.statistics.slow_operations import FEWEST_OPERATIONS, Slices, SlowOperations, slow_operations
from costof.statistics.units import Units

RUNS = 200


def stalling_run(
    chance: np.random.Generator,
    rounds: int,
    own: float = 0.0,
    everybody: float = 0.0,
    times: float = 2.0,
    noise: float = 0.05,
    of_arm: float = 1.0,
) -> list[list[float]]:
    """Logarithms of an arm's slices, of its control's and of the replicate's. `own`: the share of the arm's that stall,
    `everybody`: that of all; `of_arm`: how many times the others' noise the arm has."""

    def slices(share: float, noise: float) -> list[float]:
        stalled = chance.random(rounds) < share
        return list(chance.normal(0, noise, rounds) + np.where(stalled, math.log(times), 0.0))

    return [slices(max(own, everybody), noise * of_arm), slices(everybody, noise), slices(everybody, noise)]


def asked(runs: Iterable[list[list[float]]], comparisons: int) -> list[Intermittent | None]:
    return [intermittent(*run, comparisons=comparisons, seed=seed) for seed, run in enumerate(runs)]


@pytest.mark.parametrize(("rounds", "noise", "least"), [(60, 0.05, 0.8), (60, 0.14, 0.7), (120, 0.14, 0.95)])
def test_an_arm_that_stalls_in_one_slice_of_ten_is_found(rounds: int, noise: float, least: float) -> None:
    chance = np.random.default_rng(rounds)
    found = asked((stalling_run(chance, rounds, own=0.1, noise=noise) for _ in range(RUNS)), comparisons=2)
    assert sum(each is not None for each in found) / RUNS >= least
    told = [each for each in found if each is not None]
    assert np.median([each.slices / each.of for each in told]) == pytest.approx(0.1, abs=0.02)
    assert np.median([each.times for each in told]) == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("everybody", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("rounds", [10, 100])
def test_a_machine_that_stumbles_is_nobodys_cost(everybody: float, rounds: int) -> None:
    chance = np.random.default_rng(rounds)
    found = asked((stalling_run(chance, rounds, everybody=everybody) for _ in range(RUNS)), comparisons=1)
    assert sum(each is not None for each in found) / RUNS <= 0.07


def test_an_arm_whose_slices_all_scatter_more_has_none_that_stand_apart() -> None:
    chance = np.random.default_rng(1)
    found = asked((stalling_run(chance, 40, of_arm=2.0) for _ in range(RUNS)), comparisons=1)
    assert sum(each is not None for each in found) / RUNS <= 0.07


def test_a_cost_that_is_always_there_does_not_come_and_go() -> None:
    chance = np.random.default_rng(2)
    arm, control, replicate = stalling_run(chance, 60)
    assert intermittent([each + 1.0 for each in arm], control, replicate, comparisons=1, seed=1) is None


def test_one_slice_alone_says_nothing() -> None:
    quiet = [0.01, -0.01, 0.02, -0.02, 0.0] * 4
    assert intermittent([*quiet[:-1], 1.0], quiet, quiet, comparisons=1, seed=1) is None
    assert intermittent([0.1], [0.1], [0.1], comparisons=1, seed=1) is None
    assert intermittent(quiet, quiet, quiet, comparisons=1, seed=1) is None


VALUES = np.geomspace(0.01, 200, 2000)
SLOW_RUNS = 50
Times = np.ndarray


def slices(times: Times) -> Slices:
    """Of operations `[round, operation]`."""
    places = np.minimum(np.searchsorted(VALUES, times), len(VALUES) - 1)
    counts = np.array([np.bincount(row, minlength=len(VALUES)) for row in places], dtype=float)
    return Slices(np.arange(len(times)), VALUES, counts)


def measured(chance: np.random.Generator, rounds: int = 40, operations: int = 200) -> Times:
    """Of a machine that other programs use: whole slices are slower, some by far, and operations within them stall."""
    level = chance.normal(0, 0.3, (rounds, 1))
    stalling = chance.exponential(0.04, (rounds, 1))
    stalled = chance.random((rounds, operations)) < stalling
    times: Times = np.exp(level + chance.normal(0, 0.2, (rounds, operations))) + stalled * chance.exponential(
        3.0, (rounds, operations)
    )
    return times


def run_of(chance: np.random.Generator, costing: Callable[[Times], Times]) -> SlowOperations | None:
    arm, control, replicate = (measured(chance) for _ in range(3))
    return slow_operations(slices(costing(arm)), slices(control), slices(replicate), comparisons=1, units=Units())


def test_a_cost_that_one_operation_in_ten_pays_is_found_on_a_busy_machine() -> None:
    chance = np.random.default_rng(1)
    found = [run_of(chance, lambda times: times + (chance.random(times.shape) < 0.1)) for _ in range(SLOW_RUNS)]
    told = [each for each in found if each is not None]
    assert len(told) / SLOW_RUNS >= 0.95
    # In slices that are slow anyway it is too little to stand apart.
    assert 0.06 <= np.median([each.share - each.usual for each in told]) <= 0.1


@pytest.mark.parametrize(
    "costing",
    [lambda times: times, lambda times: times + 1, lambda times: times * 2, lambda times: times / 2],
    ids=["nothing", "added", "multiplied", "saved"],
)
def test_what_every_operation_pays_alike_is_paid_by_more_than_few(costing: Callable[[Times], Times]) -> None:
    chance = np.random.default_rng(2)
    assert sum(run_of(chance, costing) is not None for _ in range(SLOW_RUNS)) / SLOW_RUNS <= 0.05


def test_slices_of_a_handful_of_operations_have_no_median_to_stand_apart_from() -> None:
    steady, slow = np.ones((40, FEWEST_OPERATIONS - 1)), np.ones((40, FEWEST_OPERATIONS - 1))
    slow[:, :4] = 3.0
    assert slow_operations(slices(slow), slices(steady), slices(steady), comparisons=1, units=Units()) is None
    steady, slow = (np.hstack([each, each]) for each in (steady, slow))
    found = slow_operations(slices(slow), slices(steady), slices(steady), comparisons=1, units=Units())
    assert found == SlowOperations(pytest.approx(4 / 19), 0.0)  # type: ignore[arg-type]


ROUNDS = 30
SPREAD = 0.05


def remembering_run(
    arms: int, switch: float, seed: int, drop: float = 0.0
) -> tuple[list[float], list[int], list[int], list[bool]]:
    """Logarithms, rounds, arms and whether another arm came before, of a machine that remembers the last arm."""
    chance, orders = np.random.default_rng(seed), BalancedOrders(random.Random(seed))
    names, last, turns = [str(arm) for arm in range(arms)], None, []
    for number in range(ROUNDS):
        row = orders.next(names, last)
        last = row[-1]
        # The replicate follows the control at once.
        turns += [(number, arm) for name in row for arm in ([0, 0] if name == "0" else [int(name)])]
    logs, rounds, kinds, other = [], [], [], []
    for (_, before), (number, arm) in pairwise(turns):
        if chance.random() >= drop:
            logs.append(0.3 * arm + 0.2 * math.sin(number) + switch * (before != arm) + chance.normal(0, SPREAD))
            rounds.append(number)
            kinds.append(arm)
            other.append(before != arm)
    return logs, rounds, kinds, other


@pytest.mark.parametrize("arms", [2, 5])
@pytest.mark.parametrize("drop", [0.0, 0.2])
def test_its_size_is_found_whatever_rounds_and_arms_differ_by(arms: int, drop: float) -> None:
    runs, held = 60, 0
    for seed in range(runs):
        found = carry_over(*remembering_run(arms, 0.4, seed, drop))
        assert found is not None
        held += abs(found.value - 0.4) <= found.half()
    assert 0.88 <= held / runs <= 1.0


@pytest.mark.parametrize("arms", [2, 5])
def test_arms_without_memory_have_none(arms: int) -> None:
    found = [carry_over(*remembering_run(arms, 0.0, seed)) for seed in range(100)]
    assert sum(each is not None and abs(each.value) > each.half() for each in found) <= 12


def test_an_arm_that_is_always_measured_after_the_same_one_tells_nothing() -> None:
    assert carry_over([0.0, 1.0] * 6, [n // 2 for n in range(12)], [0, 1] * 6, [False, True] * 6) is None
    assert carry_over([], [], [], []) is None


@pytest.mark.parametrize("arms", [2, 5, 20])
@pytest.mark.parametrize("lasting", [False, True])
def test_what_a_slice_leaves_behind_is_in_no_arms_cost(arms: int, lasting: bool) -> None:
    """A change of arm costs half as much again, or each arm leaves something of its own behind; 30 rounds."""
    runs, false = 60, 0
    for seed in range(runs):
        chance, orders = np.random.default_rng(seed), BalancedOrders(random.Random(seed))
        names, last, before = [str(arm) for arm in range(arms)], None, None
        logs = np.zeros((ROUNDS, arms))
        for number in range(ROUNDS):
            row = orders.next(names, last)
            last = row[-1]
            for arm in map(int, row):
                left = 0.4 * (before is not None and before != arm) if lasting is False else 0.1 * (before or 0)
                logs[number, arm] = left + chance.normal(0, SPREAD)
                before = arm
        changes = [mean_over_rounds([*(logs[:, arm] - logs[:, 0])]) for arm in range(1, arms)]
        false += any(abs(change.value) > change.half(1 - 0.05 / len(changes)) for change in changes)
    assert false / runs <= 0.05


@pytest.mark.parametrize("seed", range(30))
def test_they_are_those_of_ruptures(seed: int) -> None:
    random = np.random.default_rng(seed)
    levels = random.normal(0, 4, size=random.integers(1, 5))
    values = np.concatenate([random.normal(level, 1, size=random.integers(2, 14)) for level in levels])
    penalty = 3 * np.log(len(values))
    pelt = ruptures.Pelt(model="l2", min_size=2, jump=1).fit_predict(values.reshape(-1, 1), penalty)
    assert [*change_points(values.tolist(), penalty, 2), len(values)] == pelt


def test_a_series_too_short_to_have_any_has_none() -> None:
    assert change_points([], 1.0, 2) == change_points([5.0], 1.0, 2) == change_points([5.0, 9.0], 1.0, 2) == []
