"""Means over rounds, with intervals: the cost of an arm against the control, from paired differences.

All operations of a slice (a measured window) share the state of the machine, so they are not independent. Different
rounds are independent. Therefore each round contributes one difference: the mean of the arm's slice minus the mean of
the control's slice. The estimate is the mean of these differences. Nothing is trimmed, so that intermittent costs
count. The interval is Student's (1908). For verdicts, the arms of one metric share information about their variances
(`statistics/moderation.py`).

Rounds that other programs disturbed are discarded first (`results/disturbances.py`). Whether a round was disturbed
depends on readings of the machine, such as its CPU time, never on the measured times.

The 15 % trimmed mean with its interval (Tukey & McLaughlin 1963; Yuen 1974) shows the cost in a typical round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from costof.statistics.estimate import Estimate

Numbers = npt.NDArray[np.float64]

CONFIDENCE = 0.95
TRIMMED = 0.15
ROUNDS_FOR_INTERVAL = 2
#: The minimum number of rounds for a verdict and for trimming.
FEWEST_ROUNDS = 5
#: Values count as equal if their range is below this share of their size, because rounding alone makes them differ.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Mean:
    """A mean with its standard error and degrees of freedom. The error is 0 if all values are equal."""

    value: float
    error: float
    freedom: float

    def half(self, confidence: float = CONFIDENCE) -> float:
        return self.error * t_quantile(self.freedom, confidence) if self.error else 0.0

    def estimate(self, rounds: int, confidence: float = CONFIDENCE) -> Estimate:
        half = self.half(confidence)
        return Estimate(value=self.value, low=self.value - half, high=self.value + half, rounds=rounds)

    def widened(self, times: float) -> Mean:
        return replace(self, error=self.error * times)


def combined(terms: Sequence[tuple[float, Mean]]) -> Mean:
    """Return the weighted sum of independent means, with the degrees of freedom of Welch (1947)."""
    squares = [(factor * mean.error) ** 2 for factor, mean in terms]
    total = sum(squares)
    shares = sum(square**2 / mean.freedom for square, (_, mean) in zip(squares, terms, strict=True) if square)
    freedom = total**2 / shares if shares else min(mean.freedom for _, mean in terms)
    return Mean(sum(factor * mean.value for factor, mean in terms), math.sqrt(total), freedom)


def mean_over_rounds(values: Sequence[float]) -> Mean:
    """Return the mean of values, one from each round.

    Raises `ValueError` for fewer than two values, or if one of them is not finite.
    """
    if len(values) < ROUNDS_FOR_INTERVAL:
        raise ValueError("an interval over rounds needs at least two")
    if not all(math.isfinite(value) for value in values):
        raise ValueError(f"values must be finite: {list(values)}")
    sample = np.asarray(values, dtype=float)
    if np.ptp(sample) <= ROUNDING * np.abs(sample).max():
        return Mean(values[0], 0.0, len(values) - 1)
    return Mean(float(sample.mean()), float(sample.std(ddof=1)) / math.sqrt(len(values)), len(values) - 1)


def estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Return the mean of values, one from each round, with its interval. Raises `ValueError`."""
    return mean_over_rounds(values).estimate(len(values), confidence)


def trimmed_mean(values: Sequence[float]) -> Mean:
    """Return the mean without the lowest and highest 15 % of values. Raises `ValueError` like `mean_over_rounds`.

    The standard error is Tukey and McLaughlin's: the standard error of the winsorized sample, divided by the share of
    values that are kept. If there are fewer than `FEWEST_ROUNDS` values, nothing is trimmed.
    """
    count = len(values)
    cut = max(1, int(TRIMMED * count)) if count >= FEWEST_ROUNDS else 0
    ordered = sorted(values)
    kept = ordered[cut : count - cut]
    winsorized = mean_over_rounds([*[kept[0]] * cut, *kept, *[kept[-1]] * cut])
    return Mean(sum(kept) / len(kept), winsorized.error / (1 - 2 * cut / count), count - 2 * cut - 1)


