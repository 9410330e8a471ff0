"""Tails: how slow an arm's slowest operations are, with an interval over rounds.

A percentile of pooled operations has no simple interval, since operations of one slice share their moment. Whole rounds
are drawn again instead, the same ones for every arm (a cluster bootstrap; Davison & Hinkley 1997, 3.8), and the
percentile of what they hold together is read from added histograms. Where servers were started anew, starts are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costof.statistics.estimate import Estimate
from costof.statistics.intervals import Numbers, bootstrap_shares

RESAMPLES = 500
#: Operations that must lie beyond a percentile before it is told: fewer are single operations' luck.
FEWEST_BEYOND = 20
#: Rounds below which drawing them again says nothing.
FEWEST_ROUNDS = 5


@dataclass(frozen=True)
class Percentiles:
    """Of one arm: what was measured, and what each resample has, `[resample, percentile]`."""

    measured: Numbers
    resampled: Numbers


def operations_needed(percentile: float) -> int:
    """Return the number of operations that an arm must have for the percentile to be told."""
    return math.ceil(round(FEWEST_BEYOND / (1 - percentile / 100), 6))


def percentiles_of(values: Numbers, counts: Numbers, drawn: Numbers, percentiles: Sequence[float]) -> Percentiles:
    """Of `counts[round, bucket]` operations at the buckets' `values`, rising, for the rounds that are drawn."""
    reached = np.cumsum(drawn @ counts, axis=1)
    wanted = np.ceil(np.asarray(percentiles)[None, :] / 100 * reached[:, -1:])
    places = np.array([np.searchsorted(row, want) for row, want in zip(reached, wanted, strict=True)])
    found = values[np.minimum(places, len(values) - 1)]
    return Percentiles(found[0], found[1:])


def ratios(control: Percentiles, arm: Percentiles, rounds: int) -> list[Estimate]:
    measured = arm.measured / control.measured
    low, high = np.quantile(arm.resampled / control.resampled, bootstrap_shares(rounds), axis=0)
    return [
        Estimate(value=float(value), low=min(float(a), float(value)), high=max(float(b), float(value)), rounds=rounds)
        for value, a, b in zip(measured, low, high, strict=True)
    ]
