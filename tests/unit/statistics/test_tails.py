"""Tests of the band of costs at all percentiles, on simulated runs whose true costs are known."""

from __future__ import annotations

import math

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
#: Spread of rounds, which arm and control share, and of slices.
ROUNDS_DIFFER, SLICES_DIFFER = 0.05, 0.03


def all_pay(chance: np.random.Generator, count: int) -> Numbers:
    return np.full(count, 20_000.0)


def few_pay(chance: np.random.Generator, count: int) -> Numbers:
    """Return the costs of operations of which one in ten pays."""
    return np.where(chance.random(count) < 0.1, 100_000.0, 0.0)


def true_costs(percentiles: Numbers, share: float, cost: float) -> Numbers:
    """Return the true cost at percentiles if a share of the operations pays this cost."""
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
    """Return the percentiles of times by round, in buckets as wide as those of a histogram."""
    values, inverse = np.unique(nanoseconds // 64 * 64, return_inverse=True)
    counts = np.zeros((len(nanoseconds), len(values)))
    np.add.at(counts, (np.arange(len(nanoseconds))[:, None], inverse.reshape(nanoseconds.shape)), 1)
    return bootstrap_percentiles(values, counts, drawn, percentiles.tolist())


def simulate(seed: int, rounds: int, operations: int, pays: object, percentiles: Numbers) -> tuple[Percentiles, Percentiles]:
    chance = np.random.default_rng(seed)
    shared = chance.normal(0, ROUNDS_DIFFER, (rounds, 1))

    def times() -> Numbers:
        slices = shared + chance.normal(0, SLICES_DIFFER, (rounds, 1))
        return USUAL_NS * np.exp(slices + chance.normal(0, SPREAD, (rounds, operations)))

    drawn = resamples(range(rounds), seed, RESAMPLES)
    control, arm = times(), times()
    arm += pays(chance, arm.size).reshape(arm.shape)
    return percentiles_of(control, drawn, percentiles), percentiles_of(arm, drawn, percentiles)
