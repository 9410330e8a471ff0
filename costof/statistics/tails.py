"""Percentiles of the times of an arm's operations, with confidence intervals.

Operations that are measured together are not independent of each other. So no simple formula gives the interval of a
percentile over all operations of a run. The intervals are computed with a cluster bootstrap (Davison & Hinkley 1997,
section 3.8) instead: it draws whole rounds at random, the same rounds for every arm, adds their histograms, and reads
the percentile from the sum. If the run restarted the servers, it draws whole starts of the servers, each with all its
rounds.
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
#: The percentiles at which a cost curve has points. They are closer together at both ends, because the chart stretches
#: both ends.
CURVE = (
    1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 40, 50, 60, 70, 75, 80, 85, 90, 93, 95, 97, 98, 99, 99.3, 99.5, 99.7, 99.8, 99.9,
    99.95, 99.99,
)  # fmt: skip
#: The maximum width of a histogram's bucket, as a share of the times in the bucket.
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
    """Return percentiles of one arm's operations: those of the measured run, and those of each bootstrap resample.

    - `values[bucket]`: the times of a histogram's buckets, ascending.
    - `counts[round, bucket]`: the number of operations in each bucket.
    - `drawn[resample, round]`: how often each resample draws a round. The first row is the measured run.
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

    The band has the same width at all percentiles, in standard errors. It is just wide enough to contain 95 % of the
    resampled curves entirely (a sup-t band: Montiel Olea & Plagborg-Møller 2019, "Simultaneous confidence bands:
    Theory, implementation, and an application to SVARs").

    With few `units` (rounds, or starts of the servers), this band is too narrow. It is widened as in
    `bootstrap_shares`, by a quantile of Student's t instead of one of the normal distribution.
    """
    from scipy.special import ndtr

    values, resampled = arm.measured - control.measured, arm.resampled - control.resampled
    # Times in the same bucket of a histogram cannot be distinguished, so an error is at least half a bucket.
    least = RESOLUTION / 2 * np.maximum(control.measured, arm.measured)
    errors = np.maximum(resampled.std(axis=0), least)
    farthest = np.abs((resampled - values) / errors).max(axis=1)
    level = 2 * float(ndtr(-np.quantile(farthest, CONFIDENCE)))
    # With a level of 0, the band would be infinitely wide. With a level above 5 %, it would be narrower than the
    # interval of a single percentile.
    level = min(max(level, LEAST_LEVEL), 1 - CONFIDENCE)
    half = math.sqrt(units / (units - 1)) * t_quantile(units - 1, 1 - level) * errors
    return Band(values, values - half, values + half)
