"""Percentiles of pooled operations and their intervals, on simulated rounds whose truth is known."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from costof.statistics.intervals import Numbers, resamples
from costof.statistics.tails import RESAMPLES, operations_needed, percentiles_of, ratios

VALUES = np.geomspace(0.05, 20, 600)
ASKED = (50.0, 95.0, 99.0)
RUNS = 150


def counted(operations: Numbers) -> Numbers:
    """`[round, bucket]` of operations `[round, operation]`."""
    places = np.minimum(np.searchsorted(VALUES, operations), len(VALUES) - 1)
    return np.array([np.bincount(row, minlength=len(VALUES)) for row in places], dtype=float)


def rounds_of(chance: np.random.Generator, rounds: int, times: float, shared: Numbers) -> Numbers:
    """Log-normal operations whose whole round is faster or slower, a part of it alike for all arms."""
    own = chance.normal(0, 0.05, rounds)
    return np.exp(math.log(times) + (shared + own)[:, None] + chance.normal(0, 0.5, (rounds, 400)))


def test_a_percentile_is_the_pooled_one() -> None:
    chance = np.random.default_rng(1)
    operations = rounds_of(chance, 20, 1.0, np.zeros(20))
    found = percentiles_of(VALUES, counted(operations), resamples(range(20), 1, RESAMPLES), ASKED)
    expected = np.percentile(operations, ASKED, method="inverted_cdf")
    assert found.measured == pytest.approx(expected, rel=0.012)
    assert found.measured[0] == pytest.approx(1.0, rel=0.05)
    assert found.measured[2] == pytest.approx(math.exp(0.5025 * NormalDist().inv_cdf(0.99)), rel=0.1)


@pytest.mark.parametrize("rounds", [5, 10, 30])
def test_the_interval_of_a_ratio_holds_the_truth_in_95_of_100_runs(rounds: int) -> None:
    chance = np.random.default_rng(20)
    held = np.zeros(len(ASKED))
    for run in range(RUNS):
        shared = chance.normal(0, 0.1, rounds)
        drawn = resamples(range(rounds), run, RESAMPLES)
        control, arm = (
            percentiles_of(VALUES, counted(rounds_of(chance, rounds, times, shared)), drawn, ASKED)
            for times in (1.0, 1.1)
        )
        held += [each.low <= 1.1 <= each.high for each in ratios(control, arm, rounds)]
    assert all(0.90 <= share <= 0.99 for share in held / RUNS)


def test_rounds_of_one_start_are_drawn_together() -> None:
    drawn = resamples([0, 0, 1, 1, 1, 2], 1, RESAMPLES)
    assert (drawn[0] == 1).all()
    assert (drawn[:, 0] == drawn[:, 1]).all()
    assert (drawn[:, 2] == drawn[:, 4]).all()
    assert (drawn[:, [0, 2, 5]].sum(axis=1) == 3).all()


def test_a_tail_alone_is_seen() -> None:
    """One operation in fifty takes five times as long: the median knows nothing of it."""
    chance = np.random.default_rng(3)
    operations = rounds_of(chance, 30, 1.0, np.zeros(30))
    stalled = np.where(chance.random(operations.shape) < 0.02, operations * 5, operations)
    drawn = resamples(range(30), 3, RESAMPLES)
    control, arm = (percentiles_of(VALUES, counted(each), drawn, ASKED) for each in (operations, stalled))
    median, _, p99 = ratios(control, arm, 30)
    assert median.low < 1.03
    assert p99.low > 1.3


@pytest.mark.parametrize(("percentile", "operations"), [(50, 40), (95, 400), (99, 2000), (99.9, 20_000)])
def test_a_tail_that_the_operations_cannot_carry_needs_more(percentile: float, operations: int) -> None:
    assert operations_needed(percentile) == pytest.approx(operations, abs=1)
