"""Costs that affect few operations, detected by the share of operations far slower than their slice's median.

If one operation of ten costs 1 ms more, the mean of a slice (a measured window) rises by only 0.1 ms. Noise between
slices may hide this rise, but hardly changes the share of slow operations in a slice. Operations of one slice are not
independent. A t-test therefore compares one share for each round, the arm's with the control's (Bennett et al. 2002 on
rates of clusters).

An operation is slow if it exceeds the median of its slice by more than half of this median. For a slice of the arm,
half of the control's median counts instead if the control's median is longer. A cost that affects all operations alike
also raises the median, and so is not detected here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from statistics import fmean

import numpy as np

from costof.statistics.histogram import Integers, Numbers, counted
from costof.statistics.intervals import FEWEST_ROUNDS, mean_over_rounds
from costof.statistics.units import Units

#: An operation is slow if it exceeds the median of its slice (measured window) by more than this share of the median.
#: For a slice of the arm, the same share of the control's median counts instead if the control's median is longer.
SLOWER = 0.5
#: The arm's and the control's share of slow operations must differ by at least this much to be reported: 0.01 is one
#: percentage point. Percentiles show smaller differences.
LEAST_SHARE = 0.01
#: Slices with fewer operations are left out, because their median is too uncertain.
FEWEST_OPERATIONS = 20
ERROR_RATE = 0.05


@dataclass(frozen=True)
class SlowOperations:
    """Shares of slow operations: the arm's share, and the mean share of control and identical copy (`usual`)."""

    share: float
    usual: float


@dataclass(frozen=True)
class Slices:
    """Histograms of one arm's operations by round: `counts[round, bucket]`, with the buckets' ascending `values`."""

    rounds: Integers
    values: Numbers
    counts: Numbers

    @classmethod
    def decode(cls, histograms: Mapping[int, Sequence[str]]) -> Slices:
        return cls(np.array([*histograms], dtype=np.int64), *counted(histograms.values()))

    @property
    def operations(self) -> Numbers:
        operations: Numbers = self.counts.sum(axis=1)
        return operations

    @property
    def medians(self) -> Numbers:
        half = self.operations[:, None] / 2
        medians: Numbers = self.values[np.argmax(np.cumsum(self.counts, axis=1) >= half, axis=1)]
        return medians

    @property
    def median_by_round(self) -> dict[int, float]:
        """The median time of an operation, by round. Rounds without operations are left out."""
        if not self.operations.any():
            return {}
        slices = zip(self.rounds, self.medians, self.operations, strict=True)
        return {int(number): float(median) for number, median, operations in slices if operations}

    def shares_beyond(self, limits: Numbers) -> Numbers:
        """Return for each round the share of its operations that take longer than the round's limit."""
        shares: Numbers = (self.counts * (self.values > limits[:, None])).sum(axis=1) / self.operations
        return shares

    @property
    def rounds_with_a_median(self) -> Integers:
        return self.rounds[self.operations >= FEWEST_OPERATIONS]

    def at(self, rounds: Integers) -> Slices:
        kept = np.isin(self.rounds, rounds)
        return Slices(self.rounds[kept], self.values, self.counts[kept])


def slow_operations(
    arm: Slices, control: Slices, replicate: Slices, comparisons: int, units: Units, error_rate: float = ERROR_RATE
) -> SlowOperations | None:
    """Return the shares of slow operations; None if the arm's share is not significantly higher than usual.

    The usual share is the mean share of the control and its identical copy (replicate). `comparisons` is the number of
    such tests in the run, for which the error rate is corrected. `units` says which rounds belong to which start of the
    servers, if the run restarted them.
    """
    from scipy.special import stdtr

    rounds = reduce(np.intersect1d, [each.rounds_with_a_median for each in (arm, control, replicate)])
    if len({units.unit(int(number)) for number in rounds}) < FEWEST_ROUNDS:
        return None
    arm, control, replicate = (each.at(rounds) for each in (arm, control, replicate))
    slow = arm.shares_beyond(arm.medians + SLOWER * np.maximum(arm.medians, control.medians))
    usual = np.mean([each.shares_beyond((1 + SLOWER) * each.medians) for each in (control, replicate)], axis=0)
    more = mean_over_rounds(units.means(dict(zip(map(int, rounds), map(float, slow - usual), strict=True))))
    if more.value < LEAST_SHARE:
        return None
    distance = more.value / more.error if more.error else math.inf
    if stdtr(more.freedom, -distance) > error_rate / max(1, comparisons):
        return None
    return SlowOperations(fmean(map(float, slow)), fmean(map(float, usual)))
