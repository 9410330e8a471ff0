"""A share with its interval: one paired difference over another.

The interval is Fieller's (1954, "Some problems in interval estimation"), on the same means as every other interval of a
run: all shares s for which the interval of the rounds' `part - s * whole` holds 0. It needs no resampling, is as sound
at six rounds as the effects are, and widens as the whole gets small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from costof.statistics.estimate import Estimate
from costof.statistics.intervals import CONFIDENCE, t_quantile


def share_of(parts: Sequence[float], wholes: Sequence[float]) -> Estimate | None:
    """Part over whole, paired by round, two rounds at least; None where the share has no bounded interval."""
    part, whole, rounds = float(np.mean(parts)), float(np.mean(wholes)), len(parts)
    # Of both means: what their variances and covariance are, times the quantile's square.
    (of_part, of_both), (_, of_whole) = np.cov(parts, wholes) / rounds * t_quantile(rounds - 1, CONFIDENCE) ** 2
    # The ends are where square * s^2 - 2 * linear * s + constant is 0.
    square, linear, constant = whole**2 - of_whole, part * whole - of_both, part**2 - of_part
    if square <= 0:
        return None
    half = math.sqrt(max(0.0, linear**2 - square * constant))
    value, low, high = part / whole, (linear - half) / square, (linear + half) / square
    return Estimate(value=value, low=min(low, value), high=max(high, value), rounds=rounds)
