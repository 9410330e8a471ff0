"""Costs that few operations pay: those far slower than the others of their slice, by how many there are of them.

A cost that one operation in ten pays moves each slice's mean by a tenth of itself, which the slices' own noise may
hide. Which operations stand apart within their slice has little of that noise in it. Slices are the unit here too: the
shares of slow operations are compared round by round, by a t-test (of clusters' rates: Bennett et al. 2002).

A cost that every operation pays alike is none of these. What it adds moves the median as far; what it multiplies
widens the slices' scatter, and with the median what counts as slow; and where it saves, the control's median says what
is slow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from statistics import fmean

import numpy as np

from costof.statistics.histogram import Integers, Numbers, counted
from costof.statistics.intervals import FEWEST_ROUNDS, mean_of
from costof.statistics.units import Units

#: Of the median: by how much more a slow operation takes.
APART = 0.5
#: Of an arm's operations: fewer slow ones more than its control has are left to its percentiles.
LEAST_SHARE = 0.01
#: In a slice, for its median to be known.
FEWEST_OPERATIONS = 20
ERROR_RATE = 0.05


@dataclass(frozen=True)
class SlowOperations:
    """Shares of operations that are slow: the arm's, and those of control and replicate together."""

    share: float
    usual: float


@dataclass(frozen=True)
class Slices:
    """Operations of one arm: of each of `rounds`, `counts[round, bucket]` at the buckets' `values`, rising."""

    rounds: Integers
    values: Numbers
    counts: Numbers

    @classmethod
    def of(cls, histograms: Mapping[int, Sequence[str]]) -> Slices:
        """Decode histograms by round, as slice answers carry them."""
        return cls(np.array([*histograms], dtype=np.int64), *counted(histograms.values()))

    @property
    def operations(self) -> Numbers:
        found: Numbers = self.counts.sum(axis=1)
        return found

    @property
    def medians(self) -> Numbers:
        half = self.operations[:, None] / 2
        found: Numbers = self.values[np.argmax(np.cumsum(self.counts, axis=1) >= half, axis=1)]
        return found

    @property
    def median_by_round(self) -> dict[int, float]:
        """Medians of the rounds that have operations."""
        if not self.operations.any():
            return {}
        found = zip(self.rounds, self.medians, self.operations, strict=True)
        return {int(number): float(median) for number, median, operations in found if operations}

    def shares_beyond(self, limits: Numbers) -> Numbers:
        """Return the share of each round's operations that are longer than its limit."""
        found: Numbers = (self.counts * (self.values > limits[:, None])).sum(axis=1) / self.operations
        return found

    @property
    def rounds_with_a_median(self) -> Integers:
        return self.rounds[self.operations >= FEWEST_OPERATIONS]

    def at(self, rounds: Integers) -> Slices:
        """Return the slices of these rounds, of those that it has."""
        kept = np.isin(self.rounds, rounds)
        return Slices(self.rounds[kept], self.values, self.counts[kept])


def slow_operations(
    arm: Slices, control: Slices, replicate: Slices, comparisons: int, units: Units, error_rate: float = ERROR_RATE
) -> SlowOperations | None:
    """None where the arm has no more of them than control and replicate; `comparisons`: how many arms and metrics are asked
    this in one run."""
    from scipy.special import stdtr

    rounds = reduce(np.intersect1d, [each.rounds_with_a_median for each in (arm, control, replicate)])
    if len({units.of(int(number)) for number in rounds}) < FEWEST_ROUNDS:
        return None
    arm, control, replicate = (each.at(rounds) for each in (arm, control, replicate))
    own = arm.shares_beyond(arm.medians + APART * np.maximum(arm.medians, control.medians))
    usual = np.mean([each.shares_beyond((1 + APART) * each.medians) for each in (control, replicate)], axis=0)
    more = mean_of(units.means(dict(zip(map(int, rounds), map(float, own - usual), strict=True))))
    if more.value < LEAST_SHARE:
        return None
    distance = more.value / more.error if more.error else math.inf
    if stdtr(more.freedom, -distance) > error_rate / max(1, comparisons):
        return None
    return SlowOperations(fmean(map(float, own)), fmean(map(float, usual)))
