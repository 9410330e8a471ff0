"""Percentiles of an arm's operations, with intervals over rounds.

A percentile of pooled operations has no simple interval, since operations of one slice are not independent. A cluster
bootstrap (Davison & Hinkley 1997, 3.8) instead draws whole rounds, the same rounds for every arm, and reads the
percentile from the sum of their histograms. If the servers were restarted, it draws whole starts of the servers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costof.statistics.estimate import Estimate
from costof.statistics.intervals import Numbers, bootstrap_shares

RESAMPLES = 500
#: A percentile is reported only if at least this many operations lie beyond it. With fewer, its value would depend on
#: single operations.
FEWEST_BEYOND = 20
#: The minimum number of rounds for a bootstrap.
FEWEST_ROUNDS = 5


@dataclass(frozen=True)
class Percentiles:
    """Percentiles of one arm: the measured percentiles, and those of each resample as `[resample, percentile]`."""

    measured: Numbers
    resampled: Numbers


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
