"""Tests of the confidence band around the cost at each percentile, on simulated runs with known true costs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from costof.statistics.intervals import Numbers, bootstrap_shares, resamples
from costof.statistics.tails import (
    CURVE,
    RESAMPLES,
    Percentiles,
    bootstrap_percentiles,
    difference_band,
    operations_needed,
    places_on_curve,
)

USUAL_NS, SPREAD = 100_000.0, 0.3
#: Standard deviations of the logarithms of times: of a factor for each round, which arm and control share, and of a
#: factor for each slice.
ROUNDS_DIFFER, SLICES_DIFFER = 0.05, 0.03
Pays = Callable[[np.random.Generator, int], Numbers]


def all_pay(chance: np.random.Generator, count: int) -> Numbers:
    return np.full(count, 20_000.0)


def few_pay(chance: np.random.Generator, count: int) -> Numbers:
    """Return the added times of operations in ns. One operation in ten takes longer."""
    return np.where(chance.random(count) < 0.1, 100_000.0, 0.0)


def true_costs(percentiles: Numbers, share: float, cost: float) -> Numbers:
    """Return the true difference at each percentile if a share of the operations takes longer by `cost`."""
    spread = math.sqrt(SPREAD**2 + ROUNDS_DIFFER**2 + SLICES_DIFFER**2)
    times = USUAL_NS * np.exp(np.linspace(-6, 8, 20_000) * spread)

    def reached(times: Numbers) -> Numbers:
        below: Numbers = ndtr(np.log(np.maximum(times, 1e-9) / USUAL_NS) / spread)
        return below

    with_cost = np.interp(percentiles / 100, (1 - share) * reached(times) + share * reached(times - cost), times)
    control = USUAL_NS * np.exp(spread * ndtri(percentiles / 100))
    costs: Numbers = with_cost - control
    return costs


def percentiles_of(nanoseconds: Numbers, drawn: Numbers, percentiles: Numbers) -> Percentiles:
    """Return bootstrapped percentiles of times, an array of shape (rounds, operations).

    Times are first rounded down to the buckets of a histogram.
    """
    values, inverse = np.unique(nanoseconds // 256 * 256, return_inverse=True)
    counts = np.zeros((len(nanoseconds), len(values)))
    np.add.at(counts, (np.arange(len(nanoseconds))[:, None], inverse.reshape(nanoseconds.shape)), 1)
    return bootstrap_percentiles(values, counts, drawn, percentiles.tolist())


def simulate(
    seed: int, rounds: int, operations: int, pays: Pays, percentiles: Numbers
) -> tuple[Percentiles, Percentiles]:
    chance = np.random.default_rng(seed)
    shared = chance.normal(0, ROUNDS_DIFFER, (rounds, 1))

    def times() -> Numbers:
        slices = shared + chance.normal(0, SLICES_DIFFER, (rounds, 1))
        return USUAL_NS * np.exp(slices + chance.normal(0, SPREAD, (rounds, operations)))

    drawn = resamples(range(rounds), seed, 250)
    control, arm = times(), times()
    arm += pays(chance, arm.size).reshape(arm.shape)
    return percentiles_of(control, drawn, percentiles), percentiles_of(arm, drawn, percentiles)


@pytest.mark.parametrize(
    ("pays", "share", "cost"),
    [pytest.param(all_pay, 1.0, 20_000.0, marks=pytest.mark.slow), (few_pay, 0.1, 100_000.0)],
)
def test_confidence_band_contains_the_true_costs_at_all_percentiles_in_95_percent_of_runs(
    pays: Pays, share: float, cost: float
) -> None:
    rounds, operations, runs = 20, 100, 60
    percentiles = np.array([CURVE[place] for place in places_on_curve(rounds * operations)], float)
    true, held, held_alone = true_costs(percentiles, share, cost), 0, 0
    for seed in range(runs):
        control, arm = simulate(seed, rounds, operations, pays, percentiles)
        band = difference_band(control, arm, rounds)
        held += bool(np.all((band.low <= true) & (true <= band.high)))
        low, high = np.quantile(arm.resampled - control.resampled, bootstrap_shares(rounds), axis=0)
        held_alone += bool(np.all((low <= true) & (true <= high)))
    assert 0.9 <= held / runs <= 0.99
    assert held_alone / runs < 0.8, "intervals of single percentiles do not contain the whole curve"


def test_percentile_curve_leaves_out_percentiles_with_too_few_operations_beyond_them() -> None:
    for operations in (200, 2_000, 30_000, 1_000_000):
        shown = [CURVE[place] for place in places_on_curve(operations)]
        assert all(operations >= operations_needed(max(each, 100 - each)) for each in shown)
        assert len(shown) < 4 or shown == [each for each in CURVE if shown[0] <= each <= shown[-1]]
    assert [CURVE[place] for place in places_on_curve(1_000_000)] == [*CURVE]


def test_confidence_band_is_at_least_as_wide_as_a_bucket_of_the_histogram() -> None:
    same = Percentiles(np.full(3, 1e6), np.full((RESAMPLES, 3), 1e6))
    band = difference_band(same, same, 20)
    assert band.values.tolist() == [0, 0, 0]
    assert np.all(band.high > 1e6 / 2048)
