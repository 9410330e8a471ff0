"""Costs that come and go are found, and machines that stumble are no cost."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from costof.statistics.intermittent import Intermittent, intermittent

RUNS = 500


def run_of(
    chance: np.random.Generator,
    rounds: int,
    own: float = 0.0,
    everybody: float = 0.0,
    times: float = 2.0,
    noise: float = 0.05,
    of_arm: float = 1.0,
) -> list[list[float]]:
    """Logarithms of an arm's slices, of its control's and of the twin's. `own`: the share of the arm's that stall,
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
    found = asked((run_of(chance, rounds, own=0.1, noise=noise) for _ in range(RUNS)), comparisons=2)
    assert sum(each is not None for each in found) / RUNS >= least
    told = [each for each in found if each is not None]
    assert np.median([each.slices / each.of for each in told]) == pytest.approx(0.1, abs=0.02)
    assert np.median([each.times for each in told]) == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("everybody", [0.0, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("rounds", [10, 40, 100])
def test_a_machine_that_stumbles_is_nobodys_cost(everybody: float, rounds: int) -> None:
    chance = np.random.default_rng(rounds)
    found = asked((run_of(chance, rounds, everybody=everybody) for _ in range(RUNS)), comparisons=1)
    assert sum(each is not None for each in found) / RUNS <= 0.07


def test_an_arm_whose_slices_all_scatter_more_has_none_that_stand_apart() -> None:
    chance = np.random.default_rng(1)
    found = asked((run_of(chance, 40, of_arm=2.0) for _ in range(RUNS)), comparisons=1)
    assert sum(each is not None for each in found) / RUNS <= 0.07


def test_a_cost_that_is_always_there_does_not_come_and_go() -> None:
    chance = np.random.default_rng(2)
    arm, control, twin = run_of(chance, 60)
    assert intermittent([each + 1.0 for each in arm], control, twin, comparisons=1, seed=1) is None


def test_the_same_run_is_always_told_the_same() -> None:
    chance = np.random.default_rng(3)
    run = run_of(chance, 120, own=0.2, times=4.0)
    assert intermittent(*run, comparisons=40, seed=5) == intermittent(*run, comparisons=40, seed=5) is not None


def test_one_slice_alone_says_nothing() -> None:
    quiet = [0.01, -0.01, 0.02, -0.02, 0.0] * 4
    assert intermittent([*quiet[:-1], 1.0], quiet, quiet, comparisons=1, seed=1) is None
    assert intermittent([0.1], [0.1], [0.1], comparisons=1, seed=1) is None
    assert intermittent(quiet, quiet, quiet, comparisons=1, seed=1) is None
