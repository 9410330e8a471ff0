"""Means and their intervals, of one number a round: what an arm costs against the control, from paired differences.

One number a round and arm goes in (the mean of a slice), because operations of one slice share whatever the machine
did meanwhile: only rounds are independent. The estimate is the mean of the rounds' paired differences, nothing cut off:
a cost that comes and goes is a cost. The interval is Student's (1908), with variances that the arms of one metric lend
each other where they are judged (`statistics/moderation.py`). Rounds that the machine disturbed are left out before,
by what was read of the machine and never by what was measured (`results/run.py`).

Beside it stands the 15 % trimmed mean with its interval (Tukey & McLaughlin 1963; Yuen 1974): what a usual round costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from costof.statistics.estimate import Estimate

Numbers = npt.NDArray[np.float64]

CONFIDENCE = 0.95
TRIMMED = 0.15
#: One round alone has no interval, and is in no figure.
ROUNDS_FOR_INTERVAL = 2
#: Below this nothing is judged, and nothing trimmed.
FEWEST_ROUNDS = 5
#: Values that differ by less than this share of their size differ by rounding alone, and have no spread to estimate.
ALIKE = 1e-12


@dataclass(frozen=True)
class Mean:
    """Of one number a round: its value, standard error, and the degrees of freedom with which that is known.

    No error at all where the numbers are alike.
    """

    value: float
    error: float
    freedom: float

    def half(self, confidence: float = CONFIDENCE) -> float:
        return self.error * t_quantile(self.freedom, confidence) if self.error else 0.0

    def estimate(self, rounds: int, confidence: float = CONFIDENCE) -> Estimate:
        half = self.half(confidence)
        return Estimate(value=self.value, low=self.value - half, high=self.value + half, rounds=rounds)


def combined(terms: Sequence[tuple[float, Mean]]) -> Mean:
    """Return the sum of independent means, each times a number, with the degrees of freedom of Welch (1947)."""
    squares = [(factor * mean.error) ** 2 for factor, mean in terms]
    total = sum(squares)
    shares = sum(square**2 / mean.freedom for square, (_, mean) in zip(squares, terms, strict=True) if square)
    freedom = total**2 / shares if shares else min(mean.freedom for _, mean in terms)
    return Mean(sum(factor * mean.value for factor, mean in terms), math.sqrt(total), freedom)


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of one number a round.

    Raises `ValueError` for fewer than two values or one that is not finite: a sample cannot hold NaN.
    """
    if len(values) < ROUNDS_FOR_INTERVAL:
        raise ValueError("an interval over rounds needs at least two")
    if not all(math.isfinite(value) for value in values):
        raise ValueError(f"not a number among {list(values)}")
    sample = np.asarray(values, dtype=float)
    if np.ptp(sample) <= ALIKE * np.abs(sample).max():
        return Mean(values[0], 0.0, len(values) - 1)
    return Mean(float(sample.mean()), float(sample.std(ddof=1)) / math.sqrt(len(values)), len(values) - 1)


def estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Return the mean of one number a round, with its interval. Raises as `mean_of` does."""
    return mean_of(values).estimate(len(values), confidence)


def trimmed_mean(values: Sequence[float]) -> Mean:
    """What a usual round has: the mean of what is left when 15 % at each end are cut off. Raises as `mean_of` does.

    Tukey and McLaughlin's standard error: that of the sample with what is cut off drawn in to what is left, over the
    share that is left. Below `FEWEST_ROUNDS` nothing is cut off.
    """
    count = len(values)
    cut = max(1, int(TRIMMED * count)) if count >= FEWEST_ROUNDS else 0
    ordered = sorted(values)
    left = ordered[cut : count - cut]
    drawn_in = mean_of([*[left[0]] * cut, *left, *[left[-1]] * cut])
    return Mean(sum(left) / len(left), drawn_in.error / (1 - 2 * cut / count), count - 2 * cut - 1)


@cache
def t_quantile(freedom: float, confidence: float) -> float:
    """Return Student's quantile that holds the middle `confidence`, in standard errors."""
    # Imported here: it takes a tenth of a second, and `costof list` or a mistyped option should not wait for it.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


@cache
def bootstrap_shares(count: int) -> tuple[float, float]:
    """The shares of resamples of `count` numbers below which the ends of their 95 % interval lie.

    Resamples of few scatter by sqrt((n - 1) / n) too little and have no t's tails: of five the middle 95 % hold the
    truth in 82 to 89 % of simulated runs. Expanded by both they do in 91 to 97 % (Hesterberg 2015).
    """
    from scipy.special import ndtr

    low = float(ndtr(-math.sqrt(count / (count - 1)) * t_quantile(count - 1, CONFIDENCE)))
    return low, 1 - low


def differences(control: Sequence[float], arm: Sequence[float]) -> list[float]:
    return [b - a for a, b in zip(control, arm, strict=True)]


def log_ratios(control: Sequence[float], arm: Sequence[float]) -> list[float] | None:
    """Return logarithms of arm over control, by round; None where either has nothing of it (0) in any round."""
    if min(control) <= 0 or min(arm) <= 0:
        return None
    return [math.log(b / a) for a, b in zip(control, arm, strict=True)]


def difference(control: Sequence[float], arm: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    return estimate(differences(control, arm), confidence)


def ratio(control: Sequence[float], arm: Sequence[float], confidence: float = CONFIDENCE) -> Estimate | None:
    """Return arm over control, paired by round, estimated on the log scale; None without a base (0)."""
    logs = log_ratios(control, arm)
    return None if logs is None else estimate(logs, confidence).through(math.exp)


def half_width(estimate_of_ratio: Estimate) -> float:
    """Return half the interval of a ratio on the log scale (0.02 is about ±2 %)."""
    return math.log(estimate_of_ratio.high / estimate_of_ratio.low) / 2


def share_of(parts: Sequence[float], wholes: Sequence[float]) -> Estimate | None:
    """Return part over whole, paired by round; None where the share has no bounded interval.

    The interval is Fieller's (1954, "Some problems in interval estimation"), on the same means as every other interval
    of a run: all shares s for which the interval of the rounds' `part - s * whole` holds 0. It needs no resampling, is
    as sound at six rounds as the effects are, and widens as the whole gets small.
    """
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


def resamples(units: Sequence[int], seed: int, times: int) -> Numbers:
    """Draw units (rounds or starts) again with replacement (Efron 1979): `[1 + times, round]`, how often each is drawn.

    Rounds of one unit are drawn together. The first row is the run as it was measured; the same seed and number of
    units always give the same draws.
    """
    _, places = np.unique(units, return_inverse=True)
    return _drawn(int(places.max()) + 1, seed, times)[:, places]


@lru_cache(maxsize=2)
def _drawn(count: int, seed: int, times: int) -> Numbers:
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=times)
    return np.vstack([np.ones(count), drawn])
