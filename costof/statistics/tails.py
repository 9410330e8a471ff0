"""Percentiles of an arm's operations, with intervals over rounds.

A percentile of pooled operations has no simple interval, since operations of one slice are not independent. A cluster
bootstrap (Davison & Hinkley 1997, section 3.8) instead draws whole rounds, the same rounds for every arm, and reads the
percentile from the sum of their histograms. If the servers were restarted, it draws whole starts of the servers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costof.statistics.estimate import Estimate
from costof.statistics.histogram import HALF
from costof.statistics.intervals import CONFIDENCE, Numbers, bootstrap_shares, t_quantile

RESAMPLES = 500
#: A percentile is reported only if at least this many operations lie beyond it. With fewer, its value would depend on
#: single operations.
FEWEST_BEYOND = 20
#: The minimum number of rounds for a bootstrap.
FEWEST_ROUNDS = 5
#: Percentiles of a curve over all operations, at similar distances on a scale that spreads out both ends.
CURVE = (
    1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 40, 50, 60, 70, 75, 80, 85, 90, 93, 95, 97, 98, 99, 99.3, 99.5, 99.7, 99.8, 99.9,
    99.95, 99.99,
)  # fmt: skip
#: The maximum width of a histogram's bucket, divided by the times in it.
RESOLUTION = 1 / HALF
#: The smallest error probability of a band at a single percentile. With 0, the band would be infinitely wide.
LEAST_LEVEL = 1e-9


@dataclass(frozen=True)
class Percentiles:
    """Percentiles of one arm: the measured percentiles, and those of each resample as `[resample, percentile]`."""

    measured: Numbers
    resampled: Numbers

    def at(self, places: Sequence[int]) -> Percentiles:
        return Percentiles(self.measured[places], self.resampled[:, places])


def operations_needed(percentile: float) -> int:
    """Return the number of operations that an arm needs for the percentile to be reported."""
    return math.ceil(round(FEWEST_BEYOND / (1 - percentile / 100), 6))


def bootstrap_percentiles(
    values: Numbers, counts: Numbers, drawn: Numbers, percentiles: Sequence[float]
) -> Percentiles:
    """Return the percentiles of `counts[round, bucket]` operations, with the buckets' ascending `values`.

    `drawn[resample, round]` says how often each resample draws a round. The first row is the measured run.
    """
    reached = np.cumsum(drawn @ counts, axis=1)
    # The rank is computed as in HdrHistogram, like for all other percentiles of a report.
    ranks = np.maximum(1, np.floor(np.asarray(percentiles)[None, :] * reached[:, -1:] / 100 + 0.5))
    places = np.array([np.searchsorted(row, rank) for row, rank in zip(reached, ranks, strict=True)])
    rows = values[np.minimum(places, len(values) - 1)]
    return Percentiles(rows[0], rows[1:])


def ratios(control: Percentiles, arm: Percentiles, rounds: int) -> list[Estimate]:
    measured = arm.measured / control.measured
    low, high = np.quantile(arm.resampled / control.resampled, bootstrap_shares(rounds), axis=0)
    return [
        Estimate(value=float(value), low=min(float(a), float(value)), high=max(float(b), float(value)), rounds=rounds)
        for value, a, b in zip(measured, low, high, strict=True)
    ]


@dataclass(frozen=True)
class Band:
    """Differences between the percentiles of two arms, with a band that holds for all percentiles at once."""

    values: Numbers
    low: Numbers
    high: Numbers


def places_on_curve(operations: int) -> list[int]:
    """Return the places in `CURVE` of the percentiles that have enough operations both below and above them."""
    return [
        place
        for place, percentile in enumerate(CURVE)
        if operations >= operations_needed(max(percentile, 100 - percentile))
    ]


def difference_band(control: Percentiles, arm: Percentiles, units: int) -> Band:
    """Return arm minus control at each percentile, with a band that contains all true differences in 95 % of runs.

    At all percentiles, the band is the same number of standard errors wide. This number is the smallest with which 95 %
    of the resampled curves lie wholly within the band (a sup-t band: Montiel Olea & Plagborg-Møller 2019, "Simultaneous
    confidence bands: Theory, implementation, and an application to SVARs").

    With few `units` (rounds, or starts of the servers), this number is too small. It is corrected as in
    `bootstrap_shares`: a quantile of the normal distribution is replaced by the quantile of Student's t at the same
    level.
    """
    from scipy.special import ndtr

    values, resampled = arm.measured - control.measured, arm.resampled - control.resampled
    # Times within a bucket cannot be distinguished, so no error is smaller than half a bucket.
    least = RESOLUTION / 2 * np.maximum(control.measured, arm.measured)
    errors = np.maximum(resampled.std(axis=0), least)
    farthest = np.abs((resampled - values) / errors).max(axis=1)
    level = 2 * float(ndtr(-np.quantile(farthest, CONFIDENCE)))
    # Limit the level, because a band must not be narrower than the intervals of single percentiles.
    level = min(max(level, LEAST_LEVEL), 1 - CONFIDENCE)
    half = math.sqrt(units / (units - 1)) * t_quantile(units - 1, 1 - level) * errors
    return Band(values, values - half, values + half)
