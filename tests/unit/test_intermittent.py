"""Costs that come and go are found, and machines that stumble are no cost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costof.statistics.intermittent import intermittent

RUNS = 500


def run_of(
    chance: np.random.Generator, rounds: int, own: float = 0.0, everybody: float = 0.0, times: float = 2.0
) -> tuple[list[float], list[float]]:
    """Log ratios of an arm and of the twin to one control. `own`: the share of the arm's slices that stall,
    `everybody`: that of every slice."""

    def slices(share: float) -> np.ndarray:
        stalled = chance.random(rounds) < share
        found: np.ndarray = chance.normal(0, 0.05, rounds) + np.where(stalled, math.log(times), 0.0)
        return found

    control, twin, arm = slices(everybody), slices(everybody), slices(max(own, everybody))
    return list(arm - control), list(twin - control)


@pytest.mark.parametrize(("rounds", "least"), [(60, 0.8), (120, 0.98)])
def test_an_arm_that_stalls_in_one_slice_of_ten_is_found(rounds: int, least: float) -> None:
    chance = np.random.default_rng(rounds)
    found = [intermittent(*run_of(chance, rounds, own=0.1), comparisons=2) for _ in range(RUNS)]
    assert sum(each is not None for each in found) / RUNS >= least
    told = [each for each in found if each is not None]
    assert np.median([each.slices / each.of for each in told]) == pytest.approx(0.1, abs=0.02)
    assert np.median([each.times for each in told]) == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("everybody", [0.0, 0.05, 0.1])
@pytest.mark.parametrize("rounds", [10, 40])
def test_a_machine_that_stumbles_is_nobodys_cost(everybody: float, rounds: int) -> None:
    chance = np.random.default_rng(rounds)
    found = [intermittent(*run_of(chance, rounds, everybody=everybody), comparisons=1) for _ in range(RUNS)]
    assert sum(each is not None for each in found) / RUNS <= 0.06


def test_one_slice_alone_says_nothing() -> None:
    quiet = [0.01, -0.01, 0.02, -0.02, 0.0] * 4
    assert intermittent([*quiet[:-1], 1.0], quiet, comparisons=1) is None
    assert intermittent([0.1], [0.1], comparisons=1) is None
