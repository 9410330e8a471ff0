"""Costs that few operations pay are found where the mean knows nothing of them, and no other cost is taken for one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from costof.statistics.slow_operations import FEWEST_OPERATIONS, Slices, SlowOperations, slow_operations
from costof.statistics.units import Units

VALUES = np.geomspace(0.01, 200, 2000)
RUNS = 100

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
    arm, control, twin = (measured(chance) for _ in range(3))
    return slow_operations(slices(costing(arm)), slices(control), slices(twin), comparisons=1, units=Units())


def test_a_cost_that_one_operation_in_ten_pays_is_found_on_a_busy_machine() -> None:
    chance = np.random.default_rng(1)
    found = [run_of(chance, lambda times: times + (chance.random(times.shape) < 0.1)) for _ in range(RUNS)]
    told = [each for each in found if each is not None]
    assert len(told) / RUNS >= 0.95
    # In slices that are slow anyway it is too little to stand apart.
    assert 0.06 <= np.median([each.share - each.usual for each in told]) <= 0.1


@pytest.mark.parametrize(
    "costing",
    [lambda times: times, lambda times: times + 1, lambda times: times * 2, lambda times: times / 2],
    ids=["nothing", "added", "multiplied", "saved"],
)
def test_what_every_operation_pays_alike_is_paid_by_more_than_few(costing: Callable[[Times], Times]) -> None:
    chance = np.random.default_rng(2)
    assert sum(run_of(chance, costing) is not None for _ in range(RUNS)) / RUNS <= 0.05


def test_slices_of_a_handful_of_operations_have_no_median_to_stand_apart_from() -> None:
    steady, slow = np.ones((40, FEWEST_OPERATIONS - 1)), np.ones((40, FEWEST_OPERATIONS - 1))
    slow[:, :4] = 3.0
    assert slow_operations(slices(slow), slices(steady), slices(steady), comparisons=1, units=Units()) is None
    steady, slow = (np.hstack([each, each]) for each in (steady, slow))
    found = slow_operations(slices(slow), slices(steady), slices(steady), comparisons=1, units=Units())
    assert found == SlowOperations(pytest.approx(4 / 19), 0.0)  # type: ignore[arg-type]