@cache
def t_quantile(freedom: float, confidence: float) -> float:
    """Return the quantile of Student's t for a two-sided interval of this confidence."""
    # Imported here because the import takes a tenth of a second, and `costof list` should not wait for it.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


@cache
def bootstrap_shares(count: int) -> tuple[float, float]:
    """Return the two quantiles of a bootstrap distribution at which a 95 % interval ends, such as (0.01, 0.99).

    `count` is the number of values that are resampled. With few values, the quantiles 0.025 and 0.975 give an interval
    that is too narrow: with five values, it contained the truth in only 82 to 89 % of simulated runs. The returned
    quantiles correct this (Hesterberg 2015): their interval contained the truth in 91 to 97 %.
    """
    from scipy.special import ndtr

    low = float(ndtr(-math.sqrt(count / (count - 1)) * t_quantile(count - 1, CONFIDENCE)))
    return low, 1 - low


def differences(control: Sequence[float], arm: Sequence[float]) -> list[float]:
    return [b - a for a, b in zip(control, arm, strict=True)]


def log_ratios(control: Sequence[float], arm: Sequence[float]) -> list[float] | None:
    """Return the logarithm of arm over control for each round; None if control or arm is 0 in any round."""
    if min(control) <= 0 or min(arm) <= 0:
        return None
    return [math.log(b / a) for a, b in zip(control, arm, strict=True)]


def difference(control: Sequence[float], arm: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    return estimate(differences(control, arm), confidence)


def ratio(control: Sequence[float], arm: Sequence[float], confidence: float = CONFIDENCE) -> Estimate | None:
    """Return arm over control, paired by round and estimated on the log scale; None if either is 0 in any round."""
    logs = log_ratios(control, arm)
    return None if logs is None else estimate(logs, confidence).through(math.exp)


def half_width(estimate_of_ratio: Estimate) -> float:
    """Return half the width of a ratio's interval on the log scale (0.02 is about ±2 %)."""
    return math.log(estimate_of_ratio.high / estimate_of_ratio.low) / 2


def share_of_whole(parts: Sequence[float], wholes: Sequence[float]) -> Estimate | None:
    """Return part over whole, paired by round; None if the share has no bounded interval.

    The interval is Fieller's (1954, "Some problems in interval estimation"). It has all shares s for which the interval
    of the mean of `part - s * whole` contains 0.
    """
    part, whole, rounds = float(np.mean(parts)), float(np.mean(wholes)), len(parts)
    # Variances and covariance of the two means, multiplied by the square of the t quantile.
    (var_part, covariance), (_, var_whole) = np.cov(parts, wholes) / rounds * t_quantile(rounds - 1, CONFIDENCE) ** 2
    # The ends of the interval are the s at which square * s^2 - 2 * linear * s + constant is 0.
    square, linear, constant = whole**2 - var_whole, part * whole - covariance, part**2 - var_part
    if square <= 0:
        return None
    half = math.sqrt(max(0.0, linear**2 - square * constant))
    value, low, high = part / whole, (linear - half) / square, (linear + half) / square
    return Estimate(value=value, low=min(low, value), high=max(high, value), rounds=rounds)


def resamples(units: Sequence[int], seed: int, times: int) -> Numbers:
    """Return bootstrap resamples as an array `[1 + times, round]`: how often each resample draws each round.

    `units` has, for each round, the number of the round itself or, after restarts, that of its start of the servers.
    Rounds (or starts, each with all its rounds) are drawn with replacement (Efron 1979). The first row of the array is
    the measured run. The same seed and number of rounds (or starts) always give the same draws.
    """
    _, places = np.unique(units, return_inverse=True)
    return _drawn(int(places.max()) + 1, seed, times)[:, places]


@lru_cache(maxsize=2)
def _drawn(count: int, seed: int, times: int) -> Numbers:
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=times)
    return np.vstack([np.ones(count), drawn])
