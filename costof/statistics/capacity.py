"""The rate at which a given share of operations exceeds a limit, fitted to slices at several rates.

Near a server's capacity the share of operations beyond a latency limit rises by a constant factor for each per cent of
rate: the tail of a queue's waiting time is exponential, and its decay rate falls about linearly as the rate rises
(Asmussen, "Applied Probability and Queues", 2003, XIII). So the logarithm of the share is fitted as linear in the
logarithm of the rate, by the estimating equations of a Poisson regression with log link (quasi-likelihood: Wedderburn
1974). This fit is unbiased even if the operations of a slice depend strongly on each other. The median of the slices'
percentiles would be biased: in simulated queues it found a capacity that was 2 to 3 % too high.

For programs that print only percentiles, there is no such share. The logarithm of the percentile is then fitted as
linear in the logarithm of the rate, by weighted least squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

#: Slices count less the farther their rate is from the capacity, and not at all if the logarithms of the two differ by
#: more than this. The reason is that the fit is a straight line only near the capacity (biweight kernel, as in local
#: regression: Cleveland 1979).
WINDOW = 0.4
MOST_STEPS, MOST_WINDOWS = 50, 30
#: The smallest and the largest percentile that count, as multiples of the limit. A percentile beyond them counts as the
#: nearer of the two, because the percentile of an overloaded server only tells how long its queue could grow.
SHOWN_RATIOS = (1 / 3, 3.0)
#: The smallest slope that counts: a share that hardly depends on the rate shows no capacity.
LEAST_SLOPE = 1.0
#: The slope of common queues near their capacity lies between 8 and 25. In the few slices of a run,
#: operations beyond the limit come in clusters, so a slope that is fitted freely varies by about 6, and can even have
#: the wrong sign. A penalty on the squared distance from the usual slope keeps the slope plausible until there are more
#: slices.
USUAL_SLOPE, PENALTY = 15.0, 1.0


class Observation(NamedTuple):
    """One slice: its round, its rate a second, its operations, and how many of them took longer than the limit.

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
    """Return the rate at which `share` of the operations exceeds the limit.

    `near` is a rate to begin with. Return None if the observations near it do not show such a rate.
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
    """Return the logarithm of the excess over the limit at `log_rate`, and its slope; None without a slope.

    The excess is the share beyond the limit divided by the allowed `share`, or the percentile divided by the limit.
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
    """Return the logarithm of the share beyond the limit, and its slope; None if none or all operations are beyond.

    `rates` are logarithms relative to the rate for which the share is returned.

    The slope maximizes the quasi-likelihood less a penalty (ridge regression: Hoerl & Kennard 1970).
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
        # Newton's step can overshoot far from the solution.
        change *= min(1.0, 2 / max(abs(change[0]), abs(change[1]) / 10, 1e-9))
        level, slope = level + float(change[0]), slope + float(change[1])
        if abs(change[0]) < 1e-8 and abs(change[1]) < 1e-7:
            return level, slope
    return None


def by_round(observations: Sequence[Observation], share: float, near: float) -> dict[int, float]:
    """Return a capacity for each round; their geometric mean is the capacity.

    A round has too few operations beyond the limit for a fit of its own. Its value is therefore the jackknife's
    pseudo-value (Tukey 1958), computed from how the fit changes if the round is left out. Pseudo-values are nearly
    independent, so that a t-interval over them is valid.

    The mean of pseudo-values also corrects the fit's bias. This helps if slices have only percentiles. If operations
    are counted, the correction is left out: in simulated sweeps it increased the error by half.

    Return an empty dict if there are fewer than three rounds, or if there is no fit.
    """
    rounds = sorted({each.round for each in observations})
    whole = crossing(observations, share, near)
    if whole is None or len(rounds) < 3:
        return {}
    # Logarithm of the other rounds' capacity relative to that of all rounds, with the same weights.
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
