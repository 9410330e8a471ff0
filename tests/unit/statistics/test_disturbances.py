"""Tests of intermittent costs, slow operations, carry-over and change points: detection rates and false alarms."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import pytest

from costof.run.schedule import BalancedOrders
from costof.statistics.carry_over import carry_over
from costof.statistics.change_points import change_points
from costof.statistics.intermittent import Intermittent, intermittent
from costof.statistics.intervals import mean_over_rounds
from costof.statistics.slow_operations import FEWEST_OPERATIONS, Slices, SlowOperations, slow_operations
from costof.statistics.units import Units

RUNS = 200
slow = pytest.mark.slow


def stalling_run(
    chance: np.random.Generator,
    rounds: int,
    arm_share: float = 0.0,
    common_share: float = 0.0,
    times: float = 2.0,
    noise: float = 0.05,
    noise_factor: float = 1.0,
) -> list[list[float]]:
    """Return the logarithms of the times of an arm, its control and the control's identical copy, by round.

    In the share `arm_share` of the rounds the arm is slower by the factor `times`, and in the share `common_share` all
    three are. The arm's noise is `noise_factor` times the control's.
    """

    def slices(share: float, noise: float) -> list[float]:
        stalled = chance.random(rounds) < share
        return list(chance.normal(0, noise, rounds) + np.where(stalled, math.log(times), 0.0))

    return [
        slices(max(arm_share, common_share), noise * noise_factor),
        slices(common_share, noise),
        slices(common_share, noise),
    ]


def analyse(runs: Iterable[list[list[float]]], comparisons: int) -> list[Intermittent | None]:
    return [intermittent(*run, comparisons=comparisons, seed=seed) for seed, run in enumerate(runs)]


@pytest.mark.parametrize(
    ("rounds", "noise", "least"),
    [pytest.param(60, 0.05, 0.8, marks=slow), (60, 0.14, 0.7), pytest.param(120, 0.14, 0.95, marks=slow)],
)
def test_stalls_in_one_measurement_of_ten_are_detected(rounds: int, noise: float, least: float) -> None:
    chance = np.random.default_rng(rounds)
    found = analyse((stalling_run(chance, rounds, arm_share=0.1, noise=noise) for _ in range(RUNS)), comparisons=2)
    assert sum(each is not None for each in found) / RUNS >= least
    detected = [each for each in found if each is not None]
    assert np.median([each.slices / each.of for each in detected]) == pytest.approx(0.1, abs=0.02)
    assert np.median([each.times for each in detected]) == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    ("common_share", "rounds"),
    [
        (0.0, 10),
        (0.1, 100),
        *(pytest.param(*each, marks=slow) for each in [(0.0, 100), (0.1, 10), (0.3, 10), (0.3, 100)]),
    ],
)
def test_stalls_that_affect_all_arms_equally_are_not_reported(common_share: float, rounds: int) -> None:
    chance = np.random.default_rng(rounds)
    found = analyse((stalling_run(chance, rounds, common_share=common_share) for _ in range(RUNS)), comparisons=1)
    assert sum(each is not None for each in found) / RUNS <= 0.07


def test_noisier_arm_is_rarely_reported_to_have_an_intermittent_cost() -> None:
    chance = np.random.default_rng(1)
    found = analyse((stalling_run(chance, 40, noise_factor=2.0) for _ in range(RUNS)), comparisons=1)
    assert sum(each is not None for each in found) / RUNS <= 0.07


def test_cost_in_every_round_is_not_reported_as_intermittent() -> None:
    chance = np.random.default_rng(2)
    arm, control, replicate = stalling_run(chance, 60)
    assert intermittent([each + 1.0 for each in arm], control, replicate, comparisons=1, seed=1) is None


def test_single_outlying_measurement_is_not_reported_as_an_intermittent_cost() -> None:
    quiet = [0.01, -0.01, 0.02, -0.02, 0.0] * 4
    assert intermittent([*quiet[:-1], 1.0], quiet, quiet, comparisons=1, seed=1) is None
    assert intermittent([0.1], [0.1], [0.1], comparisons=1, seed=1) is None
    assert intermittent(quiet, quiet, quiet, comparisons=1, seed=1) is None


VALUES = np.geomspace(0.01, 200, 2000)
SLOW_RUNS = 50
Times = np.ndarray


def slices(times: Times) -> Slices:
    places = np.minimum(np.searchsorted(VALUES, times), len(VALUES) - 1)
    counts = np.array([np.bincount(row, minlength=len(VALUES)) for row in places], dtype=float)
    return Slices(np.arange(len(times)), VALUES, counts)


def measured(chance: np.random.Generator, rounds: int = 40, operations: int = 200) -> Times:
    """Return times `[round, operation]` on a busy machine: slices differ in speed, and some operations stall."""
    level = chance.normal(0, 0.3, (rounds, 1))
    stalling = chance.exponential(0.04, (rounds, 1))
    stalled = chance.random((rounds, operations)) < stalling
    times: Times = np.exp(level + chance.normal(0, 0.2, (rounds, operations))) + stalled * chance.exponential(
        3.0, (rounds, operations)
    )
    return times


def simulate(chance: np.random.Generator, add_cost: Callable[[Times], Times]) -> SlowOperations | None:
    arm, control, replicate = (measured(chance) for _ in range(3))
    return slow_operations(slices(add_cost(arm)), slices(control), slices(replicate), comparisons=1, units=Units())


def test_cost_of_one_operation_in_ten_is_detected_despite_the_noise_of_a_busy_machine() -> None:
    chance = np.random.default_rng(1)
    found = [simulate(chance, lambda times: times + (chance.random(times.shape) < 0.1)) for _ in range(SLOW_RUNS)]
    detected = [each for each in found if each is not None]
    assert len(detected) / SLOW_RUNS >= 0.95
    # The share found is below 10 %, because in slow slices the cost is small compared with the other times.
    assert 0.06 <= np.median([each.share - each.usual for each in detected]) <= 0.1


@pytest.mark.parametrize(
    "add_cost",
    [
        pytest.param(lambda times: times, marks=slow, id="nothing"),
        pytest.param(lambda times: times + 1, id="added"),
        pytest.param(lambda times: times * 2, marks=slow, id="multiplied"),
        pytest.param(lambda times: times / 2, id="saved"),
    ],
)
def test_cost_that_all_operations_share_is_not_reported_as_slow_operations(add_cost: Callable[[Times], Times]) -> None:
    chance = np.random.default_rng(2)
    assert sum(simulate(chance, add_cost) is not None for _ in range(SLOW_RUNS)) / SLOW_RUNS <= 0.05


def test_measurements_with_too_few_operations_are_ignored_in_the_search_for_slow_operations() -> None:
    steady, slow = np.ones((40, FEWEST_OPERATIONS - 1)), np.ones((40, FEWEST_OPERATIONS - 1))
    slow[:, :4] = 3.0
    assert slow_operations(slices(slow), slices(steady), slices(steady), comparisons=1, units=Units()) is None
    steady, slow = (np.hstack([each, each]) for each in (steady, slow))
    found = slow_operations(slices(slow), slices(steady), slices(steady), comparisons=1, units=Units())
    assert found == SlowOperations(pytest.approx(4 / 19), 0.0)  # type: ignore[arg-type]


ROUNDS = 30
SPREAD = 0.05


def carry_over_run(
    arms: int, switch: float, seed: int, drop: float = 0.0
) -> tuple[list[float], list[int], list[int], list[bool]]:
    """Return four lists about slices: logarithm of the time, round, arm, and whether the arm before was another one.

    A change of arm adds `switch` to the logarithm. `drop` is the share of slices that are missing.
    """
    chance, orders = np.random.default_rng(seed), BalancedOrders(random.Random(seed))
    names, last, slices = [str(arm) for arm in range(arms)], None, []
    for number in range(ROUNDS):
        row = orders.next(names, last)
        last = row[-1]
        # Arm 0 is measured twice in succession: as the control, and as the identical copy.
        slices += [(number, arm) for name in row for arm in ([0, 0] if name == "0" else [int(name)])]
    logs, rounds, kinds, other = [], [], [], []
    for (_, before), (number, arm) in pairwise(slices):
        if chance.random() >= drop:
            logs.append(0.3 * arm + 0.2 * math.sin(number) + switch * (before != arm) + chance.normal(0, SPREAD))
            rounds.append(number)
            kinds.append(arm)
            other.append(before != arm)
    return logs, rounds, kinds, other


@pytest.mark.parametrize(
    ("arms", "drop"),
    [(2, 0.2), *(pytest.param(*each, marks=slow) for each in [(2, 0.0), (5, 0.0), (5, 0.2)])],
)
def test_effect_of_the_previous_arm_is_estimated_despite_differences_between_rounds_and_arms(
    arms: int, drop: float
) -> None:
    runs, held = 60, 0
    for seed in range(runs):
        found = carry_over(*carry_over_run(arms, 0.4, seed, drop))
        assert found is not None
        held += abs(found.value - 0.4) <= found.half()
    assert 0.88 <= held / runs <= 1.0


@pytest.mark.parametrize("arms", [2, pytest.param(5, marks=slow)])
def test_effect_of_the_previous_arm_is_rarely_detected_in_runs_without_such_an_effect(arms: int) -> None:
    found = [carry_over(*carry_over_run(arms, 0.0, seed)) for seed in range(100)]
    assert sum(each is not None and abs(each.value) > each.half() for each in found) <= 12


def test_effect_of_the_previous_arm_is_not_estimated_if_an_arm_always_or_never_follows_another() -> None:
    assert carry_over([0.0, 1.0] * 6, [n // 2 for n in range(12)], [0, 1] * 6, [False, True] * 6) is None
    assert carry_over([], [], [], []) is None


@pytest.mark.parametrize("arms", [2, pytest.param(5, marks=slow), pytest.param(20, marks=slow)])
@pytest.mark.parametrize("lasting", [False, True])
def test_balanced_orders_keep_the_effect_of_the_previous_arm_from_biasing_costs(arms: int, lasting: bool) -> None:
    """Runs have 30 rounds. A change of arm adds 0.4 to the logarithm of the time.

    If `lasting`, each arm instead adds an amount of its own to the slice after it.
    """
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


@pytest.mark.slow
def test_change_points_equal_those_of_the_ruptures_library() -> None:
    # Imported here, because the import takes two seconds.
    import ruptures

    for seed in range(30):
        random = np.random.default_rng(seed)
        levels = random.normal(0, 4, size=random.integers(1, 5))
        values = np.concatenate([random.normal(level, 1, size=random.integers(2, 14)) for level in levels])
        penalty = 3 * np.log(len(values))
        pelt = ruptures.Pelt(model="l2", min_size=2, jump=1).fit_predict(values.reshape(-1, 1), penalty)
        assert [*change_points(values.tolist(), penalty, 2), len(values)] == pelt


def test_change_points_are_the_first_values_after_changes_of_the_mean() -> None:
    assert change_points([5.0, 5.1, 4.9, 9.0, 9.1, 1.0, 1.2, 0.9], 1.0, 2) == [3, 5]
    assert change_points([5.0, 5.1, 4.9, 9.0, 9.1], 50.0, 2) == [], "the penalty exceeds what a change explains"
    assert change_points([], 1.0, 2) == change_points([5.0], 1.0, 2) == change_points([5.0, 9.0], 1.0, 2) == []
