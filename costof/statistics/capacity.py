"""Capacity: the rate at which a given share of operations, such as 1 %, takes longer than a latency limit.

The capacity is computed from slices (measured windows) at several rates. Near a server's capacity, each increase of the
rate by 1 % multiplies the share beyond the limit by about the same factor (Asmussen, "Applied Probability and Queues",
2003, XIII). Therefore a straight line is fitted: the logarithm of the share over the logarithm of the rate.

The fit is a Poisson regression with log link (quasi-likelihood: Wedderburn 1974). It is unbiased even if the operations
of a slice depend strongly on each other. A fit to the slices' percentiles would be biased: in simulated queues, the
median capacity was 2 to 3 % too high.

Some programs print only percentiles, so the share is unknown. In this case the line is the logarithm of the percentile
over the logarithm of the rate, fitted by weighted least squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

#: The fitted line describes the share beyond the limit only near the capacity. So a slice (measured window) has less
#: weight if its rate is farther from the capacity. It has no weight if the logarithms of rate and capacity differ by
#: more than this (biweight kernel, as in local regression: Cleveland 1979).
WINDOW = 0.4
MOST_STEPS, MOST_WINDOWS = 50, 30
#: A percentile, divided by the limit, is clipped to this range: far above the limit, the percentile depends mostly on
#: how long the queue could grow in the slice.
SHOWN_RATIOS = (1 / 3, 3.0)
#: If the fitted line has a smaller slope, the share beyond the limit hardly depends on the rate. Then no capacity is
#: reported.
LEAST_SLOPE = 1.0
#: For common queues, the fitted line has a slope between 8 and 25 near their capacity. From few slices, the slope is
#: uncertain by about 6, and can even have the wrong sign. The fit therefore has a penalty on the squared distance from
#: USUAL_SLOPE, which keeps the slope plausible until there are more slices.
USUAL_SLOPE, PENALTY = 15.0, 1.0


class Observation(NamedTuple):
    """A slice (measured window): its round, rate and operations, and how many of these took longer than the limit.

    If only a percentile of the slice is known, `ratio` is this percentile divided by the limit. `operations` is then 1,
    and `beyond` is 1 if the percentile exceeds the limit, otherwise 0.
    """

    round: int
    per_second: float
    operations: int
    beyond: int
    ratio: float | None = None

    @classmethod
    def of_percentile(cls, number: int, per_second: float, ratio: float) -> Observation:
        return cls(number, per_second, 1, int(ratio > 1), ratio)


def crossing(observations: Sequence[Observation], share: float, near: float) -> float | None:
    """Return the rate at which `share` of the operations exceeds the limit; None if no such rate can be fitted.

    The search begins at the rate `near`.
    """
    log_rate = math.log(near)
    for _ in range(MOST_WINDOWS):
        line = _fit(observations, log_rate, share)
        if line is None or line[1] < LEAST_SLOPE:
            return None
        step = -line[0] / line[1]
        log_rate += min(max(step, -WINDOW / 4), WINDOW / 4)
        if abs(step) < 1e-4:
            return math.exp(log_rate)
    return None


def _fit(observations: Sequence[Observation], log_rate: float, share: float) -> tuple[float, float] | None:
    """Return the height of the fitted line at `log_rate`, and its slope; None if no line can be fitted.

    The line's height is the logarithm of a ratio: the share beyond the limit divided by the allowed `share`. If slices
    (measured windows) have only percentiles, the ratio is the percentile divided by the limit.
    """
    near = [each for each in observations if abs(math.log(each.per_second) - log_rate) < WINDOW]
    rates = np.array([math.log(each.per_second) - log_rate for each in near])
    weights = (1 - (rates / WINDOW) ** 2) ** 2
    ratios = [each.ratio for each in near if each.ratio is not None]
    if ratios:
        return _line(rates, weights, np.log(np.clip(ratios, *SHOWN_RATIOS)))
    line = _poisson(near, rates, weights)
    return None if line is None else (line[0] - math.log(share), line[1])


def _line(rates: np.ndarray, weights: np.ndarray, heights: np.ndarray) -> tuple[float, float] | None:
    """Return height (at 0) and slope of a line, by weighted least squares; None if all weight is on one rate."""
    total = weights.sum()
    centre, level = (weights * rates).sum() / total, (weights * heights).sum() / total
    spread = (weights * (rates - centre) ** 2).sum()
    if spread <= 1e-9 * total:
        return None
    slope = float((weights * (rates - centre) * heights).sum() / spread)
    return float(level) - slope * float(centre), slope


def _poisson(near: Sequence[Observation], rates: np.ndarray, weights: np.ndarray) -> tuple[float, float] | None:
    """Return the fitted line: the logarithm of the share beyond the limit at log rate 0, and the line's slope.

    `rates` are logarithms. Return None if no operations, or all operations, are beyond the limit. The slope has a
    penalty (`PENALTY`; ridge regression: Hoerl & Kennard 1970).
    """
    operations = weights * np.array([each.operations for each in near], float)
    beyond = weights * np.array([each.beyond for each in near], float)
    if not 0 < beyond.sum() < operations.sum():
        return None
    level, slope = math.log(beyond.sum() / operations.sum()), USUAL_SLOPE
    for _ in range(MOST_STEPS):
        expected = operations * np.exp(np.clip(level + slope * rates, -50.0, 5.0))
        errors = beyond - expected
        score = np.array([errors.sum(), (errors * rates).sum() - PENALTY * (slope - USUAL_SLOPE)])
        cross = (expected * rates).sum()
        information = np.array([[expected.sum(), cross], [cross, (expected * rates**2).sum() + PENALTY]])
        change = np.linalg.solve(information, score)
        # Limit the step, because Newton's method can overshoot if it is far from the solution.
        change *= min(1.0, 2 / max(abs(change[0]), abs(change[1]) / 10, 1e-9))
        level, slope = level + float(change[0]), slope + float(change[1])
        if abs(change[0]) < 1e-8 and abs(change[1]) < 1e-7:
            return level, slope
    return None


def by_round(observations: Sequence[Observation], share: float, near: float) -> dict[int, float]:
    """Return a capacity for each round, by round number; the geometric mean is the capacity of the run.

    A single round has too few operations beyond the limit for a fit. Its capacity is therefore a pseudo-value of the
    jackknife (Tukey 1958): it shows how much the capacity of the run changes if the round is left out. Pseudo-values
    are nearly independent, so Student's t interval over them is valid.

    If slices have only percentiles, the pseudo-values also correct the bias of the fit. If operations are counted, this
    correction is omitted, because it increased the error by half in simulated runs.

    Return {} if there are fewer than three rounds, or if no line can be fitted.
    """
    rounds = sorted({each.round for each in observations})
    whole = crossing(observations, share, near)
    if whole is None or len(rounds) < 3:
        return {}
    # By round: the logarithm of (capacity without this round / capacity of all rounds).
    higher_without = {}
    for number in rounds:
        line = _fit([each for each in observations if each.round != number], math.log(whole), share)
        if line is None or line[1] < LEAST_SLOPE:
            return {}
        higher_without[number] = -line[0] / line[1]
    counted = all(each.ratio is None for each in observations)
    centre = fmean(higher_without.values()) if counted else 0.0
    return {
        number: math.exp(math.log(whole) - (len(rounds) - 1) * (higher - centre))
        for number, higher in higher_without.items()
    }
